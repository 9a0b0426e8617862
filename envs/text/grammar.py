"""Parsing of replies: extracts the commands from the bytes of a reply and identifies them.

A reply keeps the grammar or not (`valid_format`), and its commands exist or not (`known`); the
environment decides whether a command is legal now. Everything is arithmetic on bytes, so every
reply of every tokenizer, well formed or not, has a result: an action or none.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from envs.text import hashing, reading
from envs.text.view import View, command_hashes

_SPACES = b" \t\n\r\x0b\x0c"


@dataclasses.dataclass(frozen=True)
class Grammar:
    """The format of a reply.

    name: "bare", the whole reply is the command; "action", `<think>..</think><action>..</action>`
    as in the GiGPO code base (read: `verl-agent`, env_manager projections): the first tag of each
    kind counts, text between and after is free; "answer", RAGEN's `<think>..</think> <answer>a ||
    b</answer>` (read: `ctx_manager`), with only white space between the two.
    think: whether thinking tags are "none" (not asked for), "optional" or "required".
    max_actions: commands per reply, separated by `||`; later ones are ignored.
    fallback: without action tags, this many of the last bytes are taken for the command, and the
    format is invalid (verl-agent: 30, or 20 in WebShop); 0: no command in that case.
    faithful: the action is read by `View.read`, the rule of the environment's source: a command
    anywhere in free text, in each form that the source understands. Otherwise it has to be one of
    the view's commands and nothing else.
    """

    name: str = "bare"
    think: str = "none"
    max_actions: int = 1
    fallback: int = 0
    faithful: bool = False


GRAMMARS = {
    "bare": Grammar(),
    "action": Grammar("action", think="required", fallback=30),
    "answer": Grammar("answer", think="required", max_actions=5),
    "faithful": Grammar(faithful=True),
}


def make_grammar(
    name: str, *, think: str = "default", max_actions: int = 0, view: View | None = None
) -> Grammar:
    """A grammar by name; `think` and `max_actions` override its own unless "default" and 0.

    "faithful" reads the whole reply as the environment's source does; with thoughts what stands
    between <action> and </action>.

    Args:
      view: the view whose commands it will read, if that is to be checked.

    Raises:
      ValueError: unknown names, options that the grammar does not support, or a view without a
        reader for a faithful grammar.
    """
    if name not in GRAMMARS:
        raise ValueError(f"grammar {name!r}: expected one of {', '.join(GRAMMARS)}")
    grammar = GRAMMARS[name]
    if think != "default":
        if think not in ("none", "optional", "required"):
            raise ValueError(
                f"grammar think={think!r}: expected 'default', 'none', 'optional' or 'required'"
            )
        if name == "bare" and think != "none":
            raise ValueError(f"grammar 'bare' has no tags: think={think!r} must be 'none'")
        if name == "faithful" and think != "none":
            grammar = dataclasses.replace(grammar, name="action")
        grammar = dataclasses.replace(grammar, think=think)
    if max_actions < 0 or (max_actions > 1 and name != "answer"):
        raise ValueError(
            f"max_actions={max_actions} with grammar {name!r}: only 'answer' has several actions"
        )
    if max_actions:
        grammar = dataclasses.replace(grammar, max_actions=max_actions)
    if view is not None:
        _check_reader(grammar, view)
    return grammar


def _check_reader(grammar: Grammar, view: View) -> None:
    if grammar.faithful and view.read is None:
        raise ValueError(
            "grammar 'faithful': this environment's wording does not say how its source reads "
            "replies (those of TextArena's games do; SimpleNegotiation-v1 needs rules='textarena' "
            "and wording='faithful'); use grammar 'bare', 'action' or 'answer'"
        )


class Parsed(NamedTuple):
    """Content of a reply.

    actions: i32[M], indices of the commands in order; -1 for one that was not recognised.
    count: i32[], how many were written (recognised or not), at most M.
    valid_format: bool[], the reply keeps the grammar.
    known: bool[], at least one command was written and all of them are the environment's.
    thinks: bool[], its thought is not empty.
    """

    actions: jax.Array
    count: jax.Array
    valid_format: jax.Array
    known: jax.Array
    thinks: jax.Array


def lower(text: jax.Array) -> jax.Array:
    """Bytes u8[...] with A to Z in lower case."""
    return jnp.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text).astype(jnp.uint8)


def _is_space(text: jax.Array) -> jax.Array:
    found = jnp.zeros(text.shape, bool)
    for byte in _SPACES:
        found = found | (text == byte)
    return found


def _matches(text: jax.Array, length: jax.Array, tag: bytes) -> jax.Array:
    """bool[A]: the tag starts here and lies within the text."""
    size = text.shape[0]
    padded = jnp.pad(text, (0, len(tag)))
    found = jnp.arange(size) + len(tag) <= length
    for offset, byte in enumerate(tag):
        found = found & (padded[offset : offset + size] == byte)
    return found


def _first(found: jax.Array, at: jax.Array | int = 0) -> jax.Array:
    """First index from `at` on at which `found` holds, or the size if there is none."""
    size = found.shape[0]
    index = jnp.arange(size, dtype=jnp.int32)
    return jnp.min(jnp.where(found & (index >= at), index, size))


def _strip(text: jax.Array, start: jax.Array, end: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Moves both ends of the span past white space; an empty span gives end <= start."""
    index = jnp.arange(text.shape[0], dtype=jnp.int32)
    solid = (index >= start) & (index < end) & ~_is_space(text)
    return (
        jnp.min(jnp.where(solid, index, text.shape[0])),
        jnp.max(jnp.where(solid, index + 1, 0)),
    )


def span(
    grammar: Grammar, text: jax.Array, length: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(start, end, valid format) of the action part of the reply.

    text: u8[A], bytes in lower case, as the tags are; length: i32[], number of bytes written.
    """
    if grammar.name == "bare":
        return jnp.zeros((), jnp.int32), length, (length > 0) | grammar.faithful
    size = text.shape[0]
    opening, closing = _matches(text, length, b"<think>"), _matches(text, length, b"</think>")
    if grammar.name == "action":
        start = _first(_matches(text, length, b"<action>"))
        end = _first(_matches(text, length, b"</action>"))
        tagged = (start < size) & (end < size)
        thought = jnp.any(opening) & jnp.any(closing)
        # The code base refuses replies with Chinese characters (U+4E00 to U+9FFF), matched
        # by bytes here.
        within = jnp.arange(size) < length
        foreign = jnp.any(within & (text >= 0xE4) & (text <= 0xE9))
        valid = tagged & ~foreign
        if grammar.think == "required":
            valid = valid & thought
        start = jnp.where(tagged, start + len("<action>"), length - grammar.fallback)
        end = jnp.where(tagged, end, length if grammar.fallback else 0)
        return jnp.maximum(start, 0), end, valid
    answer = _matches(text, length, b"<answer>")
    first_answer = _first(answer)
    start = first_answer
    found = first_answer < size
    if grammar.think != "none":
        # A thought ends at the first </think> after <think> that is directly followed by an
        # answer.
        index = jnp.arange(size, dtype=jnp.int32)
        solid = jnp.where(_is_space(text), size, index)
        following = jax.lax.associative_scan(jnp.minimum, solid, reverse=True)
        behind = jnp.append(following, size)[jnp.minimum(index + len("</think>"), size)]
        ready = closing & jnp.append(answer, False)[behind]
        thought = _first(opening)
        close = _first(ready, thought + len("<think>"))
        thinks = (thought < size) & (close < size)
        start_after = behind[jnp.minimum(close, size - 1)]
        if grammar.think == "required":
            start, found = start_after, thinks
        else:
            start = jnp.where(thinks, start_after, first_answer)
            found = thinks | found
    start = start + len("<answer>")
    end = _first(_matches(text, length, b"</answer>"), start)
    found = found & (end < size)
    return jnp.where(found, start, 0), jnp.where(found, end, 0), found


def thinks(text: jax.Array, length: jax.Array) -> jax.Array:
    """Whether anything but white space is between the first <think> and the next </think>, bool[].

    text: u8[A], bytes in lower case; length: i32[], number of bytes written.
    """
    size = text.shape[0]
    opening = _first(_matches(text, length, b"<think>"))
    start = opening + len("<think>")
    end = _first(_matches(text, length, b"</think>"), start)
    index = jnp.arange(size, dtype=jnp.int32)
    inside = (index >= start) & (index < end) & (opening < size) & (end < size)
    return jnp.any(inside & ~_is_space(text))


def contains(text: jax.Array, length: jax.Array, tag: str) -> jax.Array:
    """Whether the tag occurs in bytes u8[A], which are in lower case, bool[]."""
    return jnp.any(_matches(text, length, tag.encode()))


def between(text: jax.Array, length: jax.Array, name: str) -> jax.Array:
    """bool[A]: the byte is in <name>...</name>, tags included, the first of each kind.

    Without the closing tag everything from the opening tag on is.
    """
    size = text.shape[0]
    closing = f"</{name}>".encode()
    start = _first(_matches(text, length, f"<{name}>".encode()))
    end = _first(_matches(text, length, closing), start)
    index = jnp.arange(size, dtype=jnp.int32)
    return (index >= start) & (index < end + len(closing))


def _split(
    text: jax.Array, start: jax.Array, end: jax.Array, parts: int
) -> tuple[jax.Array, jax.Array]:
    """Starts and ends i32[parts] of the parts that `||` separates within the span; empty for none.

    Overlapping bars count once, from the left.
    """
    index = jnp.arange(text.shape[0], dtype=jnp.int32)
    bars = _matches(text, end, b"||") & (index >= start)
    # In a run of bars every second one starts a separator.
    run = index - jax.lax.associative_scan(
        jnp.maximum, jnp.where(jnp.append(False, bars[:-1]) & bars, -1, index)
    )
    bars = bars & (run % 2 == 0)
    rank = jnp.cumsum(bars)
    starts, ends, here = [], [], start
    for part in range(parts):
        stop = jnp.min(jnp.where(bars & (rank == part + 1), index, end))
        starts.append(here)
        ends.append(stop)
        here = jnp.where(stop < end, stop + 2, end)
    return jnp.stack(starts), jnp.stack(ends)


def _query_words(
    view: View, text: jax.Array, start: jax.Array, end: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(is a query bool[], known words i32[max_words] or -1) of the span [start, end)."""
    query = view.query
    prefix, suffix = query.prefix.lower().encode(), query.suffix.lower().encode()
    size = text.shape[0]
    opens = _matches(text, end, prefix)
    closes = _matches(text, end, suffix)
    at = jnp.clip(start, 0, size - 1)
    inner_end = end - len(suffix)
    found = opens[at] & closes[jnp.clip(inner_end, 0, size - 1)]
    found = found & (inner_end > start + len(prefix))
    inner_start = start + len(prefix)
    index = jnp.arange(size, dtype=jnp.int32)
    within = (index >= inner_start) & (index < inner_end)
    solid = within & ~_is_space(text)
    begins = solid & ~jnp.append(False, solid[:-1])
    finishes = solid & ~jnp.append(solid[1:], False)
    # Twice as many words are read as are kept, since unknown ones are dropped.
    rank, last = jnp.cumsum(begins), jnp.cumsum(finishes)
    vocabulary = hashing.take(view.hashes, query.words)
    known = []
    for word in range(2 * query.max_words):
        first = jnp.min(jnp.where(begins & (rank == word + 1), index, size))
        final = jnp.min(jnp.where(finishes & (last == word + 1), index + 1, 0 * index + size))
        same = hashing.equal(hashing.of_span(text, first, final), vocabulary)
        known.append(jnp.where(jnp.any(same) & (first < size), jnp.argmax(same), -1))
    known = jnp.stack(known).astype(jnp.int32)
    order = jnp.argsort(known < 0, stable=True)
    return found, known[order][: query.max_words]


def parse(grammar: Grammar, view: View, slots, reply: jax.Array, length: jax.Array) -> Parsed:
    """Parses one reply.

    Args:
      slots: current values of the view's slots, `view.slots(state, params)`.
      reply: u8[A], bytes. length: i32[], number of bytes written.

    Commands are compared case-insensitively, and white space around them is ignored; a faithful
    grammar leaves reading to the view's reader.
    """
    _check_reader(grammar, view)
    text = jnp.where(jnp.arange(reply.shape[0]) < length, lower(reply), 0).astype(jnp.uint8)
    start, end, valid = span(grammar, text, length)
    if grammar.max_actions == 1:
        starts, ends = start[None], end[None]
    else:
        starts, ends = _split(text, start, end, grammar.max_actions)
    thought = jnp.zeros((), bool) if grammar.think == "none" else thinks(text, length)
    if grammar.faithful:
        # An empty reply is one, too: what it means is the source's affair.
        there = (end >= start) & (valid | (length > 0))
        action = view.read(reading.characters(text, start, end), slots)
        action = jnp.where(there, action, -1).astype(jnp.int32)
        return Parsed(action[None], there.astype(jnp.int32), valid, action >= 0, thought)
    commands = command_hashes(view, slots)
    actions, written = [], []
    for part in range(grammar.max_actions):
        first, last = _strip(text, starts[part], ends[part])
        same = hashing.equal(hashing.of_span(text, first, last), commands)
        action = jnp.where(jnp.any(same), jnp.argmax(same), -1).astype(jnp.int32)
        if view.query is not None:
            asked, words = _query_words(view, text, first, last)
            action = jnp.where(asked, view.query.action(words), action)
        there = last > first
        actions.append(jnp.where(there, action, -1))
        written.append(there)
    actions, written = jnp.stack(actions), jnp.stack(written)
    known = jnp.any(written) & jnp.all(~written | (actions >= 0))
    return Parsed(actions, jnp.sum(written, dtype=jnp.int32), valid, known, thought)
