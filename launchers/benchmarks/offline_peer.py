"""d3rlpy's behaviour cloning and conservative Q-learning on a data set of Minari's, beside ours.

    pip install -e '.[offline]'
    python -m launchers.benchmarks.offline_peer --data_set=cartpole/early-v0 --method=bc

CartPole alone: networks and rates are those of configs/offline/cartpole.py. Prints the greedy
return of `--episodes` episodes for each seed.
"""

import numpy as np
from absl import app, flags

from launchers import cli

_DATA = flags.DEFINE_string("data_set", "cartpole/early-v0", "Id of a data set on this disk.")
_METHOD = flags.DEFINE_enum("method", "bc", ["bc", "cql"], "DiscreteBC or DiscreteCQL.")
_STEPS = flags.DEFINE_integer("steps", 600, "Gradient steps.", 1)
_SEEDS = flags.DEFINE_integer("seeds", 5, "Number of seeds.", 1)
_EPISODES = flags.DEFINE_integer("episodes", 256, "Episodes of the evaluation.", 1)


def main(argv: list[str]) -> None:
    """Trains and evaluates one seed after the other."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --data_set=NAMESPACE/NAME-v0 --method=bc")
    try:
        import d3rlpy
        import minari
    except ImportError as error:
        cli.fail(f"needs d3rlpy and minari ({error}): pip install -e '.[offline]'")
    episodes = list(minari.load_dataset(_DATA.value).iterate_episodes())

    def joined(values, dtype=np.float32):
        return np.concatenate(values).astype(dtype)

    data = d3rlpy.dataset.MDPDataset(
        joined([e.observations[: len(e)] for e in episodes]),
        joined([e.actions for e in episodes], np.int64)[:, None],
        joined([e.rewards for e in episodes])[:, None],
        terminals=joined([e.terminations for e in episodes]),
        timeouts=joined([e.truncations for e in episodes]),
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=2,
    )
    layers = d3rlpy.models.VectorEncoderFactory([64, 64], activation="tanh")
    algos = d3rlpy.algos
    if _METHOD.value == "bc":
        method = algos.DiscreteBCConfig(
            learning_rate=3e-3, batch_size=256, beta=0.0, encoder_factory=layers
        )
    else:
        method = algos.DiscreteCQLConfig(learning_rate=3e-4, batch_size=128, encoder_factory=layers)
    for seed in range(_SEEDS.value):
        d3rlpy.seed(seed)
        learner = method.create(device="cpu:0")
        learner.fit(
            data,
            n_steps=_STEPS.value,
            n_steps_per_epoch=_STEPS.value,
            show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        )
        print(f"{_METHOD.value} seed {seed}: {_greedy_return(learner, seed):.1f}", flush=True)


def _greedy_return(learner, seed: int) -> float:
    """The mean return of the learner's greedy actions in Gymnasium's CartPole."""
    import gymnasium

    batch = [gymnasium.make("CartPole-v1") for _ in range(_EPISODES.value)]
    seen = np.stack([env.reset(seed=10_000 * seed + i)[0] for i, env in enumerate(batch)])
    total, runs = np.zeros(len(batch)), np.ones(len(batch), bool)
    while runs.any():
        actions = learner.predict(seen.astype(np.float32))
        for i in np.flatnonzero(runs):
            seen[i], reward, terminated, truncated, _ = batch[i].step(int(actions[i]))
            total[i] += reward
            runs[i] = not (terminated or truncated)
    return float(total.mean())


if __name__ == "__main__":
    app.run(main)
