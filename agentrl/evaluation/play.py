"""Playing whole episodes on a fixed set of tasks, with any way of acting."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.policies.actor_critic import Policy, mask_logits
from agentrl.streams import Streams


class Outcomes(NamedTuple):
    """What E episodes came to: returns f32[E], lengths i32[E], success bool[E]."""

    episode_return: jax.Array
    length: jax.Array
    success: jax.Array


class Actor(NamedTuple):
    """A way of acting: memory (E) -> memory; act (memory, observation [E, ...], state, key) ->
    (action i32[E], memory).
    """

    memory: Callable[[int], chex.ArrayTree | None]
    act: Callable[..., tuple[jax.Array, chex.ArrayTree | None]]


def task_keys(seed: int, episodes: int) -> jax.Array:
    """Keys of a fixed set of tasks. Training never draws from this stream of keys.

    A training run starts from `jax.random.key(seed)`; here a constant is folded in first.
    """
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x5EED), episodes)


def of_streams(streams: Streams) -> Outcomes:
    """Outcomes of whole episodes, a stream each."""
    return Outcomes(
        jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1),
        jnp.sum(streams.mask, axis=1, dtype=jnp.int32),
        jnp.any(streams.mask & streams.success, axis=1),
    )


def policy_actor(
    policy: Policy, params: chex.ArrayTree, env: Any, env_params: Any, *, greedy: bool, mask: bool
) -> Actor:
    """Acts by a trained policy. greedy: its most likely action. mask: among legal ones only."""

    def act(memory, observation, state, key):
        logits, _, memory = policy.step(params, memory, observation)
        if mask:
            legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, env_params)[:, 0]
            logits = mask_logits(logits, legal)
        if greedy:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32), memory
        return jax.random.categorical(key, logits).astype(jnp.int32), memory

    return Actor(policy.memory, act)


def expert_actor(env: Any, env_params: Any) -> Actor:
    """Acts by the environment's scripted expert."""

    def act(memory, observation, state, key):
        return jax.vmap(env.expert, in_axes=(0, None))(state, env_params), memory

    return Actor(lambda batch: None, act)


def random_actor(env: Any, env_params: Any) -> Actor:
    """Acts uniformly among legal actions."""

    def act(memory, observation, state, key):
        legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, env_params)[:, 0]
        logits = jnp.where(legal, 0.0, -jnp.inf)
        return jax.random.categorical(key, logits).astype(jnp.int32), memory

    return Actor(lambda batch: None, act)


def play(actor: Actor, env: Any, env_params: Any, keys: jax.Array, key: jax.Array) -> Outcomes:
    """Plays one episode a task key, to its end or the environment's limit, without resets.

    keys: [E], what tasks to play; key: chance of actions and environment. Stops when all have
    ended.
    """
    starts = envs.vector.draw(env, env_params, keys)
    count = keys.shape[0]
    limit = env_params.max_steps_in_episode

    def going(carry):
        return (carry[0] < limit) & jnp.any(carry[4])

    def advance(carry):
        time, observation, state, memory, running, outcomes, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        action, memory = actor.act(memory, observation, state, act_key)
        observation, state, reward, terminated, truncated, info = envs.vector.step(
            env, env_params, step_key, state, action
        )
        outcomes = Outcomes(
            outcomes.episode_return + jnp.where(running, reward, 0.0),
            outcomes.length + running,
            outcomes.success | (running & info["success"]),
        )
        running = running & ~terminated & ~truncated
        return time + 1, observation, state, memory, running, outcomes, key

    nothing = Outcomes(jnp.zeros(count), jnp.zeros(count, jnp.int32), jnp.zeros(count, bool))
    carry = (
        jnp.int32(0),
        starts.observation,
        starts.state,
        actor.memory(count),
        jnp.ones(count, bool),
        nothing,
        key,
    )
    return jax.lax.while_loop(going, advance, carry)[5]
