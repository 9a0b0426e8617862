"""Formulas of cards against Python's own reading of the same text."""

import functools
import itertools
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.points import formula
from envs.points import rules as points

SYMBOL = {code: symbol for symbol, code in formula.SYMBOLS.items()}
LENGTH = 24


class TooLarge(Exception):
    """An intermediate that float32 does not hold."""


class Ratio:
    """An exact, unreduced fraction for Python's eval, as the rules define it."""

    def __init__(self, above, below=1):
        if below == 0:
            raise ZeroDivisionError
        self.above, self.below = (above, below) if below > 0 else (-above, -below)
        if max(abs(self.above), self.below) >= 2**23:
            raise TooLarge

    def __add__(self, other):
        return Ratio(self.above * other.below + other.above * self.below, self.below * other.below)

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        return Ratio(self.above * other.above, self.below * other.below)

    def __truediv__(self, other):
        return Ratio(self.above * other.below, self.below * other.above)

    def __floordiv__(self, other):
        ratio = self / other
        return Ratio(ratio.above // ratio.below)

    def __pow__(self, other):
        exponent, rest = divmod(other.above, other.below)
        if rest:
            raise ValueError("roots have no value in these rules")
        if abs(exponent) > 30 and max(abs(self.above), self.below) > 1:
            raise TooLarge
        ratio = Ratio(self.above ** abs(exponent), self.below ** abs(exponent))
        return ratio if exponent >= 0 else Ratio(1) / ratio

    def __neg__(self):
        return Ratio(-self.above, self.below)

    def __pos__(self):
        return self


def text_of(tokens):
    return "".join(str(t) if t <= 10 else SYMBOL[t] for t in tokens)


def python_value(tokens):
    """(above, below) by Python's reading of the text, None where eval raises."""
    ratios = re.sub(r"\d+", lambda match: f"Ratio({match.group()})", text_of(tokens))
    try:
        value = eval(ratios, {"__builtins__": {}, "Ratio": Ratio})
    except TooLarge:
        raise
    except Exception:
        return None
    return (value.above, value.below) if isinstance(value, Ratio) else None


@functools.cache
def judges():
    values = jax.jit(jax.vmap(lambda tokens: formula.value(tokens, 4)))
    equal = jax.jit(jax.vmap(lambda tokens: formula.equals(tokens, 4, 24)))
    return values, equal


def padded(formulas):
    rows = np.zeros((len(formulas), LENGTH), np.uint8)
    for row, tokens in zip(rows, formulas, strict=True):
        row[: len(tokens)] = tokens
    return rows


@st.composite
def well_formed(draw, count=4):
    """Tokens with `count` numbers: signs, parentheses, all operators and joined numbers."""
    if count == 1:
        tokens = [draw(st.integers(1, 10))]
    else:
        split = draw(st.integers(1, count - 1))
        operator = draw(st.sampled_from(["+", "-", "*", "/", "**", "//", ""]))
        left, right = draw(well_formed(count=split)), draw(well_formed(count=count - split))
        tokens = [*left, *[formula.SYMBOLS[c] for c in operator], *right]
    if draw(st.booleans()):
        tokens = [formula.OPEN, *tokens, formula.CLOSE]
    if draw(st.integers(0, 3)) == 0:
        tokens = [draw(st.sampled_from([formula.PLUS, formula.MINUS])), *tokens]
    return tokens[:LENGTH]


@st.composite
def garbled(draw):
    """Well-formed tokens with one changed, or a short row of anything."""
    if draw(st.booleans()):
        return draw(st.lists(st.integers(1, 16), min_size=4, max_size=12))
    tokens = list(draw(well_formed()))
    tokens[draw(st.integers(0, len(tokens) - 1))] = draw(st.integers(1, 16))
    return tokens


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.one_of(well_formed(), garbled()), min_size=64, max_size=64))
def test_formulas_are_read_as_python_reads_them(formulas):
    value = jax.tree.map(np.asarray, judges()[0](padded(formulas)))
    for i, tokens in enumerate(formulas):
        try:
            expected = python_value(tokens)
        except TooLarge:
            continue
        if sum(t <= 10 for t in tokens) != 4:
            expected = None
        assert bool(value.defined[i]) == (expected is not None), text_of(tokens)
        if expected is not None:
            above, below = expected
            ours = int(value.numerator[i]), int(value.denominator[i])
            assert ours[0] * below == ours[1] * above, text_of(tokens)


FORMULAS = {
    "4*6*1*1": True,
    "((6-8)+5)*8": True,
    "(1+2)*(2+6)": True,
    "--8+8+8": False,  # three numbers
    "-(2-5)*8*1": True,
    "2*4+8+8": True,
    "24*1*1": True,  # 2 and 4 stand side by side
    "5**2-1*1": True,
    "-2**2+4*7": True,  # the sign acts after the power
    "2**10-10**3": True,
    "10**9//7**9": True,  # 24.78
    "10**5//4**6": True,  # 24.41
    "7*4-9//2": True,
    "7*4+-9//2": False,  # -9//2 is -5
    "8/(3-8/3)": True,  # Python's float is 23.99999999999999
    "9**(1/2)*8": False,  # Python's float is 24.0
    "6*4+4**-10": False,
    "6*4*(1/(1-1))": False,
    "3*8(1)(1)": False,
    "(3*8*1*1": False,
    "3*8*1*1)": False,
    "3*8*1*1+": False,
    "3***8*1*1": False,
    "3*/8*1*1": False,
    "()3*8*1*1": False,
    "": False,
}


def tokens_of(text):
    return [formula.SYMBOLS.get(part) or int(part) for part in re.findall(r"10|[1-9]|[^\d]", text)]


@pytest.mark.parametrize("text", FORMULAS)
def test_value_of_24(text):
    assert bool(judges()[1](padded([tokens_of(text)]))[0]) == FORMULAS[text]


def test_python_agrees_on_every_solution():
    table = points.solutions()
    rounded = set()
    for cards in itertools.combinations_with_replacement(range(10), 4):
        tokens = table[cards][table[cards] > 0].tolist()
        if tokens and eval(text_of(tokens)) != 24:
            rounded.add(text_of(tokens))
    assert rounded == {"8/(3-8/3)"}
