"""Cells of a sweep: what their grid says, their names, and the jobs that run them."""

import hashlib
import itertools
import pathlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from launchers.cluster.launch import Job

KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Names of files have at most 255 signs, and a job's log and seed are named after its cell.
_LONGEST_NAME = 150
_SEED = "__seed="


class Cell(NamedTuple):
    """One choice of config and keys: a name, and flags of `launchers.train`."""

    name: str
    arguments: tuple[str, ...]


def read_grid(grid: str) -> list[tuple[str, list[str]]]:
    """(key, values) of every axis of "key=value,value;key=value,...".

    Raises:
      ValueError: the text has another form.
    """
    axes = []
    for axis in filter(None, grid.split(";")):
        key, equals, values = axis.strip().partition("=")
        if not equals or not values or not KEY.fullmatch(key):
            raise ValueError(
                f"--grid: {axis!r} is not an axis; write key=value,value with ; between axes, and "
                "keys of the config, such as optimizer.learning_rate"
            )
        # Commas within brackets belong to a value: policy.hidden=(32,32),(64,64).
        axes.append((key, re.split(r",(?![^(\[{]*[)\]}])", values)))
    return axes


def short(key: str, others: Iterable[str]) -> str:
    """The last words of a key that no other key ends with: "checkpoint.every" beside "pool.every",
    and "gamma" if there is one."""
    words, rest = key.split("."), [other for other in others if other != key]
    for count in range(1, len(words)):
        suffix = ".".join(words[-count:])
        if not any(other == suffix or other.endswith(f".{suffix}") for other in rest):
            return suffix
    return key


def cells(configs: Sequence[str], grid: str = "", keys: Collection[str] = ()) -> list[Cell]:
    """Every combination of a config and a value of each axis of the grid.

    A cell is named after its config file, preset and values; signs that are not for names of files
    become "_".

    Args:
      configs: FILE[:PRESET].
      grid: as `read_grid` takes it.
      keys: all keys of the configs, so that a name says which of two "every" it means.

    Raises:
      ValueError: the grid cannot be read, or two cells have one name.
    """
    axes = read_grid(grid)
    named = {key: short(key, {*keys, *(other for other, _ in axes)}) for key, _ in axes}
    choices = [[(key, value) for value in values] for key, values in axes]
    out: dict[str, Cell] = {}
    for config, *chosen in itertools.product(configs, *choices):
        path, _, preset = config.partition(":")
        parts = [pathlib.Path(path).stem, *filter(None, [preset])]
        parts += [f"{named[key]}={value}" for key, value in chosen]
        name = _name("__".join(parts))
        if name in out:
            raise ValueError(f"--configs or --grid gives the cell {name!r} twice")
        arguments = (f"--config={config}", *(f"--config.{key}={value}" for key, value in chosen))
        out[name] = Cell(name, arguments)
    return list(out.values())


def _name(text: str) -> str:
    """The text as the name of a file; the middle of a long one is a hash."""
    name = re.sub(r"[^\w.,=()+@-]", "_", text)
    if len(name) <= _LONGEST_NAME:
        return name
    digest, half = hashlib.sha256(text.encode()).hexdigest()[:8], _LONGEST_NAME // 2
    return f"{name[:half]}_{digest}_{name[len(digest) + 2 + half - _LONGEST_NAME :]}"


def jobs(some: Iterable[Cell], workdir: pathlib.Path, seeds: Sequence[int] = ()) -> tuple[Job, ...]:
    """The jobs of cells, each in a directory of its own below `workdir`.

    seeds: values of config.seed, each a job CELL/seed_K; none leaves the config's own.
    """
    out = []
    for cell in some:
        if not seeds:
            out.append(Job(cell.name, cell.arguments, workdir / cell.name))
        for seed in seeds:
            arguments = (*cell.arguments, f"--config.seed={seed}")
            directory = workdir / cell.name / f"seed_{seed}"
            out.append(Job(f"{cell.name}{_SEED}{seed}", arguments, directory))
    return tuple(out)


def cell_of(job: Job) -> str:
    """The name of the cell whose seeds, or one of them, a job runs."""
    return re.sub(rf"{_SEED}\d+$", "", job.name)
