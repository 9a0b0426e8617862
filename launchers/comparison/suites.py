"""Suites of `configs/comparison`: which runs a comparison consists of."""

import importlib
import itertools
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import configs
from configs._shared import comparison as shared
from launchers.cluster.cells import read_grid
from launchers.cluster.launch import Job

SUITES = ("arrays", "games", "words")

# Values of the tuned keys.
Cell = tuple[tuple[str, float], ...]


class Suite(NamedTuple):
    """A module of `configs/comparison`: its WORLDS, its METHODS, and its PROTOCOL.

    file: what --config names. worlds: `World`s by name. methods: what each sets in a config.
    seeds, tuning_seeds, tuning: see `Protocol`. baseline: the method that the others are compared
    with. start: the run of a world, in the method's place, that all methods go on from, seed by
    seed (START); "": from random parameters. reduced: the worlds that rank methods nearly as all
    do (REDUCED).
    """

    name: str
    file: str
    worlds: Mapping[str, Any]
    methods: Mapping[str, Callable]
    seeds: range
    tuning_seeds: range
    tuning: Mapping[str, tuple[float, ...]]
    baseline: str
    start: str = ""
    reduced: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """Every combination of the tuned keys, the same for all methods."""
        choices = [[(key, value) for value in values] for key, values in self.tuning.items()]
        return list(itertools.product(*choices))

    def cell_of(self) -> dict[int, Cell]:
        """The combination of each of the seeds of the choice."""
        cells = self.cells()
        each = len(self.tuning_seeds) // len(cells)
        return {seed: cells[place // each] for place, seed in enumerate(self.tuning_seeds)}


class Method(NamedTuple):
    """A method of a suite, or one's own: flags that change the config of another.

    name: of its runs and rows. base: the method of the suite whose config it changes.
    """

    name: str
    base: str
    flags: tuple[str, ...] = ()


def find(name: str) -> Suite:
    """The suite of that name."""
    module = importlib.import_module(f"configs.comparison.{name}")
    return Suite(
        name,
        str(pathlib.Path(module.__file__)),
        module.WORLDS,
        module.METHODS,
        *module.PROTOCOL,
        shared.BASELINE,
        getattr(module, "START", ""),
        getattr(module, "REDUCED", ()),
    )


def own_method(text: str, suite: Suite) -> Method:
    """A method of one's own: `my_module.my_estimator`, or `my_module.my_estimator;key=value;...`.

    The function takes the estimator's place in the config of the suite's baseline, and the keys are
    the config's.
    """
    path, _, rest = text.partition(";")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path):
        raise ValueError(f"--method={text}: expected my_module.my_estimator[;key=value;...]")
    changes = [(key, values[0]) for key, values in read_grid(rest)]
    given = [f"--config.advantage={{'name': '{path}'}}", *(f"--config.{k}={v}" for k, v in changes)]
    return Method(path.rpartition(".")[2], suite.baseline, tuple(given))


def _arguments(suite: Suite, world: str, method: Method, seeds: range) -> tuple[str, ...]:
    return (
        f"--config={suite.file}:{world},{method.base}",
        f"--config.seed={seeds.start}",
        f"--config.num_seeds={len(seeds)}",
        *method.flags,
    )


def start_job(suite: Suite, world: str, seeds: range, workdir: pathlib.Path) -> Job:
    """The run of a world that all methods go on from, for these seeds."""
    kind = "tune" if seeds == suite.tuning_seeds else "results"
    arguments = _arguments(suite, world, Method(suite.start, suite.start), seeds)
    return Job(f"start.{world}.{kind}", arguments, workdir / "start" / world / kind)


def _begun(suite: Suite, world: str, seeds: range, workdir: pathlib.Path) -> tuple[str, ...]:
    """The flag with which a method's run goes on from `start_job`'s."""
    if not suite.start:
        return ()
    return (f"--config.init_from={start_job(suite, world, seeds, workdir).workdir}",)


def tuning_job(suite: Suite, world: str, method: Method, workdir: pathlib.Path) -> Job:
    """The run among whose seeds a method's values are chosen: all combinations in one program."""
    name, cells = f"tune.{world}.{method.name}", suite.cell_of().values()
    own = {key: tuple(dict(cell)[key] for cell in cells) for key in suite.tuning}
    arguments = (
        *_arguments(suite, world, method, suite.tuning_seeds),
        *_begun(suite, world, suite.tuning_seeds, workdir),
        f"--config.per_seed={_nested(own)!r}",
    )
    return Job(name, arguments, workdir / "tune" / world / method.name)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """By key, what stands by path."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        *parents, last = path.split(".")
        node = found
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = value
    return found


def result_job(suite: Suite, world: str, method: Method, cell: Cell, workdir: pathlib.Path) -> Job:
    """The run of a method's results, with the values that were chosen."""
    tuned = [f"--config.{key}={value}" for key, value in cell]
    begun = _begun(suite, world, suite.seeds, workdir)
    arguments = (*_arguments(suite, world, method, suite.seeds), *begun, *tuned)
    directory = workdir / "results" / world / method.name
    return Job(f"result.{world}.{method.name}", arguments, directory)


def why_not(suite: Suite, world: str, method: Method) -> str:
    """Why a method cannot run in a world, "" if it can: what its config says when it is built."""
    from agentrl.config.build import build
    from launchers.cluster import check

    config = check.resolved(_arguments(suite, world, method, suite.seeds))
    try:
        build(config)
    except ValueError as error:
        return " ".join(str(error).split())
    return ""


def config(suite: Suite, world: str, method: str) -> Any:
    """The config of a method of the suite in a world."""
    module = importlib.import_module(f"configs.comparison.{suite.name}")
    return module.get_config(f"{world},{method}")


def differences(suite: Suite, world: str, one: str, other: str) -> dict[str, tuple[Any, Any]]:
    """The keys in which the configs of two methods differ, with both values; None for no key."""
    from agentrl.config import bind

    ours, theirs = (
        dict(bind.flat(config(suite, world, method).to_dict())) for method in (one, other)
    )
    keys = sorted(ours.keys() | theirs.keys())
    different = [key for key in keys if ours.get(key) != theirs.get(key)]
    return {key: (ours.get(key), theirs.get(key)) for key in different}


def packaged(name: str) -> pathlib.Path:
    """The stored results of a suite, one row per seed; of SUITE_noise its gradients'."""
    return pathlib.Path(configs.__file__).parent / "comparison" / f"{name}.csv"
