"""From streams to advantages: reward terms, filters, the estimator, reweightings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import advantages
from agentrl.checks import check_returned
from agentrl.learner.function import Function
from agentrl.streams import PerPosition, PerTurn, Rows, Streams, at_positions, fields_of

# A reward term's result depends on its inputs: a term that reads the reward returns another reward,
# any other returns a penalty, f32[N, T], on each turn's own score.


class Credit(NamedTuple):
    """Credit of N streams of T turns, in R rows of L positions.

    advantage: per turn, or per position; 0 outside of what is trained.
    keep: bool[N], streams that the update learns from. turns: bool[N, T], those of their turns that
    a filter leaves; None: all.
    target: the critic's target, of the estimator's own advantage; None without a critic.
    carried: {name: new value} of the carried number that the estimator updates.
    """

    advantage: PerTurn | PerPosition
    keep: jax.Array
    target: PerTurn | PerPosition | None
    carried: Mapping[str, jax.Array]
    turns: jax.Array | None = None

    def of_turns(self, mask: jax.Array) -> jax.Array:
        """The turns that are learnt from, bool[N, T]. mask: bool[N, T], the agent acted."""
        mask = mask & self.keep[:, None]
        return mask if self.turns is None else mask & self.turns

    def of_positions(self, rows: Rows) -> jax.Array:
        """The positions that are learnt from, bool[R, L]."""
        mask = rows.loss_mask & self.keep[rows.stream][:, None]
        return mask if self.turns is None else mask & (at_positions(self.turns, rows) > 0)


class Recipe(NamedTuple):
    """The functions that compute credit, but for the estimator by their names in the config.

    reward: terms, in the order in which they apply. carried: the name of the carried number that
    the estimator returns a new value of; None for one that returns advantages alone. before:
    filters whose rejected streams take no part in the statistics; after: filters whose rejected
    streams do, and are not learnt from, and which may read the `advantage`. Both choose streams,
    bool[N], or turns, bool[N, T]. reweighting: (advantage, ...) -> advantage, per turn or per
    position; the critic's target is of the advantage before it.
    """

    estimator: Function
    reward: Mapping[str, Function] = {}
    carried: str | None = None
    before: Mapping[str, Function] = {}
    after: Mapping[str, Function] = {}
    reweighting: Mapping[str, Function] = {}

    @property
    def value(self) -> str | None:
        """The name of the critic's values that the estimator reads, per turn or per token."""
        names = (name for name in ("value", "token_value") if name in self.estimator.inputs)
        return next(names, None)


def arrays_of(streams: Streams, rows: Rows | None = None) -> dict[str, Any]:
    """The filled fields by name. Of the rows' those that streams do not have, filled or not: a
    row's `role` is one number per row, a stream's one per stream."""
    if rows is None:
        return fields_of(streams)
    own = {n: x for n, x in fields_of(rows).items() if n not in Streams.__dataclass_fields__}
    return own | fields_of(streams)


def reads_positions(function: Function) -> bool:
    """Whether an estimator or a reweighting is per position, [R, L]: it reads the rows' mask."""
    return "loss_mask" in function.inputs


def shaped(recipe: Recipe, arrays: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array | None]:
    """(reward, penalty or None), f32[N, T] each, after the reward terms."""
    reward, penalty = arrays["reward"], None
    for term in recipe.reward.values():
        changes = "reward" in term.inputs
        one = term({**arrays, "reward": reward} if changes else arrays)
        check_returned(term.name, one, reward, "one number per turn [N, T]")
        if changes:
            reward = one
        else:
            penalty = one if penalty is None else penalty + one
    return reward, penalty


def credit_of(
    recipe: Recipe, streams: Streams, rows: Rows | None, extra: Mapping[str, jax.Array]
) -> Credit:
    """The credit of a source's streams.

    The estimator takes the sum of the penalties as `penalty`; one without such an argument gets
    them in the reward. Filters read the environment's own rewards. Only estimators per position
    and reweightings read fields of rows.

    Args:
      extra: annotations and carried numbers, by name.
    """
    estimator = recipe.estimator
    by_position = reads_positions(estimator)
    arrays = arrays_of(streams) | dict(extra)
    keep, turns = jnp.any(streams.mask, axis=1), None
    for chosen in recipe.before.values():
        keep, turns = _narrowed(chosen, arrays, streams.mask, keep, turns)
        arrays["mask"] = streams.mask & keep[:, None] & (True if turns is None else turns)
    reward, penalty = shaped(recipe, arrays)
    with_rows = arrays
    if rows is not None and (by_position or recipe.reweighting):
        counted = rows.loss_mask & keep[rows.stream][:, None]
        if turns is not None:
            counted = counted & (at_positions(turns, rows) > 0)
        with_rows = arrays_of(streams, rows.replace(loss_mask=counted)) | arrays
    if by_position:
        arrays = with_rows
    if penalty is not None and "penalty" not in (*estimator.inputs, *estimator.optional):
        reward, penalty = reward - penalty, None
    advantage = estimator({**arrays, "reward": reward, "penalty": penalty})
    carried: dict[str, jax.Array] = {}
    if recipe.carried is not None:
        advantage, carried[recipe.carried] = advantage
    kind: type[PerTurn] | type[PerPosition] = PerTurn
    like, shape = streams.mask, "[N, T]"
    if by_position:
        kind, like, shape = PerPosition, arrays["loss_mask"], "[R, L]"
    check_returned(estimator.name, advantage, like, f"advantages {shape}")
    for chosen in recipe.after.values():
        given = {**arrays, "advantage": advantage}
        keep, turns = _narrowed(chosen, given, streams.mask, keep, turns)
    target = None
    if recipe.value is not None:
        mask = arrays["loss_mask"] if by_position else streams.mask
        target = kind(jnp.where(mask, advantage + arrays[recipe.value], 0.0))
    return Credit(reweighted(recipe, kind(advantage), with_rows), keep, target, carried, turns)


def _narrowed(
    chosen: Function,
    arrays: Mapping[str, jax.Array],
    mask: jax.Array,
    keep: jax.Array,
    turns: jax.Array | None,
) -> tuple[jax.Array, jax.Array | None]:
    """`Credit.keep` and `Credit.turns` after one more filter. mask: bool[N, T], of all streams."""
    kept = chosen(arrays)
    if kept.ndim == 1:
        return keep & kept, turns
    check_returned(chosen.name, kept, mask, "bool[N] or bool[N, T]")
    return keep, kept if turns is None else turns & kept


def reweighted(
    recipe: Recipe, advantage: PerTurn | PerPosition, arrays: Mapping[str, jax.Array]
) -> PerTurn | PerPosition:
    """The advantages after the reweightings; of positions after one that reads positions.

    arrays: fields of streams and rows by name.
    """
    for change in recipe.reweighting.values():
        by_row = reads_positions(change)
        given = advantage if by_row and isinstance(advantage, PerTurn) else advantage.values
        new = change({**arrays, "advantage": given})
        like = arrays["loss_mask"] if by_row else advantage.values
        check_returned(change.name, new, like, "advantages of as many turns or positions")
        advantage = PerPosition(new) if by_row else advantage.replace(values=new)
    return advantage


def group_metrics(streams: Streams) -> dict[str, jax.Array]:
    """Totals and weights, f32[2], that show whether groups and anchors carry a signal; none of
    streams without groups.

    frac_zero_std_groups: share of the streams in groups whose returns are all equal.
    group_return_std: mean standard deviation of a group's raw returns (its fall while success
    stands still is RAGEN's sign of an echo trap).
    anchor_group_size: mean size of a turn's anchor group; frac_singleton_anchor: share of the turns
    in groups of one; anchor_size/*: share of the turns in groups of that size.

    Metrics (Credit):
      group_return_std: Spread within groups; mean standard deviation of a group's returns; its fall
        is RAGEN's sign of an echo trap.
      frac_zero_std_groups: Groups without spread [share]; streams in groups whose returns are all
        equal; without signal to estimators that compare within groups.
      anchor_group_size: Anchor group [turns]; mean number of turns in the anchor group of a turn.
      frac_singleton_anchor: Turns alone [share]; turns that are alone in their anchor group, which
        GiGPO cannot compare.
      anchor_size/{size}: Anchor groups of {size} [share]; turns by the size of their anchor group.
    """
    group, role = streams.group, streams.role
    if group is None:
        return {}
    signal = advantages.dynamic_sampling(streams.reward, streams.mask, group, role=role)
    present = jnp.any(streams.mask, axis=1)

    def share(x, of):
        return jnp.stack([jnp.sum(jnp.where(of, x, 0), dtype=jnp.float32), jnp.sum(of) * 1.0])

    out = {"frac_zero_std_groups": share(~signal, present)}
    returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0), axis=1)
    statistics = advantages.moments(returns, advantages.group_segments(group, present, role))
    out["group_return_std"] = share(statistics.std, present)
    if streams.anchor is not None:
        segment = advantages.anchor_segments(streams.mask, group, streams.anchor, role=role)
        segment = segment.reshape(-1)
        count = segment.shape[0]
        members = jax.ops.segment_sum(jnp.ones(count), segment, num_segments=count)
        size = members[jnp.minimum(segment, count - 1)].reshape(streams.mask.shape)
        out["anchor_group_size"] = share(size, streams.mask)
        out["frac_singleton_anchor"] = share(size == 1, streams.mask)
        for low, high in ((1, 1), (2, 3), (4, 7), (8, 15), (16, None)):
            inside = (size >= low) & (size <= (high or jnp.inf))
            label = f"{low}" if low == high else f"{low}_{high}" if high else f"{low}_up"
            out[f"anchor_size/{label}"] = share(inside, streams.mask)
    return out
