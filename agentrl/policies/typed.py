"""Replies that a person types, as the tokens of a policy."""

import numpy as np

from agentrl.policies.codec import Codec, tokens_of
from agentrl.policies.generation import Given
from envs.text import Grammar


def reply_text(grammar: Grammar, command: str) -> str:
    """A command as the shortest reply that keeps the grammar."""
    if grammar.name == "bare":
        return command
    thought = "<think></think>" if grammar.think == "required" else ""
    return f"{thought}<{grammar.name}>{command}</{grammar.name}>"


def typed_reply(codec: Codec, text: str, size: int) -> Given:
    """A text and EOS as a reply of at most `size` tokens, without axis of rows.

    Replies of one token have no room for EOS, and none is needed.

    Raises:
      ValueError: it is longer, or the codec has no tokens for it.
    """
    tokens = tokens_of(codec, text) if codec.encode else _words(codec, text)
    tokens = [*tokens, *[codec.end] * (size > 1)]
    if len(tokens) > size:
        end = " with the end of the reply" if size > 1 else ""
        raise ValueError(f"{len(tokens)} tokens{end}; expected at most {size}")
    padded = np.full(size, codec.end, np.int32)
    padded[: len(tokens)] = tokens
    return Given(padded, np.int32(len(tokens)))


def _words(codec: Codec, text: str) -> list[int]:
    """The fewest tokens of a closed codec that spell the text, upper and lower case alike."""
    rest = text.lower().encode()
    pieces: dict[bytes, int] = {}
    for token, count in enumerate(codec.token_lengths):
        if count:
            pieces.setdefault(bytes(codec.token_bytes[token, :count]).lower(), token)
    # best[i]: the tokens of the first i bytes, None where there are none.
    best: list[list[int] | None] = [[]] + [None] * len(rest)
    longest = max(map(len, pieces))
    for end in range(1, len(rest) + 1):
        for start in range(max(0, end - longest), end):
            token = pieces.get(rest[start:end])
            if token is None or best[start] is None:
                continue
            if best[end] is None or len(best[start]) + 1 < len(best[end]):
                best[end] = [*best[start], token]
    if best[-1] is None:
        known = max(i for i, tokens in enumerate(best) if tokens is not None)
        word = rest[known:].decode(errors="replace")
        raise ValueError(f"the policy's vocabulary has no words for {word!r}")
    return best[-1]
