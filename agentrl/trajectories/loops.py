"""Loops in a list of calls: retries, drifting arguments, oscillation."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_TIMES, _LONGEST = 3, 5


class Call(NamedTuple):
    """A call of a tool, or an action. turn: in which it was made."""

    turn: int
    name: str
    arguments: str


class Loop(NamedTuple):
    """Calls first, ..., last (turns of them). kind: "retry", "parameter_drift" or "oscillation"."""

    kind: str
    first: int
    last: int
    confidence: float
    what: str


def loops(calls: Sequence[Call]) -> list[Loop]:
    """Retries (the same call three times or more), drifting arguments (the same name three times or
    more, with different arguments), and oscillation (two to five calls of two names or more, three
    times or more).

    A drift that overlaps a retry is dropped, and so is an oscillation that overlaps an earlier one.
    """
    whole = lambda call: (call.name, call.arguments)  # noqa: E731
    retries = list(_runs(calls, whole))
    drifts = [
        (first, last)
        for first, last in _runs(calls, lambda call: call.name)
        if len({call.arguments for call in calls[first : last + 1]}) > 1
        and not any(a <= last and first <= b for a, b in retries)
    ]
    found = (
        *(("retry", *ends, 0.95) for ends in retries),
        *(("parameter_drift", *ends, 0.85) for ends in drifts),
        *(("oscillation", *ends, 0.9) for ends in _oscillations([*map(whole, calls)])),
    )
    return [
        Loop(kind, calls[a].turn, calls[b].turn, confidence, f"{b - a + 1} x {calls[a].name[:60]}")
        for kind, a, b, confidence in found
    ]


def _runs(calls: Sequence[Call], key: Callable[[Call], Any]) -> Iterator[tuple[int, int]]:
    """(first, last) of neighbouring calls with the same key, of three or more."""
    first = 0
    for i in range(1, len(calls) + 1):
        if i == len(calls) or key(calls[i]) != key(calls[first]):
            if i - first >= _TIMES:
                yield first, i - 1
            first = i


def _oscillations(calls: list[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """(first, last) of repeated patterns, none of which overlaps another."""
    first = 0
    while first < len(calls):
        step = 1
        for size in range(2, _LONGEST + 1):
            pattern = calls[first : first + size]
            times = 1
            while calls[first + times * size : first + (times + 1) * size] == pattern:
                times += 1
            if times >= _TIMES and len({name for name, _ in pattern}) > 1:
                step = times * size
                yield first, first + step - 1
                break
        first += step
