"""The codec of published tokenizers: byte-level BPE and SentencePiece's, from tokenizer.json.

Each fragment of the lexicon is encoded separately, ahead of time. Encoding the joined text would
often merge letters across fragments: the bytes are the same, but the tokens are not always those
most frequent in pretraining. Fragments begin with a space at the start of a word, like the
tokenizers' own words, which keeps the difference small. Replies are not affected: any tokens with
the right bytes name the command.
"""

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tokenizers

from agentrl.policies.chat import CHATS, Chat, Mark, recognise
from agentrl.policies.codec import _TAGS, Codec, bind
from agentrl.policies.tensor_files import inside, read_json
from envs.text import View

# A published token may have hundreds of bytes (runs of spaces and newlines); all replies would need
# room for that.
_LONGEST = 32
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_NOT_TEXT = re.compile(r"<.*>|\[.*\]", re.DOTALL)


def _steps(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder, whether a sequence or a single one."""
    if part is None:
        return
    nested = [value for key, value in part.items() if key in _SEQUENCES]
    if not nested:
        yield part
    for step in (step for steps in nested for step in steps):
        yield from _steps(step)


_SEQUENCES = ("normalizers", "pretokenizers", "decoders")


def _without_additions(part: dict[str, Any] | None) -> dict[str, Any] | None:
    """A normalizer or pre-tokenizer that does not prepend a space to a text."""
    steps = []
    for step in _steps(part):
        step = dict(step)
        if step["type"] == "Prepend":
            continue
        if step["type"] == "Metaspace":
            step["prepend_scheme"] = "never"
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False
        steps.append(step)
    if len(steps) < 2:
        return steps[0] if steps else None
    kind = "pretokenizers" if part is not None and "pretokenizers" in part else "normalizers"
    return {"type": "Sequence", kind: steps}


def letters_of_bytes() -> list[str]:
    """The letter of each byte in byte-level BPE, as in GPT-2's encoder."""
    return sorted(_byte_of_letter(), key=_byte_of_letter().get)


def _byte_of_letter() -> dict[str, int]:
    """The byte of each letter of byte-level BPE: itself if printable, else letter 256 + i.

    As in GPT-2's encoder.
    """
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printed]
    return {chr(b): b for b in printed} | {chr(256 + i): b for i, b in enumerate(others)}


class Tokenizer:
    """A tokenizer.json: text to tokens, without additions, and tokens to bytes.

    control: id by name of the tokens that no text may contain: the special ones, and other added
    tokens in brackets, such as "<tool_call>" or "[INST]", except the tags of our reply grammars,
    which some models have as tokens. first: tokens before a text (BOS).
    """

    def __init__(self, directory: pathlib.Path):
        path = inside(directory, "tokenizer.json")
        if not path.exists():
            raise ValueError(
                f"{path} is missing: only fast tokenizers are read, as one file; older ones are "
                "converted by transformers (AutoTokenizer.from_pretrained, save_pretrained)"
            )
        spec = read_json(path)
        self.directory, self.where = directory, str(path)
        added = {token["content"]: token for token in spec.get("added_tokens", [])}
        self.control = {
            name: token["id"]
            for name, token in added.items()
            if token.get("special") or (_NOT_TEXT.fullmatch(name) and name not in _TAGS)
        }
        try:
            original = tokenizers.Tokenizer.from_file(str(path))
            self._inner = tokenizers.Tokenizer.from_str(json.dumps(self._plain(spec)))
        except Exception as error:  # the library raises Exception itself
            raise ValueError(f"{path} is not a tokenizer ({error})") from None
        # Texts that spell a special token are read as letters, not as that token.
        self._inner.encode_special_tokens = True
        first = original.encode("").ids
        self.first = tuple(first[:1] if set(first[:1]) <= {*self.control.values()} else ())
        self.bytes = self._table(spec, {token["id"]: name for name, token in added.items()})

    def _plain(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The file's content without normalisation that adds or removes text."""
        tokens = [
            token | {"special": token["content"] in self.control, "lstrip": False, "rstrip": False}
            for token in spec.get("added_tokens", [])
        ]
        return {
            **spec,
            "added_tokens": tokens,
            "post_processor": None,
            "truncation": None,
            "padding": None,
            "normalizer": _without_additions(spec.get("normalizer")),
            "pre_tokenizer": _without_additions(spec.get("pre_tokenizer")),
        }

    def _table(self, spec: Mapping[str, Any], added: Mapping[int, str]) -> list[bytes]:
        """The bytes of each token. Byte-level BPE writes added tokens literally."""
        parts = [*_steps(spec.get("decoder")), *_steps(spec.get("pre_tokenizer"))]
        letters = _byte_of_letter()
        if any(part["type"] == "ByteLevel" for part in parts):

            def stands_for(number: int, piece: str) -> bytes:
                known = number not in added and all(letter in letters for letter in piece)
                return bytes(map(letters.get, piece)) if known else piece.encode()

        elif any(
            part["type"] == "Metaspace"
            or (part["type"] == "Replace" and part.get("pattern") == {"String": _SPACE})
            for part in parts
        ):

            def stands_for(number: int, piece: str) -> bytes:
                if re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
                    return bytes([int(piece[3:5], 16)])
                return piece.replace(_SPACE, " ").encode()

        else:
            raise ValueError(
                f"{self.where}: expected byte-level BPE or SentencePiece, whose tokens have known "
                "bytes (WordPiece, for one, loses spaces)"
            )
        vocabulary = self._inner.get_vocab(with_added_tokens=True)
        table = [b""] * (1 + max(vocabulary.values()))
        for piece, number in vocabulary.items():
            table[number] = stands_for(number, piece)
        return table

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, none of them a control token."""
        tokens = self._inner.encode(text, add_special_tokens=False).ids
        if len(text) < 2 or not set(tokens) & {*self.control.values()}:
            return tokens
        # Some vocabularies encode certain words to control tokens, but not their halves.
        half = len(text) // 2
        return self.encode(text[:half]) + self.encode(text[half:])


def _end_token(directory: pathlib.Path) -> int:
    """The model's EOS, by its own files."""
    for name in ("generation_config.json", "config.json"):
        path = inside(directory, name)
        end = read_json(path).get("eos_token_id") if path.exists() else None
        end = end[0] if isinstance(end, list) and end else end
        if isinstance(end, int):
            return end
    raise ValueError(
        f"{directory}: neither generation_config.json nor config.json has eos_token_id"
    )


def _is_plain_text(tokenizer: Tokenizer, part: str) -> bool:
    """Whether the part is a mark that this tokenizer writes as plain text.

    Llama 2 and the first Mistral models do so.
    """
    return isinstance(part, Mark) and part not in tokenizer.control and part.startswith("[")


def _chat_tokens(tokenizer: Tokenizer, chat: str, parts: tuple[str, ...]) -> tuple[int, ...]:
    """Tokens of parts of a chat format. ValueError if the tokenizer lacks a control token."""
    out: list[int] = []
    for part in parts:
        if not isinstance(part, Mark) or _is_plain_text(tokenizer, part):
            out += tokenizer.encode(part)
        elif part in tokenizer.control:
            out.append(tokenizer.control[part])
        else:
            raise ValueError(
                f"{tokenizer.where} has no control token {str(part)!r}, which "
                f"chat={chat!r} needs; choose another of {', '.join(CHATS)}"
            )
    return tuple(out)


def chat_of(tokenizer: Tokenizer, chat: str, rules: str) -> tuple[str, Chat]:
    """(name, format with these rules) of a chat format or of "auto". ValueError: no such name."""
    known = ("auto", *CHATS)
    if chat not in known:
        raise ValueError(f"policy chat={chat!r}: expected one of {', '.join(known)}")
    name = recognise(set(tokenizer.control)) if chat == "auto" else chat
    return name, CHATS[name](rules)


class Framing(NamedTuple):
    """Tokens around observations and replies, as in `Codec`."""

    opening: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int


def framing(tokenizer: Tokenizer, name: str, chat: Chat) -> Framing:
    """A chat format as tokens. ValueError if the tokenizer lacks a control token."""
    opening, before, after = (_chat_tokens(tokenizer, name, parts) for parts in chat[:3])
    if chat.end is None:
        end, opening = _end_token(tokenizer.directory), (*tokenizer.first, *opening)
    else:
        end = _chat_tokens(tokenizer, name, (chat.end,))[0]
    return Framing(opening, before, after, end)


def _check_fragments(view: View, tokenizer: Tokenizer, chat: Chat) -> None:
    """ValueError if a fragment contains a mark of the chat format that is plain text."""
    parts = (*chat.opening, *chat.before, *chat.after)
    marks = {part for part in parts if _is_plain_text(tokenizer, part)}
    for fragment in view.lexicon:
        for mark in marks:
            if mark in fragment:
                raise ValueError(
                    f"fragment {fragment!r} contains {mark}, a mark of this chat format"
                )


def huggingface(
    view: View,
    directory: str | os.PathLike,
    *,
    chat: str = "auto",
    instructions: str = "",
    vocab_size: int | None = None,
) -> Codec:
    """The codec of the tokenizer in a directory (tokenizer.json), for a chat model or a plain one.

    Args:
      chat: chat format, one of `CHATS`, or "auto" by the tokenizer's control tokens.
      instructions: text after the view's rules, before the first observation.
      vocab_size: of the model; it may exceed the tokenizer's (default: equal).

    Tokens of more than 32 bytes that are in no fragment are read as their first 32 bytes in
    replies: they are runs of spaces or signs. Control tokens have no bytes.

    Raises:
      ValueError: there is no tokenizer, it does not restore the fragments' bytes, or lacks the chat
        format's tokens.
    """
    tokenizer = Tokenizer(pathlib.Path(directory))
    rules = " ".join(part for part in (view.rules, instructions) if part)
    name, written = chat_of(tokenizer, chat, rules)
    opening, before, after, end = framing(tokenizer, name, written)
    _check_fragments(view, tokenizer, written)
    table = tokenizer.bytes
    size = len(table) if vocab_size is None else vocab_size
    beyond = [t for t in (*opening, *before, *after, end) if t >= size]
    if beyond:
        raise ValueError(
            f"{tokenizer.where}: token {beyond[0]} of the chat format is beyond the model's "
            f"vocabulary of {size}; the tokenizer is of another model"
        )

    def known(tokens: Sequence[int], text: str) -> Sequence[int]:
        if any(token >= size for token in tokens):
            raise ValueError(
                f"{tokenizer.where}: {text!r} has token {max(tokens)}, beyond the model's "
                f"vocabulary of {size}; the tokenizer is of another model"
            )
        return tokens

    def opening_with(text: str) -> Sequence[int]:
        return known(framing(tokenizer, *chat_of(tokenizer, name, text)).opening, text)

    codec = bind(
        "huggingface",
        view,
        lambda text: known(tokenizer.encode(text), text),
        [*table[:size], *[b""] * (size - len(table))],
        pad=end,
        end=end,
        before=before,
        after=after,
        opening=opening,
        control=tuple(number for number in tokenizer.control.values() if number < size),
        longest=_LONGEST,
    )
    return dataclasses.replace(codec, opening_with=opening_with)
