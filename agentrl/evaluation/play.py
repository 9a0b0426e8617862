"""Playing whole episodes on a fixed set of tasks, with any way of acting."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.acting import choose
from agentrl.rollout.seats import (
    agents,
    by_agent,
    expert_play,
    joint,
    look,
    looked_at,
    random_play,
)
from agentrl.streams import Streams


class Outcomes(NamedTuple):
    """What E episodes came to: returns f32[E], turns acted i32[E], success bool[E]."""

    episode_return: jax.Array
    length: jax.Array
    success: jax.Array


class Actor(NamedTuple):
    """A way of acting: memory (n) -> memory of n agents; act (memory, seen, state, key) ->
    (action i32[E, S], memory), for what `rollout.seats.look` shows of states [E, ...].

    remembers: it has to see the turns of others too.
    """

    memory: Callable[[int], chex.ArrayTree | None]
    act: Callable[..., tuple[jax.Array, chex.ArrayTree | None]]
    remembers: bool = False


def task_keys(seed: int, episodes: int) -> jax.Array:
    """Keys of a fixed set of tasks. Training never draws from this stream of keys.

    A training run starts from `jax.random.key(seed)`; here a constant is folded in first.
    """
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x5EED), episodes)


def of_streams(streams: Streams, seats: int = 1) -> Outcomes:
    """Outcomes of whole episodes, a stream each; of matches those of seat i % A of match i."""
    match = jnp.arange(streams.mask.shape[0] // seats)
    streams = jax.tree.map(lambda x: x[match * seats + match % seats], streams)
    return Outcomes(
        jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1),
        jnp.sum(streams.mask, axis=1, dtype=jnp.int32),
        jnp.any(streams.mask & streams.success, axis=1),
    )


def policy_actor(policy: Policy, params: chex.ArrayTree, *, greedy: bool, mask: bool) -> Actor:
    """Acts by a trained policy. greedy: its most likely action. mask: among legal ones only."""

    def act(memory, seen, state, key):
        shape = seen.seat.shape
        observation, legal = jax.tree.map(
            lambda x: x.reshape(shape[0] * shape[1], *x.shape[2:]), (seen.observation, seen.legal)
        )
        legal = legal if mask else None
        choice, memory = choose(policy, params, memory, observation, legal, key, greedy=greedy)
        return choice.action.reshape(shape), memory

    return Actor(policy.memory, act, remembers=policy.memory(1) is not None)


def expert_actor(env: Any, env_params: Any) -> Actor:
    """Acts by the environment's scripted expert."""

    def act(memory, seen, state, key):
        return expert_play(env, env_params, state, seen), memory

    return Actor(lambda batch: None, act)


def random_actor() -> Actor:
    """Acts uniformly among legal actions."""

    def act(memory, seen, state, key):
        return random_play(seen, key), memory

    return Actor(lambda batch: None, act)


def opponent_of(env: Any) -> Actor | None:
    """Whom an actor is measured against: random legal play, or nobody where all play together."""
    return random_actor() if agents(env) > 1 and not env.cooperative else None


def play(
    actor: Actor,
    env: Any,
    env_params: Any,
    keys: jax.Array,
    key: jax.Array,
    opponent: Actor | None = None,
) -> Outcomes:
    """Plays one episode a task key, to its end or the environment's limit, without resets.

    keys: [E], what tasks to play; key: chance of actions and environment. Stops when all have
    ended. In a game the actor takes seat i % A of episode i, and outcomes are that seat's; the
    other seats are the opponent's, or the actor's too if there is none.
    """
    starts = envs.vector.draw(env, env_params, keys)
    count = keys.shape[0]
    limit = env_params.max_steps_in_episode
    remembers = actor.remembers or (opponent is not None and opponent.remembers)
    looked, seats = looked_at(env, all_look=remembers), agents(env)
    own = jnp.arange(count, dtype=jnp.int32) % seats

    def going(carry):
        return (carry[0] < limit) & jnp.any(carry[4])

    def of_own(values):
        """The actor's seat's, [E], of values of all seats."""
        return values if seats == 1 else values[jnp.arange(count), own]

    def advance(carry):
        time, observation, state, memories, running, outcomes, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        seen = look(env, env_params, state, observation, all_look=remembers)
        memory, other_memory = memories
        action, memory = actor.act(memory, seen, state, act_key)
        if opponent is not None:
            theirs, other_memory = opponent.act(
                other_memory, seen, state, jax.random.fold_in(act_key, 1)
            )
            action = jnp.where(seen.seat == own[:, None], action, theirs)
        moved = by_agent(env, seen.seat, seen.acting)
        observation, state, reward, terminated, truncated, info = envs.vector.step(
            env, env_params, step_key, state, joint(env, seen.seat, action)
        )
        outcomes = Outcomes(
            outcomes.episode_return + jnp.where(running, of_own(reward), 0.0),
            outcomes.length + (running & moved[jnp.arange(count), own]),
            outcomes.success | (running & of_own(info["success"])),
        )
        running = running & ~terminated & ~truncated
        return time + 1, observation, state, (memory, other_memory), running, outcomes, key

    nothing = Outcomes(jnp.zeros(count), jnp.zeros(count, jnp.int32), jnp.zeros(count, bool))
    memory = actor.memory(count * looked)
    other_memory = None if opponent is None else opponent.memory(count * looked)
    carry = (
        jnp.int32(0),
        starts.observation,
        starts.state,
        (memory, other_memory),
        jnp.ones(count, bool),
        nothing,
        key,
    )
    return jax.lax.while_loop(going, advance, carry)[5]
