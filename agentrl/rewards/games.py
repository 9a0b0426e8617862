"""Rewards of players in games by words: legal turns, long replies, draws (MARS)."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes, breaks


@assumes("tokens_as_cost")
@breaks("team")
def mars_reward(
    reward: jax.Array,
    mask: jax.Array,
    valid: jax.Array,
    terminated: jax.Array,
    cost: jax.Array,
    *,
    legal_bonus: float = 0.05,
    draw: float = 0.1,
    free: int = 2048,
    most: float = 0.5,
    over: int = 2037,
) -> jax.Array:
    """The game's reward of a turn as MARS's released code shapes it:

      r + legal_bonus 1{the reply was legal} + draw 1{it was, and the game ends with r = 0}
        - most max(0, tokens - free) / over.

    Args:
      reward: f32[N, T], of the game; what an opponent's move brings belongs to the own turn before.
      mask: bool[N, T], the agent acted.
      valid: bool[N, T], the reply was well formed and legal.
      terminated: bool[N, T], the rules ended the game at this turn.
      cost: f32[N, T], tokens of the reply.
      legal_bonus, draw, most: at least 0.
      free: tokens of a reply that cost nothing, at least 0. over: tokens above it that cost `most`,
        at least 1.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      thu-nics/MARSHAL 2db0222 (read): tic-tac-toe, Connect Four and Hanabi replace a terminal 0 by
      0.1. An illegal reply costs the stake and 10 more there, which are the game's own
      (config.env.illegal_reward).
    """
    amounts = {"legal_bonus": legal_bonus, "draw": draw, "most": most, "free": free}
    for name, given in amounts.items():
        check_range(f"mars_reward {name}", given, 0.0)
    check_range("mars_reward over", over, 1)
    numbers = {"reward": reward, "cost": cost}
    flags = {"valid": valid, "terminated": terminated}
    check_streams("mars_reward", mask, numbers=numbers, flags=flags)
    even = terminated & valid & (reward == 0)
    long = jnp.maximum(cost - free, 0.0) / over
    shaped = reward + legal_bonus * valid + draw * even - most * long
    return jnp.where(mask, shaped, 0.0).astype(jnp.float32)
