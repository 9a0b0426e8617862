"""Tokenizers of GGUF files: metadata to tokenizer.json and tokenizer_config.json.

Two kinds (tokenizer.ggml.model): "gpt2", byte-level BPE with the merges in the file and a way to
split text first (tokenizer.ggml.pre); and "llama", SentencePiece's BPE with a score for each token,
which become merges here. Read: llama.cpp's llama-vocab.cpp (the splits, and what missing keys
mean), and the published tokenizer.json files' forms as transformers 5 builds them.
"""

import enum
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import tokenizers

_KEY = "tokenizer.ggml."
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


class _Kind(enum.IntEnum):
    """Kinds of vocabulary entries, the values of a GGUF file's `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
_NUMBERS = {"type": "Digits", "individual_digits": True}
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _splits(*patterns: str) -> list[dict[str, Any]]:
    """Splits by one pattern after the other; what matches none stays as it is."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False}
        for p in patterns
    ]
    return [*steps, {**_BYTE_LEVEL, "use_regex": False}]


# Steps by tokenizer.ggml.pre. "default" is what llama.cpp does for files that say no more.
_DIGITS = [_NUMBERS, _BYTE_LEVEL]
_PRE: dict[str, list[dict[str, Any]]] = {
    "default": _splits(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "gpt-2": [_BYTE_LEVEL],
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "llama-bpe": _splits(_WORDS % "{1,3}"),
    "llama3": _splits(_WORDS % "{1,3}"),
    "llama-v3": _splits(_WORDS % "{1,3}"),
    "qwen2": _splits(_WORDS % ""),
    "deepseek-r1-qwen": _splits(_WORDS % ""),
    "tekken": _splits(_TEKKEN),
}
# Whole words of the vocabulary are tokens even if no merges lead to them.
_IGNORE_MERGES = ("llama-bpe", "llama3", "llama-v3", "tekken")
_NFC = ("qwen2", "deepseek-r1-qwen")
_ADD_BOS = ("llama-bpe", "llama3", "llama-v3", "tekken")


def _tokens(metadata: Mapping[str, Any], where: str) -> tuple[list[str], list[int]]:
    """Text and kind of each token."""
    tokens = metadata.get(f"{_KEY}tokens")
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(
            f"{where}: metadata {_KEY}tokens is missing: the file has no tokenizer; expected a "
            "whole model, not weights alone"
        )
    kinds = metadata.get(f"{_KEY}token_type", [_Kind.NORMAL] * len(tokens))
    if len(kinds) != len(tokens):
        raise ValueError(f"{where}: {len(tokens)} tokens and {len(kinds)} types of them")
    return tokens, kinds


def tokenizer(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content of tokenizer.json.

    Raises:
      ValueError: a kind of tokenizer, or a way to split text, that is not known.
    """
    model = metadata.get(f"{_KEY}model")
    if model not in ("gpt2", "llama"):
        raise ValueError(
            f"{where}: tokenizer {_KEY}model={model!r}: expected 'gpt2' (byte-level BPE) or "
            "'llama' (SentencePiece's BPE)"
        )
    tokens, kinds = _tokens(metadata, where)
    parts = _byte_level if model == "gpt2" else _sentencepiece
    spec = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        **parts(metadata, tokens, kinds, where),
        "added_tokens": _added_tokens(tokens, kinds),
        "post_processor": _post_processor(metadata, tokens),
    }
    try:
        tokenizers.Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{where}: the tokenizer in it is damaged ({error})") from None
    return spec


def save(spec: Mapping[str, Any], path: pathlib.Path) -> None:
    """Writes tokenizer.json, letters other than ASCII as they are."""
    path.write_text(json.dumps(spec, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _vocabulary(tokens: list[str], where: str, without: set[int]) -> dict[str, int]:
    table: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if number in without:
            continue
        if token in table:
            raise ValueError(
                f"{where}: tokens {table[token]} and {number} are both {token!r}; expected "
                "different ones"
            )
        table[token] = number
    return table


def _byte_level(
    metadata: Mapping[str, Any], tokens: list[str], kinds: list[int], where: str
) -> dict[str, Any]:
    """Model, normalizer, pre-tokenizer and decoder of byte-level BPE."""
    pre = metadata.get(f"{_KEY}pre", "default")
    if pre not in _PRE:
        raise ValueError(
            f"{where}: {_KEY}pre={pre!r}, the way to split text: expected one of {', '.join(_PRE)}"
        )
    merges = metadata.get(f"{_KEY}merges")
    if not isinstance(merges, list):
        raise ValueError(f"{where}: metadata {_KEY}merges is missing, which byte-level BPE needs")
    # Placeholders that fill the rows of the embedding.
    unused = {number for number, kind in enumerate(kinds) if kind == _Kind.UNUSED}
    steps = _PRE[pre]
    return {
        "normalizer": {"type": "NFC"} if pre in _NFC else None,
        "pre_tokenizer": steps[0]
        if len(steps) == 1
        else {"type": "Sequence", "pretokenizers": steps},
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in _IGNORE_MERGES,
            "vocab": _vocabulary(tokens, where, unused),
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    }


def _sentencepiece(
    metadata: Mapping[str, Any], tokens: list[str], kinds: list[int], where: str
) -> dict[str, Any]:
    """Model, normalizer and decoder of SentencePiece's BPE."""
    gemma = str(metadata.get("general.architecture")).startswith("gemma")
    scores = metadata.get(f"{_KEY}scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise ValueError(
            f"{where}: metadata {_KEY}scores is missing, or not one score for each of the "
            f"{len(tokens)} tokens, which SentencePiece's BPE needs"
        )
    # The converter writes user-defined tokens as text; pieces have a letter for the space.
    pieces = [
        token.replace(" ", _SPACE) if kind == _Kind.USER_DEFINED and not token.strip(" ") else token
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    vocabulary = _vocabulary(pieces, where, set())
    parts = (_Kind.NORMAL, _Kind.USER_DEFINED)
    mergeable = {piece: number for piece, number in vocabulary.items() if kinds[number] in parts}
    # Gemma's scores are not those of its merges, whose order is that of the tokens.
    ranks = [-number for number in range(len(tokens))] if gemma else scores
    unknown = [piece for piece, number in vocabulary.items() if kinds[number] == _Kind.UNKNOWN]
    has_bytes = _Kind.BYTE in kinds
    if not unknown and not has_bytes:
        raise ValueError(
            f"{where}: the tokenizer has neither bytes nor an unknown token; expected one of them "
            f"({_KEY}token_type {_Kind.BYTE:d} or {_Kind.UNKNOWN:d})"
        )
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prefix = metadata.get(f"{_KEY}add_space_prefix", not gemma)
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    decoders = [back, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    prepend = {"type": "Prepend", "prepend": _SPACE}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [prepend, spaces]} if prefix else spaces,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown[0] if unknown else None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": has_bytes,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": _merges(mergeable, ranks),
        },
    }


def _merges(vocabulary: Mapping[str, int], scores: list[float]) -> list[list[str]]:
    """Pairs of tokens that join to a token, best score of the result first.

    SentencePiece joins the neighbours whose result has the best score; BPE joins the pair that
    comes first in this list. Pairs of equal score come with the longest first part first, as in
    published files.
    """
    pairs = []
    for piece, number in vocabulary.items():
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        found = [(a, b) for a, b in halves if a in vocabulary and b in vocabulary]
        pairs += [(-scores[number], -len(a), [a, b]) for a, b in found]
    return [pair for *_, pair in sorted(pairs, key=lambda entry: entry[:2])]


def _added_tokens(tokens: list[str], kinds: list[int]) -> list[dict[str, Any]]:
    """Tokens that are found in a text before it is split: control tokens and user-defined ones."""
    special = (_Kind.CONTROL, _Kind.UNKNOWN)
    return [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind in special,
        }
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        # Runs of spaces are pieces, which merges lead to.
        if kind in special or (kind == _Kind.USER_DEFINED and token.strip(" "))
    ]


def _adds_bos(metadata: Mapping[str, Any]) -> bool:
    """Whether texts begin with BOS; without the key, by llama.cpp's defaults."""
    default = metadata.get(f"{_KEY}model") == "llama" or metadata.get(f"{_KEY}pre") in _ADD_BOS
    return metadata.get(f"{_KEY}add_bos_token", default) and f"{_KEY}bos_token_id" in metadata


def _post_processor(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    """BOS before a text and EOS after it, as the file says."""
    ends = {"bos": _adds_bos(metadata), "eos": metadata.get(f"{_KEY}add_eos_token", False)}
    used = {name: tokens[metadata[f"{_KEY}{name}_token_id"]] for name, adds in ends.items() if adds}
    if not used:
        return None if metadata.get(f"{_KEY}model") == "llama" else _BYTE_LEVEL

    def template(*sequences: str) -> list[dict[str, Any]]:
        parts = []
        for kind, sequence in enumerate(sequences):
            around = {
                name: [{"SpecialToken": {"id": token, "type_id": kind}}]
                for name, token in used.items()
            }
            parts += around.get("bos", [])
            parts.append({"Sequence": {"id": sequence, "type_id": kind}})
            parts += around.get("eos", [])
        return parts

    return {
        "type": "TemplateProcessing",
        "single": template("A"),
        "pair": template("A", "B"),
        "special_tokens": {
            token: {
                "id": token,
                "ids": [metadata[f"{_KEY}{name}_token_id"]],
                "tokens": [token],
            }
            for name, token in used.items()
        },
    }


def tokenizer_config(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content of tokenizer_config.json: special tokens and the chat template."""
    tokens, _ = _tokens(metadata, where)
    content = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata[f"{metadata['general.architecture']}.context_length"],
        "add_bos_token": _adds_bos(metadata),
        "add_eos_token": metadata.get(f"{_KEY}add_eos_token", False),
    }
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    for name, key in names.items():
        number = metadata.get(f"{_KEY}{key}_token_id")
        if number is not None and not 0 <= number < len(tokens):
            raise ValueError(
                f"{where}: {_KEY}{key}_token_id={number}: expected below {len(tokens)}, the number "
                "of tokens"
            )
        content[f"{name}_token"] = None if number is None else tokens[number]
    template = metadata.get("tokenizer.chat_template")
    return content if template is None else {**content, "chat_template": template}


def generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The content of generation_config.json: the tokens that begin, end and pad a text.

    The ends are EOS and, if it is another token, the end of a turn.
    """
    content = {
        name: metadata.get(f"{_KEY}{key}_token_id")
        for name, key in (("bos_token_id", "bos"), ("pad_token_id", "padding"))
    }
    ends = [metadata.get(f"{_KEY}{key}_token_id") for key in ("eos", "eot")]
    ends = list(dict.fromkeys(end for end in ends if end is not None))
    content["eos_token_id"] = ends[0] if len(ends) == 1 else ends or None
    return {name: value for name, value in content.items() if value is not None}
