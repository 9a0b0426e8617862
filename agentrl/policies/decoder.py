"""The decoder: one transformer for small policies from scratch and for published weights.

Letters: B rows, L positions of whole sequences, P positions that are appended, S slots of a cache,
D width, H query heads, K key-value heads, hd numbers a head, V tokens.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.policies.attention import (
    RopeScaling,
    Rotation,
    attend,
    frequencies,
    rotate,
    rotation,
    span,
    visible,
    write,
)

# A tree of arrays by name; layers are params["layers"]["0"], ["1"], ...
Params = dict[str, Any]

ACTIVATIONS = {"silu": jax.nn.silu, "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True)}


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Sizes and variants of a decoder.

    The defaults are Llama's block: RMSNorm before attention and before a gated MLP, rotary
    positions, no biases. Llama 2/3, Mistral, Qwen2/2.5/3 and Gemma 1/2/3 differ from it by these
    options.

    vocab_size, width, layers: V, D, number of blocks.
    heads, kv_heads, head_dim: of attention; kv_heads divides heads, head_dim is even.
    hidden: width of the gated MLP, down(activation(gate x) * up x). activation: "silu" or
      "gelu_tanh".
    rope_theta, rope_scaling: rotary frequencies. local_rope_theta: those of sliding layers, without
      scaling (None: as all others).
    norm_eps: added to the mean square. norm_plus_one: norms multiply by 1 + weight. post_norms:
      norms after attention and MLP too, before the residual sum.
    qkv_bias, qk_norm: biases of the three projections; RMSNorm of each query and key head.
    query_scale: factor of the queries (None: head_dim ** -0.5).
    sliding_window: positions that a query sees, itself included. sliding_layers: which layers have
      the window, one entry a layer (None: all of them).
    attention_soft_cap, logit_soft_cap: c tanh(x / c) of attention scores and of logits.
    tie_embeddings: logits come from the embedding matrix. embed_scale: factor of embeddings.
    value_heads: outputs of `values`.
    dtype: of activations and of the cache, "float32" or "bfloat16". Parameters are float32 unless
      their loader says otherwise, and are cast where they are used; norms, attention weights,
      logits and values are float32.
    """

    vocab_size: int
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 32
    hidden: int = 512
    activation: str = "silu"
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    local_rope_theta: float | None = None
    norm_eps: float = 1e-6
    norm_plus_one: bool = False
    post_norms: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    query_scale: float | None = None
    sliding_window: int | None = None
    sliding_layers: tuple[bool, ...] | None = None
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None
    tie_embeddings: bool = True
    embed_scale: float = 1.0
    value_heads: int = 0
    dtype: str = "float32"

    def __post_init__(self):
        sizes = ("vocab_size", "width", "layers", "heads", "kv_heads", "head_dim", "hidden")
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"decoder {name}={getattr(self, name)}: expected at least 1")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"decoder heads={self.heads}: expected a multiple of kv_heads={self.kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(
                f"decoder head_dim={self.head_dim}: expected an even number, rotary positions turn "
                "pairs"
            )
        for name, allowed in (("activation", ACTIVATIONS), ("dtype", ("float32", "bfloat16"))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"decoder {name}={getattr(self, name)!r}: expected one of {', '.join(allowed)}"
                )
        if self.value_heads < 0:
            raise ValueError(f"decoder value_heads={self.value_heads}: expected at least 0")
        positive = ("rope_theta", "local_rope_theta", "norm_eps", "query_scale", "sliding_window")
        for name in (*positive, "attention_soft_cap", "logit_soft_cap", "embed_scale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"decoder {name}={value}: expected a positive number")
        self._check_sliding()

    def _check_sliding(self):
        if self.sliding_window is None:
            for name in ("sliding_layers", "local_rope_theta"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"decoder {name}={getattr(self, name)} without sliding_window: set the "
                        f"window or leave {name} out"
                    )
        elif self.sliding_layers is not None and len(self.sliding_layers) != self.layers:
            raise ValueError(
                f"decoder sliding_layers has {len(self.sliding_layers)} entries: expected one for "
                f"each of layers={self.layers}"
            )

    def window(self, layer: int) -> int | None:
        """Sliding window of a layer, None for a layer that sees everything."""
        sliding = self.sliding_layers is None or self.sliding_layers[layer]
        return self.sliding_window if sliding else None

    def has_local_rope(self, layer: int) -> bool:
        """Whether a layer's rotary frequencies are the local ones."""
        return self.local_rope_theta is not None and self.window(layer) is not None


def init(key: jax.Array, config: DecoderConfig) -> Params:
    """Draws parameters: normal(0.02), projections into the residual by 1 / sqrt(2 layers) smaller.

    Names follow Hugging Face's: "kernel" is its "weight" transposed to [in, out]; "weight" (norms,
    the embedding) has its shape.
    """
    c = config
    keys = iter(jax.random.split(key, 3 + 7 * c.layers))
    residual = 0.02 / math.sqrt(2 * c.layers)

    def dense(*shape, scale=0.02):
        return {"kernel": scale * jax.random.normal(next(keys), shape, jnp.float32)}

    def norm(size=c.width):
        fill = jnp.zeros if c.norm_plus_one else jnp.ones
        return {"weight": fill(size, jnp.float32)}

    def projection(heads):
        out = dense(c.width, heads * c.head_dim)
        return out | {"bias": jnp.zeros(heads * c.head_dim)} if c.qkv_bias else out

    def layer():
        attention = {
            "q_proj": projection(c.heads),
            "k_proj": projection(c.kv_heads),
            "v_proj": projection(c.kv_heads),
            "o_proj": dense(c.heads * c.head_dim, c.width, scale=residual),
        }
        if c.qk_norm:
            attention |= {"q_norm": norm(c.head_dim), "k_norm": norm(c.head_dim)}
        out = {
            "input_layernorm": norm(),
            "self_attn": attention,
            "post_attention_layernorm": norm(),
            "mlp": {
                "gate_proj": dense(c.width, c.hidden),
                "up_proj": dense(c.width, c.hidden),
                "down_proj": dense(c.hidden, c.width, scale=residual),
            },
        }
        if c.post_norms:
            out |= {"pre_feedforward_layernorm": norm(), "post_feedforward_layernorm": norm()}
        return out

    params = {
        "embed_tokens": {"weight": dense(c.vocab_size, c.width)["kernel"]},
        "layers": {str(i): layer() for i in range(c.layers)},
        "norm": norm(),
    }
    if not c.tie_embeddings:
        params["lm_head"] = dense(c.width, c.vocab_size)
    if c.value_heads:
        params["value_head"] = dense(c.width, c.value_heads) | {"bias": jnp.zeros(c.value_heads)}
    return params


def _norm(x: jax.Array, weight: jax.Array, config: DecoderConfig) -> jax.Array:
    """RMSNorm over the last axis, float32 inside."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + config.norm_eps)
    weight = weight.astype(jnp.float32)
    return (wide * scale * (1 + weight if config.norm_plus_one else weight)).astype(x.dtype)


def _dense(x: jax.Array, module: Mapping[str, jax.Array]) -> jax.Array:
    out = x @ module["kernel"].astype(x.dtype)
    return out + module["bias"].astype(x.dtype) if "bias" in module else out


def _embed(params: Params, config: DecoderConfig, tokens: jax.Array) -> jax.Array:
    x = params["embed_tokens"]["weight"][tokens].astype(config.dtype)
    return x if config.embed_scale == 1 else x * jnp.asarray(config.embed_scale, x.dtype)


def _rotations(config: DecoderConfig, positions: jax.Array) -> tuple[Rotation, ...]:
    """The rotations of each layer at positions i32[...]."""
    c = config
    everywhere = rotation(positions, frequencies(c.head_dim, c.rope_theta, c.rope_scaling))
    if c.local_rope_theta is None:
        return (everywhere,) * c.layers
    local = rotation(positions, frequencies(c.head_dim, c.local_rope_theta, None))
    return tuple(local if c.has_local_rope(i) else everywhere for i in range(c.layers))


def fused(params: Params) -> Params:
    """The same decoder with fewer, wider matrix products: q, k, v in one and gate, up in one.

    Every function here takes either form. Worth it where one set of parameters is used over and
    over, as in generation.
    """

    def join(modules, *names):
        return {
            name: jnp.concatenate([modules[n][name] for n in names], axis=-1)
            for name in modules[names[0]]
        }

    def layer(modules):
        attention, mlp = dict(modules["self_attn"]), dict(modules["mlp"])
        attention["qkv_proj"] = join(attention, "q_proj", "k_proj", "v_proj")
        mlp["gate_up_proj"] = join(mlp, "gate_proj", "up_proj")
        return modules | {"self_attn": attention, "mlp": mlp}

    return params | {"layers": {i: layer(modules) for i, modules in params["layers"].items()}}


def _split(
    x: jax.Array, modules: Params, whole: str, names: Sequence[str], sizes: Sequence[int]
) -> list[jax.Array]:
    """Products of x with several modules, in one product where they are fused."""
    if whole not in modules:
        return [_dense(x, modules[name]) for name in names]
    return jnp.split(_dense(x, modules[whole]), np.cumsum(sizes)[:-1], axis=-1)


def _qkv(layer: Params, config: DecoderConfig, x: jax.Array, turn: Rotation):
    """Queries (scaled), keys and values of normed x [..., D]: [..., heads, hd], rotated."""
    c, modules = config, layer["self_attn"]
    sizes = [n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads)]
    products = _split(x, modules, "qkv_proj", ("q_proj", "k_proj", "v_proj"), sizes)
    q, k, v = (y.reshape(*x.shape[:-1], -1, c.head_dim) for y in products)
    if c.qk_norm:
        q = _norm(q, modules["q_norm"]["weight"], c)
        k = _norm(k, modules["k_norm"]["weight"], c)
    scale = c.head_dim**-0.5 if c.query_scale is None else c.query_scale
    return rotate(q, turn) * jnp.asarray(scale, q.dtype), rotate(k, turn), v


def _block(layer: Params, config: DecoderConfig, x: jax.Array, mix) -> jax.Array:
    """One block on x [..., D]; mix: normed x -> what attention read [..., H, hd]."""
    c = config
    attended = mix(_norm(x, layer["input_layernorm"]["weight"], c))
    attended = attended.reshape(*x.shape[:-1], c.heads * c.head_dim)
    attended = _dense(attended, layer["self_attn"]["o_proj"])
    before_mlp = "post_attention_layernorm"
    if c.post_norms:
        attended = _norm(attended, layer[before_mlp]["weight"], c)
        before_mlp = "pre_feedforward_layernorm"
    x = x + attended
    y = _norm(x, layer[before_mlp]["weight"], c)
    mlp = layer["mlp"]
    gate, up = _split(y, mlp, "gate_up_proj", ("gate_proj", "up_proj"), (c.hidden, c.hidden))
    y = _dense(ACTIVATIONS[c.activation](gate) * up, mlp["down_proj"])
    if c.post_norms:
        y = _norm(y, layer["post_feedforward_layernorm"]["weight"], c)
    return x + y


def hidden(
    params: Params, config: DecoderConfig, tokens: jax.Array, positions: jax.Array | None = None
) -> jax.Array:
    """Hidden states of whole sequences after the last norm: i32[B, L] -> f32[B, L, D].

    A position sees itself and those before it in its row, so that padding on the right changes
    nothing before it. positions: i32[B, L], non-decreasing (default 0, 1, ...).
    """
    index = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    positions = index if positions is None else positions
    x, turns = _embed(params, config, tokens), _rotations(config, positions)
    for i in range(config.layers):
        layer, window = params["layers"][str(i)], config.window(i)
        mask = visible(index, index, None)
        if window is not None:
            mask = mask & visible(positions, positions, window)

        def mix(x, layer=layer, i=i, mask=mask):
            q, k, v = _qkv(layer, config, x, turns[i])
            k, v = k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)
            return attend(q, (k,), (v,), mask, config.attention_soft_cap)

        x = _block(layer, config, x, mix)
    return _norm(x, params["norm"]["weight"], config).astype(jnp.float32)


def unembed(params: Params, config: DecoderConfig, hidden: jax.Array) -> jax.Array:
    """Logits of hidden states: [..., D] -> f32[..., V]."""
    x = hidden.astype(config.dtype)
    if config.tie_embeddings:
        kernel = params["embed_tokens"]["weight"].T
    else:
        kernel = params["lm_head"]["kernel"]
    out = jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=jnp.float32)
    cap = config.logit_soft_cap
    return out if cap is None else cap * jnp.tanh(out / cap)


def values(params: Params, config: DecoderConfig, hidden: jax.Array) -> jax.Array:
    """Outputs of the value heads: [..., D] -> f32[..., value_heads].

    Raises:
      ValueError: the decoder has none.
    """
    if not config.value_heads:
        raise ValueError("decoder value_heads=0: set value_heads to the number of critics")
    return _dense(hidden.astype(jnp.float32), params["value_head"])


def logits(params: Params, config: DecoderConfig, tokens: jax.Array) -> jax.Array:
    """Logits of the next token at every position of whole sequences: i32[B, L] -> f32[B, L, V]."""
    return unembed(params, config, hidden(params, config, tokens))


@struct.dataclass
class Cache:
    """Keys and values of what B rows have read, and where each row writes next.

    k, v: for each layer, segments [B, K, hd, S_i] and [B, K, S_i, hd], whose lengths add up to the
      size. Slot p holds position p.
    length: i32[B], tokens that a row has taken, and so the position of its next one. Tokens beyond
      the size are not kept: a row with length > size has lost some.
    """

    k: tuple[tuple[jax.Array, ...], ...]
    v: tuple[tuple[jax.Array, ...], ...]
    length: jax.Array

    @property
    def size(self) -> int:
        """Tokens that a row has room for."""
        return sum(segment.shape[2] for segment in self.v[0])

    @property
    def overflowed(self) -> jax.Array:
        """Rows that took more tokens than they have room for, bool[B]."""
        return self.length > self.size


def empty_cache(
    config: DecoderConfig, batch: int, size: int, *, segment: int | None = None
) -> Cache:
    """A cache with room for `size` tokens in each of `batch` rows.

    segment: slots that are read together or, while no row needs them, not at all. By default an
    eighth of the size, at least 64, on a CPU, where branches are free; elsewhere everything.
    """
    if batch < 1 or size < 1:
        raise ValueError(f"empty_cache batch={batch}, size={size}: expected at least 1 of each")
    if segment is None:
        on_cpu = jax.default_backend() == "cpu"
        segment = max(64, 16 * math.ceil(size / 128)) if on_cpu else size
    sizes = [min(segment, size - start) for start in range(0, size, segment)]
    lead, last = (batch, config.kv_heads), config.head_dim

    def zeros(shapes):
        return tuple(
            tuple(jnp.zeros((*lead, *shape), config.dtype) for shape in shapes)
            for _ in range(config.layers)
        )

    return Cache(
        k=zeros([(last, n) for n in sizes]),
        v=zeros([(n, last) for n in sizes]),
        length=jnp.zeros(batch, jnp.int32),
    )


def extend(
    params: Params, config: DecoderConfig, cache: Cache, tokens: jax.Array, count: jax.Array
) -> tuple[jax.Array, Cache]:
    """Appends tokens [B, P] to the rows: row b takes its first count[b] ones, i32[B].

    Returns hidden f32[B, P, D] after the last norm, of no meaning from count[b] on, and the cache.
    A row with count 0 stays as it is.
    """
    positions = cache.length[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)
    slots = jnp.arange(cache.size, dtype=jnp.int32)[None]
    x, turns = _embed(params, config, tokens), _rotations(config, positions)
    keys, vals = [], []
    for i in range(config.layers):
        layer, window = params["layers"][str(i)], config.window(i)
        mask, seen = visible(positions, slots, window), span(cache.length, count, window)

        def mix(x, layer=layer, i=i, mask=mask, seen=seen):
            q, k, v = _qkv(layer, config, x, turns[i])
            held_k, held_v = write(cache.k[i], cache.v[i], k, v, cache.length, count)
            keys.append(held_k)
            vals.append(held_v)
            return attend(q, held_k, held_v, mask, config.attention_soft_cap, seen)

        x = _block(layer, config, x, mix)
    x = _norm(x, params["norm"]["weight"], config).astype(jnp.float32)
    return x, Cache(tuple(keys), tuple(vals), cache.length + count)


def step(
    params: Params, config: DecoderConfig, cache: Cache, token: jax.Array, active: jax.Array
) -> tuple[jax.Array, Cache]:
    """Appends a token i32[B] to the rows that are active, bool[B]: (hidden f32[B, D], cache)."""
    out, cache = extend(params, config, cache, token[:, None], active.astype(jnp.int32))
    return out[:, 0], cache
