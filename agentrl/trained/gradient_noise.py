"""Noise of the policy gradient of early turns, under different estimators.

Episodes of a run's checkpoint, each with the gradient g of sum A log pi over one agent's first
turns; for policies whose rows are single turns. The estimators, on the same streams: any that are
asked for, of all streams; else, in a game with a planner, A by HAE and by GAE of the same critic,
of the executor; in a run of Dr. MAS, of each role by its own statistics ("agent") and by those of
all ("all"). Rewards are the environment's own. A language policy's log pi is of each token, with
its turn's A.

  noise    trace of the covariance of g, (sum |g_i - mean g|^2) / (n - 1)
  signal   |mean g|^2 - noise / n, the squared length of the true mean without bias
  A^2      mean square of the advantages, which Dr. MAS predicts the second moment of g by

All of them depend on the scale of advantages; noise / signal does not. The second moment of g is
noise + signal.
"""

from collections.abc import Callable, Mapping

import chex
import jax
import jax.numpy as jnp

from agentrl import advantages
from agentrl.learner.credit import arrays_of
from agentrl.learner.function import Function
from agentrl.policies.protocol import AnyPolicy
from agentrl.run.restored import Run
from agentrl.streams import Rows, Streams


def noise_and_signal(gradients: jax.Array, include: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise and signal, f32[] each, of gradients f32[n, D] of independent episodes.

    include: bool[n], episodes that count; the others are ignored.
    """
    include = include[:, None]
    count = jnp.sum(include)
    mean = jnp.sum(jnp.where(include, gradients, 0.0), axis=0) / count
    noise = jnp.sum(jnp.where(include, jnp.square(gradients - mean), 0.0)) / (count - 1)
    return noise, jnp.sum(jnp.square(mean)) - noise / count


def episode_gradients(
    policy: AnyPolicy,
    params: chex.ArrayTree,
    rows: Rows,
    weight: jax.Array,
    *,
    streams: int,
    most: int,
) -> jax.Array:
    """Gradient of the sum of weight log pi over the rows of each stream, f32[streams, D].

    weight: f32[R, L], of each position of the rows. most: largest number of rows with nonzero
    weight per stream; further ones are left out.
    """
    used = jnp.any(weight != 0, axis=1)

    def of_stream(stream):
        mine = jnp.nonzero(used & (rows.stream == stream), size=most, fill_value=len(used))[0]
        own = jax.tree.map(lambda x: x.at[mine].get(mode="clip"), rows)
        factor = weight.at[mine].get(mode="fill", fill_value=0.0)

        def total(params):
            logp = policy.score(params, own).logp
            return jnp.sum(jnp.where(factor != 0, logp, 0.0) * factor)

        gradient = jax.grad(total)(params)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(gradient)])

    return jax.lax.map(of_stream, jnp.arange(streams), batch_size=32)


# (streams) -> (advantage f32[N, T], streams that are evaluated bool[N])
Way = Callable[[Streams], tuple[jax.Array, jax.Array]]


def ways(run: Run) -> dict[str, Way]:
    """The estimators that a run is about, by name; {} of a run that is about none."""
    chosen = run.config.advantage
    if "parent" in run.experiment.rollout.provides and "gamma" in chosen:
        options = {"gamma": chosen.gamma, "lam": chosen.lam}
        of_both = {"subgoal_lam": chosen.get("subgoal_lam", chosen.lam)}
        return {
            name: lambda s, function=function, more=more: (
                Function(function, options | more)(arrays_of(s)),
                s.parent >= 0,
            )
            for name, function, more in (
                ("hae", advantages.hae_by_turn, of_both),
                ("gae", advantages.gae, {}),
            )
        }
    if chosen.name.endswith("dr_mas"):
        options = {key: value for key, value in chosen.items() if key not in ("name", "statistics")}
        return {
            f"{label} {role}": lambda s, statistics=statistics, role=role: (
                Function(advantages.dr_mas, options | {"statistics": statistics})(arrays_of(s)),
                s.role == role,
            )
            for role in range(run.experiment.rollout.roles)
            for label, statistics in (("agent", "agent_turns"), ("all", "all_turns"))
        }
    return {}


def measure(
    run: Run, turns: int, batches: int, found_by: Mapping[str, Way]
) -> dict[str, tuple[jax.Array, ...]]:
    """{estimator: (noise, signal, A^2)}, f32[seeds] each, of a run that was read back."""
    policy, rollout = run.experiment.policy, run.experiment.rollout

    def collect(params, key):
        begin_key, key = jax.random.split(key)
        _, streams, rows, _ = rollout.collect(params, rollout.init(begin_key), key)
        stream, turn = rows.stream[:, None], rows.turn
        found = {}
        for name, way in found_by.items():
            advantage, of = way(streams)
            early = rows.loss_mask & (turn >= 0) & (turn < turns) & of[stream]
            weight = jnp.where(early, advantage[stream, turn], 0.0)
            mine = jnp.zeros_like(of).at[rows.stream].max(jnp.any(early, axis=1))
            square = jnp.sum(jnp.square(weight)) / jnp.maximum(jnp.sum(early), 1)
            gradients = episode_gradients(
                policy, params, rows, weight, streams=of.shape[0], most=turns
            )
            found[name] = (gradients, mine, square)
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
