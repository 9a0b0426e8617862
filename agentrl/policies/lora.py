"""Low-rank adapters: a small trained difference to matrices that stay as they are.

E. Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models",
https://arxiv.org/abs/2106.09685, equation 3 (written from the paper): h = W x + (alpha / r) B A x,
with A drawn at random and B = 0, so that training begins with the published function. A is normal
with deviation 1 / sqrt(in), which keeps A x of the size of x. No dropout.

Parameters are `params["lora"][layer][module][projection]`, {"a": [in, r], "b": [r, out]}, beside
the others: what is trained and what is not are different leaves.

With `lora_roles` above 1 there is an adapter for each role, {"a": [roles, in, r], "b":
[roles, r, out]}: the seats of a game, or a planner and its executor, share the weights that stay
and learn by themselves. They are computed as one of rank roles * r, of whose middle a row keeps its
role's r numbers: roles times the small products, and nothing of a row's size more. (On a CPU, two
roles of rank 16, writing takes a quarter of the time that gathering each row's matrices does, which
reads them once a row instead of once; on long rows the two are level.)
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.policies.decoder_config import DecoderConfig

Params = dict[str, Any]


def init(key: jax.Array, layers: Params, config: DecoderConfig) -> Params:
    """Adapters f32 of the targets in every layer."""
    rank, out = config.lora_rank, {}
    for i in range(config.layers):
        out[str(i)] = adapters = {}
        for module in ("self_attn", "mlp"):
            for name in config.lora_targets:
                if name not in layers[str(i)][module]:
                    continue
                key, a_key = jax.random.split(key)
                inputs, outputs = layers[str(i)][module][name]["kernel"].shape
                each = () if config.lora_roles == 1 else (config.lora_roles,)
                drawn = jax.random.normal(a_key, (*each, inputs, rank)) / math.sqrt(inputs)
                adapters.setdefault(module, {})[name] = {
                    "a": drawn,
                    "b": jnp.zeros((*each, rank, outputs)),
                }
    return out


def check_role(role: Any, config: DecoderConfig) -> None:
    """ValueError where adapters depend on a role and none is given."""
    if config.lora_roles > 1 and role is None:
        raise ValueError(
            f"decoder lora_roles={config.lora_roles}: say which role each row has, 0 to "
            f"{config.lora_roles - 1}"
        )


def attach(
    layer: Params, adapters: Params, config: DecoderConfig, role: jax.Array | None = None
) -> Params:
    """A layer with "lora_a" and "lora_b" beside the kernels, the factor alpha / r in the latter.

    role: i32[B], of each row; read where there are several, and then "lora_kept", bool[B, roles *
    r], says what a row keeps of the product with "lora_a".
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
                # As wide as all roles together: [in, roles * r] and [roles * r, out].
                a = jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1)
                b = b.reshape(-1, b.shape[-1])
            out[module][name] = layer[module][name] | {"lora_a": a, "lora_b": b * scale, **kept}
    return out


def of_role(params: Params, config: DecoderConfig, role: int) -> tuple[DecoderConfig, Params]:
    """(config, params) with the adapters of one role alone.

    Raises:
      ValueError: there is no such role.
    """
    if not 0 <= role < config.lora_roles:
        raise ValueError(f"role={role}: expected 0 to {config.lora_roles - 1} (decoder lora_roles)")
    if config.lora_roles == 1:
        return config, params
    alone = jax.tree.map(lambda x: x[role], params["lora"])
    return dataclasses.replace(config, lora_roles=1), params | {"lora": alone}


def merge(
    params: Params, config: DecoderConfig, role: int | None = None
) -> tuple[DecoderConfig, Params]:
    """(config, params) of the same function without adapters: kernel + (alpha / r) A B.

    role: whose adapters, where each has its own. The sum is taken in float32 and rounded to the
    kernel's dtype.

    Raises:
      ValueError: no role is given and there are several, or one that there is not.
    """
    check_role(role, config)
    if role is not None:
        config, params = of_role(params, config, role)
    if not config.lora_rank:
        return config, params
    layers = {}
    for i in range(config.layers):
        layer = attach(params["layers"][str(i)], params["lora"][str(i)], config)
        layers[str(i)] = jax.tree.map(_merged, layer, is_leaf=_is_adapted)
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
