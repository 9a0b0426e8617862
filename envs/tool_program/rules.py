"""Families of tool programs over N hidden digits: questions, right answers, and programs.

A program's memory is its notes, that is which cells were read, which prefix sums were asked for and
which pairs were compared. Pairs (i, j), i < j, are numbered in lexicographic order. All functions
return one row per family, in the order of `FAMILIES`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FAMILIES = ("max", "min", "count", "find", "range", "pair", "sort", "balance")
MAX, MIN, COUNT, FIND, RANGE, PAIR, SORT, BALANCE = range(len(FAMILIES))
SEEN = ("max", "count", "find", "range", "sort")
UNSEEN = ("min", "pair", "balance")

# Number of arguments of each family.
ARITY = dict.fromkeys(FAMILIES, 0) | {"count": 1, "find": 1, "pair": 1, "range": 2}
TOOLS = {
    "max": ("cmp",),
    "min": ("cmp",),
    "count": ("get",),
    "find": ("get",),
    "range": ("sum",),
    "pair": ("get",),
    "sort": ("cmp", "swap"),
    "balance": ("get",),
}


class Layout(NamedTuple):
    """Index of the first action of each tool; `done` has ten, one per digit."""

    get: int
    sum: int
    cmp: int
    swap: int
    done: int
    size: int


class Notes(NamedTuple):
    """What the tools have told: cells read or summed, bool[N], and pairs compared, bool[P]."""

    read: jax.Array
    summed: jax.Array
    compared: jax.Array


def pairs(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second cells of the pairs, i64[P] each."""
    return np.triu_indices(cells, 1)


def layout(cells: int) -> Layout:
    """Actions: get and sum per cell, cmp and swap per pair, done per digit."""
    count = cells * (cells - 1) // 2
    starts = np.cumsum([0, cells, cells, count, count, 10])
    return Layout(*map(int, starts))


def allowed(cells: int) -> np.ndarray:
    """Actions of each family, bool[F, num_actions]: its tools and possible answers."""
    at = layout(cells)
    spans = {
        "get": range(at.get, at.sum),
        "sum": range(at.sum, at.cmp),
        "cmp": range(at.cmp, at.swap),
        "swap": range(at.swap, at.done),
    }
    answers = {"count": cells + 1, "range": 10, "sort": 1, "balance": 2}
    out = np.zeros((len(FAMILIES), at.size), bool)
    for row, family in zip(out, FAMILIES, strict=True):
        for tool in TOOLS[family]:
            row[spans[tool]] = True
        row[at.done : at.done + answers.get(family, cells)] = True
    return out


def longest(cells: int) -> np.ndarray:
    """Calls of each family's program in the worst case, `done` among them, i32[F]."""
    calls = {
        "max": cells,
        "min": cells,
        "find": int(np.log2(cells)) + 2,
        "range": 3,
        "sort": cells * (cells - 1) + 1,
    }
    return np.array([calls.get(family, cells + 1) for family in FAMILIES], np.int32)


def _balanced(cells: int) -> np.ndarray:
    """All balanced rows of brackets, 0 opening and 1 closing, u8[R, N]."""
    rows = (np.arange(1 << cells)[:, None] >> np.arange(cells)) & 1
    depth = np.cumsum(1 - 2 * rows, axis=1)
    return rows[(depth >= 0).all(1) & (depth[:, -1] == 0)].astype(np.uint8)


def draw(key: jax.Array, family: jax.Array, cells: int) -> tuple[jax.Array, jax.Array]:
    """A task of one family: digits u8[N] and arguments u8[2].

    Digits are uniform; sorted for find; for balance brackets, balanced in half of the tasks and
    with one bracket reversed in the others. Arguments: the digit of a random cell (count, find),
    ends of a uniform range, the sum of two random cells (pair).
    """
    digit_key, row_key, turn_key, place_key = jax.random.split(key, 4)
    digits = jax.random.randint(digit_key, (cells,), 0, 10).astype(jnp.uint8)
    balanced = _balanced(cells)
    row = jnp.asarray(balanced)[jax.random.randint(row_key, (), 0, len(balanced))]
    turned = jax.random.randint(turn_key, (), 0, 2 * cells)
    brackets = row ^ (jnp.arange(cells) == turned).astype(jnp.uint8)
    digits = jnp.where(family == FIND, jnp.sort(digits), digits)
    digits = jnp.where(family == BALANCE, brackets, digits)
    first, gap = jax.random.randint(place_key, (2,), jnp.array([0, 1]), cells)
    second = (first + gap) % cells
    one, other = digits[first], digits[second]
    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    arguments = jnp.zeros(2, jnp.uint8)
    arguments = jnp.where((family == COUNT) | (family == FIND), arguments.at[0].set(one), arguments)
    ends = jnp.stack([low, high]).astype(jnp.uint8)
    arguments = jnp.where(family == RANGE, ends, arguments)
    arguments = jnp.where(family == PAIR, arguments.at[0].set(one + other), arguments)
    return digits, arguments


def relations(digits: jax.Array) -> jax.Array:
    """Comparison of the cells of each pair, i32[P]: 0 less, 1 equal, 2 greater."""
    first, second = pairs(digits.shape[0])
    a, b = digits[first].astype(jnp.int32), digits[second].astype(jnp.int32)
    return 1 + jnp.sign(a - b)


def prefix_sums(digits: jax.Array) -> jax.Array:
    """Last digit of the sum of cells 0 to i, u8[N]."""
    return (jnp.cumsum(digits.astype(jnp.int32)) % 10).astype(jnp.uint8)


def swap(digits: jax.Array, compared: jax.Array, pair: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Digits and compared pairs after swapping the cells of a pair.

    Known comparisons move with the digits. (No family has swap together with get or sum, whose
    notes would have to move as well.)
    """
    cells = digits.shape[0]
    first, second = pairs(cells)
    number = np.zeros((cells, cells), np.int32)
    number[first, second] = number[second, first] = np.arange(len(first))
    order = np.tile(np.arange(cells), (len(first), 1))
    order[np.arange(len(first)), first], order[np.arange(len(first)), second] = second, first
    moved = number[order[:, first], order[:, second]]
    places = jnp.asarray(order.astype(np.uint8))[pair]
    sources = jnp.asarray(moved.astype(np.uint8))[pair]
    here = places[:, None] == np.arange(cells, dtype=np.uint8)
    same = sources[:, None] == np.arange(len(first), dtype=np.uint8)
    return (
        jnp.sum(jnp.where(here, digits, 0), axis=1, dtype=jnp.uint8),
        jnp.any(same & compared, axis=1),
    )


def right(digits: jax.Array, arguments: jax.Array) -> jax.Array:
    """Which answers are right, bool[F, 10]."""
    cells = digits.shape[0]
    index, answers = np.arange(cells), np.arange(10)
    a, b = arguments[0], arguments[1]
    wide = digits.astype(jnp.int32)
    sums = wide[:, None] + wide == a
    total = jnp.sum(jnp.where((index >= a) & (index <= b), wide, 0)) % 10
    depth = jnp.cumsum(1 - 2 * wide)
    balanced = jnp.all(depth >= 0) & (depth[-1] == 0)

    def positions(found: jax.Array) -> jax.Array:
        return jnp.pad(found, (0, 10 - cells))

    return jnp.stack(
        [
            positions(digits == jnp.max(digits)),
            positions(digits == jnp.min(digits)),
            answers == jnp.sum(digits == a),
            positions(digits == a),
            answers == total,
            positions(jnp.any(sums & ~np.eye(cells, dtype=bool), axis=1)),
            (answers == 0) & jnp.all(digits[1:] >= digits[:-1]),
            answers == balanced,
        ]
    )


def _first(found: jax.Array) -> jax.Array:
    return jnp.argmax(found).astype(jnp.int32)


def _extreme(relation: jax.Array, notes: Notes, cells: int, at: Layout) -> jax.Array:
    """Next call for the greatest cell: compare the first two cells not known to be smaller."""
    first, second = pairs(cells)
    index = np.arange(cells)
    loses_first = notes.compared & (relation == 0)
    loses_second = notes.compared & (relation > 0)
    beaten = jnp.any((first[:, None] == index) & loses_first[:, None], axis=0)
    beaten |= jnp.any((second[:, None] == index) & loses_second[:, None], axis=0)
    one = _first(~beaten)
    rest = ~beaten & (index > one)
    chosen = (first == one) & (second == _first(rest))
    return jnp.where(jnp.any(rest), at.cmp + _first(chosen), at.done + one)


def programs(digits: jax.Array, arguments: jax.Array, notes: Notes) -> jax.Array:
    """Next call of each family's program, i32[F]; it uses only digits in the notes.

    max, min: keep a champion. count, balance: read from the left. find: halve the range that may
    contain the digit. range: two prefix sums. pair: read until two cells fit. sort: compare or swap
    the first neighbours that are not known to be in order.
    """
    cells = digits.shape[0]
    at, index = layout(cells), np.arange(cells)
    read, summed, compared = notes
    a, b = arguments[0].astype(jnp.int32), arguments[1].astype(jnp.int32)
    answers = right(digits, arguments)
    relation = relations(digits)
    unread = jnp.any(~read)
    read_next = at.get + _first(~read)

    def done(family: int) -> jax.Array:
        return at.done + _first(answers[family])

    low = jnp.max(jnp.where(read & (digits < a), index + 1, 0))
    high = jnp.min(jnp.where(read & (digits > a), index, cells))
    hit = read & (digits == a)
    find = jnp.where(jnp.any(hit), at.done + _first(hit), at.get + (low + high) // 2)

    has_low = (a == 0) | jnp.any(summed & (index == a - 1))
    has_high = jnp.any(summed & (index == b))
    range_ = jnp.where(has_low, done(RANGE), at.sum + a - 1)
    range_ = jnp.where(has_high, range_, at.sum + b)

    first, second = pairs(cells)
    wide = digits.astype(jnp.int32)
    fits = read[first] & read[second] & (wide[first] + wide[second] == a)
    fitting = jnp.any(fits[:, None] & (first[:, None] == index), axis=0)
    pair = jnp.where(jnp.any(fits), at.done + _first(fitting), read_next)

    adjacent = np.flatnonzero(second == first + 1)
    inverted = compared[adjacent] & (relation[adjacent] == 2)
    open_ = inverted | ~compared[adjacent]
    place = _first(open_)
    number = jnp.asarray(adjacent)[place]
    sort = jnp.where(inverted[place], at.swap + number, at.cmp + number)
    sort = jnp.where(jnp.any(open_), sort, at.done)

    prefix = jnp.cumsum(~read) == 0
    sunk = jnp.any(prefix & (jnp.cumsum(1 - 2 * wide) < 0))
    return jnp.stack(
        [
            _extreme(relation, notes, cells, at),
            _extreme(2 - relation, notes, cells, at),
            jnp.where(unread, read_next, done(COUNT)),
            find,
            range_,
            pair,
            sort,
            jnp.where(unread & ~sunk, read_next, done(BALANCE)),
        ]
    ).astype(jnp.int32)
