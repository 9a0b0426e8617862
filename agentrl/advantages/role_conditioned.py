"""Role-conditioned advantages (RAE), and a stream's one value on each of its turns."""

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes

Order = Literal["batch", "sequential"]


def broadcast_to_turns(value: jax.Array, mask: jax.Array, *, gamma: float = 1.0) -> jax.Array:
    """A value per stream on each of its turns: A_t = value * gamma^(T_p - t).

    t counts the stream's own (acted) turns from 1 to T_p, so that the last one gets the whole value
    and the turns of others do not discount it.

    Args:
      value: f32[N]; other types are converted.
      mask: bool[N, T], the agent acted.
      gamma: discount in [0, 1].

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Streams without a turn may have any value.

    Raises:
      ValueError: gamma outside [0, 1], or a mask of another type.
    """
    check_range("broadcast_to_turns gamma", gamma, 0.0, 1.0)
    check_streams("broadcast_to_turns", mask)
    chex.assert_equal_shape_prefix([value, mask], 1)
    value = _float(value)[:, None]
    after = jnp.maximum(jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] - 1, 0)
    spread = jnp.where(mask, value * jnp.asarray(gamma, value.dtype) ** after, 0.0)
    return jax.lax.stop_gradient(spread)


def rae(
    outcome: jax.Array,
    role: jax.Array,
    task: jax.Array,
    baseline: jax.Array,
    *,
    decay: float = 0.95,
    order: Order = "batch",
    moves: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Role-conditioned advantage: the outcome minus a running mean for the stream's task and role.

    A_i = R_i - b[task_i, role_i],  b <- decay b + (1 - decay) R.

    The baseline is read before the outcome is folded in, starts at 0 and has no bias correction.
    Nothing is divided by a deviation.

      order="batch": all streams are compared with the baseline that the batch before left; then
        each (task, role) makes one step, with the mean outcome of its streams. One that is absent
        from the batch keeps its value. With the usual decay it remembers about 20 batches.
      order="sequential": stream by stream, in their order; it remembers about 20 episodes.

    Args:
      outcome: f32[N], the stream's return. float64 stays, other types become float32.
      role: i32[N] in [0, roles). task: i32[N] in [0, tasks). Larger numbers give NaN.
      baseline: f32[tasks, roles], zeros at the start. State: keep the array that is returned.
      decay: in [0, 1].
      order: "batch" or "sequential".
      moves: bool[N], streams that the baseline follows; None for all. With a fixed opponent those
        of the trained player; with empty streams in the batch those that acted. The outcomes of the
        others do not reach the baseline.

    Returns:
      (advantage f32[N], gradient stopped; baseline f32[tasks, roles]). At decay 1 and baseline 0
      the advantage is the outcome. `rae_by_turn` puts it on the turns of streams.

    Raises:
      ValueError: an unknown order, or decay outside [0, 1].

    References:
      Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119. Read and executed: spiral a02d0ed
      (sequential, one pair of baselines for each actor process) and the package spiral-rl 0.2.0
      (batch; executed only). The former drops turns whose advantage is exactly 0 from its batch;
      here they stay, with advantage 0.
    """
    check_choice("order", order, get_args(Order))
    check_range("rae decay", decay, 0.0, 1.0)
    chex.assert_rank([outcome, role, task, baseline], [1, 1, 1, 2])
    chex.assert_equal_shape([outcome, role, task])
    moves = jnp.ones(outcome.shape, bool) if moves is None else jnp.asarray(moves)
    chex.assert_type(moves, bool)
    outcome, baseline = jax.lax.stop_gradient((_float(outcome), jnp.asarray(baseline)))
    followed = jnp.where(moves, outcome, 0.0)

    def read(table, task, role):
        return table.at[task, role].get(mode="fill", fill_value=jnp.nan)

    if order == "batch":
        count = jnp.zeros_like(baseline).at[task, role].add(moves.astype(baseline.dtype))
        total = jnp.zeros_like(baseline).at[task, role].add(followed)
        step = decay * baseline + (1 - decay) * total / jnp.maximum(count, 1)
        return outcome - read(baseline, task, role), jnp.where(count > 0, step, baseline)

    def one(table, stream):
        r, p, g, counts = stream
        before = read(table, g, p)
        after = jnp.where(counts, decay * before + (1 - decay) * r, before)
        return table.at[g, p].set(after), before

    baseline, before = jax.lax.scan(one, baseline, (followed, role, task, moves))
    return outcome - before, baseline


@assumes("whole_episodes")
def rae_by_turn(
    reward: jax.Array,
    mask: jax.Array,
    role: jax.Array,
    task: jax.Array,
    baseline: jax.Array,
    *,
    decay: float = 0.95,
    order: Order = "batch",
    gamma: float = 1.0,
    penalty: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """`rae` of each stream's return, on each of its turns.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      role, task: i32[N].
      baseline: f32[tasks, roles], as for `rae`, with decay and order. Streams that never acted do
        not move it.
      gamma: discounts the stream's advantage from its last turn back, in [0, 1].
      penalty: f32[N, T], subtracted from the turn's own advantage; outcome and baseline are without
        it. In the outcome it would be charged to all turns of the stream, legal ones too, and once
        every match ends alike the baseline would have taken it up and it would cost nothing.

    Returns:
      (f32[N, T], 0 where mask is False, gradient stopped; baseline f32[tasks, roles]).

    Raises:
      ValueError: an unknown order, a number outside its range, or arrays of other shapes or types.
    """
    numbers, ids = {"reward": reward, "penalty": penalty}, {"role": role, "task": task}
    check_streams("rae_by_turn", mask, numbers=numbers, ids=ids)
    if jnp.ndim(baseline) != 2:
        raise ValueError(
            f"rae_by_turn: baseline has shape {jnp.shape(baseline)}; expected f32[tasks, roles]"
        )
    outcome = jnp.sum(jnp.where(mask, reward, 0.0), axis=1)
    played = jnp.any(mask, axis=1)
    above, baseline = rae(outcome, role, task, baseline, decay=decay, order=order, moves=played)
    advantage = broadcast_to_turns(above, mask, gamma=gamma)
    if penalty is not None:
        advantage = advantage - jax.lax.stop_gradient(jnp.where(mask, penalty, 0.0))
    return advantage, baseline


def _float(value: jax.Array) -> jax.Array:
    """As float32, or float64 if it is that."""
    value = jnp.asarray(value)
    return value.astype(jnp.promote_types(value.dtype, jnp.float32))
