"""How noisy the policy gradient of early turns is, under one way of credit and another.

    python -m launchers.gradient_noise --workdir=runs/key_door_hae --update=20 --turns=8

Episodes of a run's checkpoint, each with the gradient g of sum A log pi over what one agent did in
the first turns; policies over arrays without memory. The ways, from the same streams: in a game
with a planner, A by HAE and by GAE of the same critic, of the executor; in a run of Dr. MAS, of
each role by its own statistics ("agent") and by those of all ("all"). Prints for each seed

  noise    trace of the covariance of g, (sum |g_i - mean g|^2) / (n - 1)
  signal   |mean g|^2 - noise / n, the squared length of the true mean without bias
  ratio    noise / signal: so many episodes are needed for a gradient as long as its error
  A^2      mean square of the advantages, which Dr. MAS predicts the second moment of g by

The scale of advantages moves all but the ratio; the second moment of g is noise + signal.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
from absl import flags

from agentrl.policies import Policy
from agentrl.streams import Rows, Streams
from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_TURNS = flags.DEFINE_integer("turns", 8, "Turns of both that count as early.", lower_bound=1)
_BATCHES = flags.DEFINE_integer("batches", 16, "Collections to measure on.", lower_bound=1)


def noise_and_signal(gradients: jax.Array, include: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise and signal, f32[] each, of gradients f32[n, D] of independent episodes.

    include: bool[n], those that count; the others are not read.
    """
    include = include[:, None]
    count = jnp.sum(include)
    mean = jnp.sum(jnp.where(include, gradients, 0.0), axis=0) / count
    noise = jnp.sum(jnp.where(include, jnp.square(gradients - mean), 0.0)) / (count - 1)
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


def ways(run: Any) -> dict[str, Callable[[Streams], tuple[jax.Array, jax.Array]]]:
    """{way of credit: (streams) -> (advantage f32[N, T], streams that are looked at bool[N])}."""
    from agentrl.training.credit import ESTIMATORS, estimate

    chosen = run.config.advantage
    if "parent" in run.experiment.rollout.provides and "gamma" in chosen:
        options = {"gamma": chosen.gamma, "lam": chosen.lam}
        of_both = {"subgoal_lam": chosen.get("subgoal_lam", chosen.lam)}
        return {
            name: lambda s, name=name, more=more: (
                estimate(ESTIMATORS[name], options | more, s),
                s.parent >= 0,
            )
            for name, more in (("hae", of_both), ("gae", {}))
        }
    if chosen.name == "dr_mas":
        options = {key: value for key, value in chosen.items() if key not in ("name", "rows")}
        return {
            f"{rows} {role}": lambda s, rows=rows, role=role: (
                estimate(ESTIMATORS["dr_mas"], options | {"rows": rows}, s),
                s.role == role,
            )
            for role in range(run.experiment.rollout.roles)
            for rows in ("agent", "all")
        }
    return {}


def measure(run: Any, turns: int, batches: int) -> dict[str, tuple[jax.Array, ...]]:
    """{way of credit: (noise, signal, A^2)}, f32[seeds] each, of a run that was read back."""
    policy, rollout = run.experiment.policy, run.experiment.rollout

    def collect(params, key):
        _, streams, rows, _ = rollout.collect(params, None, key)
        stream, turn = rows.stream, rows.turn[:, 0]
        found = {}
        for name, way in ways(run).items():
            advantage, of = way(streams)
            early = rows.loss_mask[:, 0] & (turn < turns) & of[stream]
            weight = jnp.where(early, advantage[stream, turn], 0.0).reshape(rollout.turns, -1)
            # In a game without turns an agent's rows are a column of their own.
            mine = jnp.any(early.reshape(weight.shape), axis=0)
            square = jnp.sum(jnp.square(weight)) / jnp.maximum(jnp.sum(early), 1)
            found[name] = (episode_gradients(policy, params, rows, weight), mine, square)
        return found

    def of_seed(params):
        keys = jax.random.split(jax.random.key(0), batches)
        found = jax.lax.map(lambda key: collect(params, key), keys)
        return {
            name: (
                *noise_and_signal(g.reshape(-1, g.shape[-1]), mine.reshape(-1)),
                jnp.mean(square),
            )
            for name, (g, mine, square) in found.items()
        }

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
    fits = isinstance(run.experiment.policy, Policy) and ways(run)
    if not fits or run.experiment.policy.memory(1) is not None:
        cli.fail(
            f"{_WORKDIR.value}: measured are policies over arrays without memory, of a planner and "
            "an executor with a critic, such as configs/key_door.py's, or of configs/dr_mas.py"
        )
    found = measure(run, _TURNS.value, _BATCHES.value)
    print(f"{run.config.env.name}, update {run.update}, turns before {_TURNS.value}")
    for seed in range(run.config.num_seeds):
        line = []
        for name, values in found.items():
            n, s, square = (float(x[seed]) for x in values)
            line.append(f"{name}: noise {n:.4g} signal {s:.4g} ratio {n / s:.4g} A^2 {square:.4g}")
        print(f"seed {run.config.seed + seed}   " + "   ".join(line))


if __name__ == "__main__":
    cli.run(main)
