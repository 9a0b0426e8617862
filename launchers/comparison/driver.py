"""Runs a comparison: the choice of each method's values, then its results on other seeds."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from launchers.cluster import reports
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage
from launchers.comparison import rows, suites
from launchers.comparison.suites import Cell, Method, Suite

# A world and a method.
Pair = tuple[str, Method]


class Machines(NamedTuple):
    """Where runs are: a backend of `launchers.cluster`, how many at the same time, and with what
    each."""

    backend: str = "local"
    at_once: int = 1
    resources: Resources = Resources()


def plan(suite: Suite, pairs: Sequence[Pair]) -> str:
    """How many runs there are, with the same number for every method, and which cannot be."""
    lines, count, first_world = [], 0, {}
    for world, method in pairs:
        first_world.setdefault(method, world)
    for method, world in first_world.items():
        keys = suites.differences(suite, world, method.base, suite.baseline)
        changed = ", ".join([*keys, *method.flags])
        lines.append(f"{method.name} differs from {suite.baseline} in: {changed or 'nothing'}")
    for world, method in pairs:
        reason = suites.why_not(suite, world, method)
        count += not reason
        if reason:
            lines.append(f"not applicable: {method.name} in {world}: {reason}")
    cells, tuning, seeds = len(suite.cells()), len(suite.tuning_seeds), len(suite.seeds)
    lines.append(
        f"{count} pairs of a world and a method, each a run of {tuning} seeds with {cells} "
        f"combinations of values, and one of {seeds} other seeds"
    )
    return "\n".join(lines)


def run(
    suite: Suite, pairs: Sequence[Pair], workdir: pathlib.Path, machines: Machines
) -> list[str]:
    """Runs what has not ended yet: here as many pairs at the same time as runs may be, elsewhere
    all.

    Returns a line for each run that did not end well.
    """
    failed = []
    pairs = [pair for pair in pairs if not suites.why_not(suite, *pair)]
    if suite.start:
        worlds = dict.fromkeys(world for world, _ in pairs)
        kinds = (suite.tuning_seeds, suite.seeds)
        jobs = [
            suites.start_job(suite, world, seeds, workdir) for world in worlds for seeds in kinds
        ]
        failed += carry_out(jobs, workdir / "start", machines)
    size = max(1, machines.at_once if machines.backend == "local" else len(pairs))
    for batch in (pairs[place : place + size] for place in range(0, len(pairs), size)):
        jobs = [suites.tuning_job(suite, w, m, workdir) for w, m in batch]
        failed += carry_out(jobs, workdir / "tune", machines)
        jobs = []
        for world, method in batch:
            cell = chosen(suite, world, method, workdir)
            if cell is not None:
                jobs.append(suites.result_job(suite, world, method, cell, workdir))
        failed += carry_out(jobs, workdir / "results", machines)
    return failed


def carry_out(jobs: Sequence[Job], directory: pathlib.Path, machines: Machines) -> list[str]:
    """Runs what has not ended of these; a line for each that did not end well.

    Raises:
      ValueError: a signal stopped them, here; then nothing else is to begin.
    """
    if not jobs:
        return []
    stages = (Stage("train", tuple(jobs), machines.resources),)
    launch = Launch(directory.name, directory, stages, machines.at_once)
    known = reports.ended(launch, machines.backend)
    stopped = [r.job.name for r in known if r.state is State.STOPPED]
    if stopped and machines.backend == "local":
        raise ValueError(f"{stopped[0]} was stopped; the same command goes on")
    return [f"{r.job.name}: {r.message or r.state}" for r in known if r.state is not State.DONE]


def chosen(suite: Suite, world: str, method: Method, workdir: pathlib.Path) -> Cell | None:
    """The values with the best mean score over the budget and the seeds of the choice.

    Of equal ones the first; None while the run is missing.
    """
    found = _scores(suite, world, suites.tuning_job(suite, world, method, workdir))
    if found is None:
        return None
    by_cell: dict[Cell, list[float]] = {cell: [] for cell in suite.cells()}
    for seed, cell in suite.cell_of().items():
        by_cell[cell].append(float(np.mean(found[seed])))
    return max(by_cell, key=lambda cell: np.mean(by_cell[cell]))


def _scores(suite: Suite, world: str, job: Job) -> dict[int, tuple[float, ...]] | None:
    """Scores of a run that has ended, else None."""
    about = suite.worlds[world]
    try:
        return rows.scores(job.workdir, about.env_steps, about.score) or None
    except (ValueError, OSError):
        return None


def collect(
    suite: Suite, worlds: Sequence[str], methods: Sequence[Method], workdir: pathlib.Path
) -> list[rows.Row]:
    """The rows of all results that are there."""
    found = []
    for world in worlds:
        for method in methods:
            cell = chosen(suite, world, method, workdir)
            if cell is None:
                continue
            job, about = suites.result_job(suite, world, method, cell, workdir), suite.worlds[world]
            if _scores(suite, world, job) is None:
                continue
            budget, tuned = about.env_steps, dict(cell)
            found += rows.of_run(job.workdir, world, method.name, budget, tuned, about.score)
    return found
