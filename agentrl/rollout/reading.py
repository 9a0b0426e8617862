"""What a language policy reads before it replies: the context of a turn, into the cache."""

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import decoder
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.contexts import Layout, Transcript


def read(
    policy: LanguagePolicy,
    layout: Layout,
    params: chex.ArrayTree,
    cache: decoder.Cache | None,
    transcript: Transcript,
    turn: jax.Array,
    tokens: jax.Array,
    length: jax.Array,
    reading: jax.Array,
    size: int,
    role: jax.Array,
) -> tuple[jax.Array, decoder.Cache, jax.Array]:
    """Reads what stands before the replies of a turn, i32[] or i32[B], in at most `size` tokens.

    tokens, length: the turn's observations [B, O], i32[B], which the transcript holds too. cache:
    with what was read before, where the layout's context is "whole"; else it is not used. role:
    i32[B], whose turn it is.

    Returns (hidden state at the last token [B, D], cache, whether it was read: rows that are
    `reading` and have room).
    """
    config, batch = policy.config, reading.shape[0]
    if layout.context == "whole":
        if layout.replaced:
            # The opening stands for what would come before the first observation.
            drop = jnp.broadcast_to(jnp.where(turn == 0, layout.replaced, 0), (batch,))
            index = jnp.arange(tokens.shape[1]) + drop[:, None]
            tokens = jnp.take_along_axis(tokens, index, axis=1, mode="clip")
            length = length - drop
        fits = reading & (cache.length + length <= size)
    else:
        pieces = jnp.asarray(layout.table)[turn, :-1]
        pieces = jnp.broadcast_to(pieces, (batch, *pieces.shape[-2:]))
        prompt = layout.compose(transcript, jnp.arange(batch), pieces, size)
        tokens, length = prompt.tokens, prompt.length
        fits = reading & ~prompt.cut
        cache = decoder.empty_cache(config, batch, size + layout.reply_tokens)
    count = jnp.where(fits, length, 0)
    hidden, cache = decoder.extend(params, config, cache, tokens, count, role)
    last = jnp.take_along_axis(hidden, jnp.maximum(count - 1, 0)[:, None, None], axis=1)
    return last[:, 0], cache, fits
