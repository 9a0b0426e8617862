"""The text view of an environment: how states are described and which commands exist."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.text import hashing
from envs.text.lexicon import Lexicon


@struct.dataclass
class Text:
    """Text as fragments: fragments i32[..., K], of which the first length i32[...] count.

    The rest of `fragments` is 0, the empty fragment.
    """

    fragments: jax.Array
    length: jax.Array


class Template(NamedTuple):
    """A form of command: fragment indices and names of slots, in order."""

    parts: tuple[Any, ...]


def template(lexicon: Lexicon, form: str) -> Template:
    """The template of a form such as "take {object} from {here}"; braces contain names of slots."""
    parts = []
    for piece in re.split(r"(\{\w+\})", form):
        if re.fullmatch(r"\{\w+\}", piece):
            parts.append(piece[1:-1])
        elif piece:
            parts.append(lexicon(piece))
    return Template(tuple(parts))


class Query(NamedTuple):
    """A command with free text in it, such as `search[red shoes]`: a bag of known words.

    prefix, suffix: the text around the words. words: fragments i32[V] of the known words.
    max_words: how many are kept; later and unknown ones are ignored.
    action: (words i32[max_words], -1 for none) -> i32[], the environment's action, an index from
    `num_actions` on; the environment's `is_legal` decides whether it is legal.
    """

    prefix: str
    suffix: str
    words: np.ndarray
    max_words: int
    action: Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """The text view of an environment in one wording.

    lexicon: all fragments; given as a `Lexicon`, which is closed by it, kept as a tuple.
    describe: (state, params) -> fragment indices i32[...], flattened in order, 0 for no fragment.
    templates: forms of the commands. Actions are numbered template by template and, within one,
    over the values of its slots with the last slot running fastest.
    slots: (state, params) -> {slot name: fragments i32[n, C]}, the n current values of each slot.
    Constant ones are NumPy arrays, which are hashed once on the host.
    max_fragments, max_bytes: bounds on every observation; tests check them.
    max_command_bytes: bound on every command.
    whole: `describe` returns max_fragments and omits none, so nothing has to be compacted: a third
    off the time of a step of ConnectFour in words.
    query: the command with free text, if there is one.
    read: (codes u8[S] of `envs.text.reading.characters`, slots) -> i32[], the action that the
      environment's source reads in a reply, -1 for none; for the faithful grammar.
    thought: (state, params) -> fragment indices i32[n] of what the expert thinks before its
      command, 0 for none, for replies with thoughts: all that it will need of what it has seen.
      None: it repeats the command.
    rules: instructions for language models that were not trained here.
    """

    lexicon: Lexicon | tuple[str, ...]
    describe: Callable[[Any, Any], jax.Array]
    templates: tuple[Template, ...]
    slots: Callable[[Any, Any], Mapping[str, Any]]
    max_fragments: int
    max_bytes: int
    max_command_bytes: int
    whole: bool = False
    query: Query | None = None
    read: Callable[[jax.Array, Mapping[str, Any]], jax.Array] | None = None
    thought: Callable[[Any, Any], jax.Array] | None = None
    rules: str = ""

    def __post_init__(self):
        if isinstance(self.lexicon, Lexicon):
            object.__setattr__(self, "lexicon", self.lexicon.close())
        for fragment in self.lexicon:
            for tag in ("<think>", "</think>", "<action>", "</action>", "<answer>", "</answer>"):
                if tag in fragment:
                    raise ValueError(
                        f"fragment {fragment!r} contains {tag}, a tag of the reply grammar"
                    )
        hashes = hashing.of_strings([f.lower().encode() for f in self.lexicon])
        object.__setattr__(self, "hashes", hashes)

    @property
    def inner_thought(self) -> Callable[[Any, Any], jax.Array] | None:
        """`thought` as a function of the state and the params of a wrapper around this
        environment."""
        think = self.thought
        return think and (lambda state, params: think(state.base, params.base))


def packed(view: "View", fragments: jax.Array) -> Text:
    """The view's description without the fragments that are 0."""
    if not view.whole:
        return pack(fragments, view.max_fragments)
    fragments = jnp.asarray(fragments, jnp.int32).reshape(-1)
    return Text(fragments, jnp.full((), fragments.shape[0], jnp.int32))


def pack(fragments: jax.Array, size: int) -> Text:
    """Moves the fragments that are not 0 to the front: Text of at most `size` fragments."""
    fragments = jnp.asarray(fragments, jnp.int32).reshape(-1)
    number = fragments.shape[0]
    present = fragments != 0
    # Counts in bytes by shifted sums, and destinations that are all different, with absent
    # fragments out of range: a quarter off the time of a cumulative sum of integers and a
    # scatter without these guarantees. Comparing all places with all takes several times as
    # long from 40 fragments on, and so does sorting at any size.
    count = present.astype(jnp.uint8 if number < 256 else jnp.int32)
    for step in (2**p for p in range((number - 1).bit_length())):
        count = count + jnp.pad(count[:-step], (step, 0))
    count = count.astype(jnp.int32)
    place = jnp.where(present, count - 1, size + np.arange(number, dtype=np.int32))
    packed = jnp.zeros(size, jnp.int32).at[place].set(fragments, mode="drop", unique_indices=True)
    return Text(packed, jnp.minimum(count[-1], size))


def _values(part: Any, slots: Mapping[str, Any]) -> Any:
    """Fragments [n, C] of one part of a template."""
    if isinstance(part, str):
        if part not in slots:
            raise ValueError(f"template slot {part!r}: the view's slots are {', '.join(slots)}")
        return slots[part]
    return np.array([[part]], np.int32)


def command_hashes(view: View, slots: Mapping[str, Any]) -> hashing.Hashed:
    """Hashes of all commands, [num_actions] each, in lower case."""

    def of_values(values: Any) -> hashing.Hashed:
        pieces = [hashing.take(view.hashes, values[:, c]) for c in range(values.shape[1])]
        total = pieces[0]
        for piece in pieces[1:]:
            total = hashing.concatenate(total, piece)
        return total

    def outer(first: hashing.Hashed, second: hashing.Hashed) -> hashing.Hashed:
        rows = jax.tree.map(lambda x: x[:, None], first)
        columns = jax.tree.map(lambda x: x[None, :], second)
        return jax.tree.map(lambda x: x.reshape(-1), hashing.concatenate(rows, columns))

    hashed = []
    for form in view.templates:
        total = of_values(_values(form.parts[0], slots))
        for part in form.parts[1:]:
            total = outer(total, of_values(_values(part, slots)))
        hashed.append(total)
    return jax.tree.map(lambda *x: jnp.concatenate([jnp.asarray(y) for y in x]), *hashed)


def command_fragments(view: View, slots: Mapping[str, Any]) -> jax.Array:
    """Fragments of all commands, i32[num_actions, C], 0 where there is none."""
    rows = []
    for form in view.templates:
        total = jnp.zeros((1, 0), jnp.int32)
        for part in form.parts:
            values = jnp.asarray(_values(part, slots), jnp.int32)
            left = jnp.repeat(total, values.shape[0], axis=0)
            total = jnp.concatenate([left, jnp.tile(values, (total.shape[0], 1))], axis=1)
        rows.append(total)
    width = max(row.shape[1] for row in rows)
    return jnp.concatenate([jnp.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows])
