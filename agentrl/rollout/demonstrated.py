"""What the environment's expert says and does, for policies to imitate."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl.policies import codec as codecs
from agentrl.policies.generation import Generated
from agentrl.policies.language import LanguagePolicy


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
