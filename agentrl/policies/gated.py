"""Role-gated adapters: the blocks of one low-rank adapter, weighted by who speaks (Neeko).

Yu et al. (2024), Neeko, https://arxiv.org/abs/2402.13717 (code read: weiyifan1023/Neeko e95a57f).
An adapter of rank r in M blocks of rank r / M, block k with A_k and B_k, and a gate of the role's
embedding e alone, the same at every position:

  g = softmax(W_g e),  y = W x + s sum_k g_k B_k A_k x,  s = alpha / (r / M).

With M = 1 this is one adapter for all roles; with gates of 0 and 1 an adapter per role.

A role's embedding is a fixed function of its profile, a text: the sum of one random direction per
distinct word, at length 1 (their code embeds the profile by a pretrained encoder; softmax saturates
for long vectors, so the length is 1). Roles whose profiles share words therefore begin with gates
that are alike. A new role is a new profile: either the gates alone are trained ("fusion"), or
blocks are added for it ("expansion"). Added blocks have a softmax of their own, and roles that came
before do not read them, so adding them changes no output, and training them none of those roles'.
(In one softmax over old and new blocks, new ones would take weight from the old.)
"""

import hashlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.decoder_config import DecoderConfig

# Components of a role's embedding.
EMBEDDING = 64


def embeddings(profiles: Sequence[str]) -> np.ndarray:
    """Embeddings of texts of one word or more, f32[roles, EMBEDDING], each of length 1."""
    words = [sorted(set(text.lower().split())) for text in profiles]
    table = np.stack([np.sum([_direction(word) for word in own], axis=0) for own in words])
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


def _direction(word: str) -> np.ndarray:
    """A random direction, the same for a word in every process and version of Python."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    drawn = np.random.Generator(np.random.PCG64(seed)).standard_normal(EMBEDDING)
    return drawn / np.linalg.norm(drawn)


def blocks_of(
    gate: jax.Array, config: DecoderConfig, role: jax.Array, *, added: bool = False
) -> jax.Array:
    """Weights of the blocks for roles i32[...], f32[..., M].

    gate: f32[EMBEDDING, M], W_g transposed. added: of the blocks that were added, whose weights are
    0 for roles that do not read them.
    """
    table = jnp.asarray(embeddings(config.lora_profiles))
    weights = jax.nn.softmax(table[role] @ gate, axis=-1)
    if not added:
        return weights
    reads = np.isin(np.arange(config.lora_roles), config.lora_added_for)
    return jnp.where(jnp.asarray(reads)[role][..., None], weights, 0.0)


def distances(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(entropies f32[roles] in nats, distances f32[roles, roles]) of gates f32[..., roles, M].

    Both are means over leading axes. A distance is half the sum of absolute differences: 0 for
    equal gates, 1 for roles that share no block. Entropies near 0, or distances near 0 everywhere,
    are a collapse of the gates.
    """
    entropy = -jnp.sum(weights * jnp.log(jnp.maximum(weights, 1e-30)), axis=-1)
    apart = jnp.abs(weights[..., :, None, :] - weights[..., None, :, :]).sum(-1) / 2
    axes = tuple(range(weights.ndim - 2))
    return entropy.mean(axes), apart.mean(axes)
