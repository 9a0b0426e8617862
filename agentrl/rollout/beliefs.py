"""What agents believe during a match, and what a message does to it."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.losses import categorical_log_prob
from agentrl.policies.actor_critic import Policy
from agentrl.rewards import speaking_reward
from envs.game import Game

LISTENERS = ("none", "all", "others")


class Survey(NamedTuple):
    """The environment's question at one step of B matches; belief is None if nobody answers it.

    asked: bool[B, A]. answer: i32[B], the truth. belief: f32[B, A], probability given to it.
    """

    asked: jax.Array
    answer: jax.Array
    belief: jax.Array | None = None


def check_beliefs(policy: Policy, env: Any, listeners: str) -> None:
    """ValueError unless the policy can answer what the environment asks, and all listen."""
    asks = env.num_answers if isinstance(env, Game) else 0
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


def believe(
    policy: Policy,
    params: chex.ArrayTree,
    memory: chex.ArrayTree | None,
    observation: chex.ArrayTree,
    survey: Survey,
) -> Survey:
    """The survey with its beliefs, from observations [B * A, ...] and the memory before them."""
    seen = jax.tree.map(lambda x: x[:, None], observation)
    start = jnp.zeros((survey.asked.size, 1), bool)
    logits = policy.answer(params, memory, seen, start)[:, 0]
    logits = logits.reshape(*survey.asked.shape, -1)
    answer = jnp.broadcast_to(survey.answer[:, None], survey.asked.shape)
    return survey._replace(belief=jnp.exp(categorical_log_prob(logits, answer)))


def persuasion(survey: Survey, acting: jax.Array, opposed: jax.Array, *, among: str) -> jax.Array:
    """`rewards.speaking_reward` of every turn of B matches, f32[T, B, A]; 0 where it is no message.

    A message is what somebody does alone between two surveys of one discussion; to say nothing is
    one too.

    Args:
      survey: of T steps, [T, B, A] and answers [T, B]. acting: bool[T, B, A].
      opposed: bool[B, A], those who gain where the listeners are wrong.
      among: whose beliefs count, "all" the listeners' or those of "others" than the speaker.
    """
    asked = jnp.any(survey.asked, axis=2)
    again = jnp.pad(asked[1:], ((0, 1), (0, 0)))
    message = (jnp.sum(acting, axis=2) == 1) & asked & again
    speaker = jnp.where(message, jnp.argmax(acting, axis=2), -1)

    def of_match(belief, listener, speaker, opposed):
        return speaking_reward(belief, listener, speaker, opposed, among=among)

    heard = jax.vmap(of_match, in_axes=(1, 1, 1, 0), out_axes=1)(
        survey.belief, survey.asked, speaker[:-1], opposed
    )
    heard = jnp.pad(heard, ((0, 1), (0, 0)))
    return jnp.where(jnp.arange(acting.shape[2]) == speaker[..., None], heard[..., None], 0.0)
