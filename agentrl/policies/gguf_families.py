"""Architectures of GGUF files: metadata to the fields of a config.json, and names of tensors.

Read: llama.cpp's convert_hf_to_gguf.py and conversion/llama.py, gemma.py (which write the files)
and its llama-model.cpp (which gives the defaults of missing keys). Metadata that the decoder does
not support is an error; none is ignored.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from agentrl.policies import families

# By general.architecture; SmolLM and Mistral are of architecture llama, Qwen 2.5 of qwen2.
ARCHITECTURES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
ROPE_FACTORS = "rope_freqs.weight"
# Llama 3.1's low_freq_factor, high_freq_factor and original_max_position_embeddings. The file holds
# only the resulting factor of each frequency; the converter has no other original length.
_LLAMA3 = (1.0, 4.0, 8192)
# Keys with no influence on the function.
_NEUTRAL = ("context_length", "vocab_size", "tensor_data_layout", "attention.causal")
# Both have a 27B whose queries are divided by the root of width / heads, not of the head's size.
# The file does not say so; llama.cpp knows it by the number of layers.
_LAYERS_OF_27B = {"gemma2": 46, "gemma3_text": 62}
_WINDOWS = {"gemma2": (4096, 2), "gemma3_text": (None, 6)}


class Source(NamedTuple):
    """The tensor of a GGUF file that one of Hugging Face's comes from.

    heads: query or key rows are permuted in this many heads. shift: to be added.
    """

    name: str
    shape: tuple[int, ...]
    heads: int = 0
    shift: float = 0.0


class _Keys:
    """The architecture's metadata, with errors that name the file; remembers what was read."""

    def __init__(self, metadata: Mapping[str, Any], prefix: str, where: str):
        self.prefix, self.where = prefix, where
        self.values = {
            name.removeprefix(prefix): value
            for name, value in metadata.items()
            if name.startswith(prefix)
        }
        self.read = set(_NEUTRAL)

    def error(self, what: str) -> ValueError:
        return ValueError(f"{self.where}: {what}")

    def get(self, name: str, default: Any = ...) -> Any:
        """A number; floats as the shortest decimal that is the same in float32."""
        self.read.add(name)
        value = self.values.get(name, default)
        if value is ...:
            raise self.error(f"metadata {self.prefix}{name} is missing")
        if value is not default and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self.error(f"metadata {self.prefix}{name}={value!r}: expected one number")
        return float(str(np.float32(value))) if isinstance(value, float) else value

    def check_all_read(self) -> None:
        for name, value in self.values.items():
            if name not in self.read and value not in (0, False, "", None):
                raise self.error(
                    f"metadata {self.prefix}{name}={value!r} is not supported; expected a dense "
                    f"{self.prefix[:-1]} model"
                )


def config(
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: np.ndarray | None,
    where: str,
) -> dict[str, Any]:
    """Fields of a config.json, which `agentrl.policies.families.read` accepts.

    Args:
      shapes: of the file's tensors, by name; they say the size of the vocabulary and whether the
        embedding is tied.
      rope_factors: of the tensor `ROPE_FACTORS`, if the file has it.
      where: named in errors.

    Raises:
      ValueError: an architecture, or an option of one, that the decoder does not support.
    """
    architecture = metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"{where}: architecture {architecture!r}: expected one of {', '.join(ARCHITECTURES)} "
            "(Llama, SmolLM, Mistral, Qwen 2, 2.5 and 3, Gemma 1 to 3)"
        )
    keys, kind = _Keys(metadata, f"{architecture}.", where), ARCHITECTURES[architecture]
    if len(shapes.get("token_embd.weight", ())) != 2:
        raise keys.error("tensor 'token_embd.weight' is missing, or no matrix")
    width, heads = keys.get("embedding_length"), keys.get("attention.head_count")
    head_dim = keys.get("attention.key_length", width // heads)
    for name in ("rope.dimension_count", "attention.value_length"):
        if keys.get(name, head_dim) != head_dim:
            raise keys.error(
                f"metadata {keys.prefix}{name}={keys.get(name)}: expected {head_dim}, the size of "
                "a head"
            )
    window = keys.get("attention.sliding_window", 0) if kind == "llama" else 0
    if window:
        kind = "mistral"
    fields: dict[str, Any] = {
        "architectures": [families.FAMILIES[kind].architecture],
        "model_type": kind,
        "vocab_size": shapes["token_embd.weight"][0],
        "hidden_size": width,
        "num_hidden_layers": keys.get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "intermediate_size": keys.get("feed_forward_length"),
        "rms_norm_eps": keys.get("attention.layer_norm_rms_epsilon"),
        "rope_theta": keys.get("rope.freq_base", 1e4),
        "max_position_embeddings": keys.get("context_length"),
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
    }
    for name in ("bos", "eos"):
        fields[f"{name}_token_id"] = metadata.get(f"tokenizer.ggml.{name}_token_id")
    if kind == "mistral":
        fields["sliding_window"] = window
    if kind.startswith("qwen"):
        fields |= {"use_sliding_window": False, "sliding_window": None}
    if kind.startswith("gemma"):
        fields["hidden_act"] = fields["hidden_activation"] = "gelu_pytorch_tanh"
    if kind in _WINDOWS:
        fields |= _newer_gemma(keys, kind, fields)
    scaling = _rope_scaling(keys, fields, rope_factors)
    if scaling is not None:
        fields["rope_scaling"] = scaling
    keys.check_all_read()
    families.read(fields, where=where)
    return fields


def _newer_gemma(keys: _Keys, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Gemma 2's and 3's soft caps, scale of queries, and sliding windows."""
    layers, (window, every) = fields["num_hidden_layers"], _WINDOWS[kind]
    scalar = fields["head_dim"]
    if layers == _LAYERS_OF_27B[kind]:
        scalar = fields["hidden_size"] // fields["num_attention_heads"]
    caps = (50.0, 30.0) if kind == "gemma2" else (0.0, 0.0)
    name = "attention.sliding_window_pattern"
    keys.read.add(name)
    pattern = keys.values.get(name, every)
    if not isinstance(pattern, list):
        pattern = [(i + 1) % pattern != 0 for i in range(layers)]
    more = {
        "attn_logit_softcapping": keys.get("attn_logit_softcapping", caps[0]) or None,
        "final_logit_softcapping": keys.get("final_logit_softcapping", caps[1]) or None,
        "query_pre_attn_scalar": scalar,
        "sliding_window": keys.get("attention.sliding_window", ... if window is None else window),
        "layer_types": ["sliding_attention" if s else "full_attention" for s in pattern],
    }
    if kind == "gemma3_text":
        more["rope_local_base_freq"] = keys.get("rope.freq_base_swa", 1e4)
    return more


def _rope_scaling(
    keys: _Keys, fields: Mapping[str, Any], factors: np.ndarray | None
) -> dict[str, Any] | None:
    """The entry rope_scaling: none, linear, or Llama 3's from the factors of the frequencies."""
    keys.read.add("rope.scaling.type")
    form = keys.values.get("rope.scaling.type", "none")
    linear = keys.get("rope.scaling.factor", keys.get("rope.scale_linear", 0.0))
    keys.read |= {"rope.scaling.original_context_length", "rope.scaling.finetuned"}
    if form not in ("none", "linear"):
        raise keys.error(
            f"metadata {keys.prefix}rope.scaling.type={form!r}: expected 'none' or 'linear'"
        )
    if factors is None:
        # Without a type, a factor is linear scaling.
        scaled = linear not in (0.0, 1.0) and "none" != keys.values.get("rope.scaling.type")
        return {"rope_type": "linear", "factor": linear} if scaled else None
    if np.all(factors == 1):
        return None
    low, high, original = _LLAMA3
    scaling = {
        "rope_type": "llama3",
        "factor": float(factors.max()),
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
    expected = llama3_factors(fields["head_dim"], fields["rope_theta"], scaling)
    if fields["model_type"] != "llama" or not (
        factors.shape == expected.shape and np.allclose(factors, expected, rtol=1e-4)
    ):
        raise keys.error(
            f"tensor {ROPE_FACTORS!r} scales RoPE in another way than Llama 3.1's (frequency "
            f"factors {low:g} and {high:g}, original length {original}), which is not supported"
        )
    return scaling


def llama3_factors(head_dim: int, theta: float, scaling: Mapping[str, Any]) -> np.ndarray:
    """What the frequencies of RoPE are divided by in Llama 3's scaling, f32[head_dim / 2].

    Those with wavelengths below original / high are kept, those above original / low divided by
    the factor, those between interpolated in the frequency.
    """
    factor, low, high, original = (
        scaling[name]
        for name in (
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "original_max_position_embeddings",
        )
    )
    turns = original * theta ** -(np.arange(0, head_dim, 2) / head_dim) / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - kept) / factor + kept)).astype(np.float32)


def sources(fields: Mapping[str, Any]) -> dict[str, Source]:
    """Hugging Face's tensors of a config, each with the GGUF tensor that it comes from."""
    kind, width = fields["model_type"], fields["hidden_size"]
    # The decoder's norms multiply by 1 + weight, llama.cpp's by the weight.
    shift = -1.0 if kind.startswith("gemma") else 0.0
    embedding = (fields["vocab_size"], width)
    table = {"model.embed_tokens.weight": Source("token_embd.weight", embedding)}
    for i in range(fields["num_hidden_layers"]):
        for name, (ours, shape, heads) in _layer(fields).items():
            is_norm = name.endswith("norm.weight")
            table[f"model.layers.{i}.{name}"] = Source(
                f"blk.{i}.{ours}", shape, heads, shift if is_norm or "layernorm" in name else 0.0
            )
    table["model.norm.weight"] = Source("output_norm.weight", (width,), shift=shift)
    if not fields["tie_word_embeddings"]:
        table["lm_head.weight"] = Source("output.weight", embedding)
    return table


def _layer(fields: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """GGUF's name, shape, and heads whose rows are permuted, of each tensor of a layer."""
    kind, width, hidden = (
        fields[name] for name in ("model_type", "hidden_size", "intermediate_size")
    )
    heads, kv_heads, size = (
        fields[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    permuted = kind in ("llama", "mistral")
    table: dict[str, tuple[str, tuple[int, ...], int]] = {
        "input_layernorm.weight": ("attn_norm.weight", (width,), 0),
        "self_attn.o_proj.weight": ("attn_output.weight", (width, heads * size), 0),
        "mlp.gate_proj.weight": ("ffn_gate.weight", (hidden, width), 0),
        "mlp.up_proj.weight": ("ffn_up.weight", (hidden, width), 0),
        "mlp.down_proj.weight": ("ffn_down.weight", (width, hidden), 0),
    }
    for letter, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        rows = count if permuted and letter != "v" else 0
        name, ours = f"self_attn.{letter}_proj", f"attn_{letter}"
        table[f"{name}.weight"] = (f"{ours}.weight", (count * size, width), rows)
        if kind == "qwen2":
            table[f"{name}.bias"] = (f"{ours}.bias", (count * size,), rows)
    if kind in ("qwen3", "gemma3_text"):
        for letter in "qk":
            table[f"self_attn.{letter}_norm.weight"] = (f"attn_{letter}_norm.weight", (size,), 0)
    if kind in ("gemma2", "gemma3_text"):
        table["post_attention_layernorm.weight"] = ("post_attention_norm.weight", (width,), 0)
        table["pre_feedforward_layernorm.weight"] = ("ffn_norm.weight", (width,), 0)
        table["post_feedforward_layernorm.weight"] = ("post_ffw_norm.weight", (width,), 0)
    else:
        table["post_attention_layernorm.weight"] = ("ffn_norm.weight", (width,), 0)
    return table


def check_shapes(
    table: Mapping[str, Source], shapes: Mapping[str, tuple[int, ...]], where: str
) -> None:
    """ValueError unless the file has exactly the tensors of the table, with their shapes."""
    missing = [source.name for source in table.values() if source.name not in shapes]
    if missing:
        raise ValueError(
            f"{where}: tensor {missing[0]!r} is missing"
            + (f", and {len(missing) - 1} more" if missing[1:] else "")
            + "; expected all of the architecture's: fetch or convert the file again"
        )
    known = {source.name for source in table.values()} | {ROPE_FACTORS}
    for name in shapes:
        if name not in known:
            raise ValueError(
                f"{where}: tensor {name!r} does not belong to a dense model of this architecture"
            )
    for source in table.values():
        if shapes[source.name] != source.shape:
            raise ValueError(
                f"{where}: tensor {source.name!r} has shape {shapes[source.name]}, expected by "
                f"the metadata: {source.shape}"
            )
