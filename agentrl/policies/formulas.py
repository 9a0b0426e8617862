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

import re
from collections.abc import Callable
from typing import NamedTuple

# Times in bounds.
MOST = 100


class Formula(NamedTuple):
    """A formula, or a pattern inside of (episode p), in normal form: equal ones are one state.

    kind: true, false, some (there is a turn), name, not, or, next, until, weak-until, episode; of
    patterns test (one turn), sequence, choice, repeat. name: of `name`. parts: formulas. least,
    most: times of `repeat`, most -1 for any number.
    """

    kind: str
    parts: tuple["Formula", ...] = ()
    name: str = ""
    least: int = 0
    most: int = -1

    @property
    def names(self) -> set[str]:
        """The names that occur."""
        inner = set[str]().union(*(part.names for part in self.parts))
        return inner | {self.name} if self.kind == "name" else inner


TRUE, FALSE, SOME = Formula("true"), Formula("false"), Formula("some")
NOTHING, NO_TURN = Formula("choice"), Formula("sequence")
_Expression = str | list["_Expression"]


def negation(f: Formula) -> Formula:
    """The formula that is true where f is false."""
    opposite = {TRUE: FALSE, FALSE: TRUE}
    if f.kind == "not":
        return f.parts[0]
    return opposite[f] if f in opposite else Formula("not", (f,))


def conjunction(*formulas: Formula) -> Formula:
    """All of the formulas."""
    return negation(disjunction(*map(negation, formulas)))


def disjunction(*formulas: Formula) -> Formula:
    """At least one of the formulas."""
    parts = set[Formula]()
    for f in formulas:
        parts |= set(f.parts) if f.kind == "or" else {f}
    parts -= {FALSE}
    if TRUE in parts or any(negation(f) in parts for f in parts):
        return TRUE
    if len(parts) < 2:
        return parts.pop() if parts else FALSE
    return Formula("or", tuple(sorted(parts)))


def until(f: Formula, g: Formula, *, weak: bool = False) -> Formula:
    """g at some turn, and f at all before it; weak: or f at every turn."""
    return Formula("weak-until" if weak else "until", (f, g))


def _after(f: Formula, *, weak: bool = False) -> Formula:
    """f at the next turn; weak: or there is none."""
    return negation(Formula("next", (negation(f),))) if weak else Formula("next", (f,))


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
    return parts[0] if len(parts) == 1 else Formula("sequence", tuple(parts))


def choice(*patterns: Formula) -> Formula:
    """One of the patterns."""
    parts = set[Formula]()
    for p in patterns:
        parts |= set(p.parts) if p.kind == "choice" else {p}
    return parts.pop() if len(parts) == 1 else Formula("choice", tuple(sorted(parts)))


def repeat(pattern: Formula, least: int, most: int) -> Formula:
    """The pattern, `least` to `most` times; most -1: any number of times."""
    if most == 0:
        return NO_TURN
    if (least, most) == (1, 1) or pattern == NO_TURN:
        return pattern
    return Formula("repeat", (pattern,), least=least, most=most)


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
        return Formula("episode", tuple(_counted("episode", rest, 1, 1, _pattern)))
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
        return Formula("test", (_name(expression),))
    operator, *rest = _call(expression)
    if operator in ("not", "and", "implies"):
        f = _formula(expression)
        _check_one_turn(f, expression)
        return Formula("test", (f,))
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
    return Formula("name", name=" ".join(name.split()))


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


def _check_one_turn(f: Formula, expression: _Expression) -> None:
    if f.kind in ("next", "until", "weak-until", "episode"):
        raise ValueError(
            f"behaviour {_shown(expression)}: what stands for one turn of a pattern has only names,"
            " not, and, or, implies"
        )
    for part in f.parts:
        _check_one_turn(part, expression)


def _shown(expression: _Expression) -> str:
    if isinstance(expression, str):
        return expression
    return f"({' '.join(map(_shown, expression))})"
