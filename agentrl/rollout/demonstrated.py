"""What the environment's expert says and does, for policies to imitate."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import envs
import envs.vector
from agentrl.policies import codec as codecs
from agentrl.policies.actor_critic import Policy
from agentrl.policies.generation import Generated
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.placement import along_data
from agentrl.rollout.acting import Acted, rows_of
from agentrl.rollout.seats import expert_play, joint, look, looked_at, random_play, where
from agentrl.streams import Rows


def make_demonstrate(
    policy: Policy, env: Any, env_params: Any, *, mask_illegal: bool
) -> Callable[..., Rows]:
    """(task keys [B], key, noise=0.0) -> Rows of the expert's turns, as those of `rollout.matches`.

    noise: chance that a turn ends otherwise than the expert's row says, by a random legal action,
    or by a command drawn from [-1, 1]. NotImplementedError, when it is called, without an expert.
    """
    numbered = policy.head.numbered
    turns, remembers = int(env_params.max_steps_in_episode), policy.memory(1) is not None
    looked = looked_at(env, all_look=remembers)

    def demonstrate(task_keys, key, *, thoughts=False, noise=0.0):
        if thoughts:
            raise ValueError(
                "config.warm_start.thoughts=True is for language policies, in whose replies "
                "thoughts stand; set False"
            )
        count = task_keys.shape[0]
        start = along_data(envs.vector.draw(env, env_params, task_keys))

        def advance(carry, key):
            observation, state, running = carry
            seen = look(env, env_params, state, observation, all_look=remembers)
            action = expert_play(env, env_params, state, seen)
            action = action.astype(jnp.int32 if numbered else jnp.float32)
            flat = jax.tree.map(
                lambda x: x.reshape(count * looked, *x.shape[2:]),
                (seen.observation, seen.legal, action),
            )
            if noise:
                stray_key, other_key = jax.random.split(jax.random.fold_in(key, 1))
                strays = jax.random.bernoulli(stray_key, noise, seen.seat.shape)
                if numbered:
                    others = random_play(seen, other_key)
                else:
                    others = jax.random.uniform(other_key, action.shape, minval=-1.0)
                action = where(strays, others, action)
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
        legal = legal if mask_illegal and numbered else None
        acted = Acted(observation, legal, action, nothing, nothing, anchor=None)
        rows = rows_of(acted, mask, jnp.zeros_like(mask), policy.memory(count * looked))
        return None, rows

    return demonstrate


def expert_reply(
    policy: LanguagePolicy,
    env: Any,
    env_params: Any,
    state: Any,
    *,
    room: int,
    longest: int,
    thoughts: bool,
) -> Generated:
    """The expert's commands in states [B, ...], written as the policy should: `room` tokens each.

    longest: a bound on what it writes; thoughts: as `agentrl.policies.codec.replies`.

    Raises:
      ValueError: replies with thoughts may not fit.
    """
    if thoughts and longest > room:
        raise ValueError(
            f"rollout max_new_tokens={room}: the expert's replies with thoughts "
            f"(config.warm_start.thoughts) take up to {longest} in {env.name}"
        )

    def one(state):
        fragments = env.commands(state, env_params)[env.expert(state, env_params)]
        size = max(longest, room)
        return codecs.replies(policy.codec, policy.grammar, fragments, size, thoughts=thoughts)

    said = jax.vmap(one)(state)
    tokens = said.tokens[:, :room]
    return Generated(
        tokens=tokens,
        logp=jnp.zeros(tokens.shape),
        entropy=jnp.zeros(tokens.shape),
        length=jnp.minimum(said.length, room),
        ended=said.length <= room,
        kept=None,
        hidden=None,
        cache=None,
    )


def strayed(
    env: Any, env_params: Any, state: Any, actions: jax.Array, key: jax.Array, noise: float
) -> jax.Array:
    """Commands i32[B, n] of one agent, with this chance a random legal action alone instead."""
    legal = jax.vmap(lambda s: env.legal_actions(s, env_params)[0])(state)
    choose_key, chance_key = jax.random.split(key)
    other = jax.random.categorical(choose_key, jnp.where(legal, 0.0, -jnp.inf))
    other = jnp.full_like(actions, -1).at[:, 0].set(other.astype(actions.dtype))
    strays = jax.random.bernoulli(chance_key, noise, (actions.shape[0], 1))
    return jnp.where(strays, other, actions)
