"""Source of pairs of the policy's own episodes, for `losses.dpo`, `rpo` and `weighted_dpo`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Batches, Component, Context, Setup, Source
from agentrl.methods.by_turn import returns_of, stream_rows
from agentrl.policies.language import LanguagePolicy
from agentrl.streams import PerTurn, Rows, Streams

BY = ("return", "judgement", "turns", "cost")
REJECTED = ("worst", "lower")


def highest(scores: jax.Array, among: jax.Array) -> jax.Array:
    """Those of the N streams of each group bool[G, N] with the highest scores f32[S, N], of which
    the first decides, and each further one among equals; bool[G, N]."""
    for score in scores:
        top = jnp.max(jnp.where(among, score, -jnp.inf), axis=1, keepdims=True)
        among = among & (score >= top)
    return among


def drawn_of(among: jax.Array, key: jax.Array) -> jax.Array:
    """One of the streams bool[G, N] of each group, i32[G], each as likely as the others."""
    chance = jax.random.uniform(key, among.shape)
    return jnp.argmax(jnp.where(among, chance, -1.0), axis=1).astype(jnp.int32)


def chosen_and_rejected(
    returns: jax.Array,
    group: jax.Array,
    present: jax.Array,
    groups: int,
    key: jax.Array,
    *,
    second: jax.Array | None = None,
    rejected: str = "worst",
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(best i32[G], worse i32[G], margin f32[G]) of the streams of each group.

    returns f32[N], group i32[N] in [0, G), present bool[N]. second: f32[N], decides where returns
    are equal; its margin is then that between the two. rejected: the worse one is the "worst", or
    any of those that are "lower" than the best. Among equals one is drawn at random, so that with
    rewards 0 and 1 it is one right and one wrong episode per task. The margin is 0 where a group
    has no two different ones.
    """
    member = (group == jnp.arange(groups)[:, None]) & present
    high_key, low_key = jax.random.split(key)
    scores = jnp.stack([returns, jnp.zeros_like(returns) if second is None else second])
    top = highest(scores, member)
    best, lowest = drawn_of(top, high_key), highest(-scores, member)
    lower = lowest if rejected == "worst" else jnp.where(lowest & top, member, member & ~top)
    worse = drawn_of(lower, low_key)
    outcome, own = scores[:, best] - scores[:, worse]
    margin = jnp.where(jnp.any(member, axis=1), jnp.where(outcome > 0, outcome, own), 0.0)
    return best, worse, margin


def right_share(streams: Streams) -> jax.Array:
    """The share of each stream's turns that its judge scores above 0, f32[N]."""
    assert streams.judgement is not None  # `check_judged`
    right = jnp.sum((streams.judgement > 0) & streams.mask, axis=1)
    return right / jnp.maximum(jnp.sum(streams.mask, axis=1), 1)


def check_judged(setup: Setup, reader: str) -> None:
    """ValueError where nothing judges turns, which `reader` reads."""
    if "judgement" not in setup.rollout.provides:
        raise ValueError(
            f"{reader} reads what a judge says of each turn: set "
            "config.rollout.judge, for example to 'progress'"
        )


def check_one_row(setup: Setup, name: str) -> None:
    """ValueError where streams have several rows of text: their log-ratio is of whole streams."""
    rows, streams = setup.rollout.num_rows, setup.rollout.num_streams
    # Only rows of text are made by a context.
    if setup.context is not None and rows != streams:
        raise ValueError(
            f"component {name!r} with {rows} rows of text for {streams} streams: use a context "
            "with one row per stream ('whole')"
        )


def in_pairs(
    streams: Streams, rows: Rows, better: jax.Array, worse: jax.Array, learnt: jax.Array
) -> tuple[Streams, Rows]:
    """(streams, rows) of P pairs, in turn the better one and the worse one, i32[P] each, of streams
    with one row each in their order. learnt: bool[P], the others are not trained."""
    order = jnp.stack([better, worse], axis=1).reshape(-1)
    # Numbers of streams are of the rollout's.
    streams = streams.replace(parent=None, call_turn=None, prefix=None)
    streams, rows = jax.tree.map(lambda x: x[order], (streams, rows))
    return streams, rows.replace(
        stream=jnp.arange(order.shape[0], dtype=jnp.int32),
        loss_mask=rows.loss_mask & jnp.repeat(learnt, 2)[:, None],
    )


def some_of(learnt: jax.Array, count: int, key: jax.Array) -> jax.Array:
    """Numbers i32[count] of groups that are learnt from, bool[G], evenly; any if none is."""
    chance = jnp.where(learnt | ~jnp.any(learnt), 0.0, -jnp.inf)
    return jax.random.categorical(key, chance, shape=(count,)).astype(jnp.int32)


class Hooks(NamedTuple):
    """The hooks of `pairs`, with what they are made of. groups: G; None: as many as streams. roles:
    of an episode, each of which is compared with its like."""

    groups: int | None
    roles: int
    margin: float
    by: str
    rejected: str
    source: str
    count: int
    head: int | None

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """Streams and rows in pairs, the better first; those too alike are not trained."""
        streams, rows = sources[self.source]
        assert streams is not None  # episodes
        rows = stream_rows(rows, streams)
        returns, group = _scores(streams, self.by), streams.group
        if streams.role is not None:
            group = group * self.roles + streams.role
        groups = streams.mask.shape[0] if self.groups is None else self.groups
        present = jnp.any(streams.mask, axis=1)
        second = right_share(streams) if self.by == "judgement" else None
        best, worse, gap = chosen_and_rejected(
            returns, group, present, groups * self.roles, context.key,
            second=second, rejected=self.rejected,
        )  # fmt: skip
        learnt = gap > self.margin
        if self.count:
            drawn = some_of(learnt, self.count, jax.random.fold_in(context.key, 1))
            best, worse, learnt = best[drawn], worse[drawn], learnt[drawn]
        streams, rows = in_pairs(streams, rows, best, worse, learnt)
        if self.head is not None:
            rows = rows.replace(output_head=jnp.full(rows.tokens.shape, self.head, jnp.int32))
        return streams, rows

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """`pair_weight` [N, T]: 1 where returns differ, else the difference of right turns."""
        del context, rows
        returns, other = _scores(streams, self.by), jnp.arange(streams.mask.shape[0]) ^ 1
        # Of pairs; of the rollout's own streams it means nothing, and nothing reads it.
        other = jnp.minimum(other, other.shape[0] - 1)
        weight = (returns != returns[other]) * 1.0
        if self.by == "judgement":
            share = right_share(streams)
            weight = jnp.where(weight > 0, weight, jnp.abs(share - share[other]))
        return {"pair_weight": PerTurn(jnp.broadcast_to(weight[:, None], streams.mask.shape))}


def pairs(
    setup: Setup,
    *,
    margin: float = 0.0,
    by: str = "return",
    rejected: str = "worst",
    source: str = "rollout",
    count: int = 0,
    head: int | None = None,
) -> Component:
    """Source of its own name: in turn the best and the worst episode of each group.

    Rows and streams 2 g and 2 g + 1 are of group g; a pair whose returns differ by no more than
    `margin` is not trained. One row holds a whole stream: the log-ratio is over all turns. For
    terms with source="pairs", such as `losses.dpo`; config.reference.every makes the reference
    follow, which is the iterated form. Supplies `pair_weight` [N, T] for `losses.weighted_dpo`: 1
    where the returns of the two differ, else the difference of their shares of right turns.

    Args:
      margin: >= 0.
      by: "return"; or "judgement" (StepORLM): where the returns are equal, the share of turns that
        config.rollout.judge, or component `step_scorer`, scores above 0 decides; or "turns" or
        "cost", the fewer the better (`Streams.cost` of a language policy are the tokens that it
        wrote).
      rejected: the "worst" of the group, or any that is "lower" than the best (PAPRIKA).
      source: of the episodes; of another one than "rollout", such as a component
        `agentrl.trajectories.file`, groups are the file's. Where no term reads the rollout, nothing
        is played.
      count: pairs drawn per update, of groups with two different returns; 0: one of each group, and
        of another source than the rollout as many as it has streams, most of them not trained.
      head: the output head (config.policy.output_heads) that the pairs are scored by, and so train;
        None: the mixture that is sampled from. MAH-DPO has one such source, and one term
        `losses.dpo` with weight alpha_i, per objective and head: the terms add up to
        sum_i alpha_i L_i, an objective without pairs in a batch has no part in it, and the
        reference is the same head's.

    Raises:
      ValueError: rollouts without groups, or several rows of text per stream; unknown words;
        nothing that judges turns; nothing that counts cost; no such head.

    References:
      Xiong et al. (2024), https://arxiv.org/abs/2409.02392 (code ae1e642 read): one random right
      and one random wrong trajectory per task. StepORLM (2025), https://arxiv.org/abs/2509.22558,
      from notes; there the shares are of a process reward model that learns beside the policy
      (`methods.step_scorer`), and of all pairs of a group. PAPRIKA (2025),
      https://arxiv.org/abs/2502.17543.
      MAH-DPO (2025), https://arxiv.org/abs/2510.01167 (code pearls-lab/multiobj-align 5060d1a, from
      notes): there pairs are data; here they are the policy's own.
    """
    check_range("config.components.pairs.margin", margin, 0.0)
    for option, given, known in (("by", by, BY), ("rejected", rejected, REJECTED)):
        if given not in known:
            raise ValueError(
                f"config.components.pairs.{option}={given!r}: expected one of {', '.join(known)}"
            )
    check_range("config.components.pairs.count", count, 0)
    if by == "judgement":
        check_judged(setup, "component 'pairs' with by='judgement'")
    _check_source(setup, source, by)
    heads = setup.policy.config.output_heads if isinstance(setup.policy, LanguagePolicy) else 0
    if head is not None and not 0 <= head < heads:
        raise ValueError(
            f"config.components.pairs.head={head}: expected 0 to {heads - 1}, of "
            "config.policy.output_heads of a language policy, or None for what is sampled from"
        )
    groups = setup.rollout.units[0] if source == "rollout" else None
    hooks = Hooks(groups, max(1, setup.rollout.roles), margin, by, rejected, source, count, head)
    made = Source(hooks.make, unit=2, reads=(source,))
    return Component(source=made, annotate=hooks.annotate, fills=("pair_weight",))


def _scores(streams: Streams, by: str) -> jax.Array:
    """What the streams are compared by, f32[N]: more is better."""
    if by == "turns":
        return -jnp.sum(streams.mask, axis=1).astype(jnp.float32)
    if by == "cost":
        assert streams.cost is not None  # `_check_source`
        return -jnp.sum(jnp.where(streams.mask, streams.cost, 0.0), axis=1)
    return returns_of(streams)


def _check_source(setup: Setup, source: str, by: str) -> None:
    """ValueError for episodes of which no pairs can be made."""
    if by == "cost" and source == "rollout" and "cost" not in setup.rollout.provides:
        raise ValueError(
            "config.components.pairs.by='cost': this rollout counts none; use a language policy"
        )
    if source != "rollout":
        if by not in ("return", "turns"):
            raise ValueError(
                f"config.components.pairs.source={source!r} with by={by!r}: only the rollout's "
                "turns are judged, and their cost counted; use by='return'"
            )
        return
    if "group" not in setup.rollout.provides:
        raise ValueError(
            "component 'pairs' compares episodes of one task: use a rollout of whole episodes in "
            "groups (config.rollout.name='episodes')"
        )
    check_one_row(setup, "pairs")
