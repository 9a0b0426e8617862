"""Codecs: a lexicon bound to a tokenizer, once, on the host.

Each fragment is encoded ahead of time, so in the graph an observation is a gather for any
tokenizer. Parsing is by bytes: generated tokens are expanded through a token-to-bytes table.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.ragged import concatenated, padded_table
from envs.text import Grammar, Text, View

PAD, END, ACT = range(3)
_TAGS = ("<think>", "</think>", "<action>", "</action>", "<answer>", "</answer>", " ", "||")


@dataclasses.dataclass(frozen=True, eq=False)
class Codec:
    """Tables between fragments, tokens and bytes. F fragments, V tokens.

    fragments: i32[F, M], tokens of each fragment, padded; lengths: i32[F], number of tokens.
    token_bytes: u8[V, W], the bytes of each token; token_lengths: i32[V]. Control tokens have none,
      so they leave no trace in a reply's bytes.
    pad, end: ids of the padding and end-of-reply (EOS) tokens.
    before, after: tokens before an observation, and between it and the reply.
    opening: tokens at the start of every row, instead of its first observation's `before`.
    tags: tokens of the reply grammar's tags, and of the further texts of a closed codec.
    encode: (text) -> tokens, on the host, for any text; None if only fragments have tokens.
    opening_with: (text) -> `opening` with this text in the place of the rules, on the host; None
      if the opening has none.

    The tokens of fragments are never control tokens (checked when a codec is made), so no text of
    an environment can end or begin a turn.
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
    opening: tuple[int, ...] = ()
    encode: Callable[[str], Sequence[int]] | None = None
    opening_with: Callable[[str], Sequence[int]] | None = None

    @property
    def vocab_size(self) -> int:
        """V, number of tokens including control tokens: the width of the logits."""
        return self.token_bytes.shape[0]

    def writes(self, tag: str) -> bool:
        """Whether a fragment contains this text."""
        return any(tag in text for text in self._texts)

    @functools.cached_property
    def _texts(self) -> tuple[str, ...]:
        rows = zip(self.fragments, self.lengths, strict=True)
        return tuple(decode(self, tokens[:length]) for tokens, length in rows)

    def observation_tokens(self, view: View) -> int:
        """A bound on the tokens of one observation, control tokens included.

        K fragments with at most M bytes in total, each with t tokens and b bytes, have at most x M
        + K max(t - x b) tokens, for every x >= 0 (by linear programming duality).
        """
        sizes = np.array([len(fragment.encode()) for fragment in view.lexicon])
        bounds = [
            x * view.max_bytes + view.max_fragments * np.max(self.lengths - x * sizes)
            for x in np.linspace(0, 1, 65)
        ]
        # Integers in exact arithmetic must not be rounded down.
        return int(np.floor(min(bounds) + 1e-6)) + len(self.before) + len(self.after)


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
    opening: Sequence[int] = (),
    control: Sequence[int] | None = None,
    longest: int | None = None,
    closed: bool = False,
    words: Sequence[str] = (),
) -> Codec:
    """The codec of any tokenizer: encode(fragment) -> tokens, and the bytes of each token.

    control: tokens that no text may contain and that have no bytes, besides pad and end; by default
      those of before, after and opening.
    longest: a token represents at most this many of its bytes, unless a fragment contains it.
    closed: encode supports only the fragments of the view, the tags and `words`.

    Raises:
      ValueError: a fragment encodes to a control token, or its tokens do not decode to its bytes.
    """
    forbidden = {pad, end, *((*before, *after, *opening) if control is None else control)}

    def checked(fragment: str) -> tuple[int, ...]:
        tokens = tuple(int(t) for t in encode(fragment)) if fragment else ()
        if forbidden & set(tokens):
            raise ValueError(
                f"codec {name!r}: text {fragment!r} encodes to control token "
                f"{sorted(forbidden & set(tokens))}; encode it with special tokens disabled"
            )
        if b"".join(token_bytes[t] for t in tokens) != fragment.encode():
            raise ValueError(
                f"codec {name!r}: the tokens of {fragment!r} decode to "
                f"{b''.join(token_bytes[t] for t in tokens)!r}; expected the same bytes"
            )
        return tokens

    encoded = [checked(fragment) for fragment in view.lexicon]
    tags = {tag: checked(tag) for tag in (*_TAGS, *words)}
    if longest is not None:
        used = {token for tokens in (*encoded, *tags.values()) for token in tokens}
        longest = max(longest, *(len(token_bytes[token]) for token in used))
    shown = [b"" if i in forbidden else piece[:longest] for i, piece in enumerate(token_bytes)]
    fragments, lengths = padded_table(encoded, np.int32)
    bytes_, byte_lengths = padded_table([tuple(piece) for piece in shown], np.uint8)
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
        tags=tags,
        opening=tuple(opening),
        encode=None if closed else encode,
    )


def vocabulary(*views: View) -> tuple[str, ...]:
    """Texts that are tokens of codec `word`: all lexicons' fragments and the tags, each once."""
    texts = dict.fromkeys(text for view in views for text in view.lexicon if text)
    return tuple(texts | dict.fromkeys(_TAGS))


def word(view: View, texts: Sequence[str] | None = None, words: Sequence[str] = ()) -> Codec:
    """One token per fragment: the shortest sequences, for policies trained from scratch.

    Tokens: 0 pad, 1 end of reply, 2 between observation and reply, then `texts`: by default the
    view's `vocabulary`. Codecs of several views with the same texts have the same tokens, so one
    policy can read all of them. words: texts with one token each, after these unless they are among
    them: requests and tags of contexts (`agentrl.actors.contexts`), injected hints, questions.

    Raises:
      ValueError: a fragment of the view is not among the texts.
    """
    texts = vocabulary(view) if texts is None else texts
    texts = (*texts, *(text for text in words if text not in texts))
    number = {text: 3 + i for i, text in enumerate(texts)}
    missing = [text for text in view.lexicon if text and text not in number]
    if missing:
        raise ValueError(
            f"codec 'word' has no token for {', '.join(map(repr, missing[:5]))} "
            f"({len(missing)} of {len(view.lexicon)} fragments): make the policy with "
            "this environment's words, see config.lexicon"
        )
    pieces = [b""] * 3 + [text.encode() for text in texts]
    return bind(
        "word",
        view,
        lambda text: [number[text]],
        pieces,
        pad=PAD,
        end=END,
        after=(ACT,),
        closed=True,
        words=tuple(words),
    )


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


def render(codec: Codec, text: Text, size: int) -> Tokens:
    """Tokens of one packed text (no agent axis): before, the text, after; at most `size` of them.

    A text that does not fit is truncated at its end, and `cut` is True.
    """
    room = size - len(codec.before) - len(codec.after)
    if room < 1:
        raise ValueError(f"render size={size}: expected more than the control tokens")
    first = len(codec.before)
    # Of the full size at once: a fusion that contains `pad` is not vectorised on a CPU.
    tokens, total = concatenated(
        codec.fragments, codec.lengths, text.fragments, text.length, size - first
    )
    tokens = jnp.pad(tokens, (first, 0)) if first else tokens
    kept = jnp.minimum(total, room)
    position = jnp.arange(size, dtype=jnp.int32)
    for i, control in enumerate(codec.before):
        tokens = jnp.where(position == i, control, tokens)
    for i, control in enumerate(codec.after):
        tokens = jnp.where(position == first + kept + i, control, tokens)
    length = first + kept + len(codec.after)
    tokens = jnp.where(position < length, tokens, codec.pad).astype(jnp.int32)
    return Tokens(tokens, length.astype(jnp.int32), total > room)


def render_text(codec: Codec, text: str, size: int) -> Tokens:
    """As `render`, on the host, for any text: before, the text, after, as NumPy arrays.

    A text that does not fit is truncated at its beginning, since the end contains the latest
    changes.

    Raises:
      ValueError: the codec supports fragments only, or encodes a text to a control token.
    """
    if codec.encode is None:
        raise ValueError(f"codec {codec.name!r} supports only the fragments of a view; use 'byte'")
    room = size - len(codec.before) - len(codec.after)
    # A lone surrogate, which a Python string may contain, has no bytes.
    text = text.encode("utf-8", errors="replace").decode()
    body = [int(token) for token in codec.encode(text)]
    # Around a turn there is plain text too, such as the line ends of ChatML: it has bytes.
    forbidden = {codec.pad, codec.end, *codec.before, *codec.after} & set(body)
    forbidden = {token for token in forbidden if codec.token_lengths[token] == 0}
    if forbidden:
        raise ValueError(
            f"codec {codec.name!r}: a text encodes to control token {sorted(forbidden)}; encode it "
            "with special tokens disabled"
        )
    kept = [*codec.before, *body[max(0, len(body) - room) :], *codec.after]
    tokens = np.full(size, codec.pad, np.int32)
    tokens[: len(kept)] = kept
    return Tokens(tokens, np.int32(len(kept)), np.bool_(len(body) > room))


def tokens_of(codec: Codec, text: str) -> tuple[int, ...]:
    """Tokens of a text of ours (a request, a hint), on the host. ValueError if there are none."""
    if text in codec.tags:
        return codec.tags[text]
    if codec.encode is None:
        raise ValueError(
            f"codec {codec.name!r} has no token for {text!r}: add it to config.policy.words, or "
            "use codec 'byte'"
        )
    tokens = tuple(int(token) for token in codec.encode(text))
    if {codec.pad, codec.end} & set(tokens):
        raise ValueError(f"codec {codec.name!r}: {text!r} holds the padding or the end token")
    return tokens


def to_bytes(codec: Codec, tokens: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Bytes of tokens i32[G]: (u8[G * W], number i32[]). W bytes is the longest token."""
    size = tokens.shape[0] * codec.token_bytes.shape[1]
    out, total = concatenated(codec.token_bytes, codec.token_lengths, tokens, length, size)
    return out.astype(jnp.uint8), total


def decode(codec: Codec, tokens: Sequence[int]) -> str:
    """Text of tokens, on the host; control tokens are skipped, broken UTF-8 is replaced."""
    data = b"".join(bytes(codec.token_bytes[t, : codec.token_lengths[t]]) for t in tokens)
    return data.decode("utf-8", errors="replace")


def plain_tokens(codec: Codec) -> tuple[np.ndarray, np.ndarray]:
    """(solid, blank): tokens bool[V] of which no tag can be made, with and without other bytes than
    white space.

    Control tokens are neither, nor are the bytes of Chinese characters, for which the grammar
    "action" refuses a reply.
    """
    inside = np.arange(codec.token_bytes.shape[1]) < codec.token_lengths[:, None]
    data = codec.token_bytes
    bad = (data == ord("<")) | ((data >= 0xE4) & (data <= 0xE9))
    plain = (codec.token_lengths > 0) & ~np.any(inside & bad, axis=1)
    solid = np.any(inside & ~np.isin(data, list(b" \t\n\r\x0b\x0c")), axis=1)
    return plain & solid, plain & ~solid


def _framing(codec: Codec, grammar: Grammar, thoughts: bool) -> list[tuple[int, ...]]:
    """Tokens around a command that occurs once (or twice: also in the thought)."""
    if grammar.name == "bare":
        return [(), (codec.end,)]
    opening = codec.tags[f"<{grammar.name}>"]
    closing = (*codec.tags[f"</{grammar.name}>"], codec.end)
    start, end = codec.tags["<think>"], codec.tags["</think>"]
    if thoughts:
        return [start, end + opening, closing]
    return [start + end + opening if grammar.think == "required" else opening, closing]


def reply_tokens(
    codec: Codec,
    grammar: Grammar,
    view: View,
    width: int,
    *,
    thoughts: bool = False,
    commands: int = 1,
    thought: int | None = None,
) -> int:
    """A bound on the tokens of `replies` without a bound; width: fragments of a command; commands:
    how many the reply has, with the fragment `||` in between; thought: fragments of a thought of
    its own."""
    frame = _framing(codec, grammar, thoughts)
    single = codec.lengths.max() == 1
    command = width if single else view.max_command_bytes
    command = commands * command + (commands - 1) * (1 if single else len("||"))
    if thoughts and thought is not None:
        return sum(map(len, frame)) + command + thought * int(codec.lengths.max())
    return sum(map(len, frame)) + command * (len(frame) - 1)


def replies(
    codec: Codec,
    grammar: Grammar,
    fragments: jax.Array,
    size: int,
    *,
    thoughts: bool = False,
    thought: jax.Array | None = None,
) -> Tokens:
    """The shortest well-formed replies with given commands, EOS included: Tokens [..., size].

    fragments: i32[..., C], the commands; 0s may be anywhere in them. thoughts: the thought between
    <think> and </think> repeats the command instead of being empty, or is `thought`, fragments
    i32[..., K].
    """
    if thoughts and grammar.think == "none":
        raise ValueError(
            f"thoughts=True with grammar {grammar.name!r} and think='none': replies have no "
            "thoughts; use grammar='answer' or 'action', think='optional' or 'required'"
        )
    frame = _framing(codec, grammar, thoughts)
    if thought is not None and not thoughts:
        raise ValueError("replies thought=...: with thoughts=True only")
    bodies = [fragments]
    if thoughts:
        bodies = [fragments if thought is None else thought, fragments]
    room = size - sum(map(len, frame))
    if room < len(bodies):
        raise ValueError(f"replies size={size}: expected more than the grammar's own tokens")

    def one(*parts: jax.Array) -> Tokens:
        position = jnp.arange(size, dtype=jnp.int32)
        tokens, length = jnp.full(size, codec.pad, jnp.int32), jnp.int32(0)
        left, cut = jnp.int32(room), jnp.zeros((), bool)
        for i, constants in enumerate(frame):
            if i > 0:
                ids = parts[i - 1]
                order = jnp.argsort(ids == 0, stable=True)
                count = jnp.sum(ids != 0, dtype=jnp.int32)
                body, total = concatenated(codec.fragments, codec.lengths, ids[order], count, room)
                kept = jnp.minimum(total, left)
                left, cut = left - kept, cut | (total > kept)
                at = position - length
                within = (at >= 0) & (at < kept)
                tokens = jnp.where(within, body[jnp.clip(at, 0, room - 1)], tokens)
                length = length + kept
            for token in constants:
                tokens = jnp.where(position == length, token, tokens)
                length = length + 1
        return Tokens(tokens, length, cut)

    for _ in range(fragments.ndim - 1):
        one = jax.vmap(one)
    return one(*bodies)
