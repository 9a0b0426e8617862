"""GGUF files in llama.cpp's conventions, written with the package gguf, and its tokenization.

Independent of the importer: names come from the package's own table of tensors, and the tokens of
a text from a plain reading of llama-vocab.cpp.
"""

import json

import numpy as np
import regex
from safetensors import safe_open

ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3"}
# Byte-level BPE with 41 tokens, as many as the fixtures' models have.
LETTERS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<|end|>", *"abcdefghijklmnopqrstuvwxyzĠ0123456789.,", "ab"],
    "tokenizer.ggml.token_type": [3] + [1] * 40,
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
}


def original(directory):
    """(fields of config.json, tensors by Hugging Face's name) of a directory, in float32."""
    fields = json.loads((directory / "config.json").read_text())
    with safe_open(directory / "model.safetensors", framework="np") as file:
        tensors = {name: np.asarray(file.get_tensor(name), np.float32) for name in file.keys()}  # noqa: SIM118
    return fields, tensors


def metadata(fields):
    """What convert_hf_to_gguf.py writes for a model of this config.json."""
    kind = fields["model_type"]
    arch = ARCHITECTURES.get(kind, kind)
    rope = fields.get("rope_parameters") or {}
    local, rope = rope.get("sliding_attention", {}), rope.get("full_attention", rope)
    head_dim = fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]
    keys = {
        "block_count": fields["num_hidden_layers"],
        "context_length": fields["max_position_embeddings"],
        "embedding_length": fields["hidden_size"],
        "feed_forward_length": fields["intermediate_size"],
        "attention.head_count": fields["num_attention_heads"],
        "attention.head_count_kv": fields["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(fields["rms_norm_eps"]),
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if arch == "llama":
        keys |= {"vocab_size": fields["vocab_size"], "rope.dimension_count": head_dim}
    if rope["rope_type"] == "linear":
        keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if kind.startswith("gemma") or kind == "mistral":
        window = fields.get("sliding_window")
        keys |= {"attention.sliding_window": window} if window else {}
        for name in ("attn_logit_softcapping", "final_logit_softcapping"):
            keys |= {name: float(fields[name])} if fields.get(name) else {}
    if kind == "gemma3_text":
        keys["rope.freq_base_swa"] = float(local["rope_theta"])
        slides = [kind == "sliding_attention" for kind in fields["layer_types"]]
        keys["attention.sliding_window_pattern"] = slides
    return {"general.architecture": arch} | {f"{arch}.{name}": v for name, v in keys.items()}


def stored(fields, tensors):
    """The tensors as convert_hf_to_gguf.py writes them: other names, order of rows, norms."""
    import gguf

    kind = fields["model_type"]
    arch = ARCHITECTURES.get(kind, kind)
    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[arch]
    names = gguf.get_tensor_name_map(number, fields["num_hidden_layers"])
    out = {}
    for name, value in tensors.items():
        if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            letter = "attention" if "q_proj" in name else "key_value"
            heads = fields[f"num_{letter}_heads"]
            halves = value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:])
            value = halves.swapaxes(1, 2).reshape(value.shape)
        if kind.startswith("gemma") and name.endswith("norm.weight"):
            value = value + np.float32(1)
        stem, _, leaf = name.rpartition(".")
        out[f"{names.get_name(stem)}.{leaf}"] = value
    return out


def write(path, content, tensors, kinds=None):
    """Writes a file. kinds: quantisation by tensor; tensors of uint8 are already quantised."""
    import gguf

    content = dict(content)
    writer = gguf.GGUFWriter(path, content.pop("general.architecture"))
    for name, value in content.items():
        add = {str: writer.add_string, bool: writer.add_bool, float: writer.add_float32}
        add |= {int: writer.add_uint32, list: writer.add_array}
        add[type(value)](name, value)
    for name, value in tensors.items():
        kind = (kinds or {}).get(name)
        if kind is None:
            writer.add_tensor(name, np.ascontiguousarray(value))
            continue
        kind = gguf.GGMLQuantizationType[kind]
        data = value if value.dtype == np.uint8 else gguf.quantize(value, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_WORDS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [_GPT2],
    "smollm": [r"\p{N}", _GPT2],
    "llama-bpe": [_WORDS % "{1,3}"],
    "qwen2": [_WORDS % ""],
}


def _split(text, pattern):
    """Matches, and what lies between them, in order."""
    at, parts = 0, []
    for match in regex.finditer(pattern, text):
        parts += [text[at : match.start()], match.group()]
        at = match.end()
    return [part for part in (*parts, text[at:]) if part]


def _letters():
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return {b: chr(b) for b in printed} | {b: chr(256 + i) for i, b in enumerate(others)}


def tokens(content, text):
    """Numbers of a text's tokens by llama.cpp's rules, without BOS."""
    key = "tokenizer.ggml."
    names, kinds = content[f"{key}tokens"], content[f"{key}token_type"]
    vocabulary = {name: number for number, name in enumerate(names)}
    marks = [name for name, kind in zip(names, kinds, strict=True) if kind in (2, 3, 4)]
    pattern = "|".join(regex.escape(m) for m in sorted(marks, key=len, reverse=True)) or "(?!)"
    out = []
    for part in _split(text, pattern):
        if part in marks:
            out.append(vocabulary[part])
        elif content[f"{key}model"] == "gpt2":
            out += _byte_level(content, vocabulary, part)
        else:
            out += _sentencepiece(content, vocabulary, part)
    return out


def _byte_level(content, vocabulary, text):
    key, letters = "tokenizer.ggml.", _letters()
    pre = content[f"{key}pre"]
    ranks = {tuple(m.split(" ")): i for i, m in enumerate(content[f"{key}merges"])}
    parts = [text]
    for pattern in PATTERNS[pre]:
        parts = [piece for part in parts for piece in _split(part, pattern)]
    out = []
    for part in parts:
        word = [letters[byte] for byte in part.encode()]
        if pre == "llama-bpe" and "".join(word) in vocabulary:
            word = ["".join(word)]
        while len(word) > 1:
            pairs = list(zip(word, word[1:], strict=False))
            best = min(pairs, key=lambda pair: ranks.get(pair, np.inf))
            if best not in ranks:
                break
            i = pairs.index(best)
            word[i : i + 2] = ["".join(best)]
        out += [vocabulary[piece] for piece in word if piece in vocabulary]
    return out


def _sentencepiece(content, vocabulary, text):
    scores = content["tokenizer.ggml.scores"]
    prefix = " " if content.get("tokenizer.ggml.add_space_prefix", True) else ""
    word = list((prefix + text).replace(" ", "▁"))
    while True:
        joined = [a + b for a, b in zip(word, word[1:], strict=False)]
        known = [i for i, piece in enumerate(joined) if piece in vocabulary]
        if not known:
            break
        i = max(known, key=lambda i: (scores[vocabulary[joined[i]]], -i))
        word[i : i + 2] = [joined[i]]
    out = []
    for piece in word:
        bytes_ = [vocabulary[f"<0x{byte:02X}>"] for byte in piece.encode()]
        out += [vocabulary[piece]] if piece in vocabulary else bytes_
    return out
