"""Beliefs of agents during a match, and the effect of messages on them."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.policies.actor_critic import Policy

LISTENERS = ("none", "all", "others")


def check_beliefs(policy: Policy, env: Any, listeners: str) -> None:
    """ValueError unless the policy can answer the environment's belief question, and all listen."""
    asks = env.num_answers if env.num_agents > 1 else 0
    if policy.num_answers != asks and policy.num_answers:
        remedy = f"use {asks}, or 0" if asks else "it has no question about beliefs: use 0"
        raise ValueError(f"policy option answers={policy.num_answers} with {env.name}: {remedy}")
    if listeners not in LISTENERS:
        raise ValueError(f"rollout listeners={listeners!r}: expected one of {', '.join(LISTENERS)}")
    if listeners != "none" and not policy.num_answers:
        remedy = f"set config.policy.answers={asks}" if asks else "the environment asks nothing"
        raise ValueError(
            f"rollout listeners={listeners!r} with {env.name} and a policy without answers: "
            f"{remedy}, or leave listeners out"
        )


def persuasion(
    asked: jax.Array, belief: jax.Array, acting: jax.Array, opposed: jax.Array, *, among: str
) -> jax.Array:
    """`rewards.speaking_reward` of every turn of B matches, f32[T, B, A]; 0 without a message.

    A message is the action of an agent that acts alone between two questions of one discussion;
    saying nothing is a message too.

    Args:
      asked: bool[T, B, A], the agent is asked for its belief.
      belief: f32[T, B, A], its probability of the true answer.
      acting: bool[T, B, A].
      opposed: bool[B, A], agents that gain if the listeners are wrong.
      among: the beliefs that count, those of "all" listeners or of "others" than the speaker.
    """
    listener, asked = asked, jnp.any(asked, axis=2)
    again = jnp.pad(asked[1:], ((0, 1), (0, 0)))
    message = (jnp.sum(acting, axis=2) == 1) & asked & again
    speaker = jnp.where(message, jnp.argmax(acting, axis=2), -1)

    def of_match(belief, listener, speaker, opposed):
        return rewards.speaking_reward(belief, listener, speaker, opposed, among=among)

    heard = jax.vmap(of_match, in_axes=(1, 1, 1, 0), out_axes=1)(
        belief, listener, speaker[:-1], opposed
    )
    heard = jnp.pad(heard, ((0, 1), (0, 0)))
    return jnp.where(jnp.arange(acting.shape[2]) == speaker[..., None], heard[..., None], 0.0)
