"""A block of the decoder: norms, products, RoPE, what comes before attention and after it.

Letters as in `agentrl.policies.decoder`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.devices.placement import BATCH, place
from agentrl.policies import lora
from agentrl.policies.attention import Rotation, frequencies, rotate, rotation
from agentrl.policies.decoder_config import ACTIVATIONS, DecoderConfig
from agentrl.policies.layers import product

Params = Mapping[str, Any]


def layer_of(arrays: Sequence[Params], config: DecoderConfig, role: jax.Array | None) -> Params:
    """A layer's parameters, with its adapters beside the matrices that they modify."""
    layer, *adapters = arrays
    return lora.attach(layer, adapters, config, role) if adapters else layer


def rms_norm(x: jax.Array, weight: jax.Array, config: DecoderConfig) -> jax.Array:
    """RMSNorm over the last axis, float32 inside."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + config.norm_eps)
    weight = weight.astype(jnp.float32)
    return (wide * scale * (1 + weight if config.norm_plus_one else weight)).astype(x.dtype)


def dense(x: jax.Array, module: Mapping[str, jax.Array]) -> jax.Array:
    """x @ kernel + bias, x [..., in].

    All leading axes are merged: for the gradient of a product over several axes XLA's CPU backend
    first materialises a transpose, which made forward and backward (without attention) 1.7 times as
    slow.
    """
    flat = x.reshape(-1, x.shape[-1])
    out = product(flat, module["kernel"])
    if "lora_a" in module:
        small = flat @ module["lora_a"].astype(x.dtype)
        if "lora_kept" in module:
            kept = module["lora_kept"]
            kept = kept if kept.ndim == 3 else kept[:, None]
            by_row = small.reshape(kept.shape[0], -1, kept.shape[2])
            if kept.dtype == bool:
                by_row = jnp.where(kept, by_row, 0)
            else:  # gates
                by_row = by_row * kept.astype(x.dtype)
            small = by_row.reshape(small.shape)
        out = out + small @ module["lora_b"].astype(x.dtype)
    out = out.reshape(*x.shape[:-1], -1)
    return out + module["bias"].astype(x.dtype) if "bias" in module else out


def rotations(config: DecoderConfig, positions: jax.Array, size: int) -> tuple[Rotation, ...]:
    """RoPE at positions i32[...] below size: of all layers, and the local one if there is one."""
    c = config
    plain = rotation(positions, frequencies(c.head_dim, c.rope_theta, c.rope_scaling), size)
    if c.local_rope_theta is None:
        return (plain,)
    return plain, rotation(positions, frequencies(c.head_dim, c.local_rope_theta, None), size)


def queries_keys_values(
    layer: Params, config: DecoderConfig, x: jax.Array, turn: Rotation
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries (scaled), keys and values [..., heads, hd] of x [..., D], with RoPE applied."""
    c, modules = config, layer["self_attn"]
    x = rms_norm(x, layer["input_layernorm"]["weight"], c)
    shape = (*x.shape[:-1], -1, c.head_dim)
    q, k, v = (dense(x, modules[name]).reshape(shape) for name in ("q_proj", "k_proj", "v_proj"))
    if c.qk_norm:
        q = rms_norm(q, modules["q_norm"]["weight"], c)
        k = rms_norm(k, modules["k_norm"]["weight"], c)
    scale = c.head_dim**-0.5 if c.query_scale is None else c.query_scale
    return rotate(q, turn) * jnp.asarray(scale, q.dtype), rotate(k, turn), v


def rest(layer: Params, config: DecoderConfig, x: jax.Array, attended: jax.Array) -> jax.Array:
    """The rest of a block for x [..., D] after attention returned [..., H, hd]."""
    c, mlp = config, layer["mlp"]
    y = attended.reshape(*x.shape[:-1], c.heads * c.head_dim)
    y = dense(y, layer["self_attn"]["o_proj"])
    before_mlp = "post_attention_layernorm"
    if c.post_norms:
        y = rms_norm(y, layer[before_mlp]["weight"], c)
        before_mlp = "pre_feedforward_layernorm"
    x = x + y
    y = rms_norm(x, layer[before_mlp]["weight"], c)
    gate, up = dense(y, mlp["gate_proj"]), dense(y, mlp["up_proj"])
    y = dense(ACTIVATIONS[c.activation](gate) * up, mlp["down_proj"])
    if c.post_norms:
        y = rms_norm(y, layer["post_feedforward_layernorm"]["weight"], c)
    return place(x + y, BATCH, None, None)
