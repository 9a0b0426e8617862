"""A stream's one value spread over its turns, and role-conditioned advantages (RAE)."""

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import choice


def spread(value: jax.Array, mask: jax.Array, *, gamma: float = 1.0) -> jax.Array:
    """A value of each stream, on all of its turns: A_t = value * gamma^(T_p - t).

    t counts the stream's own (acted) turns from 1 to T_p, so that the last one gets the whole value
    and the turns of others do not discount it.

    Args:
      value: f32[N]; mask: bool[N, T]; gamma: discount in [0, 1].

    Returns:
      f32[N, T], 0 where mask is False. Streams without a turn may have any value.
    """
    chex.assert_rank([value, mask], [1, 2])
    chex.assert_equal_shape_prefix([value, mask], 1)
    chex.assert_type(mask, bool)
    value = jnp.asarray(value)[:, None]
    after = jnp.maximum(jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] - 1, 0)
    return jnp.where(mask, value * jnp.asarray(gamma, value.dtype) ** after, 0.0)


def rae(
    outcome: jax.Array,
    role: jax.Array,
    task: jax.Array,
    baseline: jax.Array,
    *,
    decay: float = 0.95,
    order: str = "batch",
    moves: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Role-conditioned advantage: the outcome less a running mean for the stream's task and role.

    A_i = R_i - b[task_i, role_i],  b <- decay b + (1 - decay) R.

    The baseline is read before what it is compared with is folded in, starts at 0 and has no bias
    correction. Nothing is divided by a deviation.

      order="batch": all streams are compared with the baseline that the batch before left; then
        each (task, role) makes one step, with the mean outcome of its streams. One that is absent
        from the batch keeps its value. With the usual decay it remembers about 20 batches.
      order="sequential": stream by stream, in their order; it remembers about 20 episodes.

    Args:
      outcome: f32[N], what the stream earned in its episode.
      role: i32[N] in [0, roles); task: i32[N] in [0, tasks).
      baseline: f32[tasks, roles], zeros at the start. State: keep what is returned.
      decay: in [0, 1].
      order: "batch" or "sequential".
      moves: bool[N], streams that the baseline follows; None for all. With a fixed opponent those
        of the trained player; with empty streams in the batch those that acted. The outcomes of the
        others are not read into it.

    Returns:
      (advantage f32[N], baseline f32[tasks, roles]); `spread` puts the advantage on the turns. At
      decay 1 and baseline 0 the advantage is the outcome. Dtype as given.

    References:
      Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119. Read and executed: spiral a02d0ed
      (sequential, one pair of baselines for each actor process) and the package spiral-rl 0.2.0
      (batch; executed only). The former drops turns whose advantage is exactly 0 from its batch;
      here they stay, with advantage 0.
    """
    choice("order", order, ("batch", "sequential"))
    if isinstance(decay, int | float) and not 0 <= decay <= 1:
        raise ValueError(
            f"rae decay={decay}: expected the weight of the past, at least 0, at most 1"
        )
    chex.assert_rank([outcome, role, task, baseline], [1, 1, 1, 2])
    chex.assert_equal_shape([outcome, role, task])
    moves = jnp.ones(outcome.shape, bool) if moves is None else jnp.asarray(moves)
    outcome, baseline = jnp.asarray(outcome), jnp.asarray(baseline)
    followed = jnp.where(moves, outcome, 0.0)
    if order == "batch":
        count = jnp.zeros_like(baseline).at[task, role].add(moves.astype(baseline.dtype))
        total = jnp.zeros_like(baseline).at[task, role].add(followed)
        step = decay * baseline + (1 - decay) * total / jnp.maximum(count, 1)
        return outcome - baseline[task, role], jnp.where(count > 0, step, baseline)

    def one(table, stream):
        r, p, g, counts = stream
        before = table[g, p]
        after = jnp.where(counts, decay * before + (1 - decay) * r, before)
        return table.at[g, p].set(after), before

    baseline, before = jax.lax.scan(one, baseline, (followed, role, task, moves))
    return outcome - before, baseline
