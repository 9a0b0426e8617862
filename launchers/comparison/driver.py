"""Runs a comparison: the choice of each method's values, then its results on other seeds."""

import pathlib
from collections.abc import Sequence

import numpy as np

from launchers.cluster import reports
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Stage
from launchers.comparison import rows, suites
from launchers.comparison.suites import Method, Suite

Cell = tuple[tuple[str, str], ...]


def plan(suite: Suite, worlds: Sequence[str], methods: Sequence[Method]) -> str:
    """How many runs there are, with the same number for every method, and which cannot be."""
    lines, count = [], 0
    for method in methods:
        keys = suites.differences(suite, worlds[0], method.base, suite.baseline)
        changed = ", ".join([*keys, *method.flags])
        lines.append(f"{method.name} differs from {suite.baseline} in: {changed or 'nothing'}")
    for world in worlds:
        for method in methods:
            reason = suites.why_not(suite, world, method)
            count += not reason
            if reason:
                lines.append(f"not applicable: {method.name} in {world}: {reason}")
    cells, tuning, seeds = len(suite.cells()), len(suite.tuning_seeds), len(suite.seeds)
    lines.append(
        f"{count} pairs of a world and a method, each {cells} runs of {tuning} seeds, and one of "
        f"{seeds} other seeds"
    )
    return "\n".join(lines)


def run(
    suite: Suite,
    worlds: Sequence[str],
    methods: Sequence[Method],
    workdir: pathlib.Path,
    backend: str,
    at_once: int,
) -> list[str]:
    """Runs what is missing. On this machine pair by pair, elsewhere all pairs at the same time.

    Returns a line for each run that did not end well.
    """
    failed = []
    pairs = [(w, m) for w in worlds for m in methods if not suites.why_not(suite, w, m)]
    batches = [[pair] for pair in pairs] if backend == "local" else [pairs]
    for batch in batches:
        jobs = [job for w, m in batch for job in suites.tuning_jobs(suite, w, m, workdir).values()]
        failed += _carry_out(jobs, workdir / "tune", backend, at_once)
        jobs = []
        for world, method in batch:
            cell = chosen(suite, world, method, workdir)
            if cell is not None:
                jobs.append(suites.result_job(suite, world, method, cell, workdir))
        failed += _carry_out(jobs, workdir / "results", backend, at_once)
    return failed


def _carry_out(
    jobs: Sequence[Job], directory: pathlib.Path, backend: str, at_once: int
) -> list[str]:
    if not jobs:
        return []
    launch = Launch(directory.name, directory, (Stage("train", tuple(jobs)),), at_once)
    known = reports.ended(launch, backend)
    return [f"{r.job.name}: {r.message or r.state}" for r in known if r.state is not State.DONE]


def chosen(suite: Suite, world: str, method: Method, workdir: pathlib.Path) -> Cell | None:
    """The values with the best mean score over the budget and the seeds of the choice.

    Of equal ones the first; None while a run is missing.
    """
    means = {}
    for cell, job in suites.tuning_jobs(suite, world, method, workdir).items():
        found = _scores(suite, world, job)
        if found is None:
            return None
        means[cell] = float(np.mean(list(found.values())))
    return max(means, key=means.__getitem__)


def _scores(suite: Suite, world: str, job: Job) -> dict[int, tuple[float, ...]] | None:
    """Scores of a run that has ended, else None."""
    about = suite.worlds[world]
    try:
        return rows.scores(job.workdir, about.env_steps) or None
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
            found += rows.of_run(job.workdir, world, method.name, about.env_steps, dict(cell))
    return found
