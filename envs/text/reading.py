"""Forms in brackets, found anywhere in free text: how TextArena's games read replies.

TextArena's parsers are regular expressions over the characters of a reply, of any case, with
numbers of any script and length and any white space. Here a form is a sequence of pieces, and all
places of the reply are tried at once. A run takes all that it can and gives nothing back; so does
a regular expression whose neighbouring pieces have no character in common, as these have not.

A reply is first turned into codes, one byte for each character (`characters`): digits of any script
are "0" to "9", white space is a blank or "\\n", letters are lower-case, all that is neither ASCII
nor one of these is OTHER.
"""

import functools
import unicodedata
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# END fills what is behind the text. TURKISH_I and LONG_S: letters that equal an "i" and an "s" for
# expressions that ignore case, but not wherever they stand in a name (`literal`).
END, TURKISH_I, LONG_S, OTHER = 0, 1, 2, 127
DIGITS, SPACES = b"0123456789", b" \n"
LETTERS = b"abcdefghijklmnopqrstuvwxyz\x01\x02"
INSIDE = bytes(sorted(set(range(1, 128)) - set(b"[]")))
# Numbers of more digits than this are MANY: no game here has any use for them.
_DIGITS_READ = 3
MANY = 10**_DIGITS_READ


class Run(NamedTuple):
    """At least `least` characters of a class; `number`: they are digits whose value is wanted."""

    of: bytes
    least: int = 0
    number: bool = False


class Maybe(NamedTuple):
    """Pieces that may be there or not; none of them is a number."""

    form: tuple


SPACE, NUMBER = Run(SPACES), Run(DIGITS, 1, number=True)


class Match(NamedTuple):
    """found: bool[S], the form starts here. end: i32[S], where it ends then.

    numbers: i32[S] for each of its numbers, where that starts then.
    """

    found: jax.Array
    end: jax.Array
    numbers: tuple[jax.Array, ...]


@functools.cache
def _table() -> np.ndarray:
    """The code of each Unicode character below 0x20000; beyond it there is no digit or space."""
    table = np.full(0x20000, OTHER, np.uint8)
    for point in range(len(table)):
        character = chr(point)
        if character.isdecimal():
            table[point] = ord("0") + unicodedata.decimal(character)
        elif character.isspace():
            table[point] = ord("\n") if character == "\n" else ord(" ")
        elif 0x20 < point < 0x7F:
            table[point] = ord(character.lower())
    # Outside ASCII four letters equal one of its letters where case is ignored.
    table[[0x130, 0x131, 0x17F, 0x212A]] = TURKISH_I, TURKISH_I, LONG_S, ord("k")
    return table


def _points(text: jax.Array, inside: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(code points i32[A], whether a character starts here bool[A]) of UTF-8.

    Bytes that are no UTF-8 are characters of their own, with the last code point of the table.
    """
    byte = jnp.where(inside, text, 0).astype(jnp.int32)
    behind = [jnp.pad(byte[k:], (0, min(k, byte.shape[0]))) for k in range(4)]
    more = [(b & 0xC0) == 0x80 for b in behind]
    low = [b & 0x3F for b in behind]
    unknown = len(_table()) - 1
    two = (byte >= 0xC2) & (byte <= 0xDF) & more[1]
    three = (byte >= 0xE0) & (byte <= 0xEF) & more[1] & more[2]
    four = (byte >= 0xF0) & (byte <= 0xF4) & more[1] & more[2] & more[3]
    of_two = (byte & 0x1F) << 6 | low[1]
    of_three = (byte & 0x0F) << 12 | low[1] << 6 | low[2]
    of_four = (byte & 0x07) << 18 | low[1] << 12 | low[2] << 6 | low[3]
    # Longer than need be is no UTF-8.
    of_three = jnp.where(of_three < 0x800, unknown, of_three)
    of_four = jnp.where(of_four < 0x10000, unknown, of_four)
    point = jnp.where(byte < 0x80, byte, unknown)
    for starts, value in ((two, of_two), (three, of_three), (four, of_four)):
        point = jnp.where(starts, jnp.minimum(value, unknown), point)
    taken = jnp.zeros(byte.shape, bool)
    for count, starts in ((1, two | three | four), (2, three | four), (3, four)):
        taken = taken | jnp.pad(starts, (count, 0))[: byte.shape[0]]
    return point, inside & ~taken


def characters(text: jax.Array, start: jax.Array, end: jax.Array) -> jax.Array:
    """Codes u8[A + 3] of the characters in text[start:end], which is UTF-8, u8[A].

    As TextArena does, a text without any bracket is put into brackets. The first code is "[" then,
    else OTHER; behind the text all are END.
    """
    index = jnp.arange(text.shape[0], dtype=jnp.int32)
    point, begins = _points(text, (index >= start) & (index < end))
    place = jnp.where(begins, jnp.cumsum(begins), text.shape[0] + 3 + index)
    codes = jnp.zeros(text.shape[0] + 3, jnp.uint8)
    codes = codes.at[place].set(jnp.asarray(_table())[point], mode="drop", unique_indices=True)
    bare = ~jnp.any((codes == ord("[")) | (codes == ord("]")))
    codes = codes.at[0].set(jnp.where(bare, ord("["), OTHER))
    return codes.at[1 + jnp.sum(begins)].set(jnp.where(bare, ord("]"), END))


def member(codes: jax.Array, of: bytes) -> jax.Array:
    """bool[...]: the code is one of these."""
    values = sorted(set(of))
    found = jnp.zeros(codes.shape, bool)
    first = values[0]
    for here, following in zip(values, [*values[1:], None], strict=True):
        if following != here + 1:
            found = found | ((codes >= first) & (codes <= here))
            first = following
    return found


def run_ends(codes: jax.Array, of: bytes) -> jax.Array:
    """i32[S]: the first place from here on that is not one of these."""
    size = codes.shape[0]
    ends = jnp.where(member(codes, of), size, jnp.arange(size, dtype=jnp.int32))
    # The least of all from here on, by shifts: it compiles in half the time of a scan.
    for step in (2**p for p in range((size - 1).bit_length())):
        ends = jnp.minimum(ends, jnp.pad(ends[step:], (0, step), constant_values=size))
    return ends


def literal(codes: jax.Array, word: bytes, *, name: bool = False) -> jax.Array:
    """bool[S]: this word, in lower case, starts here.

    name: in the sense of equal title cases, in which no Turkish i is an i, and a long s is one at
    the start only.
    """
    size = codes.shape[0]
    padded = jnp.pad(codes, (0, len(word)))
    found = jnp.ones(size, bool)
    for offset, byte in enumerate(word):
        code = padded[offset : offset + size]
        same = code == byte
        if byte == ord("i") and not name:
            same = same | (code == TURKISH_I)
        if byte == ord("s") and not (name and offset):
            same = same | (code == LONG_S)
        found = found & same
    return found


def match(codes: jax.Array, form: tuple) -> Match:
    """Tries the form at all places."""
    at = jnp.arange(codes.shape[0], dtype=jnp.int32)
    return _follow(codes, form, jnp.ones(codes.shape, bool), at)


def _follow(codes: jax.Array, form: tuple, found: jax.Array, at: jax.Array) -> Match:
    numbers = []
    for piece in form:
        if isinstance(piece, bytes):
            found = found & literal(codes, piece)[at]
            at = jnp.where(found, at + len(piece), at)
        elif isinstance(piece, Run):
            end = run_ends(codes, piece.of)[at]
            found = found & (end - at >= piece.least)
            if piece.number:
                numbers.append(at)
            at = jnp.where(found, end, at)
        else:
            inner = _follow(codes, piece.form, found, at)
            at = jnp.where(inner.found, inner.end, at)
    return Match(found, at, tuple(numbers))


def first(found: jax.Array) -> jax.Array:
    """The first place where `found`, the last place of all if there is none."""
    return jnp.where(jnp.any(found), jnp.argmax(found), found.shape[0] - 1).astype(jnp.int32)


def value(codes: jax.Array, at: jax.Array) -> jax.Array:
    """The numbers that start at places i32[...]; MANY for all that are larger."""
    start, end = run_ends(codes, b"0")[at], run_ends(codes, DIGITS)[at]
    total = jnp.zeros(at.shape, jnp.int32)
    for place in range(_DIGITS_READ):
        here = jnp.minimum(start + place, codes.shape[0] - 1)
        digit = codes[here].astype(jnp.int32) - ord("0")
        total = jnp.where(start + place < end, 10 * total + digit, total)
    return jnp.where(end - start > _DIGITS_READ, MANY, total)


def numbers_at(codes: jax.Array, found: Match, at: jax.Array) -> jax.Array:
    """Values of a match's numbers, i32[n], of the one at place i32[]; -1 where there is none."""
    places = jnp.stack([starts[at] for starts in found.numbers])
    return jnp.where(found.found[at], value(codes, places), -1)


def first_numbers(codes: jax.Array, form: tuple) -> jax.Array:
    """Values of the numbers where the form stands first, i32[n]; -1 where it does not stand."""
    found = match(codes, form)
    return numbers_at(codes, found, first(found.found))


def first_word(codes: jax.Array, words: tuple[str, ...]) -> jax.Array:
    """Which of these words stands first in brackets of its own, i32[]; -1 for none."""
    found = jnp.stack([literal(codes, f"[{word}]".encode()) for word in words])
    at = first(jnp.any(found, axis=0))
    return jnp.where(jnp.any(found), jnp.argmax(found[:, at]), -1).astype(jnp.int32)
