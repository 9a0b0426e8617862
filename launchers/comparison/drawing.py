"""The figure of a comparison: ranks, scores by world, and performance profiles."""

import pathlib
from collections.abc import Sequence

import numpy as np

from agentrl.evaluation import ranks
from launchers.comparison import tables
from launchers.comparison.rows import Row
from launchers.comparison.suites import Suite
from launchers.drawing import COLOURS, pyplot, save

# Profiles of so many methods, the best ranks and the baseline, can be told apart.
_PROFILES = 5
_OTHERS, _BASELINE = COLOURS[:2]


def draw(suite: Suite, rows: Sequence[Row], out: pathlib.Path) -> None:
    """Writes the figure; the suffix selects the format. ValueError without two methods to rank."""
    plt = pyplot()
    found = tables.standings(suite, rows)
    if not found:
        raise ValueError("the figure needs two methods that have the same worlds")
    _, worlds = tables.common(rows, suite)
    height = 1.6 + 0.26 * len(found)
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(13, height), layout="constrained", width_ratios=(1.1, 1.3, 1.0)
    )
    places = np.arange(len(found))[::-1]
    names = [one.method for one in found]
    colours = [_BASELINE if one.method == suite.baseline else _OTHERS for one in found]
    for place, one, colour in zip(places, found, colours, strict=True):
        left.plot(one.rank.interval, (place, place), color=colour, linewidth=2)
        left.plot([one.rank.value], [place], "o", color=colour, markersize=5)
    left.set_yticks(places, names)
    left.set(title="Mean rank over worlds (1 is best)", xlabel="rank, 95 % interval over seeds")
    _scores(middle, found, rows, worlds)
    grid = np.linspace(0, 1, 101)
    shown = list(dict.fromkeys([*names[: _PROFILES - 1], suite.baseline, *names]))[:_PROFILES]
    for name, colour in zip(shown, COLOURS, strict=False):
        share = ranks.performance_profile(tables.matrix(rows, name, worlds), grid)
        right.plot(grid, share, color=colour, label=name)
    right.set(title="Runs above a score", xlabel="score", ylabel="share of runs", ylim=(0, 1.02))
    right.legend(frameon=False, fontsize="small")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, out)
    plt.close(figure)


def _scores(axis, found, rows, worlds) -> None:
    """Mean final score of each method in each world, as a table of colours."""
    values = np.stack([tables.matrix(rows, one.method, worlds).mean(axis=0) for one in found])
    # Of each world from its worst method to its best.
    low, high = values.min(axis=0), values.max(axis=0)
    axis.imshow((values - low) / np.maximum(high - low, 1e-9), aspect="auto", cmap="Blues")
    for i, j in np.ndindex(values.shape):
        dark = values[i, j] - low[j] > 0.6 * (high[j] - low[j]) > 0
        colour = "white" if dark else "black"
        axis.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=7)
    axis.set_xticks(range(len(worlds)), worlds, rotation=35, ha="right", fontsize=8)
    axis.set_yticks(range(len(found)), [one.method for one in found], fontsize=8)
    axis.set_title("Score at the end of the budget")
