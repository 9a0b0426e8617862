"""Constrained decoding: only tokens that continue a command which is legal now."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import codec as codecs
from agentrl.policies.generation import Constraint
from agentrl.policies.language import LanguagePolicy


def command_constraint(
    policy: LanguagePolicy, env: Any, env_params: Any, state: chex.ArrayTree, size: int
) -> Constraint:
    """The constraint of B episodes in these states; replies have at most `size` tokens.

    Its state is the legal commands that begin as the reply does: the tokens of all replies
    i32[B, n, size] with bool[B, n], and the position i32[B] that comes next. The tokens that may
    come next are those of the remaining commands at that position, so no command has to be
    told apart from another before it is written out, with any tokenizer. Commands longer than
    `size` cannot be drawn.
    """

    def one(state):
        said = codecs.replies(policy.codec, policy.grammar, env.commands(state, env_params), size)
        return said.tokens, env.legal_actions(state, env_params)[0] & ~said.cut

    tokens, alive = jax.vmap(one)(state)
    batch, count = alive.shape
    row = jnp.arange(batch)[:, None]

    def following(state):
        tokens, _, position = state
        at = jnp.minimum(position, size - 1)[:, None, None]
        return jnp.take_along_axis(tokens, jnp.broadcast_to(at, (batch, count, 1)), axis=2)[..., 0]

    def allowed(state):
        _, alive, _ = state
        vocabulary = jnp.zeros((batch, policy.codec.vocab_size), bool)
        return vocabulary.at[row, following(state)].max(alive)

    def advance(state, token):
        tokens, alive, position = state
        return tokens, alive & (following(state) == token[:, None]), position + 1

    return Constraint((tokens, alive, jnp.zeros(batch, jnp.int32)), allowed, advance)
