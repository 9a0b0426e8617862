"""How clear the policy gradient of early turns is, by the estimator of each method.

On the episodes of the baseline after a fifth of the budget, with the values that were chosen for
it; PPO's, which needs a critic, on those of its own run. A method whose config changes more than
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

# The method with a critic, and the share of the budget after which runs are looked at.
CRITIC, SHARE = "ppo", 0.2
# Which turns are early, and how many collections there are.
TURNS, BATCHES = 8, 128
# The estimator whose mean is the gradient of the return.
UNBIASED = "rloo"


class Noise(NamedTuple):
    """Of one seed; see `agentrl.trained.estimator_gradients`.

    In units of the noise of an update's gradient. signal: the squared length of the true mean.
    along: its product with the true mean of UNBIASED on the same episodes, whose squared length is
    `unbiased`. The estimates have no bias, so that all three may be negative.
    """

    world: str
    method: str
    seed: int
    signal: float
    along: float
    unbiased: float


def jobs(
    suite: Suite, world: str, known: Sequence[rows.Row], workdir: pathlib.Path
) -> dict[str, Job]:
    """The runs that are looked at, by method. ValueError if values have not been chosen yet."""
    found, steps = {}, int(SHARE * suite.worlds[world].env_steps)
    for name in (suite.baseline, CRITIC):
        tuned = [row.tuned for row in known if (row.world, row.method) == (world, name)]
        if not tuned:
            raise ValueError(
                f"--noise: {name} has no results in {world}, whose values the run takes; run "
                f"--worlds={world} --methods={name} first"
            )
        cell = tuple(tuned[0].items())
        result = suites.result_job(suite, world, Method(name, name), cell, workdir)
        arguments = (*result.arguments, f"--config.env_steps={steps}")
        found[name] = Job(f"noise.{world}.{name}", arguments, workdir / "noise" / world / name)
    return found


def estimators(suite: Suite, world: str) -> dict[str, Mapping]:
    """The `advantage` of each method that is nothing but an estimator of it, by name."""
    found = {}
    for method in suite.methods:
        changed = suites.differences(suite, world, method, suite.baseline)
        alone = all(key.startswith("advantage.") for key in changed)
        if method == CRITIC or alone and not suites.why_not(suite, world, Method(method, method)):
            found[method] = suites.config(suite, world, method).advantage.to_dict()
    return found


def measured(suite: Suite, world: str, workdir: pathlib.Path) -> list[Noise]:
    """Of the runs of `jobs`, which have ended; estimators without any gradient are left out."""
    from agentrl.config.bind import bound
    from agentrl.run import restored
    from agentrl.trained import estimator_gradients

    sections, found = estimators(suite, world), []
    for name in (suite.baseline, CRITIC):
        run = restored.load(workdir / "noise" / world / name)
        own = {CRITIC} if name == CRITIC else set(sections) - {CRITIC}
        # The first is what the others are compared with.
        asked = {m: bound("advantage", sections[m]) for m in (UNBIASED, *sorted(own - {UNBIASED}))}
        clear = estimator_gradients.measure(run, asked, TURNS, BATCHES)
        for number, seed in enumerate(suite.seeds):
            for method in own:
                numbers = _relative(clear[method], clear[UNBIASED], number)
                if np.isfinite(numbers).all():
                    found.append(Noise(world, method, seed, *map(float, numbers)))
    return found


def _relative(one: Any, unbiased: Any, number: int) -> tuple[Any, Any, Any]:
    noise, other = one.noise[number], unbiased.noise[number]
    along = one.along[number] / (noise * other) ** 0.5
    return one.signal[number] / noise, along, unbiased.signal[number] / other


def run(
    suite: Suite,
    worlds: Sequence[str],
    known: Sequence[rows.Row],
    workdir: pathlib.Path,
    machines: driver.Machines,
) -> tuple[list[Noise], list[str]]:
    """(the rows of these worlds, runs that did not end well)."""
    found, failed = [], []
    for world in worlds:
        due = list(jobs(suite, world, known, workdir).values())
        ended = driver.carry_out(due, workdir / "noise", machines)
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
        cells = [_cell(by_pair.get((method, world), ())) for world in worlds]
        if any(cells):
            lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def _cell(own: Sequence[Noise]) -> str:
    if not own:
        return ""
    signal = float(np.median([row.signal for row in own]))
    lengths = sum(row.signal for row in own), sum(row.unbiased for row in own)
    if min(lengths) <= 0:
        return f"{signal:.2g}"
    return f"{signal:.2g} ({sum(row.along for row in own) / np.sqrt(np.prod(lengths)):.2f})"


def write(path: pathlib.Path, found: Sequence[Noise]) -> None:
    """Writes rows, sorted, as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Noise._fields)
        for row in sorted(found):
            writer.writerow([*row[:3], *(f"{number:.4g}" for number in row[3:])])


def read(path: pathlib.Path) -> list[Noise]:
    """Rows of a file; none if there is no file. ValueError for a file of another form."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        try:
            return [
                Noise(
                    record["world"],
                    record["method"],
                    int(record["seed"]),
                    *(float(record[name]) for name in Noise._fields[3:]),
                )
                for record in csv.DictReader(file)
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path}: not the gradients of a comparison ({error!r})") from None
