"""A user's own pieces of an algorithm, as they stand in a module outside the package."""

import jax
import jax.numpy as jnp

from agentrl.declarations import assumes, averaged
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import stream_rows
from agentrl.rollout import Rollout, episodes
from agentrl.streams import PerPosition, PerTurn, Shared


@assumes("whole_episodes")
def centred(
    reward: jax.Array, mask: jax.Array, surprise: jax.Array, *, scale: float = 1.0
) -> jax.Array:
    """An estimator: the return less the batch's mean, plus an annotation of each turn."""
    total = jnp.sum(jnp.where(mask, reward, 0.0), axis=1, keepdims=True)
    return jnp.where(mask, scale * (total - jnp.mean(total)) + surprise, 0.0)


def bonus(reward: jax.Array, mask: jax.Array, surprise: jax.Array, *, amount: float) -> jax.Array:
    """A reward term."""
    return jnp.where(mask, reward + amount * surprise, 0.0)


def bonus_or_none(reward: jax.Array, mask: jax.Array, *, amount: float) -> jax.Array:
    """A reward term with a number that decides what is computed."""
    return reward + amount * mask if amount else reward


def even_streams(mask: jax.Array) -> jax.Array:
    """A filter."""
    return jnp.any(mask, axis=1) & (jnp.arange(mask.shape[0]) % 2 == 0)


def halved(advantage: jax.Array) -> jax.Array:
    """A reweighting."""
    return advantage / 2


def surprise(context, streams, rows, *, offset: float = 0.0):
    """An annotation [N, T]: the negative log-probability of each turn's actions, and an offset."""
    scores = context.setup.policy.score(context.params, rows)
    logp = jnp.where(rows.loss_mask, scores.logp, 0.0)
    turn = jnp.maximum(rows.turn, 0)
    zeros = jnp.zeros(streams.mask.shape)
    return {"surprise": PerTurn(offset - zeros.at[rows.stream[:, None], turn].add(logp))}


def row_numbers(context, streams, rows):
    """An annotation [R, L]: a number per row."""
    number = jnp.arange(rows.tokens.shape[0], dtype=jnp.float32)
    return {"row_number": PerPosition(jnp.broadcast_to(number[:, None], rows.tokens.shape))}


def squared(logp: jax.Array, mask: jax.Array, *, at: float = 0.0):
    """A term of one value per position, with a metric."""
    return jnp.where(mask, jnp.square(logp - at), 0.0), {"distance": jnp.abs(logp - at)}


def between(logp: jax.Array, row_number: jax.Array, surprise: jax.Array, mask: jax.Array):
    """A term that reads an annotation per position and one per turn."""
    return jnp.where(mask, logp * (row_number - surprise), 0.0)


@averaged(unit="row")
def row_likelihood(logp: jax.Array, mask: jax.Array) -> jax.Array:
    """A term of one value per row."""
    return -jnp.tanh(jnp.sum(jnp.where(mask, logp, 0.0), axis=1))


@averaged(unit="pair")
def preference(logp: jax.Array, reference_logp: jax.Array, mask: jax.Array, *, beta: float = 0.5):
    """A term of one value per pair of rows, chosen first: DPO."""
    margin = jnp.sum(jnp.where(mask, logp - reference_logp, 0.0), axis=1).reshape(-1, 2)
    return -jax.nn.log_sigmoid(beta * (margin[:, 0] - margin[:, 1]))


def pull(logp: jax.Array, strength: jax.Array, mask: jax.Array) -> jax.Array:
    """A term that reads a carried number."""
    return jnp.where(mask, strength * jnp.square(logp), 0.0)


def thermostat(setup: Setup, *, start: float, step: float = 0.5) -> Component:
    """A component: a carried number that grows by a step with each update."""
    if step < 0:
        raise ValueError(f"config.components.thermostat.step={step}: expected 0 or more")

    def after(value, outcome):
        return value + step, {"strength": jnp.stack([value, jnp.ones(())])}

    return Component(
        init=lambda _: jnp.float32(start),
        annotate=lambda context, streams, rows: {"strength": Shared(context.value)},
        after=after,
        fills=("strength",),
    )


def pairs(setup: Setup) -> Component:
    """A component that is a source: the rows of the rollout, each next to the following one."""

    return Component(source=Source(lambda context, sources: sources["rollout"], unit=2))


def whole_episodes(policy, env, env_params, *, groups: int = 2) -> Rollout:
    """A rollout that draws its tasks itself: it takes no sampler."""
    return episodes(policy, env, env_params, num_groups=groups, group_size=4)


def one_task(key, count, given=None, *, number: int = 0):
    """A sampler: the same task for all."""
    return jax.random.split(jax.random.key(number), 1).repeat(count, axis=0), None


def shuffled_pairs(setup: Setup) -> Component:
    """A source of whole streams in another order than the streams."""

    def make(context, sources):
        streams, rows = sources["rollout"]
        return streams, jax.tree.map(lambda x: x[::-1], stream_rows(rows, streams))

    return Component(source=Source(make, unit=2, reads=("rollout",)))


def not_a_component(setup: Setup) -> int:
    """A mistake."""
    return 3


def misspelt(logp, old_logpp, mask):
    """A loss that reads an array which nobody has."""
    return jnp.where(mask, logp - old_logpp, 0.0)


def misspelt_estimator(rewards, mask):
    """An estimator that does."""
    return jnp.where(mask, rewards, 0.0)


SETUPS: list[Setup] = []


def witness(setup: Setup) -> Component:
    """A component that does nothing; `SETUPS` tells the setups of the runs that have had it."""
    SETUPS.append(setup)
    return Component()
