"""Preference pairs of the policy's own episodes, for `losses.dpo`."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.methods.by_turn import stream_rows


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


def pairs(setup: Setup, *, margin: float = 0.0) -> Component:
    """Source of its own name: in turn the best and the worst episode of each group.

    Rows 2 g and 2 g + 1 are of group g; a pair whose returns differ by no more than `margin` is not
    trained. One row holds a whole stream: the log-ratio is over all turns. For terms with
    source="pairs", such as `losses.dpo`; config.reference.every makes the reference follow, which
    is the iterated form.

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
    if setup.policy.reads_text and rollout.num_rows != rollout.num_streams:
        raise ValueError(
            f"component 'pairs' with {rollout.num_rows} rows of text for {rollout.num_streams} "
            "streams: use a context with one row per stream ('whole')"
        )
    groups = rollout.units[0] * (rollout.roles if rollout.roles > 1 else 1)

    def source(value, params, sources, key):
        streams, rows = sources["rollout"]
        rows = stream_rows(rows, streams)
        returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1)
        group = streams.group
        if streams.role is not None:
            group = group * rollout.roles + streams.role
        present = jnp.any(streams.mask, axis=1)
        best, worst, gap = chosen_and_rejected(returns, group, present, groups, key)
        order = jnp.stack([best, worst], axis=1).reshape(-1)
        learnt = jnp.repeat(gap > margin, 2)
        rows = jax.tree.map(lambda x: x[order], rows)
        return streams, rows.replace(loss_mask=rows.loss_mask & learnt[:, None])

    return Component(init=lambda start: (), source=source, unit=2, made_from=("rollout",))
