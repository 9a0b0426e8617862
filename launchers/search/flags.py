"""The flags of a search, and its table, for `launchers.sweep`."""

import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

from agentrl.evaluation import statistics, sweeps
from launchers import cli
from launchers.search.definition import KINDS, Search, check, check_cells, resolved, rungs_of
from launchers.search.driver import Run, search
from launchers.search.space import parse

_SEARCH = flags.DEFINE_enum("search", None, KINDS, "How cells are chosen; default: all of --grid.")
_SPACE = flags.DEFINE_string(
    "space", "", "key=value,value;key=log(1e-4,1e-2);key=uniform(0,1);key=int(1,4);seed=0,5"
)
_TRIALS = flags.DEFINE_integer("trials", None, "Number of cells that a search tries.")
_RUNGS = flags.DEFINE_list("rungs", [], "Updates at which the worse cells stop, separated by ,")
_ETA = flags.DEFINE_integer("eta", 3, "Of so many cells one goes on at a rung.", lower_bound=2)
_MINIMIZE = flags.DEFINE_bool("minimize", False, "Whether less of --metric is better.")
_SEARCH_SEED = flags.DEFINE_integer(
    "search_seed",
    0,
    "Seed of what is proposed.",
    lower_bound=0,
    upper_bound=cli.LARGEST_SEED,
)
_FRESH_SEEDS = flags.DEFINE_integer(
    "fresh_seeds",
    10,
    "Seeds on which the best cell meets the default in the end; 0: none.",
    lower_bound=0,
)


def asked() -> bool:
    """Whether the command line asks for a search."""
    if _SPACE.value and _SEARCH.value is None:
        raise ValueError(f"--space is of a search; give --search={'|'.join(KINDS)}, or --grid")
    return _SEARCH.value is not None


def search_of(configs: Sequence[str], metric: str, at_once: int) -> Search:
    """The search that the command line asks for. ValueError if it cannot be made."""
    if not all(word.strip().isdecimal() for word in _RUNGS.value):
        raise ValueError(f"--rungs={','.join(_RUNGS.value)}: expected updates, such as 30,90")
    return Search(
        parse(configs, _SPACE.value),
        _SEARCH.value,
        _TRIALS.value,
        tuple(int(word) for word in _RUNGS.value),
        _ETA.value,
        metric,
        _MINIMIZE.value,
        at_once,
        _SEARCH_SEED.value,
        _FRESH_SEEDS.value,
    )


def plan(what: Search) -> str:
    """How many cells run how far, and the cells of a space of choices. Runs nothing."""
    check(what)
    check_cells(what)
    rungs, alive, parts, updates, before = (
        rungs_of(what, resolved(what.space.arguments({}))),
        what.count,
        [],
        0,
        0,
    )
    for rung in rungs:
        parts.append(f"{alive} to update {rung}")
        updates, before = updates + alive * (rung - before), rung
        alive = max(1, alive // what.eta)
    whole = what.count * rungs[-1]
    lines = [f"{what.kind}: {', '.join(parts)}: {updates:,} of {whole:,} updates"]
    if what.is_grid:
        lines += [" ".join(what.space.arguments(values)) for values in what.space.every_cell()]
    return "\n".join(lines)


def run(what: Search, directory: pathlib.Path, carry_out: Run) -> str:
    """Runs the search, or goes on with it; the table of its cells."""
    return "\n".join(table(search(what, directory, carry_out)))


def table(sweep: sweeps.Sweep) -> Iterator[str]:
    """Lines of text: the cells, best first, and the best on fresh seeds beside the default."""
    seeds = max(len(cell.lines) for cell in sweep.cells)
    yield (
        f"{sweep.metric} over the last tenth of the updates, interquartile mean over {seeds} "
        "seed(s), 95 % interval"
    )
    widths = [max(len(a), *(len(str(c.values[a])) for c in sweep.cells)) for a in sweep.axes]
    names = "  ".join(a.rjust(w) for a, w in zip(sweep.axes, widths, strict=True))
    yield f"{'value':>8} {'interval':>18} {'update':>7} {'env_steps':>10}  {names}"
    for cell in sweep.cells:
        low, high = statistics.stratified_bootstrap(sweep.scores(cell)[:, None])
        interval = f"[{low:.3f}, {high:.3f}]" if np.isfinite(low) else ""
        values = "  ".join(
            str(cell.values[a]).rjust(w) for a, w in zip(sweep.axes, widths, strict=True)
        )
        steps = cell.env_steps(cell.update)
        yield f"{sweep.value(cell):8.3f} {interval:>18} {cell.update:7} {steps:10,.0f}  {values}"
    if sweep.fresh is not None:
        fresh = sweep.fresh
        value, (low, high) = fresh.difference
        yield (
            "The best was chosen for its value, which is therefore too good. On "
            f"{len(fresh.seeds)} seeds that the search has not seen: best "
            f"{fresh.of_best.mean():.3f}, default {fresh.of_default.mean():.3f}, difference "
            f"{value:+.3f} [{low:+.3f}, {high:+.3f}] (pairs, Student's t)"
        )
