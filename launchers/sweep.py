r"""Runs a grid of configs, on this machine or on a Slurm cluster.

    python -m launchers.sweep --workdir=runs/coin_sweep \
        --configs=configs/coin.py:gigpo,configs/coin.py:grpo \
        --grid="optimizer.learning_rate=3e-4,1e-3;objective.entropy.weight=0.003,0.01"

Every cell is a command of `launchers.train` with a directory of its own, so a sweep that is run
again resumes. At the end it prints a table of the cells, best first: interquartile means over seeds
of --metric, over the whole run (speed of learning) and over its last tenth (final performance).
--dry_run prints the commands, --table_only only the table. --backend=slurm submits each as a job
through submitit (`pip install 'agentrl[slurm]'`), which is requeued when it is preempted.
"""

import itertools
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent import futures

import numpy as np
from absl import flags

from launchers import cli

_CONFIGS = flags.DEFINE_list("configs", None, "Config files, each with its :preset.")
_GRID = flags.DEFINE_string("grid", "", "key=value,value;key=value,... : all combinations.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory with one subdirectory per cell.")
_BACKEND = flags.DEFINE_enum("backend", "local", ["local", "slurm"], "Backend that runs the cells.")
_JOBS = flags.DEFINE_integer("jobs", 1, "Number of cells at a time on this machine.", lower_bound=1)
_HOURS = flags.DEFINE_float("hours", 4.0, "Time limit of a Slurm job.")
_PARTITION = flags.DEFINE_string("partition", None, "Slurm partition.")
_GPUS = flags.DEFINE_integer("gpus", 0, "GPUs of a Slurm job.")
_METRIC = flags.DEFINE_string("metric", "success_rate", "Metric of the table.")
_TABLE_ONLY = flags.DEFINE_bool("table_only", False, "Run nothing, print the table.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the commands and stop.")


def cells(configs: list[str], grid: str) -> dict[str, list[str]]:
    """{name: arguments} of every cell of the grid. ValueError if the grid cannot be read."""
    axes = []
    for axis in filter(None, grid.split(";")):
        key, equals, values = axis.strip().partition("=")
        if not equals or not values:
            raise ValueError(
                f"--grid: {axis!r} is not an axis; write key=value,value with ; between axes"
            )
        # Commas within brackets belong to a value: policy.hidden=(32,32),(64,64).
        axes.append([(key, value) for value in re.split(r",(?![^(\[{]*[)\]}])", values)])
    out = {}
    for config, *choices in itertools.product(configs, *axes):
        path, _, preset = config.partition(":")
        parts = [pathlib.Path(path).stem, *filter(None, [preset])]
        parts += [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in choices]
        name = "__".join(parts).replace("/", "_")
        if name in out:
            raise ValueError(f"--configs or --grid gives the cell {name!r} twice")
        out[name] = [f"--config={config}", *(f"--config.{key}={value}" for key, value in choices)]
    return out


def command(arguments: list[str], workdir: pathlib.Path) -> list[str]:
    """The training command of a cell."""
    return [sys.executable, "-m", "launchers.train", *arguments, f"--workdir={workdir}"]


def _print_table(workdir: pathlib.Path, commands: dict[str, list[str]]) -> None:
    rows = table({name: workdir / name for name in commands}, _METRIC.value)
    if not rows:
        print(f"no cell has the metric {_METRIC.value!r} yet; agentrl/README.md lists the metrics")
    else:
        print(f"{_METRIC.value:>12} whole    end  cell")
    for name, whole, end in rows:
        print(f"{whole:18.3f} {end:6.3f}  {name}")


def _run(line: list[str]) -> int:
    return subprocess.run(line, check=False).returncode


def _run_here(commands: dict[str, list[str]]) -> list[str]:
    """Runs all cells; returns the names of those that failed."""
    with futures.ThreadPoolExecutor(_JOBS.value) as pool:
        codes = pool.map(_run, commands.values())
        return [name for name, code in zip(commands, codes, strict=True) if code]


def _submit(commands: dict[str, list[str]], logs: pathlib.Path) -> list[str]:
    try:
        import submitit
    except ImportError:
        cli.fail("--backend=slurm needs submitit: pip install 'agentrl[slurm]'")
    executor = submitit.SlurmExecutor(folder=logs)
    executor.update_parameters(
        time=int(60 * _HOURS.value), partition=_PARTITION.value, gpus_per_node=_GPUS.value
    )
    jobs = [executor.submit(submitit.helpers.CommandFunction(line)) for line in commands.values()]
    for name, job in zip(commands, jobs, strict=True):
        print(f"{job.job_id}  {name}")
    return []


def table(workdirs: dict[str, pathlib.Path], metric: str) -> list[tuple[str, float, float]]:
    """(name, over the run, over its last tenth) of every cell that has the metric, best first."""
    from agentrl.evaluation import statistics
    from agentrl.run import metrics

    rows = []
    for name, workdir in workdirs.items():
        path = workdir / "metrics.jsonl"
        lines = [x for x in metrics.read(path) if metric in x] if path.exists() else []
        seeds = sorted({line["seed"] for line in lines})
        columns = [[line[metric] for line in lines if line["seed"] == seed] for seed in seeds]
        if columns:
            whole = statistics.iqm([np.mean(c) for c in columns])
            end = statistics.iqm([np.mean(c[-max(1, len(c) // 10) :]) for c in columns])
            rows.append((name, float(whole), float(end)))
    return sorted(rows, key=lambda row: -row[1])


def main(argv: list[str]) -> None:
    """Makes the cells and runs them."""
    if len(argv) > 1 or not _CONFIGS.value or not _WORKDIR.value:
        cli.fail("give --configs=FILE[:PRESET],... and --workdir=DIR, and --grid=... if wanted")
    workdir = pathlib.Path(_WORKDIR.value)
    try:
        named = cells(_CONFIGS.value, _GRID.value)
    except ValueError as error:
        cli.fail(error)
    commands = {name: command(arguments, workdir / name) for name, arguments in named.items()}
    if _TABLE_ONLY.value:
        _print_table(workdir, commands)
        return
    if _DRY_RUN.value:
        print("\n".join(shlex.join(line) for line in commands.values()))
        return
    if _BACKEND.value == "slurm":
        failed = _submit(commands, workdir / "logs")
    else:
        failed = _run_here(commands)
    _print_table(workdir, commands)
    if failed:
        cli.fail(f"{len(failed)} of {len(commands)} cells failed: {'; '.join(failed)}")


if __name__ == "__main__":
    cli.run(main)
