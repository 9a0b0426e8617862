"""One importance ratio per sequence: GSPO, of a row or a turn; GTR, of a turn with its thought."""

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import WithMetrics, check_one_shape, masked
from agentrl.losses.policy import check_bounds, pessimistic
from agentrl.streams import THOUGHT

RatioOf = Literal["row", "turn"]


def gspo(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    ratio_of: RatioOf = "row",
    turn: jax.Array | None = None,
) -> WithMetrics:
    """GSPO: one ratio for a whole sequence, the geometric mean of its positions' ratios, clipped.

    l_t = max(-A_t s_t, -A_t clip(s_t, 1 - clip_low, 1 + clip_high)),
    s_t = sg(s) exp(logp_t - sg(logp_t)),  s = exp(min(mean_k (logp_k - old_logp_k), 10)).

    Every position has the value of the sequence's ratio and its own gradient -A_t s, so that with
    `aggregate(..., "row_mean")`, the paper's, the gradient is that of -A s. The mean is over the
    positions where mask is True.

    The sequence is the whole row, or with ratio_of="turn" each turn of it, for advantages that
    differ between turns: with one turn per row this is GSPO again, with one position per turn
    `clipped_surrogate`.

    Args:
      logp, old_logp, advantage: [R, L].
      mask: bool[R, L], positions to read; None for all.
      clip_low, clip_high: distances of the bounds from 1; a mean over many positions moves far less
        than one ratio, hence the small values (as in the released scripts).
      ratio_of: the sequence that shares a ratio, "row" or "turn".
      turn: i32[R, L], turn of each position, ascending along a row; -1 for none. Read only if
        ratio_of="turn".

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` is the share of positions whose
      gradient is removed, with A != 0; with bounds as small as these it is the first number to
      look at.

    Raises:
      ValueError: unknown `ratio_of`, "turn" without `turn`, or a negative bound.

    References:
      Zheng et al. (2025), Group sequence policy optimization, https://arxiv.org/abs/2507.18071.
      verl b178a3c (read and executed), whose ceiling of 10 on the log-ratio is kept: above it the
      gradient is 0. Ratios of turns are our addition.
    """
    if turn is not None:
        check_one_shape(mask, logp, turn)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = _sequence_ratio(logp, old_logp, mask, clip_low, clip_high, ratio_of, turn)
    values, clipped = pessimistic(ratio, advantage, clip_low, clip_high, None)
    return values, {"clip_fraction": clipped}


def _sequence_ratio(logp, old_logp, mask, clip_low, clip_high, ratio_of, turn) -> jax.Array:
    """The ratio of `gspo` at each position, f32[R, L]; logp and old_logp are 0 behind the mask."""
    check_choice("ratio_of", ratio_of, get_args(RatioOf))
    check_bounds("gspo", clip_low, clip_high, None)
    if ratio_of == "turn" and turn is None:
        raise ValueError("gspo with ratio_of='turn' needs the turn of each position; give turn=")
    chex.assert_rank(logp, 2)
    if mask is None:
        mask = jnp.ones(logp.shape, bool)
    difference = jax.lax.stop_gradient(logp - old_logp)
    by_turn = ratio_of == "turn"
    mean = _turn_mean(difference, mask, turn) if by_turn else _row_mean(difference, mask)
    return jnp.exp(jnp.minimum(mean + (logp - jax.lax.stop_gradient(logp)), 10.0))


def _row_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over the row, f32[R, 1], of values that are 0 where mask is False."""
    count = jnp.sum(mask, axis=1, keepdims=True)
    return jnp.sum(values, axis=1, keepdims=True) / jnp.maximum(count, 1)


def _turn_mean(values: jax.Array, mask: jax.Array, turn: jax.Array) -> jax.Array:
    """Mean over the position's turn, f32[R, L], of values that are 0 where mask is False."""
    count = _turn_sum(mask.astype(jnp.float32), mask, turn)
    return _turn_sum(values, mask, turn) / jnp.maximum(count, 1)


def _turn_sum(values: jax.Array, mask: jax.Array, turn: jax.Array) -> jax.Array:
    """Sum over the position's turn, f32[R, L], of values that are 0 where mask is False."""
    check_one_shape(None, values, turn)
    # Turns are numbered within the episode, so a row may hold turns 70 to 80: they are renumbered
    # from 0 to bound the number of segments by L. The running maximum fills gaps within a turn.
    turn = jax.lax.cummax(jnp.where(mask, turn, -1), axis=1)
    starts = jnp.pad(turn[:, 1:] != turn[:, :-1], ((0, 0), (1, 0)))
    segment = jnp.cumsum(starts, axis=1)

    def total(x: jax.Array, segment: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(x, segment, num_segments=x.shape[0])[segment]

    return jax.vmap(total)(values, segment)


@averaged(over="turn_start")
def thought_scaled_surrogate(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    loss_mask: jax.Array,
    span: jax.Array,
    turn: jax.Array,
    mask: jax.Array | None = None,
    *,
    kappa: float = 0.5,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> jax.Array:
    """PPO's clipped surrogate of whole turns, whose thoughts count less than their actions (GTR).

    l = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high)),
    log rho = sum over the turn's positions of w (logp - old_logp), w = kappa in thoughts, else 1:

    the probability of a turn is that of its action times that of its thought to the power kappa, in
    the new policy as in the old. It is averaged over turns: read at the first position of each.

    Args:
      logp, old_logp, advantage: [R, L].
      loss_mask: bool[R, L], positions that the policy wrote; others are not read.
      span: i32[R, L], which of `agentrl.streams.SPANS` a position belongs to.
      turn: i32[R, L], turn of each position, ascending along a row; -1 for none.
      mask: bool[R, L], positions at which the turn's loss is given; None for all.
      kappa: at least 0; 1: thoughts count like actions.
      clip_low, clip_high: distances of the bounds from 1.

    Returns:
      f32[R, L], 0 where mask is False. The log-ratio of a turn is held within +-20.

    Raises:
      ValueError: a negative kappa or bound.

    References:
      GTR (2025), guided thought reinforcement, https://arxiv.org/abs/2503.08525, from notes on the
      paper and on its code, which has kappa 0.5; the code itself was not read. Its corrected
      thoughts are `losses.thought_cloning`'s.
    """
    check_range("thought_scaled_surrogate kappa", kappa, 0.0)
    check_bounds("thought_scaled_surrogate", clip_low, clip_high, None)
    check_one_shape(mask, logp, span, turn)
    logp, old_logp = masked(loss_mask, logp, old_logp)
    weight = jnp.where(span == THOUGHT, kappa, 1.0)
    old_logp = jax.lax.stop_gradient(old_logp)
    difference = _turn_sum(weight * (logp - old_logp), loss_mask, turn)
    ratio, advantage = masked(mask, jnp.exp(jnp.clip(difference, -20.0, 20.0)), advantage)
    return pessimistic(ratio, advantage, clip_low, clip_high, None)[0]
