"""HRPO: the score of a whole team beside rewards of the single edits that built it."""

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import grpo
from agentrl.advantages.grouping import Normalize, Singleton, as_advantage, moments, turn_segments
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes


@assumes("whole_episodes")
def hrpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    turn_reward: jax.Array,
    *,
    edit_weight: float = 0.5,
    centre: bool = True,
    normalize: Normalize = "std",
    singleton: Singleton = "zero",
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """GRPO on the outcome, plus a reward of the turn's own edit.

    A[i, t] = (R_i - mean_g) / (std_g + epsilon) + edit_weight (u[i, t] - mean_g(u)),

    with R the return, u the edit's reward, and its mean over all turns of the group; centre=False
    leaves the mean out. With edit_weight 0 this is `grpo`.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      turn_reward: f32[N, T], u; component `agentrl.methods.edit_rewards`, or
        `agentrl.methods.edit_marginals`, supplies it.
      edit_weight: at least 0.
      centre: subtract the group's mean of u.
      normalize, singleton, epsilon: as for `grpo`.
      role: i32[N], any ids; streams of different roles are compared apart.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: a negative weight, an unknown choice, or arrays of other shapes or types.

    References:
      MasHost (2025). Neither its code nor its equations could be read: the sum is reconstructed
      from its abstract and from reviews, once with the edit's reward as it is (centre=False,
      edit_weight 1) and once centred. The reconstructions divide by the deviation with ddof 0, and
      this by that with ddof 1, as all estimators here.
    """
    check_range("hrpo edit_weight", edit_weight, 0.0)
    numbers = {"reward": reward, "turn_reward": turn_reward}
    ids = {"group": group, "role": role}
    check_streams("hrpo", mask, numbers=numbers, ids=ids)
    whole = grpo(
        reward, mask, group, normalize=normalize, singleton=singleton, role=role, epsilon=epsilon
    )
    edit = jnp.where(mask, jnp.asarray(turn_reward, jnp.float32), 0.0)
    if centre:
        segment = turn_segments(mask, *(key for key in (group, role) if key is not None))
        mean = moments(edit.reshape(-1), segment, scale=jnp.abs(edit).reshape(-1)).mean
        edit = edit - mean.reshape(mask.shape)
    return as_advantage(whole + edit_weight * edit, mask)
