"""The pool of frozen opponents: earlier parameters of the policy, as opponents in games."""

from typing import TYPE_CHECKING, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult
from agentrl.selfplay import pfsp

if TYPE_CHECKING:
    from agentrl.rollout.mixture import SlotsOfSeveral
    from agentrl.rollout.seating import Slots

DRAWS = ("latest", "uniform", "prioritised", "nash")
# "nash" draws this share uniformly, so that every pair of members gets matches.
EVEN = 0.1


class OpponentPool(struct.PyTreeNode):
    """Opponent pool with capacity C.

    members: trainable parameters [C, ...], C times their memory. since: i32[C], the update at which
    each was added, -1 for an empty place. record: games of the policy in training against each,
    [1, C]; running averages, since the policy changes. between: f32[C, C], win rates of row against
    column among the members, estimated while the newer of the two trained.
    """

    members: chex.ArrayTree
    since: jax.Array
    record: pfsp.Record
    between: jax.Array


def opponent_pool(
    setup: Setup,
    *,
    capacity: int = 0,
    every: int = 10,
    draw: str = "prioritised",
    weighting: str = "hard",
) -> Component:
    """Supplies `opponents`, the members that the rollout's slots meet (rollout.opponent="pool").

    In cooperative environments a match counts as won that reached its goal. Elsewhere it counts by
    the sign of its return: 0 is a draw.

    Metrics (Opponents, buffers, tasks):
      pool_size: Opponent pool [members].
      pool_age: Age of opponents [updates]; mean over those drawn.

    Args:
      capacity: members at most; the first are the parameters that training starts from (after a
        warm start), and once the pool is full the oldest is replaced. They take memory and space in
        checkpoints, each as much as the trained parameters.
      every: updates between two new members.
      draw: which members are met: "latest", the newest; "uniform" (fictitious self-play: Heinrich
        et al. 2015, https://proceedings.mlr.press/v37/heinrich15.html); "prioritised", more often
        those that win more often (see `agentrl.selfplay.pfsp`); "nash", by a Nash equilibrium of
        the game between the members (PSRO: Lanctot et al. 2017, https://arxiv.org/abs/1711.00832),
        one draw of ten evenly from all. Then `every` updates are a best response that begins where
        the last one ended. Its payoffs are the win rates counted on the way there; PSRO plays extra
        matches for them.
      weighting: of "prioritised": "linear", "hard" or "variance".
    """
    _check(capacity, every, draw, weighting)
    slots = setup.rollout.slots
    assert slots is not None  # its matches are against a pool
    own = _Matches(
        setup.rollout.agents, slots, cooperative_tasks(setup), capacity, every, draw, weighting
    )
    return Component(
        init=own.init,
        restarts=True,
        before=own.before,
        after=own.after,
        fills=("opponents",),
    )


class _Matches(NamedTuple):
    """How a policy meets the pool: seats and slots of its matches, and the options of
    `opponent_pool`. cooperative: per task."""

    seats: int
    slots: "Slots | SlotsOfSeveral"
    cooperative: tuple[bool, ...]
    capacity: int
    every: int
    draw: str
    weighting: str

    def init(self, start: InitInputs) -> OpponentPool:
        count = self.capacity
        return OpponentPool(
            members=jax.tree.map(
                lambda x: jnp.zeros((count, *x.shape), x.dtype).at[0].set(x), start.params
            ),
            since=jnp.full(count, -1, jnp.int32).at[0].set(start.update),
            record=pfsp.no_games(1, count),
            between=jnp.full((count, count), 0.5),
        )

    def before(self, pool: OpponentPool, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        chance = draw_chance(pool, self.draw, self.weighting)
        drawn = evenly_drawn(chance, pool.since >= 0, self.slots.members, key)
        met = jax.tree.map(lambda x: x[drawn], pool.members)
        return Inputs({"opponents": met, "drawn": drawn})

    def after(self, pool: OpponentPool, outcome: UpdateResult):
        drawn, following = outcome.inputs["drawn"], outcome.before.update + 1
        score, counts = results(outcome.streams, self.seats, self.cooperative)
        met = drawn[self.slots.of_match()]
        record = pfsp.count(pool.record, jnp.zeros_like(met), met, score, counts)
        one = jnp.ones(())
        metrics = {
            "pool_size": jnp.stack([jnp.sum(pool.since >= 0) * 1.0, one]),
            "pool_age": jnp.stack([jnp.mean(outcome.before.update - pool.since[drawn]), one]),
        }
        joins = following % self.every == 0
        pool = with_member(pool.replace(record=record), outcome.trained, following, joins)
        return pool, metrics


def _check(capacity: int, every: int, draw: str, weighting: str) -> None:
    for name, number in (("capacity", capacity), ("every", every)):
        if number < 1:
            raise ValueError(
                f"config.pool.{name}={number} with config.rollout.opponent='pool': expected at "
                "least 1"
            )
    check_choice("config.pool.draw", draw, DRAWS)
    check_choice("config.pool.weighting", weighting, pfsp.WEIGHTINGS)


def cooperative_tasks(setup: Setup) -> tuple[bool, ...]:
    """Per task, whether all agents play together."""
    return tuple(getattr(env, "cooperative", False) for env, _ in setup.envs.values())


def draw_chance(pool: OpponentPool, draw: str, weighting: str) -> jax.Array:
    """The probability with which each member is drawn, f32[C]."""
    filled = pool.since >= 0
    if draw == "latest":
        return (jnp.arange(filled.shape[0]) == jnp.argmax(pool.since)) * 1.0
    if draw == "uniform":
        return filled / jnp.sum(filled)
    if draw == "nash":
        even = EVEN * filled / jnp.sum(filled)
        # The solver of games in sequence form is imported by runs that draw by equilibrium.
        from agentrl.selfplay.mixture import nash_mixture

        return (1 - EVEN) * nash_mixture(pool.between, mask=filled) + even
    rates = pfsp.win_rates(pool.record)[0]
    return pfsp.opponent_weights(rates, weighting=weighting, mask=filled)


def evenly_drawn(chance: jax.Array, filled: jax.Array, count: int, key: jax.Array) -> jax.Array:
    """Members i32[count]: evenly spaced points on the distribution, shifted together.

    A member with probability p gets p * count of the places on average, and never a whole one more
    or less.
    """
    point = (jnp.arange(count) + jax.random.uniform(key)) / count
    drawn = jnp.searchsorted(jnp.cumsum(chance), point, side="right").astype(jnp.int32)
    return jnp.minimum(drawn, filled.shape[0] - 1 - jnp.argmax(filled[::-1]))


def results(streams, seats: int, cooperative: tuple[bool, ...]) -> tuple[jax.Array, jax.Array]:
    """(score in [0, 1], whether the policy played) of each match, f32 and bool [B]."""
    match = jnp.arange(streams.mask.shape[0] // seats)
    # All seats that the policy has in a match have the same result: the first of them.
    played = jnp.any(streams.mask, axis=1).reshape(-1, seats)
    own = match * seats + jnp.argmax(played, axis=1)
    mask = streams.mask[own]
    reached = jnp.any(mask & streams.success[own], axis=1)
    total = jnp.sum(jnp.where(mask, streams.reward[own], 0.0), axis=1)
    plays_together = jnp.asarray(cooperative)[streams.task[own]]
    return jnp.where(plays_together, reached, (1 + jnp.sign(total)) / 2), jnp.any(mask, axis=1)


def with_member(
    pool: OpponentPool, params: chex.ArrayTree, update: jax.Array, joins: jax.Array
) -> OpponentPool:
    """The pool with the parameters in an empty place, or else the oldest member's, if `joins`."""
    place = jnp.argmin(pool.since)

    def put(all_, one):
        return all_.at[place].set(jnp.where(joins, one, all_[place]))

    rates = pfsp.win_rates(pool.record)[0].at[place].set(0.5)
    return OpponentPool(
        members=jax.tree.map(put, pool.members, params),
        since=put(pool.since, update),
        record=jax.tree.map(lambda x: x.at[0].set(put(x[0], 0.0)), pool.record),
        between=put(put(pool.between, rates).T, 1 - rates).T,
    )
