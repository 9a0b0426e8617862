"""Timing: compiled first, then in rounds in which the contenders take turns.

Clock rates, caches and other processes change over minutes, so two runs of one program differ more
than most effects of interest. Contenders that take turns within a round run under the same
conditions, and only ratios of their medians are meaningful.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax


class Ready(NamedTuple):
    """A compiled contender.

    call: runs once and returns when all results are computed; each call continues from the last
    one.
    work: units of work per call (environment steps, turns).
    compile_seconds: tracing and compiling; 0 if not compiled.
    facts: values of further columns, computed after the timing.
    """

    call: Callable[[], Any]
    work: float
    compile_seconds: float = 0.0
    facts: Callable[[], dict[str, Any]] = dict


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds per call of a contender, one sample per round."""

    name: str
    seconds: tuple[float, ...]
    work: float
    compile_seconds: float
    facts: dict[str, Any]

    @property
    def median(self) -> float:
        """Seconds of a call in the middle one of the rounds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of work per second, at the median."""
        return self.work / self.median

    @property
    def rates(self) -> tuple[float, float]:
        """Lowest and highest rate of the rounds."""
        return self.work / max(self.seconds), self.work / min(self.seconds)

    def record(self) -> dict[str, Any]:
        """What is written of it: seconds of all rounds, rates, compilation and facts."""
        low, high = self.rates
        return {
            "name": self.name,
            "median_seconds": self.median,
            "seconds": list(self.seconds),
            "work": self.work,
            "rate": self.rate,
            "rate_low": low,
            "rate_high": high,
            "compile_seconds": self.compile_seconds,
            **self.facts,
        }


class Plan(NamedTuple):
    """Duration of the measurement: rounds, and the minimal seconds of one sample."""

    rounds: int
    sample_seconds: float


FULL = Plan(rounds=5, sample_seconds=0.5)
QUICK = Plan(rounds=2, sample_seconds=0.02)


def compiled(jitted: Any, *arguments: Any) -> tuple[Callable, float]:
    """(executable, seconds of tracing and compiling) of a `jax.jit` function."""
    before = time.perf_counter()
    executable = jitted.lower(*arguments).compile()
    return executable, time.perf_counter() - before


def carried(function: Callable, carry: Any) -> tuple[Callable[[], Any], float]:
    """A call that replaces `carry` by function(carry), donated: (call, seconds of compiling).

    The call returns the newest carry.
    """
    executable, seconds = compiled(jax.jit(function, donate_argnums=0), carry)

    def call():
        nonlocal carry
        carry = jax.block_until_ready(executable(carry))
        return carry

    return call, seconds


def interleave(contenders: Sequence[tuple[str, Ready]], plan: Plan) -> list[Timing]:
    """Times the contenders in turns: A, B, C, A, B, C, ...

    A sample is as many calls as fill `plan.sample_seconds`, found in two untimed calls that also
    warm up memory and caches.
    """
    calls = []
    for _, ready in contenders:
        ready.call()
        calls.append(max(1, round(plan.sample_seconds / _seconds(ready.call, 1))))
    samples: list[list[float]] = [[] for _ in contenders]
    for _ in range(plan.rounds):
        for (_, ready), count, own in zip(contenders, calls, samples, strict=True):
            own.append(_seconds(ready.call, count) / count)
    return [
        Timing(name, tuple(own), ready.work, ready.compile_seconds, ready.facts())
        for (name, ready), own in zip(contenders, samples, strict=True)
    ]


def _seconds(call: Callable[[], Any], count: int) -> float:
    before = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - before
