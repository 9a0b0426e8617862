"""Agent-R: recoveries spliced from the policy's own failures and successes at one task.

Letters: N streams in G groups (trees) of E, T turns; P splices per group; R rows of L positions.
"""

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.required import required
from agentrl.methods.by_turn import returns_of, spliced
from agentrl.methods.siblings import check_tree
from agentrl.methods.tree_values import tree_values
from agentrl.streams import Rows, Streams

Cut = Literal["value", "judgement", "end", "none"]
Joins = Literal["branch", "state"]


class Splices(NamedTuple):
    """Pairs of streams of one group: `bad` up to turn `cut`, then `good` from turn `join`.

    good, bad, cut, join: i32[G, E * E]; cut is -1 where nothing is of the bad one. usable: bool,
    they are a pair, and the splice fits.
    """

    good: jax.Array
    bad: jax.Array
    cut: jax.Array
    join: jax.Array
    usable: jax.Array


def error_turns(streams: Streams, cut: Cut, drop: float) -> jax.Array:
    """The last turn i32[N] of each stream that is kept as a failure's, see `agent_r`; -1 of "none",
    and T where no turn is wrong."""
    mask, turns = streams.mask, streams.mask.shape[1]
    if cut == "none":
        return jnp.full(mask.shape[0], -1, jnp.int32)
    if cut == "end":
        return jnp.sum(mask, axis=1, dtype=jnp.int32) - 2
    if cut == "judgement":
        assert streams.judgement is not None  # checked when the component was made
        wrong = streams.judgement < 0
    else:
        assert streams.group is not None and streams.prefix is not None  # of trees
        found = tree_values(streams.reward, mask, streams.group, streams.prefix)
        wrong = found.turn < found.node - drop
    number = jnp.arange(turns, dtype=jnp.int32)
    return jnp.min(jnp.where(wrong & mask, number, turns), axis=1)


def splices(
    streams: Streams,
    size: int,
    *,
    cut: Cut = "value",
    joins: Joins = "branch",
    least: float = 0.5,
    margin: float = 0.5,
    drop: float = 0.1,
) -> Splices:
    """All pairs of streams of each group of `size`, and where they are cut and joined.

    joins="branch": the good one goes on from the first turn in which the two differ, or behind the
    cut where they share the error; "state": from its last turn in whose front it stood where the
    bad one stands behind the error, by `Streams.anchor`. For the other options see `agent_r`.
    """
    mask, turns = streams.mask, streams.mask.shape[1]
    one, other = np.divmod(np.arange(size * size), size)
    groups = np.arange(mask.shape[0] // size)[:, None] * size
    good, bad = jnp.asarray(groups + one), jnp.asarray(groups + other)
    length, returns = jnp.sum(mask, axis=1, dtype=jnp.int32), returns_of(streams)
    at = error_turns(streams, cut, drop)[bad]
    usable = returns[good] >= least
    if cut == "none":
        # The bad one has no part in it.
        own = usable & (good == bad)
        return Splices(good, bad, at, jnp.zeros_like(at), own)
    usable &= (returns[good] - returns[bad] > margin) & (at >= 0) & (at + 1 < length[bad])
    behind = jnp.clip(at + 1, 0, turns - 1)
    if joins == "branch":
        assert streams.prefix is not None  # of trees
        same = mask[good] & mask[bad] & (streams.prefix[good] == streams.prefix[bad])
        join = jnp.minimum(jnp.sum(same, axis=-1, dtype=jnp.int32), behind)
    else:
        assert streams.anchor is not None  # of whole episodes
        stands = jnp.take_along_axis(streams.anchor[bad], behind[..., None, None], axis=2)
        there = mask[good] & jnp.all(streams.anchor[good] == stands, axis=-1)
        join = jnp.max(jnp.where(there, jnp.arange(turns, dtype=jnp.int32), -1), axis=-1)
        usable &= join >= 0
    usable &= (join < length[good]) & (at + 1 + length[good] - join <= turns)
    return Splices(good, bad, at, jnp.clip(join, 0, turns - 1), usable)


def revision_rows(
    rows: Rows, good: jax.Array, bad: jax.Array, cut: jax.Array, join: jax.Array
) -> Rows:
    """Rows [M, L] of splices i32[M]: what the bad stream read and wrote up to turn `cut` and read
    behind it, which is not trained, then the good one's replies and what it read, from its turn
    `join`.

    rows: one per stream. The good one's turns are numbered on from the cut.
    """
    rows = jax.tree.map(lambda x: x[jnp.argsort(rows.stream)], rows)
    one, other = (jax.tree.map(lambda x, at=at: x[at], rows) for at in (bad, good))
    end, begin = (
        jnp.argmax(row.loss_mask & (row.turn == turn[:, None]), axis=1)
        for row, turn in ((one, cut + 1), (other, join))
    )
    shift = (cut + 1 - join)[:, None]
    moved = other.replace(turn=jnp.where(other.turn >= 0, other.turn + shift, -1))
    kept = one.replace(loss_mask=jnp.zeros_like(one.loss_mask))
    number = jnp.arange(good.shape[0], dtype=jnp.int32)
    return spliced(kept, moved, end, begin).replace(stream=number)


def agent_r(
    setup: Setup,
    *,
    per_group: int = 4,
    cut: Cut = "value",
    joins: Joins = "branch",
    least: float = 0.5,
    margin: float = 0.5,
    drop: float = 0.1,
) -> Component:
    """Source of its own name: rows in which the policy fails at first, and then recovers.

    Of the episodes of one task a bad one is read up to its first error, and a good one is learnt
    from there on: the errors stand in the context and are not imitated. For
    `losses.behaviour_cloning` with source="agent_r", beside a component `agent_r` with cut="none"
    under another name, whose rows are the good episodes themselves.

    Where the good episode goes on from the branch, as published, its observations are those of the
    state in which the two parted, and the errors appear to have no effect on the world: true only
    where they are undone. With joins="state" it goes on from a state in which it stood itself where
    the bad one stands after the error, if it ever did: all that is read is true, but for the time
    that is left.

    Metrics (Opponents, buffers, tasks):
      agent_r/pairs: Failures that can be spliced [share]; of the pairs of a good and a bad episode.
      agent_r/cut: Turn of a cut [turns]; mean last turn that is of the failure.

    Args:
      per_group: P, drawn from each group's pairs without replacement, from 1 to E * E.
      cut: the first error, behind which the bad episode ends: "value", the first turn whose mean
        return, over the leaves below it, is more than `drop` below that of the node it left (of
        trees); "judgement", the first that `config.rollout.judge` scores below 0 (published: the
        model itself is asked, turn by turn); "end", the last turn but one; "none", no bad episode.
      joins: "branch" (of trees), or "state", see above; for the latter set rollout.anchor="state".
      least: return of a good episode, at least 0 (alpha there, which rises from round to round).
      margin: more than this is the bad one's return below the good one's (beta).
      drop: see `cut`.

    Raises:
      ValueError: rows of parts of an episode, several agents, no trees or no judge where they are
        needed, or an option outside its range.

    Deviations [reconstructed]: no sentence that says "I was wrong" stands between the two parts,
    which a small policy has no words for; cut="value" reads from a tree's leaves whether a turn was
    an error.

    References:
      Yuan et al. (2025), Agent-R, https://arxiv.org/abs/2501.11425 (from notes on the paper and its
      code ByteDance-Seed/Agent-R 82fcc1c; neither was read here).
    """
    options: dict[str, Any] = {
        "cut": cut, "joins": joins, "least": least, "margin": margin, "drop": drop
    }  # fmt: skip
    size = _checked(setup, per_group, options)

    def make(context, sources):
        streams, rows = sources["rollout"]
        found = splices(streams, size, **options)
        chance = jax.random.uniform(context.key, found.usable.shape)
        drawn, index = jax.lax.top_k(jnp.where(found.usable, chance, -1.0), per_group)
        taken = [jnp.take_along_axis(x, index, axis=1).reshape(-1) for x in found[:4]]
        made = revision_rows(rows, *taken)
        learnt = (drawn >= 0).reshape(-1, 1)
        return None, made.replace(loss_mask=made.loss_mask & learnt)

    def annotate(context, streams, rows):
        found, returns = splices(streams, size, **options), returns_of(streams)
        gap = returns[found.good] - returns[found.bad]
        pair = (returns[found.good] >= least) & (gap > margin)
        told = {"agent_r/pairs": (found.usable, pair), "agent_r/cut": (found.cut, found.usable)}
        return {}, {
            name: jnp.stack([jnp.sum(jnp.where(of, x, 0)), jnp.sum(of)]).astype(jnp.float32)
            for name, (x, of) in told.items()
        }

    source = Source(make, reads=("rollout",))
    return Component(source=source, annotate=None if cut == "none" else annotate)


def _checked(setup: Setup, per_group: int, options: dict[str, Any]) -> int:
    """E; raises the errors of `agent_r`."""
    path, rollout = "config.components.agent_r", setup.rollout
    check_choice(f"{path}.cut", options["cut"], get_args(Cut))
    check_choice(f"{path}.joins", options["joins"], get_args(Joins))
    for name in ("least", "margin", "drop"):
        check_range(f"{path}.{name}", options[name], 0.0)
    required(setup, "agent_r", None, one_agent=True, whole_episodes=True)
    if options["cut"] == "value" or (options["cut"] != "none" and options["joins"] == "branch"):
        check_tree(setup, "agent_r")
    if options["cut"] == "judgement" and "judgement" not in rollout.provides:
        raise ValueError(
            f"{path}.cut='judgement': nothing judges turns; set config.rollout.judge, for example "
            "to 'progress'"
        )
    if rollout.num_rows != rollout.num_streams:
        raise ValueError(
            f"component 'agent_r' with {rollout.num_rows} rows for {rollout.num_streams} streams: "
            "what is read before a turn has to be in its row; use the context 'whole', or a policy "
            "over arrays with memory"
        )
    size = rollout.num_streams // rollout.units[0]
    check_range(f"{path}.per_group", per_group, 1, size * size)
    return size
