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
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.policies.decoder_config import DecoderConfig

Params = dict[str, Any]


def init(key: jax.Array, layers: Params, config: DecoderConfig) -> Params:
    """Adapters f32 of the targets in the stacked layers."""
    modules = [(m, n) for m in ("self_attn", "mlp") for n in config.lora_targets if n in layers[m]]

    def split(key, _):
        key, drawn = jax.random.split(key)
        return key, drawn

    _, keys = jax.lax.scan(split, key, None, length=config.layers * len(modules))
    keys = keys.reshape(config.layers, len(modules))
    rank, out = config.lora_rank, {}
    each = () if config.lora_roles == 1 else (config.lora_roles,)
    for j, (module, name) in enumerate(modules):
        _, inputs, outputs = layers[module][name]["kernel"].shape
        drawn = jax.vmap(lambda key, n=inputs: jax.random.normal(key, (*each, n, rank)))(keys[:, j])
        out.setdefault(module, {})[name] = {
            "a": drawn / math.sqrt(inputs),
            "b": jnp.zeros((config.layers, *each, rank, outputs)),
        }
    return out


def check_role(role: Any, config: DecoderConfig) -> None:
    """ValueError if adapters depend on a role and none is given."""
    if config.lora_roles > 1 and role is None:
        raise ValueError(
            f"decoder lora_roles={config.lora_roles}: give the role of each row, 0 to "
            f"{config.lora_roles - 1}"
        )


def attach(
    layer: Params, adapters: Params, config: DecoderConfig, role: jax.Array | None = None
) -> Params:
    """A layer with "lora_a" and "lora_b" beside the kernels; the factor alpha / r is in the latter.

    role: i32[B], of each row; with several roles "lora_kept", bool[B, roles * r], masks the hidden
    units that a row keeps after the product with "lora_a".
    """
    check_role(role, config)
    scale, roles, rank = config.lora_alpha / config.lora_rank, config.lora_roles, config.lora_rank
    kept = {}
    if roles > 1:
        kept = {"lora_kept": jnp.repeat(role[:, None] == jnp.arange(roles), rank, axis=1)}
    out = dict(layer)
    for module, found in adapters.items():
        out[module] = dict(layer[module])
        for name, ab in found.items():
            a, b = ab["a"], ab["b"]
            if roles > 1:
                # All roles concatenated: [in, roles * r] and [roles * r, out].
                a = jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1)
                b = b.reshape(-1, b.shape[-1])
            out[module][name] = layer[module][name] | {"lora_a": a, "lora_b": b * scale, **kept}
    return out


def of_role(params: Params, config: DecoderConfig, role: int) -> tuple[DecoderConfig, Params]:
    """(config, params) with the adapters of one role only.

    Raises:
      ValueError: there is no such role.
    """
    if not 0 <= role < config.lora_roles:
        raise ValueError(f"role={role}: expected 0 to {config.lora_roles - 1} (decoder lora_roles)")
    if config.lora_roles == 1:
        return config, params
    alone = jax.tree.map(lambda x: x[:, role], params["lora"])
    return dataclasses.replace(config, lora_roles=1), params | {"lora": alone}


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
    if role is not None:
        config, params = of_role(params, config, role)
    if not config.lora_rank:
        return config, params

    def one(arrays):
        layer = attach(*arrays, config)
        return jax.tree.map(_merged, layer, is_leaf=_is_adapted)

    # Layer by layer: the products in float32 take memory.
    layers = jax.lax.map(one, (params["layers"], params["lora"]))
    rest = {name: value for name, value in params.items() if name not in ("layers", "lora")}
    return dataclasses.replace(config, lora_rank=0), rest | {"layers": layers}


def _is_adapted(node: Any) -> bool:
    return isinstance(node, dict) and "lora_a" in node


def _merged(node: Any) -> Any:
    if not _is_adapted(node):
        return node
    kernel = node["kernel"]
    product = node["lora_a"].astype(jnp.float32) @ node["lora_b"].astype(jnp.float32)
    merged = (kernel.astype(jnp.float32) + product).astype(kernel.dtype)
    return {"kernel": merged} | {k: v for k, v in node.items() if k == "bias"}
