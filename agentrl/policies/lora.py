"""Low-rank adapters (LoRA): a small trained difference to frozen matrices.

E. Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models",
https://arxiv.org/abs/2106.09685, equation 3 (written from the paper): h = W x + (alpha / r) B A x,
with random A and B = 0, so training starts from the published function. A is normal with deviation
1 / sqrt(in), so A x has the scale of x. No dropout.

Parameters are `params["lora"][module][projection]`, {"a": [layers, in, r], "b": [layers, r, out]},
beside the others, so trained and frozen parameters are different leaves.

With `lora_roles` above 1 there is an adapter for each role, {"a": [layers, roles, in, r], "b":
[layers, roles, r, out]}: the seats of a game, or a planner and its executor, share the frozen
weights and train separate adapters. They are computed as one adapter of rank roles * r, of whose
hidden units a row keeps its role's r: the small products cost `roles` times as much, without other
overhead per row.
(On a CPU, with two roles of rank 16, generation takes a quarter of the time of gathering each row's
matrices, which reads them once per row instead of once; for long rows both are equally fast.)

With `lora_blocks` there is one adapter {"a": [layers, in, r], "b": [layers, r, out]} for all roles,
whose hidden units a row weights by its role's gates (`agentrl.policies.gated`).
`params["lora_gate"]` has each projection's {"gate": [layers, EMBEDDING, blocks]}, and
`params["lora_added"]` the added blocks' "a", "b" and "gate".
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import gated
from agentrl.policies.decoder_config import DecoderConfig

Params = dict[str, Any]


# Entries of params that hold adapters.
ENTRIES = ("lora", "lora_gate", "lora_added")


def init(key: jax.Array, layers: Params, config: DecoderConfig) -> Params:
    """Adapters f32 of the targets in the stacked layers, by entry of params."""
    roles = () if config.lora_blocks or config.lora_roles == 1 else (config.lora_roles,)
    drawn = {"lora": _drawn(key, layers, config, roles, config.lora_rank)}
    if config.lora_blocks:
        gate_key, added_key = jax.random.split(jax.random.fold_in(key, 1))
        drawn["lora_gate"] = _gates(gate_key, drawn["lora"], config, config.lora_blocks)
    if config.lora_added:
        blocks_key, gate_key = jax.random.split(added_key)
        added = _drawn(blocks_key, layers, config, (), config.lora_added * block_rank(config))
        gates = _gates(gate_key, added, config, config.lora_added)
        drawn["lora_added"] = {
            module: {name: ab | gates[module][name] for name, ab in found.items()}
            for module, found in added.items()
        }
    return drawn


def block_rank(config: DecoderConfig) -> int:
    """The rank by which alpha is divided: that of a block, or of the whole adapter."""
    return config.lora_rank // max(config.lora_blocks, 1)


def _drawn(
    key: jax.Array, layers: Params, config: DecoderConfig, each: tuple[int, ...], rank: int
) -> Params:
    """Adapters of this rank of the targets: A random, B zero."""
    modules = [(m, n) for m in ("self_attn", "mlp") for n in config.lora_targets if n in layers[m]]

    def split(key, _):
        key, drawn = jax.random.split(key)
        return key, drawn

    _, keys = jax.lax.scan(split, key, None, length=config.layers * len(modules))
    keys = keys.reshape(config.layers, len(modules))
    out: Params = {}
    for j, (module, name) in enumerate(modules):
        _, inputs, outputs = layers[module][name]["kernel"].shape
        drawn = jax.vmap(lambda key, n=inputs: jax.random.normal(key, (*each, n, rank)))(keys[:, j])
        out.setdefault(module, {})[name] = {
            "a": drawn / math.sqrt(inputs),
            "b": jnp.zeros((config.layers, *each, rank, outputs)),
        }
    return out


def _gates(key: jax.Array, adapters: Params, config: DecoderConfig, blocks: int) -> Params:
    """Gates of each adapted projection; logits of a role begin with deviation 1."""
    modules = [(module, name) for module, found in adapters.items() for name in found]
    drawn = jax.random.normal(key, (len(modules), config.layers, gated.EMBEDDING, blocks))
    out: Params = {}
    for (module, name), gate in zip(modules, drawn, strict=True):
        out.setdefault(module, {})[name] = {"gate": gate}
    return out


def check_role(role: jax.Array | int | None, config: DecoderConfig) -> None:
    """ValueError if adapters depend on a role and none is given."""
    if config.lora_roles > 1 and role is None:
        raise ValueError(
            f"decoder lora_roles={config.lora_roles}: give the role of each row, 0 to "
            f"{config.lora_roles - 1}"
        )


def attach(
    layer: Params,
    adapters: Sequence[Params],
    config: DecoderConfig,
    role: jax.Array | None = None,
) -> Params:
    """A layer with "lora_a" and "lora_b" beside the kernels; the factor alpha / r is in the latter.

    adapters: the layer's part of the entries that there are, in the order of `ENTRIES`. role:
    i32[B], of each row, or i32[B, L], of each position; with several roles "lora_kept", bool[B,
    roles * r] or [B, L, roles * r], masks the hidden units that are kept after the product with
    "lora_a", with gates f32[..., r] weights them.
    """
    check_role(role, config)
    scale, out = config.lora_alpha / block_rank(config), dict(layer)
    for module, found in adapters[0].items():
        out[module] = dict(layer[module])
        for name in found:
            if config.lora_blocks:
                made = _gated([tree[module][name] for tree in adapters], config, role)
            else:
                made = _of_roles(found[name], config, role)
            made["lora_b"] = made["lora_b"] * scale
            out[module][name] = layer[module][name] | made
    return out


def _of_roles(ab: Params, config: DecoderConfig, role: jax.Array | None) -> Params:
    """An adapter, or those of all roles concatenated: [in, roles * r] and [roles * r, out]."""
    a, b = ab["a"], ab["b"]
    if role is None or config.lora_roles == 1:
        return {"lora_a": a, "lora_b": b}
    kept = jnp.repeat(role[..., None] == jnp.arange(config.lora_roles), config.lora_rank, axis=-1)
    a, b = jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[-1])
    return {"lora_a": a, "lora_b": b, "lora_kept": kept}


def _gated(parts: Sequence[Params], config: DecoderConfig, role: jax.Array | None) -> Params:
    """Blocks, and those that were added, with the weights of their hidden units."""
    if role is None:  # of one role
        role = jnp.zeros(1, jnp.int32)
    ab, gate, *added = parts
    found = [(ab | gate, False), *((x, True) for x in added)]
    weights = [gated.blocks_of(x["gate"], config, role, added=new) for x, new in found]
    return {
        "lora_a": jnp.concatenate([x["a"] for x, _ in found], axis=1),
        "lora_b": jnp.concatenate([x["b"] for x, _ in found], axis=0),
        "lora_kept": jnp.repeat(jnp.concatenate(weights, axis=-1), block_rank(config), axis=-1),
    }


def of_role(params: Params, config: DecoderConfig, role: int) -> tuple[DecoderConfig, Params]:
    """(config, params) with the adapters of one role only; gates are multiplied into B.

    Raises:
      ValueError: there is no such role.
    """
    if not 0 <= role < config.lora_roles:
        raise ValueError(f"role={role}: expected 0 to {config.lora_roles - 1} (decoder lora_roles)")
    if config.lora_blocks:
        return _of_gates(params, config, role)
    if config.lora_roles == 1:
        return config, params
    alone = jax.tree.map(lambda x: x[:, role], params["lora"])
    return dataclasses.replace(config, lora_roles=1), params | {"lora": alone}


def _of_gates(params: Params, config: DecoderConfig, role: int) -> tuple[DecoderConfig, Params]:
    rank = (config.lora_blocks + config.lora_added) * block_rank(config)
    alone = dataclasses.replace(
        config,
        lora_rank=rank,
        lora_alpha=config.lora_alpha * rank / block_rank(config),
        lora_roles=1,
        lora_blocks=0,
        lora_profiles=(),
        lora_added=0,
        lora_added_for=(),
    )

    def one(parts):
        made = _gated(parts, config, jnp.array([role]))
        return {"a": made["lora_a"], "b": made["lora_b"] * made["lora_kept"][0][:, None]}

    entries = [params[name] for name in ENTRIES if name in params]
    found = {
        module: {
            name: jax.vmap(one)([tree[module][name] for tree in entries])
            for name in entries[0][module]
        }
        for module in entries[0]
    }
    rest = {name: value for name, value in params.items() if name not in ENTRIES}
    return alone, rest | {"lora": found}


def merge(
    params: Params, config: DecoderConfig, role: int | None = None
) -> tuple[DecoderConfig, Params]:
    """(config, params) of the equivalent model without adapters: kernel + (alpha / r) A B.

    role: the role whose adapters are merged, if each has its own. The sum is computed in float32
    and rounded to the kernel's dtype.

    Raises:
      ValueError: no role is given although there are several, or there is no such role.
    """
    check_role(role, config)
    if role is not None or config.lora_blocks:
        config, params = of_role(params, config, role or 0)
    if not config.lora_rank:
        return config, params

    def one(arrays):
        layer = attach(arrays[0], arrays[1:], config)
        return jax.tree.map(_merged, layer, is_leaf=_is_adapted)

    # Layer by layer: the products in float32 take memory.
    layers = jax.lax.map(one, (params["layers"], params["lora"]))
    rest = {name: value for name, value in params.items() if name not in ("layers", "lora")}
    return dataclasses.replace(config, lora_rank=0), rest | {"layers": layers}


def _is_adapted(node: chex.ArrayTree) -> bool:
    return isinstance(node, dict) and "lora_a" in node


def _merged(node: chex.ArrayTree) -> chex.ArrayTree:
    if not _is_adapted(node):
        return node
    kernel = node["kernel"]
    product = node["lora_a"].astype(jnp.float32) @ node["lora_b"].astype(jnp.float32)
    merged = (kernel.astype(jnp.float32) + product).astype(kernel.dtype)
    return {"kernel": merged} | {k: v for k, v in node.items() if k == "bias"}
