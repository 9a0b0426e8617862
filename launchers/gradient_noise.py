"""How noisy the policy gradient of early turns is, under one way of credit and another.

    python -m launchers.gradient_noise --workdir=runs/key_door_hae --update=20 --turns=8

Episodes of a run's checkpoint, each with the gradient g of sum A log pi over what its executor did
in the first turns; A by HAE and by GAE, from the same streams and the same critic. Of policies over
arrays without memory, in a game with a planner. Prints for each seed

  noise    trace of the covariance of g, (sum |g_i - mean g|^2) / (n - 1)
  signal   |mean g|^2 - noise / n, the squared length of the true mean without bias
  ratio    noise / signal: so many episodes are needed for a gradient as long as its error

The scale of advantages moves the first two; the ratio does not depend on it.
"""

import pathlib
from typing import Any

import chex
import jax
import jax.numpy as jnp
from absl import flags

from agentrl.policies import Policy
from agentrl.streams import Rows
from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_TURNS = flags.DEFINE_integer("turns", 8, "Turns of both that count as early.", lower_bound=1)
_BATCHES = flags.DEFINE_integer("batches", 16, "Collections to measure on.", lower_bound=1)


def noise_and_signal(gradients: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise and signal, f32[] each, of gradients f32[n, D] of n independent episodes."""
    count = gradients.shape[0]
    mean = jnp.mean(gradients, axis=0)
    noise = jnp.sum(jnp.square(gradients - mean)) / (count - 1)
    return noise, jnp.sum(jnp.square(mean)) - noise / count


def episode_gradients(
    policy: Policy, params: chex.ArrayTree, rows: Rows, weight: jax.Array
) -> jax.Array:
    """Gradient of sum_t weight_t log pi_t of each of B episodes, f32[B, D].

    rows: one position each, the B episodes of turn 0, then of turn 1, and so on, as rollouts of
    policies without memory give them; weight: f32[T, B].
    """
    turns, batch = weight.shape
    by_episode = jax.tree.map(
        lambda x: jnp.swapaxes(x.reshape(turns, batch, *x.shape[1:]), 0, 1), rows
    )

    def one(rows, weight):
        def total(params):
            logp = policy.score(params, rows).logp[:, 0]
            return jnp.sum(jnp.where(weight != 0, logp, 0.0) * weight)

        gradient = jax.grad(total)(params)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(gradient)])

    return jax.vmap(one)(by_episode, weight.T)


def measure(run: Any, turns: int, batches: int) -> dict[str, tuple[jax.Array, jax.Array]]:
    """{way of credit: (noise, signal)}, f32[seeds] each, of a run that was read back."""
    from agentrl.training.credit import ESTIMATORS, estimate

    policy, rollout = run.experiment.policy, run.experiment.rollout
    rates = run.config.advantage
    options = {"gamma": rates.gamma, "lam": rates.lam}
    ways = {
        "hae": options | {"subgoal_lam": rates.get("subgoal_lam", rates.lam)},
        "gae": options,
    }

    def collect(params, key):
        _, streams, rows, _ = rollout.collect(params, None, key)
        stream, turn = rows.stream, rows.turn[:, 0]
        early = rows.loss_mask[:, 0] & (turn < turns) & (streams.parent[stream] >= 0)
        found = {}
        for name, chosen in ways.items():
            advantage = estimate(ESTIMATORS[name], chosen, streams)[stream, turn]
            weight = jnp.where(early, advantage, 0.0).reshape(rollout.turns, -1)
            found[name] = episode_gradients(policy, params, rows, weight)
        return found

    def of_seed(params):
        keys = jax.random.split(jax.random.key(0), batches)
        found = jax.lax.map(lambda key: collect(params, key), keys)
        return {name: noise_and_signal(x.reshape(-1, x.shape[-1])) for name, x in found.items()}

    return jax.jit(lambda params: jax.lax.map(of_seed, params))(run.state.params)


def main(argv: list[str]) -> None:
    """Restores, plays, prints."""
    if len(argv) > 1 or _WORKDIR.value is None:
        cli.fail("give --workdir=, the directory of a run")
    cli.use_compilation_cache()
    from agentrl.training import checkpoint, restored

    try:
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    fits = isinstance(run.experiment.policy, Policy) and "parent" in run.experiment.rollout.provides
    if not fits or run.experiment.policy.memory(1) is not None:
        cli.fail(
            f"{_WORKDIR.value}: measured are policies over arrays without memory and with a "
            "critic, of a planner and an executor, such as configs/key_door.py's"
        )
    found = measure(run, _TURNS.value, _BATCHES.value)
    print(f"{run.config.env.name}, update {run.update}, turns before {_TURNS.value}")
    for seed in range(run.config.num_seeds):
        line = []
        for name, (noise, signal) in found.items():
            n, s = float(noise[seed]), float(signal[seed])
            line.append(f"{name}: noise {n:.4g} signal {s:.4g} ratio {n / s:.4g}")
        print(f"seed {run.config.seed + seed}   " + "   ".join(line))


if __name__ == "__main__":
    cli.run(main)
