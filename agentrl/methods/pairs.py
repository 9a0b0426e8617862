"""Sources of the policy's own episodes for preference losses: pairs for `losses.dpo`, and episodes
that are good or bad by themselves for `losses.kto`."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import stream_rows, to_turns
from agentrl.streams import PerTurn, Shared


def chosen_and_rejected(
    returns: jax.Array, group: jax.Array, present: jax.Array, groups: int, key: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(best i32[G], worst i32[G], margin f32[G]) of the streams of each group.

    returns f32[N], group i32[N] in [0, G), present bool[N]. Among equals one is drawn at random,
    so that with rewards 0 and 1 it is one right and one wrong episode per task. The margin is 0
    where a group has no two different returns.
    """
    member = (group == jnp.arange(groups)[:, None]) & present
    high_key, low_key = jax.random.split(key)

    def drawn(scores, key):
        top = jnp.max(jnp.where(member, scores, -jnp.inf), axis=1, keepdims=True)
        ties = member & (scores >= top)
        chance = jax.random.uniform(key, ties.shape)
        return jnp.argmax(jnp.where(ties, chance, -1.0), axis=1).astype(jnp.int32)

    best, worst = drawn(returns, high_key), drawn(-returns, low_key)
    margin = jnp.where(jnp.any(member, axis=1), returns[best] - returns[worst], 0.0)
    return best, worst, margin


def check_one_row(setup: Setup, name: str) -> None:
    """ValueError where streams have several rows of text: their log-ratio is of whole streams."""
    rows, streams = setup.rollout.num_rows, setup.rollout.num_streams
    if setup.policy.reads_text and rows != streams:
        raise ValueError(
            f"component {name!r} with {rows} rows of text for {streams} streams: use a context "
            "with one row per stream ('whole')"
        )


def pairs(setup: Setup, *, margin: float = 0.0) -> Component:
    """Source of its own name: in turn the best and the worst episode of each group.

    Rows and streams 2 g and 2 g + 1 are of group g; a pair whose returns differ by no more than
    `margin` is not trained. One row holds a whole stream: the log-ratio is over all turns. For
    terms with source="pairs", such as `losses.dpo`; config.reference.every makes the reference
    follow, which is the iterated form.

    Metric: pairs, the share of the groups that give one.

    Args:
      margin: >= 0.

    Raises:
      ValueError: rollouts without groups, or with several rows of text per stream.

    References:
      Xiong et al. (2024), https://arxiv.org/abs/2409.02392 (code ae1e642 read): one random right
      and one random wrong trajectory per task.
    """
    check_range("config.components.pairs.margin", margin, 0.0)
    rollout = setup.rollout
    if "group" not in rollout.provides:
        raise ValueError(
            "component 'pairs' compares episodes of one task: use a rollout of whole episodes in "
            "groups (config.rollout.name='episodes')"
        )
    check_one_row(setup, "pairs")
    groups = rollout.units[0] * (rollout.roles if rollout.roles > 1 else 1)

    def make(context, sources):
        streams, rows = sources["rollout"]
        rows = stream_rows(rows, streams)
        returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1)
        group = streams.group
        if streams.role is not None:
            group = group * rollout.roles + streams.role
        present = jnp.any(streams.mask, axis=1)
        best, worst, gap = chosen_and_rejected(returns, group, present, groups, context.key)
        order = jnp.stack([best, worst], axis=1).reshape(-1)
        learnt = jnp.repeat(gap > margin, 2)
        # Numbers of streams are of the rollout's.
        streams = streams.replace(parent=None, call_turn=None, prefix=None)
        streams, rows = jax.tree.map(lambda x: x[order], (streams, rows))
        return streams, rows.replace(
            stream=jnp.arange(2 * groups, dtype=jnp.int32),
            loss_mask=rows.loss_mask & learnt[:, None],
        )

    return Component(source=Source(make, unit=2, reads=("rollout",)))


def successes(setup: Setup) -> Component:
    """Source of its own name: every episode, desirable if it succeeded. For `losses.kto`.

    One row holds a whole stream. Supplies `desirable` [N, T], and `kto_baseline` f32[], z0: the
    mean over the streams of sum_t log sampler - log reference, which estimates KL(sampler ||
    reference) without the mismatched pairs that KTO needs for data of another policy. z0 is of the
    update before, 0 in the first one, and 0 always where config.reference.every=1.

    Metric: kto_baseline, z0 of this update's episodes.

    Raises:
      ValueError: several rows of text per stream.

    References:
      Ethayarajh et al. (2024), KTO, https://arxiv.org/abs/2402.01306; success as the label: Xiong
      et al. (2024), https://arxiv.org/abs/2409.02392 (recalled, not read).
    """
    check_one_row(setup, "successes")

    def make(context, sources):
        streams, rows = sources["rollout"]
        return streams, stream_rows(rows, streams)

    def annotate(context, streams, rows):
        solved = jnp.any(streams.success & streams.mask, axis=1)
        desirable = PerTurn(jnp.broadcast_to(solved[:, None], streams.mask.shape))
        return {"desirable": desirable, "kto_baseline": Shared(context.value)}

    def after(value, outcome):
        if outcome.rows is None:
            return value, {}
        rows, mask = outcome.rows, outcome.streams.mask
        reference = outcome.notes["reference_logp"].values
        ratio = jnp.where(rows.loss_mask, rows.behaviour_logp - reference, 0)
        total = jnp.sum(to_turns(ratio, rows, mask.shape))
        present = jnp.sum(jnp.any(mask, axis=1)) * 1.0
        return total / jnp.maximum(present, 1), {"kto_baseline": jnp.stack([total, present])}

    return Component(
        init=lambda start: jnp.zeros(()),
        source=Source(make, reads=("rollout",)),
        annotate=annotate,
        after=after,
        fills=("desirable", "kto_baseline"),
    )
