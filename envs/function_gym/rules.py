"""Rules of FunctionGym: hidden functions of a few numbers, tabulated on the host.

A function is an expression in a, b, c and d with + - * / ** and parentheses, read as in Python.
Each input has ten values, so a probe is a number in base 10 with the first input as leading digit.
With `modulus` 0 arithmetic is Python's with floats, as in UserRL, and division by zero, overflow
and complex results fail; otherwise it is integer arithmetic with results modulo it.
"""

import ast
import functools
import math
import operator
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NAMES = "abcd"
# Characters of written numbers; 0 is padding.
CHARACTERS = "0123456789.-e+"
WIDTH = 24

_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
# Functions of two numbers, all different modulo 10.
SMALL = (
    *("a + b", "a - b", "b - a", "2*a + b", "a + 2*b", "3*a + b", "a + 3*b", "2*a - b", "2*b - a"),
    *("a + b + 1", "a + b + 5", "a - b + 3", "b - a + 7", "2*a + 3*b", "3*a + 2*b", "3*a - b"),
    *("a*b", "a*b + 1", "a*b + 4", "a*b + a", "a*b + b", "a*b - a", "a*b - b", "a*b + a + b"),
    *("2*a*b", "3*a*b", "(a + 2)*b", "a*(b + 2)", "(a + 3)*(b + 1)", "(a + 1)*(b + 2)"),
    *("a*a + b", "b*b + a", "a*a - b", "b*b - a", "a*a + b*b", "a*a - b*b", "a*a + a*b"),
    *("b*b + a*b", "a*a + 2*b", "b*b + 2*a", "(a + b)*(a + b)", "(a - b)*(a - b)", "a*a*b"),
    *("a*b*b", "a*a*b + 1", "a*b*b + 3", "a*a*a + b", "a + b*b*b"),
)
_FORMS = (
    *("{0} + {1} + {2} - {3}", "{0} * {1} + {2} - {3}", "({0} + {1}) * {2} - {3}"),
    *("({0} + {1}) * ({2} - {3})", "{0} * {1} + {2} ** 2 - {3}", "{0} * {1} * {2} / {3}"),
    *("({0} * {1} - {2}) / {3}", "{0} / {1} + {2} * {3}", "{0} ** 2 + {1} * {2} - {3}"),
    *("{0} ** 2 * {1} - {2} - {3}", "({0} + {1} + {2}) * {3}", "{0} * ({1} - {2}) + {3} ** 2"),
)
# Functions of four numbers, in the style of UserRL's 538, which are not published in one place.
FOUR = tuple(form.format(*order) for form in _FORMS for order in ("abcd", "bdac", "cadb", "dcba"))


class Tables(NamedTuple):
    """Functions by index r, probes by index p: F functions, P = 10^n probes.

    value f32[F, P]: results, 0 for none. written u32[F, P, 3]: the result as text, eight characters
    of `CHARACTERS` per word, the first in the lowest bits; 0 if it fails. answer i32[F, P]: the
    correct integer, or `NO_ANSWER`. cases i32[F, 256]: probes with an answer, drawn with
    replacement. tried i32[K]: probes that experts choose from. alike bool[K, F, F]: two functions
    have the same result there.
    """

    value: np.ndarray
    written: np.ndarray
    answer: np.ndarray
    cases: np.ndarray
    tried: np.ndarray
    alike: np.ndarray


NO_ANSWER = np.iinfo(np.int32).min


def parse(expression: str, variables: int, modulus: int) -> Callable[[tuple], float]:
    """The function of an expression, taking a tuple of numbers.

    ValueError for anything but arithmetic of its variables; with a modulus, division is not
    allowed.
    """
    names = NAMES[:variables]
    operators = {kind: o for kind, o in _OPERATORS.items() if not (modulus and kind is ast.Div)}

    def build(node: ast.AST) -> Callable[[tuple], float]:
        if isinstance(node, ast.BinOp) and type(node.op) in operators:
            apply, left, right = operators[type(node.op)], build(node.left), build(node.right)
            return lambda x: apply(left(x), right(x))
        if isinstance(node, ast.Name) and node.id in names:
            place = names.index(node.id)
            return lambda x: x[place]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return lambda x: node.value
        raise ValueError(
            f"function {expression!r}: expected {', '.join(names)} and whole numbers with "
            f"+ - * {'/ ' * (not modulus)}** and parentheses"
        )

    try:
        body = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"function {expression!r} is not an expression: {error.msg}") from error
    return build(body)


def inputs(variables: int, modulus: int) -> np.ndarray:
    """Inputs of every probe, i32[P, n]: 0 to 9 with a modulus, else 1 to 10."""
    digits = np.indices((10,) * variables).reshape(variables, -1).T
    return (digits + (modulus == 0)).astype(np.int32)


def _evaluate(
    function: Callable[[tuple], float], numbers: tuple, modulus: int
) -> float | int | None:
    if modulus:
        return function(numbers) % modulus
    try:
        result = function(numbers)
    except (ZeroDivisionError, OverflowError):
        return None
    return None if isinstance(result, complex) or not math.isfinite(result) else result


def _answer(result: float | None, largest: int) -> int:
    if result is None or not abs(result) <= largest or abs(result - round(result)) >= 1e-6:
        return NO_ANSWER
    return round(result)


def _text(result: float | None) -> str:
    if result is None:
        return ""
    return str(round(result, 4)) if isinstance(result, float) else str(result)


@functools.lru_cache(maxsize=1 << 16)
def _pack(text: str) -> tuple[int, ...]:
    codes = [1 + CHARACTERS.index(c) for c in text] + [0] * (WIDTH - len(text))
    return tuple(sum(c << 4 * i for i, c in enumerate(codes[k : k + 8])) for k in (0, 8, 16))


@functools.lru_cache(maxsize=4)
def tabulate(functions: tuple[str, ...], variables: int, modulus: int, largest: int) -> Tables:
    """Tables of these functions. Answers are integers of at most `largest`, to within 1e-6.

    Results are written as Python writes them, floats rounded to four places.

    Raises:
      ValueError: an expression is not a function, or never has an answer.
    """
    probes = inputs(variables, modulus)
    plain = [tuple(map(int if modulus else float, row)) for row in probes]
    value, written, answer = [], [], []
    for expression in functions:
        function = parse(expression, variables, modulus)
        results = [_evaluate(function, numbers, modulus) for numbers in plain]
        value.append([0.0 if result is None else float(result) for result in results])
        written.append([_pack(_text(result)) for result in results])
        answer.append([_answer(result, largest) for result in results])
    value, answer = np.array(value), np.array(answer, np.int32)
    written = np.array(written, np.uint32)
    rng = np.random.default_rng(0)
    cases = []
    for f, expression in enumerate(functions):
        possible = np.flatnonzero(answer[f] != NO_ANSWER)
        if not len(possible):
            raise ValueError(
                f"function {expression!r} never gives a whole number up to {largest}; "
                "leave it out, or allow larger answers"
            )
        cases.append(rng.choice(possible, 256))
    tried = np.sort(rng.permutation(len(plain))[:100])
    with np.errstate(over="ignore"):
        value = value.astype(np.float32)
    known = (written != 0).any(-1)[:, tried].T
    told = np.where(known, value[:, tried].T, np.nan)
    alike = (told[:, :, None] == told[:, None]) | ~(known[:, :, None] | known[:, None])
    return Tables(value, written, answer, np.array(cases, np.int32), tried.astype(np.int32), alike)


@functools.lru_cache(maxsize=4)
def split(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the seen functions, three quarters, and of the others."""
    order = np.random.default_rng(0).permutation(count).astype(np.int32)
    seen = count - count // 4
    return np.sort(order[:seen]), np.sort(order[seen:])


def characters(words: jax.Array, width: int) -> jax.Array:
    """The first characters of a written result, i32[..., width]: 1 + index in `CHARACTERS`."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    codes = (words[..., None] >> shifts) & 15
    return codes.reshape(*words.shape[:-1], -1)[..., :width].astype(jnp.int32)
