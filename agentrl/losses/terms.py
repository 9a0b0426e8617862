"""Terms of an objective beside the losses of policy and value, one value per position."""

import jax

from agentrl.losses.arrays import masked


def imitation(logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Negative log-likelihood of what the rows hold, -log pi: behaviour cloning, SFT.

    Args:
      logp: [R, L], log-probability under the policy.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    (logp,) = masked(mask, logp)
    return -logp


def entropy_bonus(entropy: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """-H(pi): a positive weight rewards entropy.

    Args:
      entropy: [R, L], nats, of the distribution that is sampled from.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    (entropy,) = masked(mask, entropy)
    return -entropy


def exact_kl(reference_kl: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """KL(pi || reference) in closed form, f32[R, L]; `losses.kl` estimates it from samples.

    Args:
      reference_kl: [R, L], the divergence, with gradients.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    (reference_kl,) = masked(mask, reference_kl)
    return reference_kl


exact_kl.metrics = {"kl_ref": exact_kl}
