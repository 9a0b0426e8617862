"""Several output heads over one decoder, mixed by weights (multi-action-head DPO).

Head i says z_i = h (U + D_i) of the hidden state h, with U the decoder's own output matrix, which
is frozen, and D_i [D, V] normal with deviation 1e-3: every head begins as the trained model, but
for that noise. The policy samples from

  softmax(sum_i w_i z_i),  sum_i w_i = 1,

so the weights, which are no parameters, can be others in each run that uses the parameters. The
mixture of logits is the logits of the mixed matrix: sampling costs what one head costs. (A soft cap
of logits is applied after mixing.)

Source: MAH-DPO (2025), https://arxiv.org/abs/2510.01167 (code pearls-lab/multiobj-align 5060d1a,
from notes): heads are copies of the head after SFT plus noise. Deviation: theirs are whole matrices
W_i = U + D_i; where U is the embedding, too, freezing it keeps the heads apart, and also keeps the
input embeddings.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from agentrl.policies.layers import wide_product

if TYPE_CHECKING:
    from agentrl.policies.decoder_config import DecoderConfig

# The entry of params.
ENTRY = "output_heads"
# Deviation of a head from the decoder's own matrix at first.
NOISE = 1e-3
# In `Rows.output_head`: all heads, mixed.
MIXTURE = -1


def weights_of(heads: int, weights: tuple[float, ...]) -> tuple[float, ...]:
    """The weights of the heads; equal ones for ().

    Raises:
      ValueError: another number of weights than heads, or a sum that is not 1.
    """
    if not weights:
        return (1 / heads,) * heads if heads else ()
    if len(weights) != heads or abs(sum(weights) - 1) > 1e-6:
        raise ValueError(
            f"decoder head_weights={weights} with output_heads={heads}: expected one weight per "
            "head, with a sum of 1"
        )
    return tuple(weights)


def init(key: jax.Array, heads: int, width: int, vocab_size: int) -> dict[str, jax.Array]:
    """The differences D_i, {"kernel": f32[H, D, V]}."""
    return {"kernel": NOISE * jax.random.normal(key, (heads, width, vocab_size), jnp.float32)}


def mixed(kernel: jax.Array, weights: tuple[float, ...]) -> jax.Array:
    """sum_i w_i D_i of a kernel [H, D, V], as a kernel of one head [1, D, V]; of one it is it."""
    if kernel.shape[0] == 1:
        return kernel
    return jnp.tensordot(jnp.asarray(weights, kernel.dtype), kernel, axes=1)[None]


def logits(
    kernel: jax.Array,
    x: jax.Array,
    weights: tuple[float, ...],
    head: jax.Array | None = None,
) -> jax.Array:
    """What the heads add to the decoder's logits: [B, D] -> f32[B, V].

    kernel: [H, D, V], D_i. weights: of the mixture. head: i32[B], the head that each row is of,
    MIXTURE for all; None: the mixture everywhere. No number of one head reaches another's rows.
    """
    if head is None or kernel.shape[0] == 1:
        chosen = mixed(kernel, weights)[0]
    else:
        heads = kernel.shape[0]
        alone = head[:, None] == jnp.arange(heads)
        of_row = jnp.where((head == MIXTURE)[:, None], jnp.asarray(weights, x.dtype), alone)
        x = (of_row[:, :, None] * x[:, None, :]).astype(x.dtype).reshape(x.shape[0], -1)
        chosen = kernel.reshape(-1, kernel.shape[-1])
    return wide_product(x, chosen)


def merge(
    config: "DecoderConfig", params: dict[str, Any]
) -> tuple["DecoderConfig", dict[str, Any]]:
    """(config, params) of the equivalent decoder with one output matrix of its own, the mixture."""
    if not config.output_heads:
        return config, params
    if config.tie_embeddings:
        own = params["embed_tokens"]["weight"].T
    else:
        own = params["lm_head"]["kernel"]
    weights = weights_of(config.output_heads, config.head_weights)
    total = own.astype(jnp.float32) + mixed(params[ENTRY]["kernel"], weights)[0]
    rest = {name: value for name, value in params.items() if name != ENTRY}
    alone = dataclasses.replace(config, output_heads=0, head_weights=(), tie_embeddings=False)
    return alone, rest | {"lm_head": {"kernel": total.astype(own.dtype)}}
