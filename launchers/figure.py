"""Draws learning curves of runs into one SVG or PNG, for papers and READMEs.

    python -m launchers.figure --workdirs=runs/gigpo,runs/grpo --out=curves.svg

Interquartile mean over seeds and its pointwise 95 % bootstrap interval, over environment steps.
Panels are the environments, or with several metrics each environment's row of them; series the
runs; needs matplotlib (`pip install .[plots]`).
"""

import itertools
import pathlib

from absl import flags

from launchers import cli

_WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of runs, separated by commas.")
_LABELS = flags.DEFINE_list("labels", [], "Names of the runs; their directories' by default.")
_METRIC = flags.DEFINE_list("metric", ["success_rate"], "Metrics to draw, side by side.")
_LOG = flags.DEFINE_bool("log", False, "Whether the metrics' axes are logarithmic.")
_OUT = flags.DEFINE_string("out", None, "File to write; its ending says the format.")
# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def main(argv: list[str]) -> None:
    """Reads, draws, writes."""
    if len(argv) > 1 or not _WORKDIRS.value or _OUT.value is None:
        cli.fail("give --workdirs=runs/a,runs/b and --out=curves.svg")
    labels = _LABELS.value or [pathlib.Path(name).name for name in _WORKDIRS.value]
    if len(labels) != len(_WORKDIRS.value):
        cli.fail(f"--labels names {len(labels)} runs, --workdirs {len(_WORKDIRS.value)}")
    import matplotlib

    matplotlib.use("Agg")
    # The same command gives the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "agentrl", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    from agentrl.evaluation import runs, statistics

    try:
        loaded = [runs.load([pathlib.Path(name)])[0] for name in _WORKDIRS.value]
    except (ValueError, OSError) as error:
        cli.fail(error)
    panels = list(itertools.product(dict.fromkeys(run.env for run in loaded), _METRIC.value))
    columns = len(_METRIC.value) if len(_METRIC.value) > 1 else len(panels)
    rows = len(panels) // columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(5.2 * columns, 3.4 * rows), squeeze=False, layout="constrained"
    )
    seen = list(dict.fromkeys(labels))
    for (env, metric), axis in zip(panels, axes.flat, strict=True):
        for run, label in zip(loaded, labels, strict=True):
            if run.env != env:
                continue
            grid = statistics.common_grid(run.lines, metric)
            if not grid.size:
                cli.fail(f"--metric={metric}: {label} never counted it")
            curve = statistics.curve(run.lines, metric, grid)
            colour = _COLOURS[seen.index(label) % len(_COLOURS)]
            axis.plot(curve.x, curve.value, color=colour, label=f"{label} ({curve.seeds} seeds)")
            axis.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        axis.set(title=env, xlabel="environment steps", ylabel=metric.replace("_", " "))
        axis.grid(alpha=0.3)
        if _LOG.value:
            axis.set_yscale("log")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize="small")
    metadata = {"Date": None} if _OUT.value.endswith(".svg") else None
    figure.savefig(_OUT.value, metadata=metadata, dpi=150)


if __name__ == "__main__":
    cli.run(main)
