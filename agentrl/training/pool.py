"""A pool of frozen opponents: earlier parameters of the run, met instead of those of today."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.rollout import Rollout
from agentrl.selfplay import pfsp
from agentrl.selfplay.mixture import nash_mixture
from agentrl.streams import Streams
from agentrl.training import config as configs

DRAWS = ("latest", "uniform", "prioritised", "nash")
# Of the draws of "nash" this share is even, so that no pair of members stays unknown.
EVEN = 0.1


@struct.dataclass
class Pool:
    """Members and how they have fared; C places.

    members: parameters that are trained, [C, ...] each: the memory of C policies. since: i32[C],
    the update at which each was added, -1 for an empty place. record: of the policy in training
    against each, [1, C]; as averages they follow it as it changes. between: f32[C, C], win rates of
    row against column among the members, as they were counted while the later of the two trained.
    """

    members: chex.ArrayTree
    since: jax.Array
    record: pfsp.Record
    between: jax.Array


def pool(
    *,
    capacity: int = 0,
    every: int = 10,
    draw: str = "prioritised",
    weighting: str = "hard",
) -> None:
    """Options of the pool that rollouts with opponent="pool" meet.

    Args:
      capacity: members at most; the first are the parameters that training starts from (after a
        warm start), and once the pool is full the oldest goes. 0: no pool. They lie in memory and
        in checkpoints beside the parameters, each as large as those; of adapters, as these.
      every: updates between two new members.
      draw: who is met: "latest", the newest member; "uniform", any (fictitious self-play: Heinrich
        et al. 2015, https://proceedings.mlr.press/v37/heinrich15.html); "prioritised", more often
        those who win more often (see `agentrl.selfplay.pfsp`); "nash", by a Nash equilibrium of the
        game between the members (PSRO: Lanctot et al. 2017, https://arxiv.org/abs/1711.00832), one
        draw of ten evenly from all. `every` updates then are a best response, which begins where
        the last one ended. Its payoffs are the win rates that were counted on the way there; PSRO
        plays extra matches for them.
      weighting: of "prioritised": "linear", "hard" or "variance".
    """


class Rules(NamedTuple):
    """What a run does with its pool.

    start: (params, update i32[]) -> Pool, with these as its one member.
    draw: (Pool, key) -> i32[K], the member that each slot of the rollout meets.
    after: (Pool, parameters after the update, drawn i32[K], Streams, update i32[], finite bool[])
      -> (Pool, metrics): the results counted, and perhaps a member more. A rejected update changes
      nothing, so that its batch can be collected again.
    """

    start: Callable[[chex.ArrayTree, jax.Array], Pool]
    draw: Callable[[Pool, jax.Array], jax.Array]
    after: Callable[..., tuple[Pool, dict[str, jax.Array]]]


def make_rules(
    section: Mapping[str, Any], rollout: Rollout, *, cooperative: Sequence[bool] = (False,)
) -> Rules | None:
    """The rules of a config's pool, None where the rollout meets none.

    cooperative: of each task, whether all play together: then a match counts as won that reached
    its goal. Elsewhere it counts by the sign of its return: 0 is a draw, an illegal end is lost by
    the offender. What is counted is of all tasks together.

    Raises:
      ValueError: a pool that nothing meets, or the other way round.
    """
    options = configs.bind("pool", pool, section)
    if rollout.slots is None:
        default = configs.section(pool, named=False)
        for key, value in options.items():
            if value != default[key]:
                raise ValueError(
                    f"config.pool.{key}={value!r} is used by nothing: set config.rollout.opponent="
                    f"'pool', or leave it at {default[key]!r}"
                )
        return None
    capacity, every, draw = options["capacity"], options["every"], options["draw"]
    for name in ("capacity", "every"):
        if options[name] < 1:
            raise ValueError(
                f"config.pool.{name}={options[name]} with config.rollout.opponent='pool': expected "
                "at least 1"
            )
    if draw not in DRAWS:
        raise ValueError(
            f"config.pool.draw={draw!r}{configs.nearest(draw, DRAWS)}: expected one of "
            f"{', '.join(DRAWS)}"
        )
    if options["weighting"] not in pfsp.WEIGHTINGS:
        raise ValueError(
            f"config.pool.weighting={options['weighting']!r}: expected one of "
            f"{', '.join(pfsp.WEIGHTINGS)}"
        )
    slots, seats = rollout.slots, rollout.roles

    def start(params: chex.ArrayTree, update: jax.Array) -> Pool:
        return Pool(
            members=jax.tree.map(
                lambda x: jnp.zeros((capacity, *x.shape), x.dtype).at[0].set(x), params
            ),
            since=jnp.full(capacity, -1, jnp.int32).at[0].set(update),
            record=pfsp.no_games(1, capacity),
            between=jnp.full((capacity, capacity), 0.5),
        )

    def draw_members(pool: Pool, key: jax.Array) -> jax.Array:
        if draw == "latest":
            return jnp.full(slots.members, jnp.argmax(pool.since), jnp.int32)
        filled = pool.since >= 0
        if draw == "uniform":
            chance = filled / jnp.sum(filled)
        elif draw == "nash":
            chance = (1 - EVEN) * nash_mixture(pool.between, mask=filled)
            chance += EVEN * filled / jnp.sum(filled)
        else:
            rates = pfsp.win_rates(pool.record)[0]
            chance = pfsp.opponent_weights(rates, weighting=options["weighting"], mask=filled)
        # Evenly spaced points on the distribution, shifted together: a member with chance p gets
        # K p of the K slots on average, and never a whole one more or less.
        point = (jnp.arange(slots.members) + jax.random.uniform(key)) / slots.members
        drawn = jnp.searchsorted(jnp.cumsum(chance), point, side="right").astype(jnp.int32)
        last = capacity - 1 - jnp.argmax(filled[::-1])
        return jnp.minimum(drawn, last)

    def after(pool, params, drawn, streams: Streams, update, finite):
        match = jnp.arange(streams.mask.shape[0] // seats)
        # All seats that the policy has in a match have the same result: the first of them.
        played = jnp.any(streams.mask, axis=1).reshape(-1, seats)
        own = match * seats + jnp.argmax(played, axis=1)
        mask = streams.mask[own]
        reached = jnp.any(mask & streams.success[own], axis=1)
        total = jnp.sum(jnp.where(mask, streams.reward[own], 0.0), axis=1)
        plays_together = jnp.asarray(cooperative)[streams.task[own]]
        score = jnp.where(plays_together, reached, (1 + jnp.sign(total)) / 2)
        met = drawn[slots.of_match()]
        counts = jnp.any(mask, axis=1) & finite
        record = pfsp.count(pool.record, jnp.zeros_like(met), met, score, counts)
        metrics = {
            "pool_size": jnp.stack([jnp.sum(pool.since >= 0) * 1.0, jnp.ones(())]),
            "pool_age": jnp.stack([jnp.mean(update - pool.since[drawn]), jnp.ones(())]),
        }
        # An empty place, or else the oldest member's.
        place = jnp.argmin(pool.since)
        joins = finite & ((update + 1) % every == 0)

        def put(all_, one):
            return all_.at[place].set(jnp.where(joins, one, all_[place]))

        rates = pfsp.win_rates(record)[0].at[place].set(0.5)
        pool = Pool(
            members=jax.tree.map(put, pool.members, params),
            since=put(pool.since, update + 1),
            record=jax.tree.map(lambda x: x.at[0].set(put(x[0], 0.0)), record),
            between=put(put(pool.between, rates).T, 1 - rates).T,
        )
        return pool, metrics

    return Rules(start, draw_members, after)
