"""EPO: an entropy bonus with a corridor around the run's own mean entropy."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import check_one_shape, masked


def turn_mean(values: jax.Array, mask: jax.Array, turn: jax.Array) -> jax.Array:
    """Mean over a row's turns of the mean over each turn's positions, f32[R]: turns count equally.

    Args:
      values: [R, L].
      mask: bool[R, L], positions to read. A row without any gives 0.
      turn: i32[R, L], turn of each position, ascending along the row where mask is True.
    """
    check_one_shape(mask, values, turn)
    (values,) = masked(mask, values)
    # The running maximum closes the gaps within a turn, and turns are renumbered from 0.
    turn = jax.lax.cummax(jnp.where(mask, turn, -1), axis=1)
    starts = jnp.pad(turn[:, 1:] != turn[:, :-1], ((0, 0), (1, 0)))
    segment = jnp.cumsum(starts, axis=1)

    def total(x, segment):
        return jax.ops.segment_sum(x, segment, num_segments=x.shape[0])

    count = jax.vmap(total)(mask.astype(jnp.float32), segment)
    means = jax.vmap(total)(values, segment) / jnp.maximum(count, 1)
    return jnp.sum(means, axis=1) / jnp.maximum(jnp.sum(count > 0, axis=1), 1)


@averaged(unit="row")
def epo(
    entropy: jax.Array,
    entropy_history: jax.Array,
    progress: jax.Array,
    turn: jax.Array,
    mask: jax.Array | None = None,
    *,
    low: float = 0.0,
    high: float = 2.0,
    smoothing: float = 0.1,
    decay: float = 1.0,
) -> jax.Array:
    """Entropy-regularised policy optimisation: minus the entropy, plus a penalty for leaving a
    corridor around the mean entropy of all earlier updates.

      L = -(mean(H) - beta smoothing mean(P)),   P = relu(low H_ref - H) + relu(H - high H_ref),
      beta = 1 + exp(-2 decay progress),

    where mean is over rows, over turns of the row, over positions of the turn. The term's weight is
    the paper's lambda (0.001). Without history (the first update) the penalty is 0.

    Args:
      entropy: [R, L], nats, with gradients.
      entropy_history: f32[2], sum and number of the mean entropies of earlier updates; H_ref is
        their quotient. Component `agentrl.methods.epo.entropy_history` carries it.
      progress: f32[], share of the updates that are done, k / K.
      turn: i32[R, L], turn of each position; -1 for none.
      mask: bool[R, L], positions to read; None for all.
      low, high: bounds of the corridor in parts of H_ref; the released runs have 0 and 2.
      smoothing: weight alpha of the penalty (released: 0.05 and 0.1).
      decay: gamma of beta, which is not given in the paper (1 is a guess).

    Returns:
      f32[R], one value per row. Where a trajectory is one row, the term's mean is the paper's; with
      one row per turn all turns of the batch count equally.

    Raises:
      ValueError: a negative option, or low > high.

    References:
      Xu et al. (2025), EPO, https://arxiv.org/abs/2509.22576 (text of version 2 and code 5b6fa98
      read). The paper's equations are implemented. Deviations of the released code: its penalty is
      a constant outside the corridor, which has no gradient; its history is per environment step;
      its weights decay otherwise. Their exponent is k / floor(K / 2), ours 2 k / K.
    """
    for name, value in (("low", low), ("smoothing", smoothing), ("decay", decay)):
        check_range(f"epo {name}", value, 0.0)
    check_range("epo high", high, low)
    if mask is None:
        mask = jnp.ones(entropy.shape, bool)
    total, count = jax.lax.stop_gradient(entropy_history)
    reference = total / jnp.maximum(count, 1.0)
    (entropy,) = masked(mask, entropy)
    outside = jax.nn.relu(low * reference - entropy) + jax.nn.relu(entropy - high * reference)
    outside = jnp.where(count > 0, outside, 0.0)
    beta = 1.0 + jnp.exp(-2.0 * decay * progress)
    return -turn_mean(entropy, mask, turn) + beta * smoothing * turn_mean(outside, mask, turn)
