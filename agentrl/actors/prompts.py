"""Prompts from messages: a conversation as a context composes it, in tokens, on the host."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agentrl.actors.contexts import Context
from agentrl.actors.transcript import OMITTED, REPLIED, shown
from agentrl.policies import tokenizer_files
from agentrl.policies.codec import PAD, Codec


class Format(NamedTuple):
    """opening, before, after, end, opening_with: as in `Codec`. encode: (text) -> tokens,
    ValueError for a text without tokens."""

    opening: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int
    encode: Callable[[str], Sequence[int]]
    opening_with: Callable[[str], Sequence[int]] | None = None


def format_of(codec: Codec) -> Format:
    """The format of a codec; a closed one cuts texts into as few of its fragments as possible."""
    encode = codec.encode or _spelling(codec)
    return Format(codec.opening, codec.before, codec.after, codec.end, encode, codec.opening_with)


def _spelling(codec: Codec) -> Callable[[str], list[int]]:
    tokenizer = tokenizer_files.tokenizer_of(codec)
    # Texts that spell a control token are read as letters.
    tokenizer.encode_special_tokens = True

    def encode(text: str) -> list[int]:
        spelled = tokenizer.encode(text, add_special_tokens=False)
        if PAD in spelled.ids:
            start, end = spelled.offsets[spelled.ids.index(PAD)]
            raise ValueError(
                f"the policy's vocabulary has no words for {text[start:end]!r} in "
                f"{text[max(0, start - 20) : end + 20]!r}"
            )
        return spelled.ids

    return encode


class Piece(NamedTuple):
    """A piece of a prompt: the own turn that it is of, its kind as in `Layout`, its tokens."""

    turn: int
    kind: int
    tokens: list[int]


def pieces_of(form: Format, context: Context, messages: Sequence[Mapping[str, str]]) -> list[Piece]:
    """The pieces of the prompt of the next reply.

    messages: {"role": ..., "content": ...}, of "user" and "assistant" in turn, the last one of
    "user": observations and replies. One of "system" before them takes the place of the rules in
    the opening. Summaries and branches are not made, see
    `agentrl.actors.chat_template.left_out`.

    Raises:
      ValueError: messages in another order, a text without tokens, or a message of "system" for an
        opening without rules.
    """
    if messages and messages[0]["role"] == "system":
        if form.opening_with is None:
            raise ValueError(
                "a message of system: the policy's prompts have no place for one; send its text in "
                "the first message of user"
            )
        opening = form.opening_with(messages[0]["content"])
        form, messages = form._replace(opening=tuple(opening)), messages[1:]
    roles = [message["role"] for message in messages]
    turns = len(roles) // 2
    if roles != [*["user", "assistant"] * turns, "user"]:
        raise ValueError(
            f"messages of {', '.join(roles) or 'nobody'}: expected user and assistant in turn, "
            "observations and replies, the last one of user; one of system may come before them"
        )
    pieces: list[Piece] = []
    for turn, kind in shown(context, turns):
        if kind == REPLIED:
            tokens = [*form.encode(messages[2 * turn + 1]["content"]), form.end]
        else:
            first = not pieces and form.opening
            seen = messages[2 * turn]["content"]
            text = [] if kind == OMITTED else _observed(form, context, turn, seen)
            tokens = [*(form.opening if first else form.before), *text, *form.after]
        pieces.append(Piece(turn, kind, tokens))
    return pieces


def prompt_of(form: Format, context: Context, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """The tokens of `pieces_of`, one behind the other."""
    return [token for piece in pieces_of(form, context, messages) for token in piece.tokens]


def _observed(form: Format, context: Context, turn: int, text: str) -> list[int]:
    """Tokens of an observation, with the text that the context inserts."""
    every, injected = context.inject_every, context.inject
    due = turn % every == 0 if every else turn == 0
    inserted = form.encode(injected) if isinstance(injected, str) and injected and due else []
    return [*inserted, *form.encode(text)]
