"""Runs a search: proposes cells, runs them rung by rung, and checks the best on fresh seeds.

A rung is an update at which cells are compared and the worse ones stop. Cells that go on are the
same runs, resumed: what they compute is what they would have computed at once, because schedules
go by config.updates and not by the rung. So the run directories are the truth, and the scores are
read from their metrics.jsonl; the journal (`trials.py`) says which trials there are.
"""

import csv
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections

from agentrl.evaluation import statistics, sweeps
from launchers.cluster.launch import Job
from launchers.search.definition import Search, check, resolved, rungs_of
from launchers.search.space import CONFIG, Value
from launchers.search.trials import Trial, Trials

# Runs jobs, of which some may have begun before, and returns when none of them runs any more.
Run = Callable[[Sequence[Job]], Any]

CSV = "search.csv"


def search(what: Search, directory: pathlib.Path, run: Run) -> sweeps.Sweep:
    """Runs a search in a directory, or goes on with it; returns its cells.

    Every trial is a run directory of its own, `directory`/NAME. A search that was killed goes on
    with the trials that it had, and trials that failed are tried once more by each call. Writes
    `search.json` and `search.csv`.

    run: carries out jobs; what became of them is read from their directories.

    Raises:
      ValueError: the search cannot be made, the directory holds another one, or all trials failed.
      RunError: another process is searching in the directory.
    """
    from agentrl.run import workdir

    check(what)
    default = resolved(what.space.arguments({}))
    rungs = rungs_of(what, default)
    about = {
        "search": what.kind,
        "space": [list(axis._replace(choices=list(axis.choices))) for axis in what.space.axes],
        "fixed": dict(what.space.fixed),
        "configs": list(what.space.configs),
        "seeds": list(what.space.seeds),
        "metric": what.metric,
        "minimize": what.minimize,
        "rungs": list(rungs),
        "eta": what.eta,
        "seed": what.seed,
    }
    with workdir.alone(directory, doing="searching"):
        trials = Trials(directory, what.space, minimize=what.minimize, about=about)
        # Trials that failed in an earlier call, and not since, are proposed again.
        latest = {what.space.name(trial.values): trial for trial in trials.all()}
        for trial in latest.values():
            if trial.state == "failed":
                trials.add(trial.values)
        total = what.count + sum(trial.state == "failed" for trial in trials.all())
        size = what.at_once if what.kind == "tpe" else what.count
        parts = _Parts(what, directory, run, trials, rungs)
        for first in range(0, total, size):
            _batch(parts, first, min(first + size, total))
        best = _best(parts)
        reached = {str(u): sum(u in trial.scores for trial in trials.all()) for u in rungs}
        about |= {"best": best.number, "reached": reached, "total": total}
        if what.fresh_seeds:
            about["fresh"] = _fresh(parts, best, default)
        workdir.write_json(directory / sweeps.ABOUT, about)
        found = sweeps.read(directory)
        _write_csv(directory / CSV, sweeps.rows(found))
    return found


def promoted(scores: Mapping[int, float], eta: int, *, minimize: bool = False) -> set[int]:
    """The trials that go on: the best one in `eta`, rounded down, at least one.

    scores: by number, of all trials that reached the rung so far. Of equal ones the earlier goes
    on. Optuna's SuccessiveHalvingPruner decides on each trial as it arrives, so that the first ones
    always go on (ASHA); here trials of a batch are compared when all of them are there.
    """
    sign = 1 if minimize else -1
    ranked = sorted(scores, key=lambda number: (sign * scores[number], number))
    return set(ranked[: max(1, len(ranked) // eta)])


class _Parts(NamedTuple):
    what: Search
    directory: pathlib.Path
    run: Run
    trials: Trials
    rungs: tuple[int, ...]  # the end of the run is the last

    def jobs(self, trial: Trial, until: int) -> list[Job]:
        """The runs of a trial, one for each value of config.seed, up to an update."""
        space = self.what.space
        name, arguments = space.name(trial.values), space.arguments(trial.values)
        if until < self.rungs[-1]:
            arguments = (*arguments, f"--stop_after={until}")
        if not space.seeds:
            return [Job(name, arguments, self.directory / name)]
        return [
            Job(
                f"{name}__seed={seed}",
                (*arguments, f"--config.seed={seed}"),
                self.directory / f"{name}__seed={seed}",
            )
            for seed in space.seeds
        ]


def _batch(parts: _Parts, first: int, end: int) -> None:
    """Trials first to end - 1, from their proposal to their end; what was done is not repeated."""
    what, trials = parts.what, parts.trials
    there = len(trials.all())
    if there < end:
        if what.is_grid:
            wanted = list(what.space.every_cell())[first:end]
        else:
            kind = "tpe" if what.kind == "tpe" else "random"
            wanted = trials.propose(kind, first, end - first, what.seed)
        for values in wanted[max(there - first, 0) :]:
            resolved(what.space.arguments(values))
            trials.add(values)
    alive = {trial.number for trial in trials.all()[first:end]}
    for update in parts.rungs:
        _rung(parts, alive, update)
        known = trials.all()[:end]
        scores = {t.number: t.scores[update] for t in known if update in t.scores}
        if update == parts.rungs[-1]:
            break
        on = promoted(scores, what.eta, minimize=what.minimize) if scores else set()
        for number in sorted(alive - on):
            if known[number].state == "running":
                trials.finish(number, "pruned")
        alive &= on
    for trial in known:
        if trial.number in alive and trial.state == "running":
            trials.finish(trial.number, "complete", scores[trial.number])


def _rung(parts: _Parts, alive: set[int], update: int) -> None:
    """Runs the trials up to an update, and records what they score there, or that they failed.

    A cell that was proposed twice is one run.
    """
    waiting = [
        trial
        for trial in parts.trials.all()
        if trial.number in alive and trial.state == "running" and update not in trial.scores
    ]
    jobs = {job.name: job for trial in waiting for job in parts.jobs(trial, update)}
    carry_out(parts.run, list(jobs.values()), update)
    failures = []
    for trial in waiting:
        try:
            directories = [job.workdir for job in parts.jobs(trial, update)]
            lines = sweeps.lines_of(directories)
            if sweeps.last_update(lines) < update:
                raise ValueError(f"ended at update {sweeps.last_update(lines)} of {update}")
            score = float(statistics.iqm(sweeps.scores(lines, parts.what.metric, update)))
            parts.trials.report(trial.number, update, score)
        except ValueError as error:
            failures.append(f"{parts.what.space.name(trial.values)}: {error}")
            parts.trials.finish(trial.number, "failed")
    for text in failures:
        print(f"failed: {text}", flush=True)
    if failures and not any(trial.scores for trial in parts.trials.all()):
        raise ValueError(f"{len(failures)} of {len(waiting)} cells failed; {failures[-1]}")


def carry_out(run: Run, jobs: Sequence[Job], update: int) -> None:
    """Runs the jobs that have not reached an update; first waits for those that run already.

    A run outlives the search that started it when that is killed.
    """
    from agentrl.run.status import is_locked

    for job in jobs:
        if job.workdir.is_dir() and is_locked(job.workdir):
            print(f"waiting for {job.workdir}, in which a process is training", flush=True)
            while is_locked(job.workdir):
                time.sleep(0.5)
    missing = [job for job in jobs if not _has_reached(job.workdir, update)]
    if missing:
        run(missing)


def _has_reached(directory: pathlib.Path, update: int) -> bool:
    """Whether a run has written its metrics up to an update, and saved what goes on from there."""
    from agentrl.run import checkpoint

    try:
        told = sweeps.last_update(sweeps.lines_of([directory]))
    except ValueError:  # no run there yet
        return False
    return told >= update and max(checkpoint.steps(directory / "checkpoints"), default=0) >= update


def _best(parts: _Parts) -> Trial:
    """The best of the trials that ran to the end."""
    ended = [trial for trial in parts.trials.all() if trial.state == "complete"]
    if not ended:
        raise ValueError("no trial ran to its end; run the same command again to retry")
    sign = 1 if parts.what.minimize else -1
    return min(ended, key=lambda trial: (sign * trial.scores[parts.rungs[-1]], trial.number))


def _fresh(parts: _Parts, best: Trial, default: ml_collections.ConfigDict) -> dict[str, Any]:
    """Runs the best cell and the default of its config on seeds that the search has not seen.

    The best of many is so in part by luck, on the seeds by which it was chosen. The seeds are those
    after the search's, as many to a run as the config has, the same on both sides.
    """
    space, at_once = parts.what.space, default.num_seeds
    first = max((int(seed) for seed in space.seeds), default=default.seed) + at_once
    starts = range(first, first + parts.what.fresh_seeds, at_once)
    # The default of another config is no default of this cell.
    kept = {key: value for key, value in best.values.items() if key == CONFIG}
    sides: dict[str, list[Job]] = {}
    for side, values in (("best", best.values), ("default", kept)):
        name = space.name(values) if side == "best" else f"default__{space.name(values)}"
        sides[side] = [
            Job(
                f"{name}__seed={start}",
                (*space.arguments(values), f"--config.seed={start}"),
                parts.directory / sweeps.FRESH / f"{name}__seed={start}",
            )
            for start in starts
        ]
    jobs = [job for side in sides.values() for job in side]
    carry_out(parts.run, jobs, parts.rungs[-1])
    broken = [job.name for job in jobs if not _has_reached(job.workdir, parts.rungs[-1])]
    if broken:
        raise ValueError(f"on fresh seeds {', '.join(broken)} failed; the same command retries")
    named = {
        side: [str(job.workdir.relative_to(parts.directory)) for job in jobs]
        for side, jobs in sides.items()
    }
    return named | {"cell": space.name(best.values)}


def _write_csv(path: pathlib.Path, table: list[dict[str, Value]]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    os.replace(temporary, path)
