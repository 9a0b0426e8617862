"""Draws learning curves of runs, or the payoffs of an arena, as SVG or PNG, for papers and READMEs.

    python -m launchers.figure --workdirs=runs/coin_gigpo,runs/coin_grpo --out=curves.svg
    python -m launchers.figure --arena=arena/arena.json --labels=planner,20,40 --out=payoffs.svg

Interquartile mean over seeds and its pointwise 95 % bootstrap interval, over environment steps.
There is one panel per environment and metric, and one series per run, or per label: runs with the
same label are seeds of one experiment. Needs matplotlib (`pip
install .[plots]`).
"""

import itertools
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from launchers import cli, drawing

_WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of runs, separated by commas.")
_LABELS = flags.DEFINE_list(
    "labels", [], "Names of the runs, by default their directories'; equal ones are one series."
)
_METRIC = flags.DEFINE_list("metric", ["success_rate"], "Metrics to draw, side by side.")
_LOG = flags.DEFINE_bool("log", False, "Logarithmic axes for the metrics.")
_ARENA = flags.DEFINE_string("arena", None, "Record of launchers.arena, to draw instead of runs.")
_OUT = flags.DEFINE_string("out", None, "File to write; its suffix selects the format.")


def main(argv: list[str]) -> None:
    """Reads, draws, writes."""
    if len(argv) > 1 or _OUT.value is None or bool(_WORKDIRS.value) == (_ARENA.value is not None):
        cli.fail("give --workdirs=runs/a,runs/b or --arena=arena.json, and --out=curves.svg")
    metrics = cli.named("metric", _METRIC.value, "success_rate,entropy")
    drawing.check_format(cli.output("out", _OUT.value))
    if _ARENA.value is not None:
        _payoffs(pathlib.Path(_ARENA.value))
        return
    labels = _LABELS.value or [pathlib.Path(name).name for name in _WORKDIRS.value]
    if len(labels) != len(_WORKDIRS.value):
        cli.fail(f"--labels names {len(labels)} runs, --workdirs {len(_WORKDIRS.value)}")
    plt = drawing.pyplot()
    from agentrl.evaluation import runs

    try:
        loaded = [runs.load([pathlib.Path(name)])[0] for name in _WORKDIRS.value]
    except (ValueError, OSError) as error:
        cli.fail(error)
    panels = list(itertools.product(dict.fromkeys(run.env for run in loaded), metrics))
    columns = len(metrics) if len(metrics) > 1 else len(panels)
    rows = len(panels) // columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.2 * columns, 3.4 * rows), squeeze=False, layout="constrained"
    )
    seen = list(dict.fromkeys(labels))
    for (env, metric), axis in zip(panels, axes.flat, strict=True):
        for label in seen:
            named = [run for run, own in zip(loaded, labels, strict=True) if own == label]
            own = [run for run in named if run.env == env]
            if own:
                colour = drawing.COLOURS[seen.index(label) % len(drawing.COLOURS)]
                _curve(axis, own, metric, label, colour)
        axis.set(title=env, xlabel="environment steps", ylabel=metric.replace("_", " "))
        axis.grid(alpha=0.3)
        if _LOG.value:
            axis.set_yscale("log")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize="small")
    drawing.save(figure, pathlib.Path(_OUT.value))
    print(f"written: {_OUT.value}", file=sys.stderr)


def _curve(axis: Any, seeds: Sequence[Any], metric: str, label: str, colour: str) -> None:
    """Draws a metric's mean over the seeds of some runs, with its interval."""
    from agentrl.evaluation import statistics

    lines = dict(enumerate(line for run in seeds for line in run.lines.values()))
    grid = statistics.common_grid(lines, metric)
    if not grid.size:
        known = ", ".join(sorted(seeds[0].metrics()))
        cli.fail(f"--metric={metric}: {label} has no such metric; it has {known}")
    curve = statistics.curve(lines, metric, grid)
    axis.plot(curve.x, curve.value, color=colour, label=f"{label} ({curve.seeds} seeds)")
    axis.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)


def _payoffs(path: pathlib.Path) -> None:
    """Mean return of the row against the column, plus or minus half of its 95 % interval."""
    plt = drawing.pyplot()
    import numpy as np

    from agentrl.evaluation import standings

    try:
        arena, about = standings.read(path)
    except (ValueError, OSError) as error:
        cli.fail(error)
    names = _LABELS.value or list(arena.players)
    if len(names) != len(arena.players):
        cli.fail(f"--labels names {len(names)} players, {path} has {len(arena.players)}")
    payoff, error = arena.payoff, 1.96 * arena.payoff_error
    largest = float(np.abs(payoff).max()) or 1.0
    side = 1.6 + 0.75 * len(names)
    figure, axis = plt.subplots(figsize=(side, side), layout="constrained")
    axis.imshow(payoff, cmap="PuOr", vmin=-largest, vmax=largest)
    for (i, j), value in np.ndenumerate(payoff):
        width = f"\n± {error[i, j]:.2f}" if np.isfinite(error[i, j]) else ""
        colour = "white" if abs(value) > 0.6 * largest else "black"
        text = f"{value:.2f}{width}"
        axis.text(j, i, text, ha="center", va="center", size="x-small", color=colour)
    axis.set(xticks=range(len(names)), yticks=range(len(names)), title=about["game"])
    axis.set_xticklabels(names, rotation=30)
    axis.set_yticklabels(names)
    axis.set(xlabel="against", ylabel="mean return of")
    drawing.save(figure, pathlib.Path(_OUT.value))
    print(f"written: {_OUT.value}", file=sys.stderr)


if __name__ == "__main__":
    cli.run(main)
