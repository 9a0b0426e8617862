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


def persuasion_of_turns(
    asked: jax.Array, belief: jax.Array, acting: jax.Array, opposed: jax.Array, *, among: str
) -> jax.Array:
    """`speaking_reward` of each turn of B matches; 0 without a message.

    A message is the action of an agent that acts alone between two questions of one discussion;
    saying nothing is a message too.

    Args:
      asked: bool[T, B, A], the agent is asked for its belief.
      belief: f32[T, B, A], its probability of the true answer.
      acting: bool[T, B, A].
      opposed: bool[B, A], agents that gain if the listeners are wrong.
      among: the beliefs that count, those of "all" listeners or of "others" than the speaker.

    Returns:
      f32[T, B, A], as `Streams.persuasion` after it is turned into streams.

    Raises:
      ValueError: an unknown choice of listeners.
    """
    listener, asked = asked, jnp.any(asked, axis=2)
    again = jnp.pad(asked[1:], ((0, 1), (0, 0)))
    message = (jnp.sum(acting, axis=2) == 1) & asked & again
    speaker = jnp.where(message, jnp.argmax(acting, axis=2), -1)

    def of_match(belief, listener, speaker, opposed):
        return speaking_reward(belief, listener, speaker, opposed, among=among)

    heard = jax.vmap(of_match, in_axes=(1, 1, 1, 0), out_axes=1)(
        belief, listener, speaker[:-1], opposed
    )
    heard = jnp.pad(heard, ((0, 1), (0, 0)))
    return jnp.where(jnp.arange(acting.shape[2]) == speaker[..., None], heard[..., None], 0.0)
