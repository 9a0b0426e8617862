"""Players at one table: whole episodes in which every seat may be somebody else's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import envs
import envs.vector
from agentrl.rollout.players import Player
from agentrl.rollout.seats import (
    by_agent,
    joint,
    look,
    looked_at,
    takes_vectors,
    teams,
    where,
)


class Met(NamedTuple):
    """What B episodes of A agents came to.

    episode_return: f32[B, A]. moves: i32[B, A], turns acted. illegal: i32[B, A], of them illegal.
    success: bool[B, A], who has won by the rules. offender: i32[B], whose illegal action ended the
    game, -1 for nobody's. truncated: bool[B], a limit of steps ended it. course: u32[B, 2],
    fingerprint of all states that were passed through: equal for games that went the same way.
    """

    episode_return: jax.Array
    moves: jax.Array
    illegal: jax.Array
    success: jax.Array
    offender: jax.Array
    truncated: jax.Array
    course: jax.Array


def meet(
    players: Sequence[Player],
    env: Any,
    env_params: Any,
    seating: jax.Array,
    keys: jax.Array,
    key: jax.Array,
) -> Met:
    """Plays B episodes from their start to their end or the environment's limit, without resets.

    seating: i32[B, A], which of the players has each seat. keys: [B], what tasks to play; key:
    chance of actions and environment. Whoever has no move to make in a step is not computed: in
    games where all matches take their turns together, only who is to move.
    """
    starts = envs.vector.draw(env, env_params, keys)
    batch, seats = seating.shape
    remembers = any(player.remembers for player in players)
    looked = looked_at(env, all_look=remembers)

    def going(carry):
        return (carry[0] < env_params.max_steps_in_episode) & jnp.any(carry[4])

    def of_seats(values):
        """[B, A], also where there is one agent."""
        return values.reshape(batch, seats)

    def advance(carry):
        time, observation, state, memories, running, met, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        seen = look(env, env_params, state, observation, all_look=remembers)
        owner = jnp.take_along_axis(seating, seen.seat, axis=1)
        nobody = jnp.zeros(
            (*seen.seat.shape, *(env.action_shape if takes_vectors(env) else ())),
            jnp.float32 if takes_vectors(env) else jnp.int32,
        )
        action, following = nobody, []
        for k, (player, memory) in enumerate(zip(players, memories, strict=True)):
            mine = owner == k
            asked = seen._replace(acting=seen.acting & mine & running[:, None])
            chance = act_key if k == 0 else jax.random.fold_in(act_key, k)

            def act(memory, player=player, asked=asked, chance=chance):
                return player.act(player.params, memory, asked, state, chance)

            def rest(memory):
                return nobody, memory

            needed = jnp.any(seating == k) if player.remembers else jnp.any(asked.acting)
            chosen, memory = jax.lax.cond(needed, act, rest, memory)
            action = where(mine, chosen, action)
            following.append(memory)
        moved = by_agent(env, seen.seat, seen.acting) & running[:, None]
        observation, state, reward, terminated, truncated, info = envs.vector.step(
            env, env_params, step_key, state, joint(env, seen.seat, action)
        )
        course = jax.vmap(lambda before, now: envs.fingerprint((before, now)))(met.course, state)
        met = Met(
            met.episode_return + jnp.where(running[:, None], of_seats(reward), 0.0),
            met.moves + moved,
            met.illegal + (moved & ~of_seats(info["valid"])),
            met.success | (running[:, None] & of_seats(info["success"])),
            jnp.where(running & terminated, info.get("offender", -1), met.offender),
            met.truncated | (running & truncated),
            jnp.where(running[:, None], course, met.course),
        )
        running = running & ~terminated & ~truncated
        return time + 1, observation, state, tuple(following), running, met, key

    nothing = Met(
        jnp.zeros((batch, seats)),
        jnp.zeros((batch, seats), jnp.int32),
        jnp.zeros((batch, seats), jnp.int32),
        jnp.zeros((batch, seats), bool),
        jnp.full(batch, -1, jnp.int32),
        jnp.zeros(batch, bool),
        jax.vmap(envs.fingerprint)(starts.state),
    )
    memories = tuple(player.memory(batch * looked) for player in players)
    running = jnp.ones(batch, bool)
    carry = (jnp.int32(0), starts.observation, starts.state, memories, running, nothing, key)
    return jax.lax.while_loop(going, advance, carry)[5]


def seated(env: Any, own: jax.Array, player: int, others: int) -> jax.Array:
    """Seating i32[B, A] with a player as team own i32[B] of each match, `others` as the rest."""
    return jnp.where(teams(env) == own[:, None], player, others).astype(jnp.int32)
