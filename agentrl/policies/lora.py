"""Low-rank adapters: a small trained difference to matrices that stay as they are.

E. Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models",
https://arxiv.org/abs/2106.09685, equation 3 (written from the paper): h = W x + (alpha / r) B A x,
with A drawn at random and B = 0, so that training begins with the published function. A is normal
with deviation 1 / sqrt(in), which keeps A x of the size of x. No dropout.

Parameters are `params["lora"][layer][module][projection]`, {"a": [in, r], "b": [r, out]}, beside
the others: what is trained and what is not are different leaves.
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
                drawn = jax.random.normal(a_key, (inputs, rank)) / math.sqrt(inputs)
                adapters.setdefault(module, {})[name] = {
                    "a": drawn,
                    "b": jnp.zeros((rank, outputs)),
                }
    return out


def attach(layer: Params, adapters: Params, config: DecoderConfig) -> Params:
    """A layer with "lora_a" and "lora_b" beside the kernels, the factor alpha / r in the latter."""
    scale = config.lora_alpha / config.lora_rank
    out = dict(layer)
    for module, found in adapters.items():
        out[module] = dict(layer[module])
        for name, ab in found.items():
            out[module][name] = layer[module][name] | {
                "lora_a": ab["a"],
                "lora_b": ab["b"] * scale,
            }
    return out


def merge(params: Params, config: DecoderConfig) -> tuple[DecoderConfig, Params]:
    """(config, params) of the same function without adapters: kernel + (alpha / r) A B.

    The sum is taken in float32 and rounded to the kernel's dtype.
    """
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
