"""Formulas of temporal logic over the turns of an episode, parsed from text.

A turn is a set of names: that of its command and, if its thought is not empty, `think`. A formula
is linear temporal logic on finite traces (De Giacomo and Vardi, 2013), true or false of the turns
from a given one to the last of the episode:

    search                     the turn is a search; "weather oslo" in quotes, for several words
    true, false, last          every turn; none; the last of the episode
    (not f) (and f ...) (or f ...) (implies f g)
    (next f) (weak-next f)     f at the next turn; weak: or there is none
    (eventually f) (always f)  at some turn, at every turn, from here on
    (until f g)                g at some turn, f at all before; (weak-until f g): or f at all
    (until_5 f g)              g after at most 5 turns of f; (until_1_5 f g): after 1 to 5
    (before f g)               no g before the first turn of f: (weak-until (not g) f)
    (at-most 3 f)              f in at most 3 turns; (at-most 3 f g): before the first turn of g
    (episode p)                the turns from here to the last are exactly the pattern p

The patterns are the specifications of Crouse et al. (2023), "Formally specifying the high-level
behavior of LLM-based agents", https://arxiv.org/abs/2310.08535 (read: IBM/llm-agent-framework):
(next p q ...) one after the other, (until p q) p any number of times and then q, (until_5 p q) and
(until_1_5 p q) with bounds, (always p) p any number of times, (or p q ...); names, and formulas of
`not`, `and`, `or` over names, stand for one turn. There the exit of an `until` must be a single
state; here it is any pattern. What is around (episode p) is not in the paper.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable

# Times in bounds.
MOST = 100


@dataclasses.dataclass(frozen=True, eq=False)
class Formula:
    """A formula, or a pattern inside of (episode p). Equal ones are the same object: see `made`.

    kind: true, false; some (there is a turn), name, next, until, weak-until, episode; if, of parts
    (one of these six, formula if it holds, formula if not); of patterns test (one turn), sequence,
    choice, repeat. name: of `name`. least, most: times of `repeat`, most -1 for any number.
    """

    kind: str
    parts: tuple["Formula", ...]
    name: str
    least: int
    most: int
    order: int

    @property
    def within(self) -> set["Formula"]:
        """It and all formulas inside of it."""
        found, waiting = set[Formula](), [self]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += one.parts
        return found

    @property
    def names(self) -> set[str]:
        """The names that occur."""
        return {f.name for f in self.within if f.kind == "name"}


_order = itertools.count()
_made = functools.cache(lambda *fields: Formula(*fields, next(_order)))


def made(
    kind: str, parts: tuple[Formula, ...] = (), name: str = "", least: int = 0, most: int = -1
) -> Formula:
    """The formula with these fields, always the same object."""
    return _made(kind, parts, name, least, most)


TRUE, FALSE = made("true"), made("false")
NOTHING, NO_TURN = made("choice"), made("sequence")
_Expression = str | list["_Expression"]


# Boolean functions of formulas are kept as decision diagrams (Bryant, 1986), in which equivalent
# ones are equal. Without that progression could write one state in infinitely many ways.
def condition(f: Formula, then: Formula, otherwise: Formula) -> Formula:
    """`then` where f holds, else `otherwise`; f comes before all conditions in both."""
    return then if then is otherwise else made("if", (f, then, otherwise))


def one_of_six(kind: str, *parts: Formula, name: str = "") -> Formula:
    """A formula of a kind that is no Boolean function of others."""
    return condition(made(kind, parts, name), TRUE, FALSE)


SOME = one_of_six("some")


@functools.cache
def negation(f: Formula) -> Formula:
    """The formula that is true where f is false."""
    if f.kind == "if":
        first, then, otherwise = f.parts
        return condition(first, negation(then), negation(otherwise))
    return FALSE if f is TRUE else TRUE


@functools.cache
def either(f: Formula, g: Formula) -> Formula:
    """The formula that holds where either of two does."""
    if f is g or f is TRUE or g is FALSE:
        return f
    if g is TRUE or f is FALSE:
        return g
    first = min(f.parts[0], g.parts[0], key=lambda one: one.order)
    f1, f0 = f.parts[1:] if f.parts[0] is first else (f, f)
    g1, g0 = g.parts[1:] if g.parts[0] is first else (g, g)
    return condition(first, either(f1, g1), either(f0, g0))


def disjunction(*formulas: Formula) -> Formula:
    """At least one of the formulas."""
    return functools.reduce(either, formulas, FALSE)


def conjunction(*formulas: Formula) -> Formula:
    """All of the formulas."""
    return negation(disjunction(*map(negation, formulas)))


def until(f: Formula, g: Formula, *, weak: bool = False) -> Formula:
    """g at some turn, and f at all before it; weak: or f at every turn."""
    return one_of_six("weak-until" if weak else "until", f, g)


def _after(f: Formula, *, weak: bool = False) -> Formula:
    """f at the next turn; weak: or there is none."""
    return negation(_after(negation(f))) if weak else one_of_six("next", f)


def _bounded(f: Formula, g: Formula, least: int, most: int) -> Formula:
    out = g
    for turns in range(most - 1, -1, -1):
        onward = conjunction(f, _after(out))
        out = onward if turns < least else disjunction(g, onward)
    return out


def _at_most(count: int, f: Formula, g: Formula) -> Formula:
    out = until(negation(f), g, weak=True)
    for _ in range(count):
        once = conjunction(f, _after(out, weak=True))
        out = until(negation(f), disjunction(g, once), weak=True)
    return out


def sequence(*patterns: Formula) -> Formula:
    """The patterns one after the other."""
    parts: list[Formula] = []
    for p in patterns:
        parts += p.parts if p.kind == "sequence" else [p]
    if NOTHING in parts:
        return NOTHING
    return parts[0] if len(parts) == 1 else made("sequence", tuple(parts))


def choice(*patterns: Formula) -> Formula:
    """One of the patterns."""
    parts = set[Formula]()
    for p in patterns:
        parts |= set(p.parts) if p.kind == "choice" else {p}
    return (
        parts.pop()
        if len(parts) == 1
        else made("choice", tuple(sorted(parts, key=lambda p: p.order)))
    )


def repeat(pattern: Formula, least: int, most: int) -> Formula:
    """The pattern, `least` to `most` times; most -1: any number of times."""
    if most == 0:
        return NO_TURN
    if (least, most) == (1, 1) or pattern == NO_TURN:
        return pattern
    return made("repeat", (pattern,), "", least, most)


def parse(text: str) -> Formula:
    """The formula of a text; several of them one after the other: all.

    Raises:
      ValueError: what stands there is not a formula.
    """
    found = re.findall(r'[()]|"[^"]*"|[^\s()"]+|"', text)
    if not found:
        raise ValueError(f"behaviour {text!r}: expected a formula, such as (before search answer)")
    if '"' in found:
        raise ValueError(f"behaviour {text!r}: a quotation mark has no second one")
    stack: list[list[_Expression]] = [[]]
    for token in found:
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) == 1:
            raise ValueError(f"behaviour {text!r}: a closing parenthesis has no opening one")
        else:
            done = stack.pop()
            stack[-1].append(done)
    if len(stack) > 1:
        raise ValueError(f"behaviour {text!r}: {len(stack) - 1} parentheses are not closed")
    return conjunction(*(_formula(one) for one in stack[0]))


# Number of formulas that follow each operator, least and most; None: any number.
_FORMULAS: dict[str, tuple[int, int | None, Callable[..., Formula]]] = {
    "not": (1, 1, negation),
    "and": (1, None, conjunction),
    "or": (1, None, disjunction),
    "implies": (2, 2, lambda f, g: disjunction(negation(f), g)),
    "next": (1, 1, _after),
    "weak-next": (1, 1, lambda f: _after(f, weak=True)),
    "eventually": (1, 1, lambda f: until(TRUE, f)),
    "always": (1, 1, lambda f: until(f, FALSE, weak=True)),
    "until": (2, 2, until),
    "weak-until": (2, 2, lambda f, g: until(f, g, weak=True)),
    "before": (2, 2, lambda f, g: until(negation(g), f, weak=True)),
}
_PATTERNS: dict[str, tuple[int, int | None, Callable[..., Formula]]] = {
    "next": (1, None, sequence),
    "until": (2, 2, lambda p, q: sequence(repeat(p, 0, -1), q)),
    "always": (1, 1, lambda p: repeat(p, 0, -1)),
    "or": (1, None, choice),
}


def _formula(expression: _Expression) -> Formula:
    if isinstance(expression, str):
        return _name(expression)
    operator, *rest = _call(expression)
    if operator == "episode":
        return one_of_six("episode", *_counted("episode", rest, 1, 1, _pattern))
    if operator == "at-most":
        if not rest or not isinstance(rest[0], str) or not rest[0].isdigit():
            raise ValueError(f"behaviour {_shown(expression)}: expected a number after at-most")
        count = _bound(rest[0], expression)
        f, *end = _counted(operator, rest[1:], 1, 2, _formula)
        return _at_most(count, f, end[0] if end else FALSE)
    if bounds := _bounds(operator, expression):
        return _bounded(*_counted(operator, rest, 2, 2, _formula), *bounds)
    if operator not in _FORMULAS:
        known = "episode, at-most, until_N, until_M_N"
        raise ValueError(
            f"behaviour {_shown(expression)}: unknown operator {operator!r}; expected one of "
            f"{', '.join(_FORMULAS)}, {known}"
        )
    least, most, make = _FORMULAS[operator]
    return make(*_counted(operator, rest, least, most, _formula))


def _pattern(expression: _Expression) -> Formula:
    if isinstance(expression, str):
        return made("test", (_name(expression),))
    operator, *rest = _call(expression)
    if operator in ("not", "and", "implies"):
        f = _formula(expression)
        if any(one.kind not in ("true", "false", "if", "name") for one in f.within):
            raise ValueError(
                f"behaviour {_shown(expression)}: what stands for one turn of a pattern has only "
                "names, not, and, or, implies"
            )
        return made("test", (f,))
    if bounds := _bounds(operator, expression):
        p, q = _counted(operator, rest, 2, 2, _pattern)
        return sequence(repeat(p, *bounds), q)
    if operator not in _PATTERNS:
        raise ValueError(
            f"behaviour {_shown(expression)}: unknown operator {operator!r} of patterns; expected "
            f"one of {', '.join(_PATTERNS)}, until_N, until_M_N, not, and, implies"
        )
    least, most, make = _PATTERNS[operator]
    return make(*_counted(operator, rest, least, most, _pattern))


def _name(token: str) -> Formula:
    fixed = {"true": TRUE, "false": FALSE, "last": negation(_after(TRUE))}
    name = token.strip('"')
    if not name.strip():
        raise ValueError(f"behaviour {token}: an empty name")
    if token in fixed:
        return fixed[token]
    if token in (*_FORMULAS, "episode", "at-most"):
        raise ValueError(f"behaviour {token}: an operator without parentheses; ({token} ...)")
    return one_of_six("name", name=" ".join(name.split()))


def _call(expression: list[_Expression]) -> list[_Expression]:
    if not expression or not isinstance(expression[0], str):
        raise ValueError(
            f"behaviour {_shown(expression)}: expected an operator after the parenthesis"
        )
    return expression


def _counted(
    operator: _Expression,
    rest: list[_Expression],
    least: int,
    most: int | None,
    read: Callable[[_Expression], Formula],
) -> list[Formula]:
    if len(rest) < least or (most is not None and len(rest) > most):
        wanted = f"at least {least}" if most is None else " or ".join(map(str, {least, most}))
        raise ValueError(f"behaviour ({operator} ...): {len(rest)} arguments, expected {wanted}")
    return [read(one) for one in rest]


def _bounds(operator: _Expression, expression: _Expression) -> tuple[int, int] | None:
    """(least, most) of an operator such as until_5 or until_1_5, else None."""
    assert isinstance(operator, str)
    if not operator.startswith("until_"):
        return None
    numbers = operator.split("_")[1:]
    if len(numbers) > 2 or not all(n.isdigit() for n in numbers):
        raise ValueError(f"behaviour {_shown(expression)}: expected until_N or until_M_N")
    *least, most = (_bound(n, expression) for n in numbers)
    if least and least[0] > most:
        raise ValueError(f"behaviour {_shown(expression)}: at least {least[0]}, at most {most}")
    return (least[0] if least else 0), most


def _bound(number: str, expression: _Expression) -> int:
    if int(number) > MOST:
        raise ValueError(f"behaviour {_shown(expression)}: {number} is more than {MOST}")
    return int(number)


def _shown(expression: _Expression) -> str:
    if isinstance(expression, str):
        return expression
    return f"({' '.join(map(_shown, expression))})"
