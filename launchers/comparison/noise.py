"""How clear the policy gradient of early turns is, by the estimator of each method.

The same episodes for all: those of PPO, since only it gives the values that some read, after a
fifth of the budget with the values that were chosen for it. A method whose config changes more than
the estimator (a filter, a loss, another reward) is left out. A clear gradient may be a wrong one,
so there is the cosine with the gradient of the return itself, too, which RLOO estimates without
bias.
"""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from launchers.cluster.launch import Job
from launchers.comparison import driver, rows, suites
from launchers.comparison.suites import Method, Suite

# The method whose run it is, and the share of the budget after which it is looked at.
RUN, SHARE = "ppo", 0.2
# Which turns are early, and how many collections there are.
TURNS, BATCHES = 8, 128
# The estimator whose mean is the gradient of the return.
UNBIASED = "rloo"


class Noise(NamedTuple):
    """Of one seed; see `agentrl.run.estimator_gradients`.

    In units of the noise of an update's gradient. signal: the squared length of the true mean.
    along: its product with that of UNBIASED. Neither estimate has a bias, so both may be negative.
    """

    world: str
    method: str
    seed: int
    signal: float
    along: float


def job(suite: Suite, world: str, known: Sequence[rows.Row], workdir: pathlib.Path) -> Job:
    """The run that is looked at. ValueError if its values have not been chosen yet."""
    tuned = [row.tuned for row in known if (row.world, row.method) == (world, RUN)]
    if not tuned:
        raise ValueError(
            f"--noise: {RUN} has no results in {world}, whose values the run takes; run "
            f"--worlds={world} --methods={RUN} first"
        )
    cell = tuple(tuned[0].items())
    result = suites.result_job(suite, world, Method(RUN, RUN), cell, workdir)
    steps = f"--config.env_steps={int(SHARE * suite.worlds[world].env_steps)}"
    place = workdir / "noise" / world
    return Job(f"noise.{world}", (*result.arguments, steps), place)


def estimators(suite: Suite, world: str) -> dict[str, Mapping]:
    """The `advantage` of each method that is nothing but an estimator of it, by name."""
    found = {}
    for method in suite.methods:
        changed = suites.differences(suite, world, method, suite.baseline)
        if method == RUN or all(key.startswith("advantage.") for key in changed):
            found[method] = suites.config(suite, world, method).advantage.to_dict()
    return found


def measured(suite: Suite, world: str, workdir: pathlib.Path) -> list[Noise]:
    """Of the run of `job`, which has ended; estimators that its world cannot fill are left out."""
    from agentrl.config.bind import bound
    from agentrl.run import estimator_gradients, restored

    run, sections = restored.load(workdir / "noise" / world), estimators(suite, world)
    fits = [m for m in sections if not suites.why_not(suite, world, Method(m, m))]
    # The first is what the others are compared with.
    fits.sort(key=lambda method: method != UNBIASED)
    asked = {method: bound("advantage", sections[method]) for method in fits}
    found = estimator_gradients.measure(run, asked, TURNS, BATCHES)
    return [
        Noise(world, method, seed, *(float(x) for x in _relative(one, found[UNBIASED], number)))
        for method, one in found.items()
        for number, seed in enumerate(suite.seeds)
    ]


def _relative(one: Any, unbiased: Any, number: int) -> tuple[Any, Any]:
    noise = one.noise[number]
    return one.signal[number] / noise, one.along[number] / (noise * unbiased.noise[number]) ** 0.5


def run(
    suite: Suite,
    worlds: Sequence[str],
    known: Sequence[rows.Row],
    workdir: pathlib.Path,
    backend: str,
    at_once: int,
) -> tuple[list[Noise], list[str]]:
    """(the rows of these worlds, runs that did not end well)."""
    found, failed = [], []
    for world in worlds:
        ended = driver.carry_out(
            [job(suite, world, known, workdir)], workdir / "noise", backend, at_once
        )
        failed += ended
        found += [] if ended else measured(suite, world, workdir)
    return found, failed


def table(suite: Suite, found: Sequence[Noise]) -> list[str]:
    """As Markdown, in lines: signal and cosine for each method and world.

    The signal is the median over seeds, in units of the noise of an update. The cosine is of all
    seeds together, so that those whose signal is not seen do not divide by zero.
    """
    worlds = [world for world in suite.worlds if any(row.world == world for row in found)]
    by_pair: dict[tuple[str, str], list[Noise]] = {}
    for row in found:
        by_pair.setdefault((row.method, row.world), []).append(row)
    lines = [f"| method | {' | '.join(worlds)} |", "|---" * (len(worlds) + 1) + "|"]
    for method in suite.methods:
        cells = [_cell(by_pair.get((method, w)), by_pair[UNBIASED, w]) for w in worlds]
        if any(cells):
            lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def _cell(own: Sequence[Noise] | None, unbiased: Sequence[Noise]) -> str:
    if not own:
        return ""
    signal = float(np.median([row.signal for row in own]))
    lengths = [sum(row.signal for row in rows) for rows in (own, unbiased)]
    if min(lengths) <= 0:
        return f"{signal:.2g}"
    return f"{signal:.2g} ({sum(row.along for row in own) / np.sqrt(np.prod(lengths)):.2f})"


def write(path: pathlib.Path, found: Sequence[Noise]) -> None:
    """Writes rows, sorted, as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Noise._fields)
        for row in sorted(found):
            writer.writerow([*row[:3], f"{row.signal:.4g}", f"{row.along:.4g}"])


def read(path: pathlib.Path) -> list[Noise]:
    """Rows of a file; none if there is no file. ValueError for a file of another form."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        try:
            return [
                Noise(
                    r["world"], r["method"], int(r["seed"]), float(r["signal"]), float(r["along"])
                )
                for r in csv.DictReader(file)
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path}: not the gradients of a comparison ({error!r})") from None
