"""Which part of a reply each of its tokens is."""

import jax
import jax.numpy as jnp

from agentrl.policies.language import LanguagePolicy
from agentrl.streams import ACTION, MESSAGE, SUBGOAL, THOUGHT
from envs.text import between

_TAGS = (("think", THOUGHT), ("subgoal", SUBGOAL), ("message", MESSAGE))


def token_spans(
    policy: LanguagePolicy, text: jax.Array, length: jax.Array, tokens: jax.Array
) -> jax.Array:
    """The span of each token of a reply, i8[G], by the tags around its first byte.

    text: u8[W], the reply's bytes in lower case.
    """
    sizes = jnp.asarray(policy.codec.token_lengths)[tokens]
    first = jnp.minimum(jnp.cumsum(sizes) - sizes, text.shape[0] - 1)
    out = jnp.full(tokens.shape, ACTION, jnp.int8)
    if policy.grammar.name == "bare":
        return out
    for name, span in _TAGS:
        out = jnp.where(between(text, length, name)[first], jnp.int8(span), out)
    return out
