"""GiGPO with one of its parts changed, to find out which part does what."""

import jax
import jax.numpy as jnp

from agentrl import advantages
from agentrl.checks import check_choice, check_range
from agentrl.declarations import assumes

TERMS = ("step", "episode")


@assumes("whole_episodes")
def partly_divided(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    anchor: jax.Array,
    *,
    divided: str = "step",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
) -> jax.Array:
    """GiGPO with one of its two terms divided by the standard deviation, and the other not.

    Args:
      reward, mask, group, anchor, penalty, role: as for `agentrl.advantages.gigpo`.
      divided: the term that is divided, "step" or "episode".

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: another term, or arrays of other shapes or types.
    """
    check_choice("partly_divided divided", divided, TERMS)
    keys = {"penalty": penalty, "role": role}
    step, episode = ("std", "mean") if divided == "step" else ("mean", "std")
    both = advantages.gigpo(reward, mask, group, anchor, normalize=step, **keys)
    own = advantages.grpo(reward, mask, group, normalize=step, **keys)
    return both - own + advantages.grpo(reward, mask, group, normalize=episode, **keys)


def clipped(advantage: jax.Array, *, bound: float = 1.0) -> jax.Array:
    """Advantages cut to [-bound, bound], a reweighting; bound > 0."""
    check_range("clipped bound", bound, 0.0, above=True)
    return jnp.clip(advantage, -bound, bound)
