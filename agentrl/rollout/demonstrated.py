"""Matches that the environment's expert plays in all seats, for a policy over arrays to imitate."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import envs
import envs.vector
from agentrl.policies.actor_critic import Policy
from agentrl.policies.placement import along_data
from agentrl.rollout.acting import Acted, rows_of
from agentrl.rollout.seats import expert_play, joint, look, looked_at
from agentrl.streams import Rows


def make_demonstrate(
    policy: Policy, env: Any, env_params: Any, *, mask_illegal: bool
) -> Callable[[jax.Array, jax.Array], Rows] | None:
    """(task keys [B], key) -> Rows of the expert's turns, as those of `rollout.matches`.

    None where actions are commands. NotImplementedError, when it is called, without an expert.
    """
    if not policy.head.numbered:
        return None
    turns, remembers = int(env_params.max_steps_in_episode), policy.memory(1) is not None
    looked = looked_at(env, all_look=remembers)

    def demonstrate(task_keys, key):
        count = task_keys.shape[0]
        start = along_data(envs.vector.draw(env, env_params, task_keys))

        def advance(carry, key):
            observation, state, running = carry
            seen = look(env, env_params, state, observation, all_look=remembers)
            action = expert_play(env, env_params, state, seen).astype(jnp.int32)
            flat = jax.tree.map(
                lambda x: x.reshape(count * looked, *x.shape[2:]),
                (seen.observation, seen.legal, action),
            )
            observation, state, _, terminated, truncated, _ = envs.vector.step(
                env, env_params, key, state, joint(env, seen.seat, action)
            )
            mask = (running[:, None] & seen.acting).reshape(-1)
            running = running & ~terminated & ~truncated
            return (observation, state, running), (*flat, mask)

        carry = (start.observation, start.state, jnp.ones(count, bool))
        _, (observation, legal, action, mask) = jax.lax.scan(
            advance, carry, jax.random.split(key, turns)
        )
        nothing = jnp.zeros(mask.shape)
        acted = Acted(
            observation, legal if mask_illegal else None, action, nothing, nothing, anchor=None
        )
        return rows_of(acted, mask, jnp.zeros_like(mask), policy.memory(count * looked))

    return demonstrate
