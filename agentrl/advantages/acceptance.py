"""Rejection of episodes: those that a policy shall imitate."""

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import joint_segments, per_turn
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes


@assumes("whole_episodes")
def accepted(
    mask: jax.Array,
    success: jax.Array,
    anchor: jax.Array,
    *,
    valid: jax.Array | None = None,
    longest: int | None = None,
    revisits: int = 0,
) -> jax.Array:
    """Streams to keep, bool[N]: solved, in well-formed and legal turns, without going in circles.

    With `losses.behaviour_cloning` on the policy's own rows this is fine-tuning by rejection
    sampling: of n attempts those are imitated that a careful reader would accept.

    Args:
      mask: bool[N, T], the agent acted.
      success: bool[N, T], the task was solved at this turn.
      anchor: u32[N, T, 2], fingerprint of what each turn was acted from.
      valid: bool[N, T], the reply was well formed and legal; every turn's has to be. None: not
        looked at.
      longest: most turns of an episode. None: no bound.
      revisits: most turns of an episode that are acted from what one before was acted from.

    Returns:
      bool[N].

    Raises:
      ValueError: a bound out of its range, or arrays of other shapes or types.

    References:
      Wu et al. (2025), WebDancer, https://arxiv.org/abs/2505.22648 (recalled, no code read): right
      answers, kept format, no repeated actions, a bound on the length. There repeated actions are
      counted; here, places acted from again, as a second look at one page is no mistake by itself.
    """
    flags, vectors = {"success": success, "valid": valid}, {"anchor": anchor}
    check_streams("accepted", mask, flags=flags, vectors=vectors)
    if longest is not None:
        check_range("accepted longest", longest, 1)
    check_range("accepted revisits", revisits, 0)
    shape = jnp.shape(mask)
    if jnp.shape(anchor) != (*shape, 2):
        raise ValueError(f"anchor has shape {jnp.shape(anchor)}; expected {(*shape, 2)}")
    acted = jnp.asarray(mask).reshape(-1)
    words = jnp.asarray(anchor).astype(jnp.uint32).reshape(-1, 2)
    stream = per_turn(jnp.arange(shape[0], dtype=jnp.uint32), shape)
    first = joint_segments(acted, stream, *words.T)
    again = acted & (first != jnp.arange(acted.size, dtype=first.dtype))
    keep = jnp.any(success & mask, axis=1)
    keep &= jnp.sum(again.reshape(shape), axis=1) <= revisits
    if valid is not None:
        keep &= jnp.all(valid | ~mask, axis=1)
    if longest is not None:
        keep &= jnp.sum(mask, axis=1) <= longest
    return keep
