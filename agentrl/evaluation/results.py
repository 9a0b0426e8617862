"""The report's tables of results: final metrics, comparisons between runs, evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.comparison import Evaluated, in_words, on_the_same_tasks, own
from agentrl.evaluation.curves import MAX_NAMED, legend
from agentrl.evaluation.figures import number
from agentrl.evaluation.intervals import estimate
from agentrl.evaluation.markup import Markup, join, stacked, tag
from agentrl.evaluation.metric_names import describe
from agentrl.evaluation.runs import HEADLINE, Run
from agentrl.evaluation.scales import axis

# The metric of each column of an evaluation.
_PLAYED = {
    "success": "success_rate",
    "episode_return": "episode_return",
    "length": "episode_length",
}
PAPER = "https://arxiv.org/abs/2108.13264"


def _estimates(
    scores: Sequence[np.ndarray], samples: int
) -> list[tuple[float, statistics.Interval] | None]:
    """Interquartile mean and interval of each run's scores [seeds]; None for runs without any."""
    return [
        (
            float(statistics.iqm(s)),
            statistics.stratified_bootstrap(s[:, None], samples=samples),
        )
        if len(s)
        else None
        for s in scores
    ]


def _cells(metric: str, runs: Sequence[Run], samples: int) -> list[Markup]:
    """The content of a cell per run: the estimate as numbers, and as a dot with whiskers.

    The scale of the dots is that of the metric's charts, for all runs of the environment.
    """
    estimates = _estimates([run.final(metric) for run in runs], samples)
    values: dict[str, list[float]] = {}
    for run, found in zip(runs, estimates, strict=True):
        ends = (found[0], *found[1]) if found else ()
        values.setdefault(run.env, []).extend(x for x in ends if np.isfinite(x))
    cells = []
    for i, (run, found) in enumerate(zip(runs, estimates, strict=True)):
        if found is None:
            cells.append(Markup("–"))
            continue
        bounds = axis(metric, [np.array(values[run.env])])
        dot = figures.whisker(found[0], *found[1], bounds, i)
        cells.append(join(estimate(*found), dot))
    return cells


def ends(runs: Sequence[Run], samples: int) -> Markup:
    """One row per run: its method, its final metrics, its cost."""
    present = [m for m in HEADLINE if any(m in run.metrics() for run in runs)]
    columns = [_cells(metric, runs, samples) for metric in present]
    several = len({run.env for run in runs}) > 1
    rows = []
    for i, run in enumerate(runs):
        what = f"{run.algorithm} · {run.env}" if several else run.algorithm
        steps = [lines[-1]["env_steps"] for lines in run.lines.values() if "env_steps" in lines[-1]]
        seconds = sum(launch.wall_seconds for launch in run.launches)
        rows.append(
            [
                join(figures.key(i), run.name, tag("span", what, class_="sub")),
                len(run.lines),
                *[column[i] for column in columns],
                number(float(np.mean(steps))) if steps else "–",
                _duration(seconds),
                tag("a", "command", href=f"#provenance-{i}"),
            ]
        )
    metrics = [describe(metric).title for metric in present]
    head = ["run", "seeds", *metrics, "steps per seed", "time", ""]
    kinds = ["", "n", *["metric" for _ in present], "n", "n", "n"]
    few = min(len(run.lines) for run in runs)
    warning = ""
    if few < 5:
        warning = f" With fewer than 5 seeds (here {few}) intervals are too narrow or missing."
    copying = [run.name for run in runs if run.config.get("population", {}).get("every")]
    if copying:
        warning += (
            f" The seeds of {', '.join(copying)} are members of a population and "
            "copy each other: one sample, not several, whatever its interval says."
        )
    differing = [run.name for run in runs if run.config.get("per_seed")]
    if differing:
        warning += (
            f" The seeds of {', '.join(differing)} have options of their own (config.per_seed): "
            "its interval is over these, too."
        )
    spoken = [tag("li", text) for text in in_words(runs)]
    return join(
        tag("ul", *spoken, class_="said") if spoken else None,
        stacked(head, rows, kinds),
        tag(
            "p",
            "Interquartile mean over seeds of the mean over the last tenth of the updates; in "
            "brackets the 95 % interval, by stratified bootstrap over seeds (",
            tag("a", "Agarwal et al., 2021", href=PAPER),
            f", {samples:,} samples).",
            warning,
            class_="note",
        ),
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _regret(record: Mapping[str, Any]) -> tuple[float, statistics.Interval] | None:
    """Mean over tasks of the expert's return minus the seeds' mean return on the same task."""
    expert = record.get("expert")
    if not expert:
        return None
    best = np.asarray(expert["episode_return"], np.float64)
    returns = [np.asarray(s["episode_return"], np.float64) for s in record["per_seed"].values()]
    if any(r.shape != best.shape for r in returns) or not returns:
        return None
    regret = best - np.mean(returns, axis=0)
    return float(regret.mean()), statistics.mean_interval(regret)


def evaluation(runs: Sequence[Run], samples: int) -> Markup:
    """The newest evaluation of each run, regret, single seeds; empty if there is no evaluation.

    Then the same for every other environment in which runs were evaluated, or each of several.
    """
    here = own(runs)
    parts = [_evaluations(here, runs, samples)] if here else []
    for name in sorted({name for run in runs for name in run.elsewhere}):
        there = [(i, run) for i, run in enumerate(runs) if name in run.elsewhere]
        # The environment defines success if any record contains one.
        records = [record for _, run in there for record in run.elsewhere[name]]
        played = [x for r in records for x in (*r["per_seed"].values(), r.get("expert"))]
        counts = any(any(table["success"]) for table in played if table)
        shown = [Evaluated(i, run, name, run.elsewhere[name], counts) for i, run in there]
        parts += [tag("h3", name), _evaluations(shown, runs, samples), on_the_same_tasks(shown)]
    return join(*parts)


def _evaluations(shown: Sequence[Evaluated], runs: Sequence[Run], samples: int) -> Markup:
    columns = {name: [_played(one, name, samples) for one in shown] for name in _PLAYED}
    rows, details = [], []
    experts = any(one.newest.get("expert") for one in shown)
    for place, one in enumerate(shown):
        record, cells = one.newest, []
        for name, metric in _PLAYED.items():
            found = columns[name][place]
            if name == "success" and not one.counts:
                cells.append("–")
                continue
            within = axis(metric, [np.array([value, *ends]) for value, ends in columns[name]])
            dot = figures.whisker(found[0], *found[1], within, one.number)
            cells.append(join(estimate(*found), dot))
        regret, expert = _regret(record), record.get("expert")
        if experts:
            of = f"expert {number(float(np.mean(expert['episode_return'])))}" if expert else ""
            text = "–" if regret is None else estimate(*regret)
            cells.append(join(text, tag("span", of, class_="sub")))
        actions = "greedy" if record.get("greedy") else "sampled"
        how = f"update {record['update']}, {actions}"
        rows.append(
            [
                join(figures.key(one.number), one.run.name, tag("span", how, class_="sub")),
                f"{len(record['per_seed'])} × {record['episodes']:,}",
                *cells,
            ]
        )
        if len(record["per_seed"]) > 1:
            details.append(_per_seed(one))
    head = ["run", "seeds × tasks", "Success rate", "Return", "Length"]
    kinds = ["", "n", "metric", "metric", "metric"]
    note = (
        "The newest evaluation of each run: interquartile mean over seeds and 95 % bootstrap "
        "interval over seeds."
    )
    if any(len(one.newest["per_seed"]) == 1 for one in shown):
        note += (
            " A run with one seed has the interval over its tasks (of success Wilson's): how exact "
            "the number is for this checkpoint, not for another seed."
        )
    if experts:
        head.append("Regret")
        kinds.append("metric")
        note += (
            " Regret is the expert's return minus the policy's on the same tasks, mean over tasks "
            "and 95 % bootstrap interval over tasks."
        )
    return join(
        stacked(head, rows, kinds),
        tag("p", note, class_="note"),
        _evaluation_curves(shown, runs, samples),
        details,
    )


def _played(one: Evaluated, column: str, samples: int) -> tuple[float, statistics.Interval]:
    """Estimate and interval of a column: over seeds, or of a single seed over its tasks."""
    scores = one.scores(column)
    if len(scores) > 1:
        (found,) = _estimates([scores.mean(axis=1)], samples)
        return found
    value, count = float(scores.mean()), scores.shape[1]
    if column == "success":
        return value, statistics.wilson(int(scores.sum()), count)
    return value, statistics.mean_interval(scores[0], samples=samples)


def _per_seed(one: Evaluated) -> Markup:
    """Each seed's success rate with Wilson's interval, and return with a bootstrap interval."""
    rows = []
    for name, played in sorted(one.newest["per_seed"].items(), key=lambda item: int(item[0])):
        count, successes = len(played["success"]), int(np.sum(played["success"]))
        success = "–"
        if one.counts:
            success = estimate(successes / count, statistics.wilson(successes, count))
        mean = float(np.mean(played["episode_return"]))
        returned = estimate(mean, statistics.mean_interval(played["episode_return"]))
        rows.append([f"seed {name}", success, returned])
    head = ["", "Success rate (Wilson)", "Return (bootstrap over tasks)"]
    seeds = stacked(head, rows, ["", "metric", "metric"])
    return tag("details", tag("summary", f"{one.run.name}, seed by seed"), seeds)


def _evaluation_curves(
    evaluated: Sequence[Evaluated], runs: Sequence[Run], samples: int
) -> Markup | None:
    charts = []
    for name, metric in list(_PLAYED.items())[:2]:
        series = []
        for one in evaluated:
            if len(one.records) < 2 or (name == "success" and not one.counts):
                continue
            lines: dict[int, list] = {}
            for record in one.records:
                for seed, played in record["per_seed"].items():
                    mean = float(np.mean(played[name]))
                    lines.setdefault(int(seed), []).append({"update": record["update"], name: mean})
            grid = statistics.common_grid(lines, name, x="update")
            c = statistics.curve(lines, name, grid, x="update", samples=samples)
            series.append(figures.Series(one.run.name, one.number, c.x, c.value, c.low, c.high))
        if series:
            title = f"{describe(metric).title} in evaluation"
            y_range = axis(metric, [a for s in series for a in s[3:]])
            how = {"x_label": "update", "y_range": y_range, "named": len(series) <= MAX_NAMED}
            charts.append(figures.lines(title, series, **how))
    if not charts:
        return None
    shown = [one.run for one in evaluated if len(one.records) > 1]
    names = legend(runs, shown) if len(shown) > MAX_NAMED else None
    return join(names, tag("div", *charts, class_="charts"))
