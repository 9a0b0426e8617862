"""The speaking reward: the change that a message causes in the beliefs of its listeners."""

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice

Among = Literal["all", "others"]


def speaking_reward(
    belief: jax.Array,
    listener: jax.Array,
    speaker: jax.Array,
    imposter: jax.Array,
    *,
    among: Among = "all",
) -> jax.Array:
    """Change in the crewmates' belief in the true imposter, for each message of a discussion.

    All players are asked before the first message and after each. With B_s the sum over listeners
    of the probability that they give to the true imposter in survey s,

      reward_s = B_{s+1} - B_s if a crewmate spoke, its negative if the imposter did.

    The speaker alone receives it. Over a discussion the crewmates' terms telescope.

    Args:
      belief: f32[S + 1, P], probability that player p gives to the true imposter.
      listener: bool[S + 1, P], living crewmates; beliefs of others are not read.
      speaker: i32[S], player that sent the message between surveys s and s + 1; -1 for no message.
      imposter: bool[P].
      among: "all" listeners (the reference: a speaker is paid for its own change of mind, too), or
        all "others" than the speaker.

    Returns:
      f32[S], 0 where there was no message. `vmap` over discussions: the first survey of each is the
      reference of its first message.

    Raises:
      ValueError: unknown `among`.

    References:
      Sarkar et al. (2025), https://arxiv.org/abs/2502.06060. Read: SocialDeductionLLM 0cac8fa,
      string_env.process_discussion_survey, which gives the reward to living speakers with weight
      1.0; a term of its task reward (B_0 - 1 to all, at the first survey) is not part of this.
    """
    check_choice("among", among, get_args(Among))
    surveys, players = belief.shape
    chex.assert_equal_shape([belief, listener])
    chex.assert_shape(speaker, (surveys - 1,))
    chex.assert_shape(imposter, (players,))
    heard = jnp.where(listener, jnp.asarray(belief, jnp.float32), 0.0)
    change = heard[1:] - heard[:-1]
    if among == "others":
        change = jnp.where(jnp.arange(players) == speaker[:, None], 0.0, change)
    change = jnp.sum(change, axis=1)
    change = jnp.where(jnp.asarray(imposter)[jnp.maximum(speaker, 0)], -change, change)
    return jnp.where(speaker >= 0, change, 0.0)
