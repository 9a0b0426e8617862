"""Source of several random pairs of each group, the better half against the worse one."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import returns_of, stream_rows
from agentrl.methods.pairs import check_one_row, in_pairs

BY = ("return", "runs")


def halves_of(
    score: jax.Array, present: jax.Array, key: jax.Array, pairs: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(better, worse i32[G, P], gap f32[G, P]) of G groups of M members each.

    score f32[G, M], present bool[G, M]. Of the n members that are present the n // 2 with the
    highest scores are paired at random with the n // 2 with the lowest, each once; equals are
    ranked at random. The gap is the difference of their scores, and -1 where there is no pair.
    """
    tie_key, pair_key = jax.random.split(key)
    count = jnp.sum(present, axis=1)[:, None] // 2
    chance = jax.random.uniform(tie_key, score.shape)
    # By score, then by chance; absent ones last.
    order = jnp.lexsort((chance, jnp.where(present, -score, jnp.inf)), axis=1)
    number = jnp.arange(score.shape[1])
    total = jnp.sum(present, axis=1)[:, None]
    is_lower = (number >= total - count) & (number < total)
    drawn = jnp.where(is_lower, jax.random.uniform(pair_key, score.shape), 2.0)
    lower = jnp.take_along_axis(order, jnp.argsort(drawn, axis=1), axis=1)
    better, worse = order[:, :pairs], lower[:, :pairs]
    values = (jnp.take_along_axis(score, x, axis=1) for x in (better, worse))
    high, low = values
    gap = jnp.where(number[:pairs] < count, high - low, -1.0)
    return better.astype(jnp.int32), worse.astype(jnp.int32), gap


def halves(setup: Setup, *, margin: float = 0.0, by: str = "return") -> Component:
    """Source of its own name: in turn a better and a worse episode of the same task.

    Of each group the better half is paired at random with the worse one. A pair whose scores differ
    by no more than `margin` is not trained: with rewards 0 and 1 there are then min(right, wrong)
    pairs of a right and a wrong episode, and none of tasks that lack either. One row holds a whole
    stream. For terms with source="halves", such as `losses.dpo` and `losses.simpo`;
    config.reference.every makes the reference follow, which are Matryoshka's rounds.

    Args:
      margin: >= 0. (Matryoshka's code pairs the halves of graded scores whatever their difference,
        equal ones included.)
      by: "return"; or "runs", the mean return over the partners of
        `agentrl.methods.counterfactual`: a frozen solver that plays by chance is asked several
        times, so that its luck is no label.

    Raises:
      ValueError: rollouts without groups, or without `runs` where they are asked for; several rows
        of text per stream; an unknown word.

    References:
      Li et al. (2024), Matryoshka, https://arxiv.org/abs/2410.20749 (code read:
      lichangh20/Matryoshka 1f368eb): guidance for a solver that is not trained, pairs by what the
      solver made of it.
    """
    check_range("config.components.halves.margin", margin, 0.0)
    check_choice("config.components.halves.by", by, BY)
    rollout = setup.rollout
    if "group" not in rollout.provides:
        raise ValueError(
            "component 'halves' compares episodes of one task: use a rollout of whole episodes in "
            "groups (config.rollout.name='episodes')"
        )
    if by == "runs" and "runs" not in rollout.provides:
        raise ValueError(
            "component 'halves' with by='runs' needs a rollout that plays with several partners: "
            "set config.rollout to section(agentrl.methods.counterfactual.counterfactual)"
        )
    check_one_row(setup, "halves")
    groups, agents = rollout.units[0], rollout.agents
    size = rollout.num_streams // groups
    pairs = size // agents // 2

    def make(context, sources):
        streams, rows = sources["rollout"]
        rows = stream_rows(rows, streams)
        score = returns_of(streams)
        if by == "runs":
            score = jnp.mean(streams.runs[:, 0, :, 0], axis=1)
        present = jnp.any(streams.mask, axis=1)
        # Agents are compared with those of their own seat.
        by_seat = jnp.arange(rollout.num_streams).reshape(groups, -1, agents).swapaxes(1, 2)
        by_seat = by_seat.reshape(groups * agents, -1)
        better, worse, gap = halves_of(score[by_seat], present[by_seat], context.key, pairs)
        better, worse = (jnp.take_along_axis(by_seat, x, axis=1) for x in (better, worse))
        flat = (x.reshape(-1) for x in (better, worse, gap > margin))
        return in_pairs(streams, rows, *flat)

    return Component(source=Source(make, unit=2, reads=("rollout",)))
