"""Metrics of conversations: totals and weights, so that means of several collections combine."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl.streams import Streams

# Entropy is shown for these turns, where they exist: it often falls turn by turn.
_SHOWN_TURNS = (1, 2, 4, 8, 16)


def finished(streams: Streams, turns: Any, has_success: bool) -> dict[str, jax.Array]:
    """Totals and weights over episodes, turns and tokens; every episode has ended.

    response_length: tokens a reply; response_cut_rate: replies without an end token;
    invalid_format_rate: replies that do not keep the grammar; unknown_command_rate: that name
    anything else than commands; invalid_action_rate: all of these and commands that were illegal;
    observation_cut_rate: texts that did not fit (should be 0); tokens: written a collection;
    behaviour_entropy: nats a token when it was drawn, entropy/turn_k that of the k-th turn.
    """
    mask = turns.mask
    count = jnp.float32(mask.shape[1])
    acted = jnp.sum(mask, dtype=jnp.float32)

    def per_episode(x):
        return jnp.stack([jnp.sum(x.astype(jnp.float32)), count])

    def per_turn(x):
        return jnp.stack([jnp.sum(jnp.where(mask, x, 0), dtype=jnp.float32), acted])

    position = jnp.arange(turns.entropy.shape[-1])
    drawn = mask[..., None] & (position < turns.length[..., None])
    entropy = jnp.sum(jnp.where(drawn, turns.entropy, 0), axis=(1, 2))
    tokens = jnp.sum(drawn, axis=(1, 2), dtype=jnp.float32)
    out = {
        "episode_return": per_episode(jnp.sum(streams.reward, axis=1)),
        "episode_length": per_episode(jnp.sum(streams.mask, axis=1)),
        "truncation_rate": per_episode(jnp.any(streams.truncated, axis=1)),
        "invalid_action_rate": per_turn(~turns.valid),
        "invalid_format_rate": per_turn(~turns.well_formed),
        "unknown_command_rate": per_turn(~turns.known),
        "response_length": per_turn(turns.length),
        "response_cut_rate": per_turn(~turns.ended),
        "observation_cut_rate": per_turn(turns.cut),
        "behaviour_entropy": jnp.stack([jnp.sum(entropy), jnp.sum(tokens)]),
        "tokens": jnp.stack([jnp.sum(tokens), jnp.float32(1)]),
        "episodes": jnp.stack([count, jnp.float32(1)]),
    }
    for turn in _SHOWN_TURNS:
        if turn <= mask.shape[0]:
            out[f"entropy/turn_{turn}"] = jnp.stack([entropy[turn - 1], tokens[turn - 1]])
    if has_success:
        out["success_rate"] = per_episode(jnp.any(streams.success, axis=1))
    return out
