"""Text that is inserted into observations: a hint, a plan, a skill, a reminder."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.actors.contexts import Context
from agentrl.policies import codec as codecs
from agentrl.policies.codec import Codec
from envs.environment import Environment
from envs.text import pack


class Injection(NamedTuple):
    """Text that is inserted into observations.

    size: largest number of tokens. tokens: (state, agent, params, own turn) -> (i32[size], i32[]).
    """

    size: int
    tokens: Callable[..., tuple[jax.Array, jax.Array]] | None = None


def injection(codec: Codec, context: Context, env: Environment) -> Injection:
    """The injection of a context into observations of an environment."""
    if not context.inject:
        return Injection(0)
    every = context.inject_every

    def counted(turn, count):
        due = turn % every == 0 if every else turn == 0
        return jnp.where(due, count, 0)

    if isinstance(context.inject, str):
        fixed = jnp.asarray(codecs.tokens_of(codec, context.inject), jnp.int32)
        return Injection(
            fixed.shape[0],
            lambda state, agent, params, turn: (fixed, counted(turn, fixed.shape[0])),
        )
    width = codec.fragments.shape[1]
    start = jax.eval_shape(env.initial, jax.random.key(0), env.default_params)
    pieces = jax.eval_shape(context.inject, start, jnp.int32(0), env.default_params).shape[-1]

    def drawn(state, agent, params, turn):
        tokens, count = written(codec, context.inject(state, agent, params))
        return tokens, counted(turn, count)

    return Injection(pieces * width, drawn)


def written(codec: Codec, fragments: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(tokens i32[K W], their number i32[]) of fragments i32[K], W tokens each at most; 0: none."""
    pieces = fragments.shape[-1]
    bare = dataclasses.replace(codec, before=(), after=())
    seen = codecs.render(bare, pack(fragments, pieces), pieces * codec.fragments.shape[1])
    return seen.tokens, seen.length


def spliced(
    seen: codecs.Tokens, tokens: jax.Array, count: jax.Array, at: int, size: int
) -> codecs.Tokens:
    """Rendered tokens with `count` tokens inserted at a position, i32[size]."""
    index = jnp.arange(size, dtype=jnp.int32)
    shifted = seen.tokens[jnp.clip(index - count, 0, seen.tokens.shape[0] - 1)]
    old = seen.tokens[jnp.clip(index, 0, seen.tokens.shape[0] - 1)]
    new = tokens[jnp.clip(index - at, 0, tokens.shape[0] - 1)]
    out = jnp.where(index < at, old, jnp.where(index < at + count, new, shifted))
    length = seen.length + count
    return codecs.Tokens(jnp.where(index < length, out, 0), length, seen.cut)
