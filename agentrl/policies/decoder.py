"""The decoder: one transformer for small policies from scratch and for published weights.

Letters: B rows, L positions of whole sequences, P appended positions, S slots of a cache, D width,
H query heads, K key-value heads, hd head dimension, V tokens.

`role`, i32[B]: role of each row, or i32[B, L] in `hidden` and `logits`: of each position; used if
each role has its own adapters (`lora_roles` above 1; ValueError if it is missing then).
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.devices.placement import BATCH, gathered, place, platform
from agentrl.policies import block, layers, lora, output_heads
from agentrl.policies.attention import attend, attend_causal, attend_flash, span, visible
from agentrl.policies.cache import Cache as Cache
from agentrl.policies.cache import decode_unroll, write
from agentrl.policies.cache import empty_cache as empty_cache
from agentrl.policies.chunks import in_chunks
from agentrl.policies.decoder_config import DecoderConfig as DecoderConfig

# A nested dict of arrays. params["layers"] and adapters have a leading axis of layers.
Params = dict[str, Any]


def init(key: jax.Array, config: DecoderConfig) -> Params:
    """Initialises parameters: normal(0.02), scaled by 1 / sqrt(2 layers) for projections into the
    residual.

    Names follow Hugging Face's: "kernel" is its "weight" transposed to [in, out]; "weight" (norms,
    the embedding) has its shape.
    """
    c = config
    keys = jax.random.split(key, 3 + 7 * c.layers)
    # Each layer has seven keys; the others are of the embedding, the output head and value heads.
    keys, of_layers = [keys[0], *keys[1 + 7 * c.layers :]], keys[1 : 1 + 7 * c.layers]
    matrices = iter(of_layers.reshape(c.layers, 7).T)
    residual = 0.02 / math.sqrt(2 * c.layers)

    def dense(*shape, scale=0.02):
        drawn = jax.vmap(lambda key: jax.random.normal(key, shape, jnp.float32))(next(matrices))
        return {"kernel": scale * drawn}

    def norm(*shape):
        fill = jnp.zeros if c.norm_plus_one else jnp.ones
        return {"weight": fill(shape, jnp.float32)}

    def projection(heads):
        out = dense(c.width, heads * c.head_dim)
        return out | {"bias": jnp.zeros((c.layers, heads * c.head_dim))} if c.qkv_bias else out

    attention = {
        "q_proj": projection(c.heads),
        "k_proj": projection(c.kv_heads),
        "v_proj": projection(c.kv_heads),
        "o_proj": dense(c.heads * c.head_dim, c.width, scale=residual),
    }
    if c.qk_norm:
        attention |= {name: norm(c.layers, c.head_dim) for name in ("q_norm", "k_norm")}
    stacked = {
        "input_layernorm": norm(c.layers, c.width),
        "self_attn": attention,
        "post_attention_layernorm": norm(c.layers, c.width),
        "mlp": {
            "gate_proj": dense(c.width, c.hidden),
            "up_proj": dense(c.width, c.hidden),
            "down_proj": dense(c.hidden, c.width, scale=residual),
        },
    }
    if c.post_norms:
        for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
            stacked[name] = norm(c.layers, c.width)

    def outer(*shape):
        return 0.02 * jax.random.normal(keys.pop(0), shape, jnp.float32)

    params = {
        "embed_tokens": {"weight": outer(c.vocab_size, c.width)},
        "layers": stacked,
        "norm": norm(c.width),
    }
    if not c.tie_embeddings:
        params["lm_head"] = {"kernel": outer(c.width, c.vocab_size)}
    if c.value_heads:
        kernel = outer(c.width, c.value_heads)
        params["value_head"] = {"kernel": kernel, "bias": jnp.zeros(c.value_heads)}
    if c.output_heads:
        head_key = jax.random.fold_in(key, 1)
        params[output_heads.ENTRY] = output_heads.init(
            head_key, c.output_heads, c.width, c.vocab_size
        )
    if c.lora_rank:
        params |= lora.init(jax.random.fold_in(key, 0), params["layers"], c)
    return params


def _stacked(params: Params, config: DecoderConfig) -> list[Params]:
    """The layers, and their adapters if there are any."""
    adapters = lora.ENTRIES if config.lora_rank else ()
    return [params["layers"], *(params[name] for name in adapters if name in params)]


def _decoded(
    params: Params, config: DecoderConfig, *, separate: bool = False
) -> tuple[list[Params], ...]:
    """The same as `extend` needs them: for each layer, or by `layers.split` for `layers.apply`."""
    if isinstance(params["layers"], tuple):  # by `cast`
        return params["layers"]
    stacked = _stacked(params, config)
    if decode_unroll(config) == config.layers:
        return tuple(jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(config.layers))
    return layers.split(stacked, config.kinds, separate=separate)


def cast(params: Params, config: DecoderConfig) -> Params:
    """Matrices in the dtype of computation, gathered over the mesh's axis `fsdp`, and the layers
    split as `extend` needs them: for `extend`, `step` and `unembed`.

    This keeps a loop from casting, gathering and splitting them in every iteration. What has been
    cast is returned unchanged.
    """
    if isinstance(params["layers"], tuple):
        return params

    def one(path, x):
        names = [entry.key for entry in path]
        is_matrix = names[0] == "embed_tokens" or names[-1] in ("kernel", "a", "b")
        return x.astype(config.dtype) if is_matrix else x

    out = gathered(jax.tree_util.tree_map_with_path(one, params))
    if config.output_heads:
        mixture = output_heads.mixed(out[output_heads.ENTRY]["kernel"], _weights(config))
        out = out | {output_heads.ENTRY: {"kernel": mixture}}
    parts = _decoded(out, config, separate=platform() == "cpu")
    return {k: v for k, v in out.items() if k not in lora.ENTRIES} | {"layers": parts}


def _embed(params: Params, config: DecoderConfig, tokens: jax.Array) -> jax.Array:
    # Not sharded in D from here on, so that a block gathers or reduces its matrices instead.
    table = place(params["embed_tokens"]["weight"], "tensor", None)
    x = place(table[tokens].astype(config.dtype), BATCH, None, None)
    return x if config.embed_scale == 1 else x * jnp.asarray(config.embed_scale, x.dtype)


def hidden(
    params: Params,
    config: DecoderConfig,
    tokens: jax.Array,
    role: jax.Array | None = None,
) -> jax.Array:
    """Hidden states of whole sequences after the last norm: i32[B, L] -> f32[B, L, D].

    Attention is causal, so padding on the right does not change earlier positions.
    """
    return _forward(params, config, None, tokens, role)[1]


def hidden_after(
    params: Params, config: DecoderConfig, opening: jax.Array, tokens: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`hidden` of sequences that share their first tokens, which are computed once.

    opening i32[P], tokens after it i32[B, L]. Returns f32[1, P, D] and f32[B, L, D]; gradients with
    respect to the opening's positions are summed over the rows.
    """
    return _forward(params, config, opening[None], tokens, None)


def _forward(
    params: Params,
    config: DecoderConfig,
    opening: jax.Array | None,
    tokens: jax.Array,
    role: jax.Array | None,
) -> tuple[jax.Array | None, jax.Array]:
    """Hidden states [1, P, D] of an opening, if there is one, and [B, L, D] of what follows it."""
    before, length = 0 if opening is None else opening.shape[1], tokens.shape[1]

    def turns_at(start, count):
        positions = jnp.arange(start, start + count, dtype=jnp.int32)[None]
        return block.rotations(config, positions, before + length)

    if config.attention == "cudnn":
        attend_rows = attend_flash
    else:
        attend_rows = functools.partial(attend_causal, soft_cap=config.attention_soft_cap)
    turns = turns_at(before, length)
    turns_before = None if opening is None else turns_at(0, before)

    def apply(kind, arrays, _, carry):
        layer, (first, x) = block.layer_of(arrays, config, role), carry
        q, k, v = block.queries_keys_values(layer, config, x, turns[kind.local_rope])
        if first is not None:
            of_first = block.queries_keys_values(
                layer, config, first, turns_before[kind.local_rope]
            )
            first = block.rest(layer, config, first, attend_rows(*of_first, window=kind.window))
            k, v = (
                jnp.concatenate([jnp.broadcast_to(y, (x.shape[0], *y.shape[1:])), z], axis=1)
                for y, z in zip(of_first[1:], (k, v), strict=True)
            )
        return first, block.rest(layer, config, x, attend_rows(q, k, v, window=kind.window))

    def normed(x):
        return block.rms_norm(x, params["norm"]["weight"], config).astype(jnp.float32)

    parts = layers.split(_stacked(params, config), config.kinds)
    options = {"unroll": config.layers_per_iteration(config.unroll), "remat": config.recomputes}
    carry = None if opening is None else _embed(params, config, opening)
    carry = carry, _embed(params, config, tokens)
    first, x = layers.apply(apply, carry, parts, config.kinds, **options)
    return None if first is None else normed(first), normed(x)


def _weights(config: DecoderConfig) -> tuple[float, ...]:
    return output_heads.weights_of(config.output_heads, config.head_weights)


def unembed(
    params: Params, config: DecoderConfig, hidden: jax.Array, head: jax.Array | None = None
) -> jax.Array:
    """Logits of hidden states: [..., D] -> f32[..., V].

    head: i32[...], which of the output heads says them; None, or -1: their mixture.
    """
    x = hidden.reshape(-1, hidden.shape[-1]).astype(config.dtype)
    tied = config.tie_embeddings
    kernel = params["embed_tokens"]["weight"] if tied else params["lm_head"]["kernel"]
    out = layers.wide_product(x, kernel, turned=tied)
    if config.output_heads:
        head = None if head is None else jnp.broadcast_to(head, hidden.shape[:-1]).reshape(-1)
        kernel = params[output_heads.ENTRY]["kernel"]
        out = out + output_heads.logits(kernel, x, _weights(config), head)
    out = out.reshape(*hidden.shape[:-1], -1)
    cap = config.logit_soft_cap
    return out if cap is None else cap * jnp.tanh(out / cap)


def values(params: Params, config: DecoderConfig, hidden: jax.Array) -> jax.Array:
    """Outputs of the value heads: [..., D] -> f32[..., value_heads].

    Raises:
      ValueError: the decoder has none.
    """
    if not config.value_heads:
        raise ValueError("decoder value_heads=0: set value_heads to the number of critics")
    return block.dense(hidden.astype(jnp.float32), params["value_head"])


def logits(
    params: Params, config: DecoderConfig, tokens: jax.Array, role: jax.Array | None = None
) -> jax.Array:
    """Logits of the next token at every position of whole sequences: i32[B, L] -> f32[B, L, V]."""
    return unembed(params, config, hidden(params, config, tokens, role=role))


def extend(
    params: Params,
    config: DecoderConfig,
    cache: Cache,
    tokens: jax.Array,
    count: jax.Array,
    role: jax.Array | None = None,
) -> tuple[jax.Array, Cache]:
    """Appends tokens [B, P] to the rows: row b takes its first count[b] of them, i32[B].

    Returns hidden f32[B, P, D] after the last norm, arbitrary from count[b] on, and the cache. A
    row with count 0 is unchanged.
    """
    positions = cache.length[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)

    def read(q, positions, keys, values, i, window):
        def mask(start, stop):
            return visible(positions, jnp.arange(start, stop, dtype=jnp.int32)[None], window)

        seen = span(cache.length, count, window)
        options = {"soft_cap": config.attention_soft_cap, "span": seen, "layer": i}
        return attend(q, keys, values, mask, **options)

    def apply(kind, arrays, i, carry):
        x, keys, vals = carry
        layer = block.layer_of(arrays, config, role)
        q, k, v = block.queries_keys_values(layer, config, x, turns[kind.local_rope])
        keys, vals = write(keys, vals, k, v, i, cache.length, count)
        reader = functools.partial(read, keys=keys, values=vals, i=i, window=kind.window)
        attended = in_chunks(reader, q, positions, width=config.heads * cache.size)
        return block.rest(layer, config, x, attended), keys, vals

    x, turns = _embed(params, config, tokens), block.rotations(config, positions, cache.size)
    parts = _decoded(params, config)
    if cache.stacked:
        carry, unroll = (x, cache.k[0], cache.v[0]), decode_unroll(config)
        x, *held = layers.apply(apply, carry, parts, config.kinds, unroll=unroll)
        held = [held]
    else:
        held = []
        for *layer, k, v in zip(config.kinds, parts, cache.k, cache.v, strict=True):
            x, *pair = apply(*layer, None, (x, k, v))
            held.append(pair)
    keys, vals = zip(*held, strict=True)
    x = block.rms_norm(x, params["norm"]["weight"], config).astype(jnp.float32)
    return x, Cache(keys, vals, cache.length + count)


def step(
    params: Params,
    config: DecoderConfig,
    cache: Cache,
    token: jax.Array,
    active: jax.Array,
    role: jax.Array | None = None,
) -> tuple[jax.Array, Cache]:
    """Appends a token i32[B] to the rows that are active, bool[B]: (hidden f32[B, D], cache)."""
    count = active.astype(jnp.int32)
    out, cache = extend(params, config, cache, token[:, None], count, role)
    return out[:, 0], cache
