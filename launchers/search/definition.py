"""What is searched, and how; and whether that can be done, before anything runs."""

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import ml_collections

from launchers.cluster import check as check_launch
from launchers.cluster.launch import Job, Launch, Stage
from launchers.search.space import CONFIG, Space

KINDS = ("grid", "random", "tpe", "halving")
# Keys in which cells may not differ: they are compared at the same update with the same seeds.
_COMMON = ("updates", "num_seeds", "log_every")


class Search(NamedTuple):
    """What is searched, and how.

    kind: "grid", every cell; "random" and "tpe", `trials` of them; "halving", every cell of a space
      of choices, else `trials` random ones, of which one in `eta` goes on at each rung.
    rungs: updates at which cells are compared, ascending; () for none, and for halving a ninth and
      a third of config.updates (for eta 3).
    metric, minimize: what is compared, as `sweeps.scores` has it, by its interquartile mean over
      seeds.
    at_once: trials that TPE proposes together, before it knows their scores.
    seed: of the proposals. fresh_seeds: number of seeds on which the best cell and the default are
      run in the end; 0 for none.
    """

    space: Space
    kind: str
    trials: int | None = None
    rungs: tuple[int, ...] = ()
    eta: int = 3
    metric: str = "success_rate"
    minimize: bool = False
    at_once: int = 1
    seed: int = 0
    fresh_seeds: int = 10

    @property
    def count(self) -> int:
        """How many trials there are: those that were asked for, or all choices of a grid."""
        if self.kind == "grid" or (self.kind == "halving" and self.trials is None):
            return math.prod(len(axis.choices) for axis in self.space.axes)
        return self.trials

    @property
    def is_grid(self) -> bool:
        """Whether every cell of the space is a trial."""
        return self.kind == "grid" or (self.kind == "halving" and self.trials is None)


def check(what: Search) -> None:
    """ValueError if the search cannot be made, or a key or value of its space is of no config."""
    if what.kind not in KINDS:
        raise ValueError(f"search={what.kind!r}: expected one of {', '.join(KINDS)}")
    if not what.space.axes:
        raise ValueError("the space has one cell; give a key several values, or a range")
    if what.is_grid and not what.space.is_finite:
        key = next(axis.key for axis in what.space.axes if axis.kind != "choice")
        raise ValueError(
            f"search={what.kind!r} over a range of {key}: a range has no end of cells; give "
            + ("--trials=N" if what.kind == "halving" else "values, or search by random or tpe")
        )
    if what.kind == "grid" and what.trials is not None:
        raise ValueError("search='grid' runs every cell; leave out --trials, or search by random")
    if not what.is_grid and (what.trials is None or what.trials < 1):
        raise ValueError(f"search={what.kind!r} needs --trials=N, the number of cells to try")
    if what.eta < 2 or what.at_once < 1 or what.fresh_seeds < 0:
        raise ValueError(
            f"eta={what.eta}, at_once={what.at_once}, fresh_seeds={what.fresh_seeds}: expected "
            "at least 2, 1 and 0"
        )
    if any(axis.key in _COMMON for axis in what.space.axes):
        raise ValueError(
            "updates, log_every and num_seeds cannot be searched: cells are compared at the same "
            "update with the same seeds; give them one value"
        )
    common = [
        tuple(resolved(what.space.arguments({CONFIG: config}))[key] for key in _COMMON)
        for config in what.space.configs
    ]
    if len(set(common)) > 1:
        raise ValueError(
            f"{', '.join(_COMMON)} of {', '.join(what.space.configs)} are "
            f"{', '.join(map(str, common))}: expected the same of all; give each of them one value"
        )
    for values in what.space.every_cell() if what.is_grid else what.space.examples():
        resolved(what.space.arguments(values))


def check_cells(what: Search) -> None:
    """ValueError for a cell that `launchers.train` would refuse: of a space that is searched at
    random, cells that have all choices and the ends of ranges."""
    cells = what.space.every_cell() if what.is_grid else what.space.examples()
    jobs = tuple(
        Job(what.space.name(values), what.space.arguments(values), pathlib.Path())
        for values in cells
    )
    check_launch.checked(Launch("", pathlib.Path(), (Stage("trials", jobs),)))


def rungs_of(what: Search, config: ml_collections.ConfigDict) -> tuple[int, ...]:
    """The updates of the rungs, as the programs of log_every updates reach them, and the end."""
    every, end = config.log_every, config.updates
    wanted = what.rungs
    if what.kind == "halving" and not wanted:
        wanted = (end / what.eta**2, end / what.eta)
    rungs = tuple(every * math.ceil(update / every) for update in wanted)
    if any(a >= b for a, b in zip((0, *rungs), (*rungs, end), strict=True)):
        raise ValueError(
            f"rungs {', '.join(str(update) for update in rungs)} of config.updates={end}, which "
            f"are compiled {every} at a time (config.log_every): expected ascending updates below "
            "the end"
        )
    return (*rungs, end)


def resolved(arguments: Sequence[str]) -> ml_collections.ConfigDict:
    """The config that `launchers.train` makes of its flags. ValueError if it cannot be searched."""
    config = check_launch.resolved(arguments)
    if "stages" in config:
        raise ValueError("a config of stages is several runs, and a search is over one")
    return config
