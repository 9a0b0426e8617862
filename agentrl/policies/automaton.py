"""The deterministic automaton of a formula: its states are formulas, its edges derivatives."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.policies.formulas import (
    FALSE,
    NO_TURN,
    NOTHING,
    SOME,
    TRUE,
    Formula,
    choice,
    condition,
    conjunction,
    disjunction,
    negation,
    one_of_six,
    repeat,
    sequence,
)

# More states than any specification of a paper needs; the table stays small.
_MOST_STATES = 4096
NEVER = 2**30


class Automaton(NamedTuple):
    """A deterministic automaton of Q states over K letters; state 0 is before the first turn.

    step: i32[Q, K], the state after a letter. accepting: bool[Q], an episode that ends here keeps
    the formula. distance: i32[Q], fewest further turns to an accepting state, `NEVER` if there are
    none: the state is dead. All dead states are one, the last, which is there even if nothing leads
    to it.
    """

    step: np.ndarray
    accepting: np.ndarray
    distance: np.ndarray


@functools.cache
def accepts_end(f: Formula) -> bool:
    """Whether no further turn is needed: the empty trace is in the language of a formula or
    pattern."""
    if f.kind == "if":
        first, then, otherwise = f.parts
        return accepts_end(then if accepts_end(first) else otherwise)
    if f.kind == "choice":
        return any(map(accepts_end, f.parts))
    if f.kind == "sequence":
        return all(map(accepts_end, f.parts))
    if f.kind == "repeat":
        return f.least == 0 or accepts_end(f.parts[0])
    if f.kind == "episode":
        return accepts_end(f.parts[0])
    return f.kind in ("true", "weak-until")


@functools.cache
def derivative(f: Formula, letter: frozenset[str]) -> Formula:
    """What has to hold of the turns after one with these names, so that f holds from it on.

    The derivative of Brzozowski (1964) for patterns, and for formulas their progression: that of
    (until f g) is g's or both f's and (until f g) again. (next f) asks for a further turn, (some).
    """
    if f.kind in ("true", "false"):
        return f
    if f.kind == "some":
        return TRUE
    if f.kind == "name":
        return TRUE if f.name in letter else FALSE
    if f.kind == "next":
        # The second states that there is a turn already, unless it is true without one.
        (then,) = f.parts
        return conjunction(SOME, then) if accepts_end(then) else then
    if f.kind == "episode":
        rest = _rest(f.parts[0], letter)
        return FALSE if rest is NOTHING else one_of_six("episode", rest)
    first, *others = (derivative(part, letter) for part in f.parts)
    if f.kind == "if":
        then, otherwise = others
        return disjunction(conjunction(first, then), conjunction(negation(first), otherwise))
    return disjunction(*others, conjunction(first, condition(f, TRUE, FALSE)))


def _rest(p: Formula, letter: frozenset[str]) -> Formula:
    """The pattern of the turns that may follow a turn with these names."""
    if p.kind == "test":
        return NO_TURN if derivative(p.parts[0], letter) is TRUE else NOTHING
    if p.kind == "choice":
        return choice(*(_rest(part, letter) for part in p.parts))
    if p.kind == "repeat":
        most = -1 if p.most < 0 else p.most - 1
        again = repeat(p.parts[0], max(p.least - 1, 0), most)
        return sequence(_rest(p.parts[0], letter), again)
    ways = []
    for i, part in enumerate(p.parts):
        ways.append(sequence(_rest(part, letter), *p.parts[i + 1 :]))
        if not accepts_end(part):
            break
    return choice(*ways)


def automaton(
    formula: Formula, letters: Sequence[frozenset[str]], others: Sequence[frozenset[str]] = ()
) -> Automaton:
    """The automaton of a formula over letters, the names that hold at a turn.

    others: letters behind those in `step`, which may occur but not be chosen: distances do without.

    Raises:
      ValueError: too many states.
    """
    number = {formula: 0}
    states, edges = [formula], []
    for state in states:
        row = []
        for letter in (*letters, *others):
            after = derivative(state, letter)
            if after not in number:
                number[after] = len(states)
                states.append(after)
            row.append(number[after])
        edges.append(row)
        if len(states) > _MOST_STATES:
            raise ValueError(
                f"behaviour: its automaton has more than {_MOST_STATES} states; lower its bounds, "
                "or have fewer conditions that count"
            )
    step = np.array(edges, np.int32).reshape(len(states), -1)
    accepting = np.array([accepts_end(state) for state in states])
    return _live(step, accepting, len(letters))


def _live(step: np.ndarray, accepting: np.ndarray, chosen: int) -> Automaton:
    """The automaton with its distances over the first letters, and all dead states as one."""
    distance = np.where(accepting, 0, NEVER)
    while True:
        nearer = np.minimum(distance, 1 + distance[step[:, :chosen]].min(axis=1, initial=NEVER - 1))
        if (nearer == distance).all():
            break
        distance = nearer
    # Without a way from the start all states are the dead one.
    live = (distance < NEVER) & (distance[0] < NEVER)
    place = np.where(live, np.cumsum(live) - 1, live.sum())
    dead = np.full((1, step.shape[1]), live.sum())
    return Automaton(
        step=np.concatenate([place[step[live]], dead]).astype(np.int32),
        accepting=np.append(accepting[live], False),
        distance=np.append(distance[live], NEVER).astype(np.int32),
    )
