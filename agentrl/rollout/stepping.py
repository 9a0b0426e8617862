"""Stepping environments with the commands of a turn, and with what others do until the next one.

Letters: B episodes, A agents, S of them who move in a turn (`envs.mover`), n commands of a reply.
"""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs.vector
from envs.mover import movers, places, seat_of, seats

Act = Callable[[chex.ArrayTree, jax.Array, jax.Array], jax.Array]


def nothing(env: Any, batch: int) -> dict[str, jax.Array]:
    """The outcome of a turn in which nothing happens."""
    shape = (batch,) if seats(env) == 1 else (batch, seats(env))
    return {
        "reward": jnp.zeros(shape),
        "terminated": jnp.zeros(batch, bool),
        "truncated": jnp.zeros(batch, bool),
        "success": jnp.zeros(shape, bool),
        "offender": jnp.full(batch, -1, jnp.int32),
        "legal": jnp.ones((batch, movers(env)), bool),
    }


def together(first: dict[str, jax.Array], then: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """The outcome of a turn in two parts."""
    how = {
        "reward": jnp.add,
        "terminated": jnp.logical_or,
        "truncated": jnp.logical_or,
        "success": jnp.logical_or,
        "offender": jnp.maximum,
        "legal": jnp.logical_and,
    }
    return {name: combine(first[name], then[name]) for name, combine in how.items()}


def take(
    env: Any,
    env_params: Any,
    state: chex.ArrayTree,
    actions: jax.Array,
    key: jax.Array,
    running: jax.Array,
    *,
    lists: bool,
) -> tuple[chex.ArrayTree, dict[str, jax.Array]]:
    """Steps the running episodes with their commands, i32[B, S, n], one after the other.

    What several agents command is one step. lists: commands may be fewer than n, and unknown ones
    (-1) are dropped; else they are illegal actions. Returns (state, outcome); legal: bool[B, S],
    all that were taken.
    """
    going, out = running, nothing(env, running.shape[0])

    def by_seat(flags):
        """Flags [B] beside values [B] or [B, A]."""
        return flags.reshape(-1, *[1] * (out["reward"].ndim - 1))

    for i in range(actions.shape[2]):
        action = actions[:, :, i]
        runs = going & jnp.all(action >= 0, axis=1) if lists else going
        action = action if movers(env) > 1 else action[:, 0]
        _, following, gained, ends, cuts, info = envs.vector.step(
            env, env_params, jax.random.fold_in(key, i), state, action
        )
        state = jax.tree.map(
            lambda new, old, runs=runs: jnp.where(
                runs.reshape(-1, *[1] * (old.ndim - 1)), new, old
            ),
            following,
            state,
        )
        valid = info["valid"].reshape(runs.shape[0], -1)
        if movers(env) == 1:
            # Of those whose turn it is not nothing is said.
            valid = jnp.all(valid, axis=1, keepdims=True)
        now = {
            "reward": jnp.where(by_seat(runs), gained, 0.0),
            "terminated": runs & ends,
            "truncated": runs & cuts,
            "success": by_seat(runs) & info["success"],
            "offender": jnp.where(runs & ends, info.get("offender", -1), -1),
            "legal": valid | ~runs[:, None],
        }
        out = together(out, now)
        going = going & ~(runs & (ends | cuts))
    return state, out


def until_own_turn(
    env: Any,
    env_params: Any,
    state: chex.ArrayTree,
    own: jax.Array,
    running: jax.Array,
    key: jax.Array,
    others: Act,
) -> tuple[chex.ArrayTree, jax.Array, dict[str, jax.Array]]:
    """Moves of all seats but `own` i32[B], until those are to move or the match is over.

    For games in turns, S = 1. others: (state, moving bool[B, S], key) -> commands i32[B, S].
    Returns (state, running, what it brought). Where seats take turns strictly it is one pass for
    each opponent, and policy and opponents together write as much as in self-play.
    """

    def theirs(state, running):
        return running & (seat_of(env, places(env, state, env_params)) != own)

    def going(carry):
        _, state, running, _ = carry
        return jnp.any(theirs(state, running))

    def move(carry):
        i, state, running, before = carry
        act_key, step_key = jax.random.split(jax.random.fold_in(key, i))
        moving = theirs(state, running)
        actions = others(state, moving[:, None], act_key)[..., None]
        state, now = take(env, env_params, state, actions, step_key, moving, lists=False)
        running = running & ~now["terminated"] & ~now["truncated"]
        return i + 1, state, running, together(before, now)

    carry = (jnp.int32(0), state, running, nothing(env, running.shape[0]))
    _, *after = jax.lax.while_loop(going, move, carry)
    return tuple(after)
