r"""Runs a grid of configs, on this machine or on a cluster.

    python -m launchers.sweep --workdir=runs/coin_sweep \
        --configs=configs/credit/coin.py:gigpo,configs/credit/coin.py:grpo --seeds=0,1,2 \
        --grid="optimizer.learning_rate=3e-4,1e-3;objective.entropy.weight=0.003,0.01"

Every cell is a command of `launchers.train` with a directory of its own. All cells are checked
before the first is submitted. A sweep that is run again goes on: cells that are done, wait or run
are left alone, and those that failed too, unless --retry is given. --dry_run prints what would be
submitted. --status, --logs=JOB, --cancel, --table and --retry read the sweep from its directory;
they need no other flag than --workdir. A launch of several stages is a file of Python that defines
get_launch(), --launch=FILE: see launchers/README.md.

    python -m launchers.sweep --workdir=runs/coin_search --configs=configs/credit/coin.py:gigpo \
        --search=halving --rungs=30,90 --space="optimizer.learning_rate=1e-3,3e-3,1e-2"

--search chooses the cells of --space (grid, random, tpe, halving), stops the worse ones early, and
compares the best with the config as it is on seeds that the search has not seen.

    python -m launchers.sweep --diagnose=runs/coin_sweep

--diagnose says which values of each axis the best runs have, and if that may be luck.
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from launchers import cli
from launchers.cluster import cells, diagnosis, job_flags, records, reports
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Stage
from launchers.search import flags as searches

_CONFIGS = flags.DEFINE_list("configs", None, "Config files, each with its :preset.")
_GRID = flags.DEFINE_string("grid", "", "key=value,value;key=value,... : all combinations.")
_SEEDS = flags.DEFINE_list("seeds", None, "Values of config.seed, a job each; the config's own.")
_LAUNCH = flags.DEFINE_string("launch", None, "File of Python with get_launch(), in their place.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory with one subdirectory per cell.")
_BACKEND = flags.DEFINE_enum("backend", None, reports.BACKENDS, "Backend; this machine.")
_AT_ONCE = flags.DEFINE_integer("at_once", 0, "Jobs that run at once; 0: as many as fit.")
_RETRIES = flags.DEFINE_integer("retries", 10, "How often a cluster begins a job again.")
_RETRY = flags.DEFINE_bool("retry", False, "Submit jobs that failed, and those that wait for them.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Check all cells, print what would be submitted.")
_STATUS = flags.DEFINE_bool("status", False, "Print what became of every job.")
_LOGS = flags.DEFINE_string("logs", None, "Print the end of the log of this job.")
_CANCEL = flags.DEFINE_bool("cancel", False, "Ask all jobs to save and stop.")
_TABLE = flags.DEFINE_bool("table", False, "Print the table of the cells, and write table.csv.")
_METRIC = flags.DEFINE_string("metric", "success_rate", "Metric of the table, and of --diagnose.")
job_flags.define()
diagnosis.define()


def _described() -> Launch | None:
    """The launch that flags or a file describe; None if they do not."""
    if _LAUNCH.value:
        described = ("configs", "grid", "seeds", "workdir", "at_once", "retries")
        names = (*described, *job_flags.NAMES)
        given = [f"--{name}" for name in names if flags.FLAGS[name].present]
        if given:
            raise ValueError(f"{', '.join(given)}: the file of --launch says it; leave it out")
        return reports.launch_of(pathlib.Path(_LAUNCH.value))
    if not _CONFIGS.value:
        return None
    from launchers.cluster import check

    if not _WORKDIR.value:
        raise ValueError("--workdir is missing: the directory of the sweep")
    workdir = pathlib.Path(_WORKDIR.value)
    if not all(seed.isdigit() for seed in _SEEDS.value or ()):
        raise ValueError(f"--seeds={','.join(_SEEDS.value)}: expected numbers, such as 0,1,2")
    keys = check.keys(_CONFIGS.value)
    found = cells.cells(_CONFIGS.value, _GRID.value, keys)
    jobs = cells.jobs(found, workdir, tuple(map(int, _SEEDS.value or ())))
    stages = (Stage("train", jobs, job_flags.resources()),)
    return Launch(workdir.name, workdir, stages, _AT_ONCE.value, _RETRIES.value)


def _show_status(known: Sequence[reports.Report], numbers: dict[str, str]) -> None:
    for report in known:
        number = f"  [{numbers[report.job.name]}]" if report.job.name in numbers else ""
        message = f"  {report.message}" if report.message else ""
        done = f"{report.update}/{report.updates}"
        print(f"{report.state:8} {done:>13}  {report.job.name}{number}{message}")


def _show_table(launch: Launch, known: Sequence[reports.Report]) -> None:
    from launchers.cluster import table

    rows = table.rows(known, _METRIC.value)
    table.write_csv(launch.workdir / table.CSV, rows, _METRIC.value)
    if not any(row.whole for row in rows):
        print(f"no cell has the metric {_METRIC.value!r} yet; agentrl/README.md lists the metrics")
    print("\n".join(table.text(rows, _METRIC.value)))


def _end(known: Sequence[reports.Report], *, is_over: bool) -> None:
    """Ends with an error if a job failed. is_over: or stopped, since nothing goes on with it."""
    for state in (State.FAILED, *((State.STOPPED,) if is_over else ())):
        some = [report for report in known if report.state is state]
        if some:
            first = f"{some[0].job.name}: {some[0].message.removeprefix('error: ')}"
            advice = "--retry submits them" if state is State.FAILED else "the same command goes on"
            cli.fail(f"{len(some)} of {len(known)} jobs {state}; {first}; {advice}")


def _look(launch: Launch, name: str) -> None:
    """Carries out --status, --logs, --cancel and --table."""
    backend, numbers = reports.backend(name), records.numbers(launch.workdir)
    if _LOGS.value is not None:
        found = [job for job in launch.jobs if job.name == _LOGS.value]
        if not found:
            some = ", ".join(job.name for job in launch.jobs[:3])
            raise ValueError(f"--logs={_LOGS.value}: no such job; there are {some}, ...")
        print(backend.logs(launch, found[0]))
        return
    if _CANCEL.value:
        known = {job.name: numbers[job.name] for job in launch.jobs if job.name in numbers}
        backend.cancel(launch, known)
        return
    known = reports.reports(launch, name)
    if _STATUS.value:
        _show_status(known, numbers)
    if _TABLE.value:
        _show_table(launch, known)
    _end(known, is_over=False)


def _submit(launch: Launch, name: str) -> None:
    from launchers.cluster import check

    if _DRY_RUN.value:
        launch = check.checked(launch)
        jobs = reports.due(launch, reports.reports(launch, name), retry=_RETRY.value)
        print(reports.backend(name).plan(reports.only(launch, jobs)))
        return
    cli.output("workdir", str(launch.workdir), folder=True)
    known = reports.carry_out(launch, name, retry=_RETRY.value)
    if name == "local":
        _show_table(launch, known)
    else:
        _show_status(known, records.numbers(launch.workdir))
    _end(known, is_over=name == "local")


def _search(workdir: pathlib.Path) -> None:
    """Carries out a search, whose cells run as the jobs of a launch, rung by rung."""
    from agentrl.evaluation import sweeps
    from agentrl.run.restored import RunError

    if _GRID.value or _SEEDS.value:
        raise ValueError("a search takes --space in the place of --grid, and seed=0,1,2 in it")
    what = searches.search_of(_CONFIGS.value, _METRIC.value, max(_AT_ONCE.value, 1))
    if _TABLE.value:
        print("\n".join(searches.table(sweeps.read(workdir))))
        return
    if _DRY_RUN.value:
        print(searches.plan(what))
        return
    cli.output("workdir", str(workdir), folder=True)

    def carry_out(jobs: Sequence[Job]) -> None:
        stages = (Stage("trials", tuple(jobs), job_flags.resources()),)
        launch = Launch(workdir.name, workdir, stages, _AT_ONCE.value, _RETRIES.value)
        reports.ended(launch, _BACKEND.value or "local")

    try:
        print(searches.run(what, workdir, carry_out))
    except RunError as error:
        cli.fail(error)


def main(argv: list[str]) -> None:
    """Makes the launch, or finds it in its directory, and does what the flags say."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --configs=FILE[:PRESET],... --workdir=DIR")
    import jax

    # Configs are checked without the accelerators, which belong to the jobs.
    jax.config.update("jax_platforms", "cpu")
    looks = _STATUS.value or _LOGS.value is not None or _CANCEL.value or _TABLE.value
    try:
        if diagnosis.asked():
            print("\n".join(diagnosis.lines(_METRIC.value)))
            return
        if searches.asked():
            if not _CONFIGS.value or not _WORKDIR.value:
                raise ValueError("a search needs --configs=FILE[:PRESET],... and --workdir=DIR")
            _search(pathlib.Path(_WORKDIR.value))
            return
        launch, stored = _described(), None
        if launch is None and _WORKDIR.value and (looks or _RETRY.value):
            launch, stored = records.read(pathlib.Path(_WORKDIR.value))
        if launch is None:
            raise ValueError(
                "give --configs=FILE[:PRESET],... and --workdir=DIR, and --grid=... if wanted; or "
                "--launch=FILE; or --workdir=DIR with --status, --logs, --cancel, --table or "
                "--retry"
            )
        name = _BACKEND.value or stored or "local"
        (_look if looks else _submit)(launch, name)
    except ValueError as error:
        cli.fail(error)


if __name__ == "__main__":
    cli.run(main)
