"""Configuration of the decoder: sizes and variants."""

import dataclasses
from typing import NamedTuple

import jax

from agentrl.policies import output_heads
from agentrl.policies.attention import RopeScaling

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ACTIVATIONS = {"silu": jax.nn.silu, "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True)}

# In a small model the loop costs a sixth of an update (four layers of width 128), and saves little
# compilation.
_UNROLLED = 4

# From this number of layers times width on, `remat` is the default.
_RECOMPUTED = 8192


class Kind(NamedTuple):
    """In what a layer differs from others: its sliding window (None: full attention), and whether
    it uses the local RoPE frequencies."""

    window: int | None
    local_rope: bool


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Sizes and variants of a decoder.

    The defaults are Llama's block: RMSNorm before attention and before a gated MLP, rotary
    positions, no biases. Llama 2/3, Mistral, Qwen2/2.5/3 and Gemma 1/2/3 differ from it by these
    options.

    vocab_size, width, layers: V, D, number of blocks.
    heads, kv_heads, head_dim: sizes of attention; kv_heads divides heads, head_dim is even.
    hidden: width of the gated MLP, down(activation(gate x) * up x). activation: "silu" or
      "gelu_tanh".
    rope_theta, rope_scaling: RoPE frequencies. local_rope_theta: those of sliding layers, without
      scaling (None: as all others).
    norm_eps: added to the mean square. norm_plus_one: norms multiply by 1 + weight. post_norms:
      additional norms after attention and MLP, before the residual sum.
    qkv_bias, qk_norm: biases of the three projections; RMSNorm of each query and key head.
    query_scale: factor of the queries (None: head_dim ** -0.5).
    sliding_window: number of positions visible to a query, including itself. sliding_layers: which
      layers have the window, one entry per layer (None: all of them).
    attention_soft_cap, logit_soft_cap: c tanh(x / c) of attention scores and of logits.
    tie_embeddings: logits come from the embedding matrix. embed_scale: factor of embeddings.
    value_heads: outputs of `values`. output_heads, head_weights: heads over the hidden states and
      their weights in the mixture that is sampled from, see `agentrl.policies.output_heads`; 0 for
      the decoder's own alone. lora_rank, lora_alpha, lora_targets, lora_roles: see
      `agentrl.policies.lora`; rank 0 for none, lora_roles=1 for one adapter for all roles.
    lora_blocks, lora_profiles, lora_added, lora_added_for: blocks of one adapter with gates of the
      role, texts of the roles, further blocks and the roles that read them, see
      `agentrl.policies.gated`; 0 for no gates.
    attention: implementation in `hidden`. "blocks": `agentrl.policies.attention.attend_causal`.
      "cudnn": `attend_flash`, for NVIDIA's GPUs, with dtype "bfloat16" and without
      attention_soft_cap.
    remat: `hidden` keeps only the activations between layers for the backward pass and recomputes
      the others: memory for one layer's activations instead of all layers', at the cost of one more
      forward pass. None: for layers * width of 8192 or more. On a CPU it is free there: a pass of
      SmolLM2-135M (30 layers of width 576) over two rows of 206 tokens took 2.5 to 3.0 s with it
      and 2.6 s without, and a third of the memory; in bfloat16, over two rows of 384 tokens, 1.4 s
      with it and 3.1 s without. Activations of small models fit the caches.
    unroll: layers per iteration of the loop over them in `hidden`, as in `jax.lax.scan`: 1 compiles
      fastest, `layers` leaves no loop. None: no loop for up to four layers, else 1.
    decode_unroll: the same in `extend` and `step`. On a CPU a loop copies each layer's cache before
      it is read, and generation without one is faster by 10 to 20 %.
    dtype: of activations and of the cache (float32 on a CPU), "float32" or "bfloat16". Parameters
      are float32 unless loaded otherwise, and are cast when used; norms, attention weights, logits
      and values are float32. On a CPU with AMX, SmolLM2-135M takes 0.4 of the time in bfloat16 for
      a forward pass, 0.55 with the backward pass, 0.8 for decoding.
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
    output_heads: int = 0
    head_weights: tuple[float, ...] = ()
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: tuple[str, ...] = PROJECTIONS
    lora_roles: int = 1
    lora_blocks: int = 0
    lora_profiles: tuple[str, ...] = ()
    lora_added: int = 0
    lora_added_for: tuple[int, ...] = ()
    attention: str = "blocks"
    remat: bool | None = None
    unroll: int | None = None
    decode_unroll: int | None = None
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
                f"decoder head_dim={self.head_dim}: expected an even number, RoPE rotates pairs"
            )
        choices = {
            "activation": ACTIVATIONS,
            "dtype": ("float32", "bfloat16"),
            "attention": ("blocks", "cudnn"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"decoder {name}={getattr(self, name)!r}: expected one of {', '.join(allowed)}"
                )
        if self.attention == "cudnn" and (self.dtype != "bfloat16" or self.attention_soft_cap):
            raise ValueError(
                f"decoder attention='cudnn' with dtype={self.dtype!r}, attention_soft_cap="
                f"{self.attention_soft_cap}: expected 'bfloat16' and no cap; use 'blocks'"
            )
        for name in ("unroll", "decode_unroll"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= self.layers:
                raise ValueError(
                    f"decoder {name}={value}: expected 1 to the number of layers, {self.layers}"
                )
        if self.value_heads < 0:
            raise ValueError(f"decoder value_heads={self.value_heads}: expected at least 0")
        if self.output_heads < 0:
            raise ValueError(f"decoder output_heads={self.output_heads}: expected at least 0")
        output_heads.weights_of(self.output_heads, self.head_weights)
        wrong = [name for name in self.lora_targets if name not in PROJECTIONS]
        if self.lora_rank < 0 or wrong or not self.lora_targets:
            raise ValueError(
                f"decoder lora_rank={self.lora_rank}, lora_targets={self.lora_targets}: expected a "
                f"rank of 0 or more, and some of {', '.join(PROJECTIONS)}"
            )
        if self.lora_roles < 1 or (self.lora_roles > 1 and not self.lora_rank):
            raise ValueError(
                f"decoder lora_roles={self.lora_roles} with lora_rank={self.lora_rank}: expected 1 "
                "(one adapter for all roles), or more with a rank above 0"
            )
        positive = (
            "lora_alpha",
            "rope_theta",
            "local_rope_theta",
            "norm_eps",
            "query_scale",
            "sliding_window",
        )
        for name in (*positive, "attention_soft_cap", "logit_soft_cap", "embed_scale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"decoder {name}={value}: expected a positive number")
        self._check_gates()
        self._check_sliding()

    def _check_gates(self):
        blocks, roles, given = self.lora_blocks, self.lora_roles, f"lora_blocks={self.lora_blocks}"
        added = self.lora_added or self.lora_added_for
        if not blocks:
            if self.lora_profiles or added:
                raise ValueError(
                    f"decoder {given} with profiles or added blocks, which belong to gates over "
                    "blocks: set lora_blocks above 0"
                )
            return
        if blocks < 0 or not self.lora_rank or self.lora_rank % blocks:
            raise ValueError(
                f"decoder {given} with lora_rank={self.lora_rank}: expected a divisor of a rank "
                "above 0"
            )
        profiles = self.lora_profiles
        if len(profiles) != roles or not all(text.split() for text in profiles):
            raise ValueError(
                f"decoder {given} with lora_profiles={profiles}: expected a text of one word or "
                f"more for each of lora_roles={roles}"
            )
        wrong = [role for role in self.lora_added_for if not 0 <= role < roles]
        if added and (self.lora_added < 1 or wrong or not self.lora_added_for):
            raise ValueError(
                f"decoder lora_added={self.lora_added} for roles {self.lora_added_for}: expected "
                f"a number of blocks, and which of the roles 0 to {roles - 1} read them"
            )

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
        """Sliding window of a layer, None for full attention."""
        sliding = self.sliding_layers is None or self.sliding_layers[layer]
        return self.sliding_window if sliding else None

    @property
    def recomputes(self) -> bool:
        """Whether activations within layers are recomputed in the backward pass: `remat`, or for
        None whether layers x width reaches a fixed size."""
        if self.remat is None:
            return self.layers * self.width >= _RECOMPUTED
        return self.remat

    def layers_per_iteration(self, unroll: int | None) -> int:
        """How many layers one iteration of a loop over them computes: `unroll`, or if that is None
        all layers of a shallow decoder and 1 of a deep one."""
        if unroll is not None:
            return unroll
        return self.layers if self.layers <= _UNROLLED else 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The attention of each layer: its window and which RoPE base it uses."""
        windows = [self.window(i) for i in range(self.layers)]
        local = self.local_rope_theta is not None
        return tuple(Kind(window, local and window is not None) for window in windows)
