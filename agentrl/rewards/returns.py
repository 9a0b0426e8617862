"""Returns to go along a stream."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams


def discounted_return(reward: jax.Array, mask: jax.Array, *, gamma: float) -> jax.Array:
    """Return to go of each acted turn, discounted once per acted turn.

    G_t = r_t + gamma G_{t+1}, where t + 1 is the stream's next acted turn and G = 0 after the last.

    Turns in which the agent did not act (the opponent moved, or padding) are skipped without a
    discount. No reward is lost by that, since the rewards between two of an agent's turns are on
    the earlier one. Ends of episodes are not read: for the return of one episode, a stream must
    hold one episode.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      gamma: discount in [0, 1].

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: gamma outside [0, 1], or arrays of other shapes or types.

    References:
      Feng et al. (2025), Group-in-group policy optimization, https://arxiv.org/abs/2505.10978, eq.
      5, is the case without gaps. verl's token returns restart at every gap; these do not.
    """
    check_range("discounted_return gamma", gamma, 0.0, 1.0)
    check_streams("discounted_return", mask, numbers={"reward": reward})
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)

    def backward(return_after, turn):
        r, acted = turn
        return_now = jnp.where(acted, r + gamma * return_after, return_after)
        return return_now, jnp.where(acted, return_now, 0.0)

    nothing = jnp.zeros(reward.shape[0], jnp.float32)
    _, returns = jax.lax.scan(backward, nothing, (reward.T, jnp.asarray(mask).T), reverse=True)
    return returns.T
