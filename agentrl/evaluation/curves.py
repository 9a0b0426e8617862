"""The report's charts over training: learning curves, anchor groups, all other metrics."""

from collections.abc import Sequence

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.markup import Markup, join, tag
from agentrl.evaluation.runs import HEADLINE, SHARES, Run

# Order of the other metrics; unlisted ones follow alphabetically.
ORDER = (
    *("evaluation/success_rate", "evaluation/episode_return", "episode_length"),
    *("invalid_action_rate", "truncation_rate", "entropy", "approx_kl", "kl_ref", "clip_fraction"),
    *("loss/policy", "loss/value", "explained_variance", "grad_norm", "update_norm"),
    *("adv/mean", "adv/std", "group_return_std", "frac_zero_std_groups"),
    *("anchor_group_size", "frac_singleton_anchor"),
)
_LAST = ("updates_per_second", "env_steps_per_second", "peak_memory_gib", "time/")
_MEANINGS = {
    "approx_kl": "of the policy before and after the update's steps",
    "clip_fraction": "trained positions at which the loss is clipped",
    "explained_variance": "of the critic's targets; 1 is perfect",
    "group_return_std": "mean over groups; RAGEN's sign of an echo trap is its fall",
    "frac_zero_std_groups": "streams whose group's returns are all equal",
    "anchor_group_size": "mean over turns",
    "frac_singleton_anchor": "turns that are alone in their anchor group",
    "rejected_updates": "not finite, skipped",
    "update_norm": "of the change of the parameters",
}
NOT_CURVES = (
    "seed",
    "update",
    "env_steps",
    "gradient_steps",
    "wall_time",
    "compile_time",
    "episodes",
)
_ANCHOR_SIZE = "anchor_size/"


def legend(runs: Sequence[Run], shown: Sequence[Run]) -> Markup:
    """Names of the shown runs in their colours."""
    return figures.legend([(figures.style(i), r.name) for i, r in enumerate(runs) if r in shown])


def _series(
    runs: Sequence[Run], shown: Sequence[Run], metric: str, samples: int, points: int
) -> list[figures.Series]:
    out = []
    for i, run in enumerate(runs):
        grid = statistics.common_grid(run.lines, metric, points=points) if run in shown else []
        if len(grid):
            c = statistics.curve(run.lines, metric, grid, samples=samples)
            out.append(figures.Series(run.name, i, c.x, c.value, c.low, c.high))
    return out


def learning(runs: Sequence[Run], environments: Sequence[str], samples: int) -> Markup:
    """Headline metrics over environment steps, one pair of charts per environment."""
    parts = []
    for environment in environments:
        shown = [run for run in runs if run.env == environment]
        charts = []
        for metric in HEADLINE:
            series = _series(runs, shown, metric, samples, points=200)
            if series:
                y_range = (0.0, 1.0) if metric in SHARES else None
                charts.append(figures.lines(metric, series, x_label="env_steps", y_range=y_range))
        if charts:
            parts.append(tag("h3", environment) if len(environments) > 1 else None)
            parts += [legend(runs, shown), tag("div", *charts, class_="charts")]
    if not parts:
        return Markup()
    note = (
        "Interquartile mean over seeds, and the pointwise 95 % bootstrap interval where a run has "
        "two seeds or more. A curve ends where its shortest seed ends; nothing is smoothed."
    )
    return join(tag("p", note, class_="note"), parts)


def anchor_groups(runs: Sequence[Run]) -> Markup:
    """Sizes of the groups in which GiGPO compares turns, over training; one chart per run."""
    charts, classes = [], []
    for run in runs:
        names = sorted(
            (name for name in run.metrics() if name.startswith(_ANCHOR_SIZE)),
            key=lambda name: int(name.removeprefix(_ANCHOR_SIZE).split("_")[0]),
        )
        shares, grid = {}, statistics.common_grid(run.lines, names[0]) if names else []
        for name in names:
            if len(grid):
                # Means of shares sum to one; interquartile means need not.
                c = statistics.curve(run.lines, name, grid, statistic=np.mean, samples=1)
                shares[_size_label(name)] = c.value
        if shares:
            classes = [(f"ordered-{i}", label) for i, label in enumerate(shares)]
            charts.append(figures.stack(run.name, grid, shares, x_label="env_steps"))
    if not charts:
        return Markup()
    note = (
        "Share of turns by the size of their anchor group, mean over seeds. A turn that is alone "
        "gets no step credit, and the larger the groups, the more exact the comparison in them."
    )
    return join(
        tag("p", note, class_="note"),
        figures.legend(classes, swatch="area"),
        tag("div", *charts, class_="charts"),
    )


def _size_label(name: str) -> str:
    low, _, high = name.removeprefix(_ANCHOR_SIZE).partition("_")
    if not high:
        return "1 (alone)" if low == "1" else low
    return f"{low} and more" if high == "up" else f"{low} to {high}"


def others(
    runs: Sequence[Run],
    environments: Sequence[str],
    metrics: Sequence[str] | None,
    samples: int,
) -> Markup:
    """Small charts of `metrics`, or of all metrics that are not headline metrics."""

    def place(name: str) -> tuple:
        last = name.startswith(_LAST)
        return (last, ORDER.index(name) if name in ORDER else len(ORDER), name)

    parts = []
    for environment in environments:
        shown = [run for run in runs if run.env == environment]
        names = metrics
        if names is None:
            found = set().union(*(run.metrics() for run in shown)) - {*NOT_CURVES, *HEADLINE}
            names = sorted((n for n in found if not n.startswith(_ANCHOR_SIZE)), key=place)
        charts = []
        for name in names:
            series = _series(runs, shown, name, samples, points=100)
            if series:
                note = _MEANINGS.get(name, "")
                chart = figures.lines(name, series, x_label="env_steps", note=note, size=(290, 180))
                charts.append(chart)
        if charts:
            parts.append(tag("h3", environment) if len(environments) > 1 else None)
            parts += [legend(runs, shown), tag("div", *charts, class_="charts small")]
    return join(*parts)
