"""STARE: advantages of the most surprising positions, scaled while entropy is below a target."""

import jax
import jax.numpy as jnp

from agentrl.advantages.weighting import over_positions
from agentrl.checks import check_range, check_rows
from agentrl.losses.arrays import largest
from agentrl.streams import PerTurn


def most_surprising(surprisal: jax.Array, chosen: jax.Array, share: float) -> jax.Array:
    """The ceil(share * n) of n chosen positions with the largest surprisal, bool[R, L].

    Over the whole batch, at least one if any is chosen; ties go to the earlier position.
    """
    # Rounding of float32 must not lift 0.2 * 10 above 2.
    return largest(surprisal, chosen, jnp.ceil(share * jnp.sum(chosen) * (1 - 1e-6)))


def stare(
    advantage: jax.Array | PerTurn,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    behaviour_logp: jax.Array,
    surprising_gain: jax.Array,
    surprising_loss: jax.Array,
    *,
    share: float = 0.1,
) -> jax.Array:
    """Surprisal-guided reweighting of advantages per position.

    Among positions of positive advantage the `share` with the lowest probability have theirs
    multiplied by `surprising_gain`, among those of negative advantage by `surprising_loss`. The
    losses here are positively homogeneous in the advantage, so that this is the paper's weight on
    the loss per position; the divisor of the mean stays the number of positions.

    Args:
      advantage: f32[R, L], or `agentrl.streams.PerTurn` of f32[N, T].
      loss_mask: bool[R, L], positions that the policy produced. stream: i32[R]. turn: i32[R, L].
      behaviour_logp: f32[R, L], log-probability when sampled; its negative is the surprisal, and
        equals the learner's in the first step of an update.
      surprising_gain, surprising_loss: f32[R, L], weights; 1 for none. Component
        `agentrl.methods.stare.stare_weights` fills them.
      share: of the positions of each sign, in (0, 1].

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped.

    Raises:
      ValueError: share outside (0, 1], or arrays of other shapes or types.

    References:
      STARE, code hp-luo/STARE bffb9e7 (read; its outputs are tests). There the share is of each
      micro-batch, here of the batch.
    """
    check_range("stare share", share, 0.0, 1.0, above=True)
    numbers = {
        "behaviour_logp": behaviour_logp,
        "surprising_gain": surprising_gain,
        "surprising_loss": surprising_loss,
    }
    check_rows("stare", loss_mask, stream, turn, numbers=numbers)
    advantage = over_positions("stare", advantage, loss_mask, stream, turn)
    surprisal = -jnp.where(loss_mask, behaviour_logp, 0.0)
    good = most_surprising(surprisal, loss_mask & (advantage > 0), share)
    bad = most_surprising(surprisal, loss_mask & (advantage < 0), share)
    weight = jnp.where(good, surprising_gain, jnp.where(bad, surprising_loss, 1.0))
    return jax.lax.stop_gradient(advantage * weight)
