"""Codecs: a lexicon bound to a tokenizer, once, on the host.

Each fragment is encoded ahead of time, so that in the graph an observation is a gather for any
tokenizer. The way back is by bytes: generated tokens are expanded through a token-to-bytes table.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.text import Grammar, Text, View

PAD, END, ACT = range(3)
_TAGS = ("<think>", "</think>", "<action>", "</action>", "<answer>", "</answer>", " ", "||")


@dataclasses.dataclass(frozen=True, eq=False)
class Codec:
    """Tables between fragments, tokens and bytes. F fragments, V tokens.

    fragments: i32[F, M], tokens of each fragment, padded; lengths: i32[F], how many count.
    token_bytes: u8[V, W], the bytes of each token; token_lengths: i32[V]. Control tokens have none,
      so that a reply's bytes hold no trace of them.
    pad, end: control tokens: nothing, and the end of a reply.
    before, after: control tokens put before an observation, and between it and the reply.
    tags: tokens of the reply grammar's tags.

    The tokens of fragments are never control tokens (checked where a codec is made), so no text of
    an environment can end a turn or begin one.
    """

    name: str
    fragments: np.ndarray
    lengths: np.ndarray
    token_bytes: np.ndarray
    token_lengths: np.ndarray
    pad: int
    end: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    tags: dict[str, tuple[int, ...]]

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return self.token_bytes.shape[0]

    def observation_tokens(self, view: View) -> int:
        """A bound on the tokens of one observation, control tokens included."""
        widest = int(self.lengths.max())
        if widest == 1:
            bound = view.max_fragments
        else:
            # A token stands for at least one byte.
            bound = min(view.max_bytes, view.max_fragments * widest)
        return bound + len(self.before) + len(self.after)


def bind(
    name: str,
    view: View,
    encode: Callable[[str], Sequence[int]],
    token_bytes: Sequence[bytes],
    *,
    pad: int,
    end: int,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
    control: Sequence[int] = (),
) -> Codec:
    """The codec of any tokenizer: encode(fragment) -> tokens, and the bytes of each token.

    Raises:
      ValueError: a fragment that encodes to a control token (pad, end, before, after, or one of
        `control`), or whose tokens do not stand for its bytes.
    """
    forbidden = {pad, end, *before, *after, *control}

    def checked(fragment: str) -> tuple[int, ...]:
        tokens = tuple(int(t) for t in encode(fragment)) if fragment else ()
        if forbidden & set(tokens):
            raise ValueError(
                f"codec {name!r}: text {fragment!r} encodes to control token "
                f"{sorted(forbidden & set(tokens))}; encode it with special tokens disabled"
            )
        if b"".join(token_bytes[t] for t in tokens) != fragment.encode():
            raise ValueError(
                f"codec {name!r}: the tokens of {fragment!r} stand for "
                f"{b''.join(token_bytes[t] for t in tokens)!r}; a codec must give the bytes back"
            )
        return tokens

    encoded = [checked(fragment) for fragment in view.lexicon]
    shown = [b"" if i in forbidden else piece for i, piece in enumerate(token_bytes)]
    fragments, lengths = _table(encoded, np.int32)
    bytes_, byte_lengths = _table([tuple(piece) for piece in shown], np.uint8)
    return Codec(
        name=name,
        fragments=fragments,
        lengths=lengths,
        token_bytes=bytes_,
        token_lengths=byte_lengths,
        pad=pad,
        end=end,
        before=tuple(before),
        after=tuple(after),
        tags={tag: checked(tag) for tag in _TAGS},
    )


def _table(rows: Sequence[Sequence[int]], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    width = max(1, *(len(row) for row in rows))
    table = np.zeros((len(rows), width), dtype)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table, np.array([len(row) for row in rows], np.int32)


def vocabulary(*views: View) -> tuple[str, ...]:
    """Texts that codec `word` has tokens for: all lexicons' fragments and the tags, each once."""
    texts = dict.fromkeys(text for view in views for text in view.lexicon if text)
    return tuple(texts | dict.fromkeys(_TAGS))


def word(view: View, texts: Sequence[str] | None = None) -> Codec:
    """A fragment is a token: the shortest sequences, for policies trained from scratch.

    Tokens: 0 pad, 1 end of reply, 2 between observation and reply, then `texts`: by default the
    view's `vocabulary`. Codecs of several views with the same texts have the same tokens, so that
    one policy reads them all.

    Raises:
      ValueError: a fragment of the view is not among the texts.
    """
    texts = vocabulary(view) if texts is None else texts
    number = {text: 3 + i for i, text in enumerate(texts)}
    missing = [text for text in view.lexicon if text and text not in number]
    if missing:
        raise ValueError(
            f"codec 'word' has no token for {', '.join(map(repr, missing[:5]))} "
            f"({len(missing)} of {len(view.lexicon)} fragments): the policy has to be made with "
            "this environment's words, see config.lexicon"
        )
    pieces = [b""] * 3 + [text.encode() for text in texts]
    return bind("word", view, lambda text: [number[text]], pieces, pad=PAD, end=END, after=(ACT,))


def byte(view: View) -> Codec:
    """A byte is a token: 0 pad, 1 end of reply, 2 between observation and reply, 3 + byte."""
    pieces = [b""] * 3 + [bytes([i]) for i in range(256)]
    return bind(
        "byte",
        view,
        lambda text: [3 + b for b in text.encode()],
        pieces,
        pad=PAD,
        end=END,
        after=(ACT,),
    )


CODECS: dict[str, Callable[[View], Codec]] = {"word": word, "byte": byte}


class Tokens(NamedTuple):
    """Tokens of texts: i32[..., size], padded; length i32[...]; cut bool[...]: it did not fit."""

    tokens: jax.Array
    length: jax.Array
    cut: jax.Array


def _expand(
    table: np.ndarray, lengths: np.ndarray, ids: jax.Array, count: jax.Array, size: int
) -> tuple[jax.Array, jax.Array]:
    """Puts the table's rows of `ids` i32[K] one behind the other: ([size], length before cutting).

    Position p belongs to the piece whose start is the last one at or before p; comparing p with all
    starts is one vector operation, where a binary search would branch.
    """
    number = ids.shape[0]
    used = jnp.arange(number) < count
    if table.shape[1] == 1 and int(lengths.max()) == 1 and (lengths[1:] == 1).all():
        # One element each, apart from the empty piece, which does not occur among the used ones.
        out = jnp.where(used, jnp.asarray(table[:, 0])[ids], 0)
        out = out[:size] if number >= size else jnp.pad(out, (0, size - number))
        return out, count
    spans = jnp.where(used, jnp.asarray(lengths)[ids], 0)
    ends = jnp.cumsum(spans)
    total = ends[-1]
    position = jnp.arange(size, dtype=jnp.int32)
    piece = jnp.sum(position[:, None] >= ends[None, :], axis=1, dtype=jnp.int32)
    piece = jnp.minimum(piece, number - 1)
    start = jnp.where(piece > 0, ends[piece - 1], 0)
    flat = ids[piece] * table.shape[1] + jnp.minimum(position - start, table.shape[1] - 1)
    return jnp.where(position < total, jnp.asarray(table.reshape(-1))[flat], 0), total


def render(codec: Codec, text: Text, size: int) -> Tokens:
    """Tokens of one packed text (no agent axis): before, the text, after; at most `size` of them.

    A text that does not fit is cut at its end, and `cut` says so.
    """
    room = size - len(codec.before) - len(codec.after)
    if room < 1:
        raise ValueError(f"render size={size}: expected more than the control tokens")
    body, total = _expand(codec.fragments, codec.lengths, text.fragments, text.length, room)
    kept = jnp.minimum(total, room)
    position = jnp.arange(size, dtype=jnp.int32)
    first = len(codec.before)
    tokens = jnp.pad(body, (first, len(codec.after)), constant_values=codec.pad)
    for i, control in enumerate(codec.before):
        tokens = jnp.where(position == i, control, tokens)
    for i, control in enumerate(codec.after):
        tokens = jnp.where(position == first + kept + i, control, tokens)
    length = first + kept + len(codec.after)
    tokens = jnp.where(position < length, tokens, codec.pad).astype(jnp.int32)
    return Tokens(tokens, length.astype(jnp.int32), total > room)


def to_bytes(codec: Codec, tokens: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Bytes that tokens i32[G] stand for: (u8[G * W], i32[]). W bytes is the longest token."""
    size = tokens.shape[0] * codec.token_bytes.shape[1]
    out, total = _expand(codec.token_bytes, codec.token_lengths, tokens, length, size)
    return out.astype(jnp.uint8), total


def decode(codec: Codec, tokens: Sequence[int]) -> str:
    """Text of tokens, on the host; control tokens leave nothing, broken UTF-8 a replacement."""
    data = b"".join(bytes(codec.token_bytes[t, : codec.token_lengths[t]]) for t in tokens)
    return data.decode("utf-8", errors="replace")


def _framing(codec: Codec, grammar: Grammar) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens around the command in the shortest well-formed reply."""
    if grammar.name == "bare":
        return (), ()
    opening = codec.tags[f"<{grammar.name}>"]
    if grammar.think == "required":
        opening = codec.tags["<think>"] + codec.tags["</think>"] + opening
    return opening, codec.tags[f"</{grammar.name}>"]


def reply_tokens(codec: Codec, grammar: Grammar, view: View, width: int) -> int:
    """A bound on the tokens of the shortest well-formed reply; width: fragments of a command."""
    opening, closing = _framing(codec, grammar)
    command = width if codec.lengths.max() == 1 else view.max_command_bytes
    return len(opening) + command + len(closing) + 1


def replies(codec: Codec, grammar: Grammar, fragments: jax.Array, size: int) -> Tokens:
    """The shortest well-formed replies that say commands, end included: Tokens [..., size].

    fragments: i32[..., C], how the commands are written; 0s may stand anywhere in them.
    """
    opening, closing = _framing(codec, grammar)
    room = size - len(opening) - len(closing) - 1
    if room < 1:
        raise ValueError(f"replies size={size}: expected more than the grammar's own tokens")

    def one(ids: jax.Array) -> Tokens:
        order = jnp.argsort(ids == 0, stable=True)
        count = jnp.sum(ids != 0, dtype=jnp.int32)
        body, total = _expand(codec.fragments, codec.lengths, ids[order], count, room)
        kept = jnp.minimum(total, room)
        position = jnp.arange(size, dtype=jnp.int32)
        tokens = jnp.pad(body, (len(opening), size - room - len(opening)))
        for i, token in enumerate(opening):
            tokens = jnp.where(position == i, token, tokens)
        for i, token in enumerate((*closing, codec.end)):
            tokens = jnp.where(position == len(opening) + kept + i, token, tokens)
        length = len(opening) + kept + len(closing) + 1
        tokens = jnp.where(position < length, tokens, codec.pad).astype(jnp.int32)
        return Tokens(tokens, length.astype(jnp.int32), total > room)

    for _ in range(fragments.ndim - 1):
        one = jax.vmap(one)
    return one(fragments)
