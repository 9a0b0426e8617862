"""Arithmetic on formulas of cards: does a sequence of tokens have a given value?

A formula is u8[length], padded with EMPTY at its end; code 1 to 10 is that number, then come the
symbols. It is read as Python reads the concatenated text, because the reference (gym-cards of
RL4VLM and verl-agent, read) hands that text to `eval`: numbers side by side join (2 and 4 make 24),
`**` is a power, `//` a floor division, signs may be repeated, and `5(3)` or `()` have no value.

Two deviations. Values are exact fractions, where the reference compares a float64 with the target
and so refuses a few right formulas: 8/(3-8/3) has the value 24 here, 23.99999999999999 there. And
a power needs a whole exponent, where Python's 9**(1/2) is 3.0.

Fractions are pairs of float32, exact below 2^24. Only powers exceed it, and there a comparison such
as 10**9//7**9 = 24 needs no more digits (verified with exact arithmetic over all x**y op z**w).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

EMPTY = 0
PLUS, MINUS, TIMES, OVER, OPEN, CLOSE = range(11, 17)
SYMBOLS = {"+": PLUS, "-": MINUS, "*": TIMES, "/": OVER, "(": OPEN, ")": CLOSE}
NUM_CODES = 17

# Operators of two tokens are the sum of their halves; two adjacent numbers have none between them.
_POWER, _FLOOR, _JOIN = TIMES + TIMES, OVER + OVER, 0
_JOIN_ORDER = 1000
# Bounds powers of powers.
_LARGEST = 1e12


class Fraction(NamedTuple):
    """numerator and denominator f32[], integers, the second positive; exact below 2^24.

    defined bool[]: False if Python would raise, for example for a division by zero.
    """

    numerator: jax.Array
    denominator: jax.Array
    defined: jax.Array


def _fraction(numerator: jax.Array, denominator: jax.Array, defined: jax.Array) -> Fraction:
    """Moves the sign to the numerator; stays finite if undefined or too large to matter."""
    defined = defined & (denominator != 0)
    numerator = jnp.where(denominator < 0, -numerator, numerator)
    denominator = jnp.where(defined, jnp.abs(denominator), 1.0)
    return Fraction(
        jnp.clip(numerator, -_LARGEST, _LARGEST), jnp.clip(denominator, 1.0, _LARGEST), defined
    )


def _floor_ratio(a: jax.Array, b: jax.Array) -> jax.Array:
    """floor(a / b) of integers, b > 0; the half keeps rounding away from integer ratios."""
    return jnp.floor((a + 0.5) / b)


def _whole_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """base^exponent for an integer exponent >= 0, by squaring."""
    # From 62 on only the parity matters: a base of 2 or more exceeds every bound by then.
    exponent = jnp.where(exponent < 64, exponent, 62 + exponent % 2).astype(jnp.int32)
    power = jnp.ones_like(base)
    for bit in range(6):
        power = jnp.where((exponent >> bit) & 1 == 1, power * base, power)
        power = jnp.clip(power, -_LARGEST, _LARGEST)
        base = jnp.clip(base * base, -_LARGEST, _LARGEST)
    return power


def _power(base: Fraction, exponent: Fraction, defined: jax.Array) -> Fraction:
    whole = _floor_ratio(exponent.numerator, exponent.denominator)
    defined = defined & (whole * exponent.denominator == exponent.numerator)
    # One loop for both, on an axis of two.
    above, below = _whole_power(jnp.stack([base.numerator, base.denominator]), jnp.abs(whole))
    inverted = whole < 0
    return _fraction(jnp.where(inverted, below, above), jnp.where(inverted, above, below), defined)


def _apply(operator: jax.Array, left: Fraction, right: Fraction) -> Fraction:
    """left operator right; all operators are computed and one is selected, as under vmap."""
    defined = left.defined & right.defined
    cross = left.numerator * right.denominator
    over = left.denominator * right.numerator
    below = left.denominator * right.denominator
    # The right side of a join is one card, 10 or a single digit.
    joined = left.numerator * jnp.where(right.numerator == 10, 100, 10) + right.numerator
    divisor = jnp.where(over == 0, 1.0, jnp.abs(over))
    floor = _floor_ratio(jnp.where(over < 0, -cross, cross), divisor)
    power = _power(left, right, defined)
    numerator, denominator = joined, jnp.ones_like(joined)
    for code, above, under in (
        (PLUS, cross + over, below),
        (MINUS, cross - over, below),
        (TIMES, left.numerator * right.numerator, below),
        (OVER, cross, over),
        (_FLOOR, floor, jnp.where(over == 0, 0.0, 1.0)),
        (_POWER, power.numerator, power.denominator),
    ):
        numerator = jnp.where(operator == code, above, numerator)
        denominator = jnp.where(operator == code, under, denominator)
    defined = defined & jnp.where(operator == _POWER, power.defined, True)
    return _fraction(numerator, denominator, defined)


def _negated(value: Fraction, signs: jax.Array) -> Fraction:
    """-value if the bit set `signs` has an odd number of members."""
    odd = jax.lax.population_count(signs) & 1 == 1
    return value._replace(numerator=jnp.where(odd, -value.numerator, value.numerator))


def _shifted(tokens: jax.Array, by: int) -> jax.Array:
    """Tokens moved right by `by` places, left if it is negative; EMPTY where none moves in."""
    return jnp.pad(tokens, (max(by, 0), max(-by, 0)))[max(-by, 0) :][: tokens.shape[0]]


class _Parsed(NamedTuple):
    """Content of a formula of n numbers.

    numbers i32[n]; signs i32[n]: bit D is set if an odd number of minus signs at depth D precedes
    that number; operators i32[n - 1] and their depths i32[n - 1]; well_formed bool[].
    """

    numbers: jax.Array
    signs: jax.Array
    operators: jax.Array
    depths: jax.Array
    well_formed: jax.Array


def _parse(tokens: jax.Array, operands: int) -> _Parsed:
    tokens = tokens.astype(jnp.int32)
    before, after = _shifted(tokens, 1), _shifted(tokens, -1)
    number = (tokens >= 1) & (tokens <= 10)
    opening, closing = tokens == OPEN, tokens == CLOSE
    additive = (tokens == PLUS) | (tokens == MINUS)
    scaling = (tokens == TIMES) | (tokens == OVER)
    ends_operand = number | closing
    operand_before = _shifted(ends_operand, 1)
    # The second half of ** or //.
    doubled = scaling & (tokens == before) & _shifted(ends_operand, 2)
    binary = operand_before & (additive | scaling)
    depth = jnp.cumsum(opening.astype(jnp.int32) - closing)
    count = jnp.cumsum(number.astype(jnp.int32))

    fits = jnp.where(number, before != CLOSE, True)
    fits &= jnp.where(opening, ~operand_before, True)
    fits &= jnp.where(closing, operand_before & (depth >= 0), True)
    fits &= jnp.where(scaling, operand_before | doubled, True)
    last = (tokens != EMPTY) & (after == EMPTY)
    fits &= jnp.where(last, ends_operand & (depth == 0), True)

    place = jnp.arange(operands)[:, None]
    minus = (tokens == MINUS) & ~operand_before
    gap = count == place
    signs = jnp.where(gap & minus, 1 << jnp.clip(depth, 0, 30), 0)
    operators = jnp.where(gap & (binary | doubled), tokens, 0)[1:].sum(1)
    return _Parsed(
        jnp.where(number & (count == place + 1), tokens, 0).sum(1),
        jnp.bitwise_xor.reduce(signs, axis=1),
        operators,
        jnp.where(gap & binary, depth, 0)[1:].sum(1),
        jnp.all(fits) & (count[-1] == operands),
    )


def _first_to_act(operators: list[jax.Array], depths: list[jax.Array]) -> jax.Array:
    """Position of the operator with the highest precedence, i32[]."""
    first, highest = jnp.int32(0), jnp.int32(-1)
    for place, (operator, depth) in enumerate(zip(operators, depths, strict=True)):
        power = operator == _POWER
        level = jnp.where(power, 2, jnp.where((operator == PLUS) | (operator == MINUS), 0, 1))
        order = jnp.where(operator == _JOIN, _JOIN_ORDER, 3 * depth + level)
        later = (order > highest) | (power & (order == highest))
        first, highest = jnp.where(later, place, first), jnp.where(later, order, highest)
    return first


def _pick(items: list, place: jax.Array):
    chosen = items[0]
    for i, item in enumerate(items[1:], 1):
        chosen = jax.tree.map(lambda old, new, i=i: jnp.where(place == i, new, old), chosen, item)
    return chosen


def _drop(items: list, place: jax.Array) -> list:
    """The items without the one at `place`."""
    return [
        jax.tree.map(lambda old, new, i=i: jnp.where(i < place, old, new), items[i], items[i + 1])
        for i in range(len(items) - 1)
    ]


def _merge(items: list, place: jax.Array, merged) -> list:
    """The items with `merged` in place of the two from `place` on."""
    return [
        jax.tree.map(lambda old, new, i=i: jnp.where(place == i, new, old), item, merged)
        for i, item in enumerate(_drop(items, place + 1))
    ]


@functools.partial(jax.jit, static_argnames="operands")  # some thousand operations without jit
def value(tokens: jax.Array, operands: int) -> Fraction:
    """Value of a formula u8[length] with exactly `operands` numbers; otherwise undefined.

    An operator at parenthesis depth D and of level P (0 for + -, 1 for * / //, 2 for **) acts in
    the order of 3 D + P; at equal order from the left, powers from the right. A minus sign at depth
    D is applied to the number that follows it when an operator takes that number as its left
    operand (at a depth below D, or at D and not a power), or any operator takes it as its right
    operand. So signs and operators are found by comparisons over the tokens, and only the
    `operands` - 1 operations are in sequence.
    """
    parsed = _parse(tokens, operands)
    # Lists of scalars: the rest compiles to one elementwise loop over the batch.
    values = [
        Fraction(number.astype(jnp.float32), jnp.float32(1), jnp.bool_(True))
        for number in parsed.numbers
    ]
    signs, operators, depths = list(parsed.signs), list(parsed.operators), list(parsed.depths)
    while operators:
        first = _first_to_act(operators, depths)
        operator, depth = _pick(operators, first), _pick(depths, first)
        left, right = _pick(values[:-1], first), _pick(values[1:], first)
        left_signs, right_signs = _pick(signs[:-1], first), _pick(signs[1:], first)
        # Which signs of the left number are applied before the operator; a join defers them
        # all.
        depth = jnp.where(operator == _JOIN, 31, jnp.minimum(depth, 29) + (operator == _POWER))
        result = _apply(operator, _negated(left, left_signs >> depth), _negated(right, right_signs))
        values = _merge(values, first, result)
        signs = _merge(signs, first, left_signs & ~(-1 << depth))
        operators, depths = _drop(operators, first), _drop(depths, first)
    total = _negated(values[0], signs[0])
    return total._replace(defined=total.defined & parsed.well_formed)


def equals(tokens: jax.Array, operands: int, target: int) -> jax.Array:
    """Whether the formula has exactly `operands` numbers and the value `target`, bool[]."""
    total = value(tokens, operands)
    # Above 2^24 a sum such as 24 + 10**-8 has lost its small part.
    exact = jnp.abs(total.numerator) < 2**24
    return total.defined & exact & (total.numerator == target * total.denominator)
