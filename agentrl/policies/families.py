"""Families of published models: config.json to options of our decoder, and back.

Read: the configurations and models of transformers 5 (`models/*/configuration_*.py`, `modeling_*`),
whose defaults apply to fields that a file leaves out. A field that the decoder does not support is
an error; none is ignored.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from agentrl.policies.attention import RopeScaling
from agentrl.policies.decoder_config import PROJECTIONS, DecoderConfig


class Family(NamedTuple):
    """A `model_type` of transformers.

    architecture: its class. options: decoder options shared by all members. tied: default of
    tie_word_embeddings.
    """

    architecture: str
    options: Mapping[str, Any]
    tied: bool


_GEMMA = {"activation": "gelu_tanh", "norm_plus_one": True}
FAMILIES: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", {}, False),
    "mistral": Family("MistralForCausalLM", {}, False),
    "qwen2": Family("Qwen2ForCausalLM", {"qkv_bias": True}, False),
    "qwen3": Family("Qwen3ForCausalLM", {"qk_norm": True}, False),
    "gemma": Family("GemmaForCausalLM", _GEMMA, True),
    "gemma2": Family("Gemma2ForCausalLM", {**_GEMMA, "post_norms": True}, True),
    "gemma3_text": Family(
        "Gemma3ForCausalLM", {**_GEMMA, "post_norms": True, "qk_norm": True}, True
    ),
}
# Fields that change the function, and the only value that the decoder supports.
_FIXED = {
    "attention_bias": False,
    "mlp_bias": False,
    "use_bidirectional_attention": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
    "is_encoder_decoder": False,
}
_ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_SLIDES = {"sliding_attention": True, "full_attention": False}


class _Fields:
    """Fields of a config.json, with errors that name the file."""

    def __init__(self, fields: Mapping[str, Any], where: str):
        self.fields, self.where = fields, where

    def error(self, what: str) -> ValueError:
        return ValueError(f"{self.where}: {what}")

    def number(
        self,
        name: str,
        kind: type = int,
        *,
        default: Any = ...,
        of: Mapping[str, Any] | None = None,
        least: int = 1,
    ) -> Any:
        """A number, or the default where the field is missing or null.

        Integers are at least `least`, others above 0.
        """
        value = (self.fields if of is None else of).get(name)
        if value is None:
            if default is ...:
                raise self.error(f"{name} is missing")
            return default
        kinds = (int, float) if kind is float else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise self.error(f"{name}={value!r}: expected a number ({kind.__name__})")
        if value < least if kind is int else not value > 0:
            raise self.error(f"{name}={value!r}: expected a larger number")
        return kind(value)


def read(
    fields: Mapping[str, Any], *, dtype: str = "float32", where: str = "config"
) -> DecoderConfig:
    """Decoder configuration from the fields of a config.json.

    dtype: of activations; the file's own dtype is that of its weights. where: named in errors.

    Raises:
      ValueError: a family, or an option of one, that the decoder does not support.
    """
    file = _Fields(fields, where)
    kind = fields.get("model_type")
    if kind not in FAMILIES:
        raise file.error(
            f"model_type={kind!r}: expected one of {', '.join(FAMILIES)} (SmolLM is a llama; of "
            "Gemma 3 only the text models)"
        )
    if fields.get("auto_map"):
        raise file.error(
            f"auto_map={fields['auto_map']!r} requires code that comes with the weights, which is "
            "never run; if this is an ordinary model of the family, remove auto_map"
        )
    for name, only in _FIXED.items():
        if fields.get(name, only) not in (only, None):
            raise file.error(f"{name}={fields[name]!r}: the decoder supports only {only!r}")
    family = FAMILIES[kind]
    gemma = kind.startswith("gemma")
    newer_gemma = kind in ("gemma2", "gemma3_text")
    activation = fields.get("hidden_activation" if newer_gemma else "hidden_act")
    if kind == "gemma" and activation == "gelu":
        # The first files have this value and mean another (transformers reads it so, too).
        activation = "gelu_pytorch_tanh"
    activation = activation or ("gelu_pytorch_tanh" if gemma else "silu")
    if _ACTIVATIONS.get(activation) != family.options.get("activation", "silu"):
        raise file.error(f"activation {activation!r} is not supported for {kind}")
    width, heads = file.number("hidden_size"), file.number("num_attention_heads")
    head_dim = file.number("head_dim", default=None)
    if head_dim is None:
        head_dim = {"qwen3": 128, "gemma": 256, "gemma2": 256, "gemma3_text": 256}.get(
            kind, width // heads
        )
    options = dict(family.options) | _rope(file, kind) | _windows(file, kind)
    if gemma:
        # transformers multiplies by the root in the dtype of the weights, here in float32.
        options["embed_scale"] = float(np.float32(math.sqrt(width)))
    if newer_gemma:
        caps = (50.0, 30.0) if kind == "gemma2" else (None, None)
        names = ("attn_logit_softcapping", "final_logit_softcapping")
        # Null switches a cap off; a missing field does not.
        caps = [
            file.number(name, float, default=None) if name in fields else cap
            for name, cap in zip(names, caps, strict=True)
        ]
        options["attention_soft_cap"], options["logit_soft_cap"] = caps
        scalar = file.number("query_pre_attn_scalar", float, default=256.0)
        options["query_scale"] = scalar**-0.5
    tied = fields.get("tie_word_embeddings")
    options |= {"tie_embeddings": family.tied if tied is None else bool(tied)}
    sizes = {
        "vocab_size": file.number("vocab_size"),
        "layers": file.number("num_hidden_layers"),
        "kv_heads": file.number("num_key_value_heads", default=heads),
        "hidden": file.number("intermediate_size"),
        "norm_eps": file.number("rms_norm_eps", float, default=1e-6),
    }
    sizes |= {"width": width, "heads": heads, "head_dim": head_dim}
    try:
        return DecoderConfig(**sizes, **options, dtype=dtype)
    except ValueError as error:
        raise file.error(str(error)) from None


def _rope(file: _Fields, kind: str) -> dict[str, Any]:
    """RoPE frequencies: the fields of transformers 5 (rope_parameters), or the earlier ones."""
    fields = file.fields
    given = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    if not isinstance(given, Mapping):
        raise file.error(f"rope {given!r}: expected an object")
    options = {}
    theta = 1e6 if kind == "gemma3_text" else 1e4
    if kind == "gemma3_text":
        local = given.get("sliding_attention", {})
        if local.get("rope_type", "default") != "default":
            raise file.error(
                f"rope of sliding_attention {local!r}: expected no scaling in sliding layers"
            )
        old = file.number("rope_local_base_freq", float, default=1e4)
        options["local_rope_theta"] = file.number("rope_theta", float, default=old, of=local)
        given = given.get("full_attention", {} if local else given)
    elif "full_attention" in given or "sliding_attention" in given:
        raise file.error("rope_parameters by kind of layer: supported for gemma3_text only")
    old = file.number("rope_theta", float, default=theta)
    options["rope_theta"] = file.number("rope_theta", float, default=old, of=given)
    if given.get("partial_rotary_factor", 1.0) not in (1, None):
        raise file.error(f"rope {given!r}: expected rotation of the whole head")
    form = given.get("rope_type", given.get("type", "default"))
    if form == "linear":
        options["rope_scaling"] = RopeScaling(file.number("factor", float, of=given))
    elif form == "llama3":
        options["rope_scaling"] = RopeScaling(
            file.number("factor", float, of=given),
            file.number("low_freq_factor", float, of=given),
            file.number("high_freq_factor", float, of=given),
            file.number("original_max_position_embeddings", of=given),
        )
    elif form != "default":
        raise file.error(
            f"rope scaling {form!r}: expected 'default', 'linear' or 'llama3'; within the "
            "context length of pretraining, the entry can be removed"
        )
    return options


def _windows(file: _Fields, kind: str) -> dict[str, Any]:
    """Sliding windows: the layers that have them, by the list or by each family's rule."""
    fields, layers = file.fields, file.number("num_hidden_layers")
    if kind in ("llama", "gemma"):
        return {}
    window = file.number("sliding_window", default=None if "sliding_window" in fields else 4096)
    if kind.startswith("qwen") and not fields.get("use_sliding_window", False):
        window = None
    kinds = fields.get("layer_types")
    if kinds is not None and kind != "mistral":
        if len(kinds) != layers or not set(kinds) <= set(_SLIDES):
            raise file.error(f"layer_types={kinds!r}: expected {layers} of {' or '.join(_SLIDES)}")
        slides = [_SLIDES[k] for k in kinds]
    elif kind == "mistral":
        slides = [True] * layers
    elif kind.startswith("qwen"):
        first = file.number("max_window_layers", default=28, least=0)
        slides = [i >= first for i in range(layers)]
    else:
        every = 2
        if kind == "gemma3_text":
            every = file.number("sliding_window_pattern", default=6)
        slides = [(i + 1) % every != 0 for i in range(layers)]
    if window is None and kind.startswith("gemma"):
        raise file.error(f"sliding_window is null: {kind} has layers with a window")
    if window is None:
        return {}
    return {"sliding_window": window, "sliding_layers": tuple(slides)}


def canonical(config: DecoderConfig) -> DecoderConfig:
    """An equivalent config with its defaults written out, for comparing two configs."""
    slides = [config.window(i) is not None for i in range(config.layers)]
    some = any(slides)
    scale = config.head_dim**-0.5 if config.query_scale is None else config.query_scale
    return dataclasses.replace(
        config,
        sliding_window=config.sliding_window if some else None,
        sliding_layers=tuple(slides) if some else None,
        local_rope_theta=config.local_rope_theta if some else None,
        query_scale=float(np.float32(scale)),
        embed_scale=float(np.float32(config.embed_scale)),
        value_heads=0,
        output_heads=0,
        head_weights=(),
        attention="blocks",
        remat=None,
        unroll=None,
        decode_unroll=None,
        dtype="float32",
        lora_rank=0,
        lora_alpha=16.0,
        lora_targets=PROJECTIONS,
        lora_roles=1,
        lora_blocks=0,
        lora_profiles=(),
        lora_added=0,
        lora_added_for=(),
    )


def differences(a: DecoderConfig, b: DecoderConfig) -> list[str]:
    """Options in which two configs define different functions, as "name: a's, b's"."""
    a, b = dataclasses.asdict(canonical(a)), dataclasses.asdict(canonical(b))
    return [f"{name}: {a[name]!r}, {b[name]!r}" for name in a if a[name] != b[name]]


def write(config: DecoderConfig) -> dict[str, Any]:
    """Fields of a config.json from which `read` restores the config, except value heads and dtype.

    They have the form of transformers before version 5, which other programs also read.

    Raises:
      ValueError: no family has this combination of options.
    """
    c = canonical(config)
    kind = _kind(c)
    fields: dict[str, Any] = {
        "architectures": [FAMILIES[kind].architecture],
        "model_type": kind,
        "vocab_size": c.vocab_size,
        "hidden_size": c.width,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "intermediate_size": c.hidden,
        "rms_norm_eps": c.norm_eps,
        "rope_theta": c.rope_theta,
        "tie_word_embeddings": c.tie_embeddings,
        "attention_dropout": 0.0,
    }
    gemma = kind.startswith("gemma")
    fields["hidden_act"] = "gelu_pytorch_tanh" if gemma else "silu"
    if gemma:
        fields["hidden_activation"] = fields["hidden_act"]
    if c.rope_scaling is not None:
        scaling, original = c.rope_scaling, c.rope_scaling.original_max_position
        fields["rope_scaling"] = {"rope_type": "linear", "factor": scaling.factor}
        if original is not None:
            fields["rope_scaling"] = {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": original,
            }
    if kind in ("gemma2", "gemma3_text"):
        fields["attn_logit_softcapping"] = c.attention_soft_cap
        fields["final_logit_softcapping"] = c.logit_soft_cap
        fields["query_pre_attn_scalar"] = _whole(config.query_scale, c.head_dim)
    if kind == "gemma3_text":
        fields["rope_local_base_freq"] = config.local_rope_theta or 1e4
    if kind not in ("llama", "gemma"):
        names = {slides: name for name, slides in _SLIDES.items()}
        slides = c.sliding_layers or (False,) * c.layers
        fields["sliding_window"] = config.sliding_window
        if kind != "mistral":
            fields["layer_types"] = [names[s] for s in slides]
        if kind.startswith("qwen"):
            # For programs that use the rule instead of the list.
            fields["use_sliding_window"] = c.sliding_window is not None
            fields["max_window_layers"] = slides.index(True) if True in slides else c.layers
    try:
        wrong = differences(config, read(fields))
    except ValueError as error:
        wrong = [str(error)]
    if wrong:
        raise ValueError(
            f"decoder config: nearest to {kind}, which differs (ours, {kind}'s: "
            f"{'; '.join(wrong)}); only options of a family of transformers can be written"
        )
    return fields


def _kind(c: DecoderConfig) -> str:
    """The `model_type` of transformers whose configuration can say what this one says."""
    if c.norm_plus_one:
        return "gemma" if not c.post_norms else "gemma3_text" if c.qk_norm else "gemma2"
    if c.qkv_bias:
        return "qwen2"
    if c.qk_norm:
        return "qwen3"
    return "llama" if c.sliding_window is None else "mistral"


def _whole(query_scale: float | None, head_dim: int) -> float:
    """The number whose square root divides the queries, an integer if it is one in float32."""
    scalar = head_dim if query_scale is None else query_scale**-2
    return round(scalar) if abs(scalar - round(scalar)) < 1e-5 * scalar else scalar
