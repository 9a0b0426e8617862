"""The report's tables of results: final metrics, comparisons between runs, evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.curves import legend
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, join, table, tag
from agentrl.evaluation.runs import HEADLINE, SHARES, Run

PAPER = "https://arxiv.org/abs/2108.13264"


def _with_interval(value: float, interval: statistics.Interval, decimals: int | None = None) -> str:
    """For example `0.983 [0.686, 0.984]`; by default three significant digits of the largest
    number."""
    ends = [end for end in interval if np.isfinite(end)]
    if decimals is None:
        size = max(abs(x) for x in (value, *ends))
        decimals = int(np.clip(2 - np.floor(np.log10(size)), 0, 3)) if size > 0 else 2
    value, *ends = (f"{x:,.{decimals}f}".replace("-", "−") for x in (value, *ends))
    return f"{value} [{ends[0]}, {ends[1]}]" if ends else value


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
    """One table cell per run: the estimate as numbers, and as a dot with whiskers.

    The scale of the dots is 0 to 1 for shares, else that of all runs of the environment.
    """
    estimates = _estimates([run.final(metric) for run in runs], samples)
    values: dict[str, list[float]] = {}
    for run, estimate in zip(runs, estimates, strict=True):
        ends = (estimate[0], *estimate[1]) if estimate else ()
        values.setdefault(run.env, []).extend(x for x in ends if np.isfinite(x))
    cells = []
    for i, (run, estimate) in enumerate(zip(runs, estimates, strict=True)):
        if estimate is None:
            cells.append(tag("td", "–", class_="metric"))
            continue
        inside = values[run.env]
        bounds = (0.0, 1.0) if metric in SHARES else (min(inside), max(inside))
        dot = figures.whisker(estimate[0], *estimate[1], bounds, i)
        cells.append(tag("td", _with_interval(*estimate), dot, class_="metric"))
    return cells


def ends(runs: Sequence[Run], samples: int) -> Markup:
    """One row per run: its method, its final metrics, its cost."""
    present = [m for m in HEADLINE if any(m in run.metrics() for run in runs)]
    columns = [_cells(metric, runs, samples) for metric in present]
    rows = []
    for i, run in enumerate(runs):
        steps = [lines[-1]["env_steps"] for lines in run.lines.values() if "env_steps" in lines[-1]]
        seconds = sum(launch.wall_seconds for launch in run.launches)
        rows.append(
            tag(
                "tr",
                tag("th", figures.key(i), run.name, scope="row"),
                tag("td", run.algorithm),
                tag("td", run.env),
                tag("td", len(run.lines), class_="n"),
                *[column[i] for column in columns],
                tag("td", number(float(np.mean(steps))) if steps else "–", class_="n"),
                tag("td", _duration(seconds), class_="n"),
                tag("td", tag("a", "command", href=f"#provenance-{i}")),
            )
        )
    head = [
        "run",
        "algorithm",
        "environment",
        "seeds",
        *present,
        "env steps a seed",
        "wall time",
        "",
    ]
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
    return join(
        table(head, rows),
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


def improvement(runs: Sequence[Run], environments: Sequence[str], samples: int) -> Markup:
    """Every pair of runs of one environment; empty if there is none."""
    rows = []
    for environment in environments:
        shown = [(i, run) for i, run in enumerate(runs) if run.env == environment]
        for metric in HEADLINE:
            for a, (i, one) in enumerate(shown):
                for _, other in shown[a + 1 :]:
                    x, y = one.final(metric), other.final(metric)
                    if not len(x) or not len(y):
                        continue
                    value, interval = statistics.probability_of_improvement(
                        x[:, None], y[:, None], samples=samples
                    )
                    dot = figures.whisker(value, *interval, (0.0, 1.0), i, reference=0.5)
                    rows.append(
                        tag(
                            "tr",
                            tag("td", tag("b", one.name), " over ", tag("b", other.name)),
                            tag("td", metric),
                            tag("td", environment),
                            tag("td", _with_interval(value, interval, 2), dot, class_="metric"),
                        )
                    )
    if not rows:
        return Markup()
    note = (
        "Chance that a seed of the first run ends better than a seed of the second, ties counted "
        "half, with its 95 % bootstrap interval over seeds. The line in the middle is 0.5: an "
        "interval that holds it leaves open which is better. Runs whose seeds do not overlap give "
        "an interval without width, however few the seeds are."
    )
    return join(
        tag("p", note, class_="note"), table(["", "metric", "environment", "probability"], rows)
    )


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


class _Evaluated(NamedTuple):
    """Evaluations of a run in one environment, ascending in update; number: of the run.

    counts: whether the environment defines success; if not, records contain False everywhere.
    """

    number: int
    run: Run
    env: str
    records: Sequence[Mapping[str, Any]]
    counts: bool

    @property
    def newest(self) -> Mapping[str, Any]:
        return self.records[-1]


def _has_success(record: Mapping[str, Any]) -> bool:
    played = [*record["per_seed"].values(), *filter(None, [record.get("expert")])]
    return any(any(table["success"]) for table in played)


def evaluation(runs: Sequence[Run], samples: int) -> Markup:
    """The newest evaluation of each run, regret, single seeds; empty if there is no evaluation.

    Then the same for every other environment in which runs were evaluated, or each of several.
    """
    own = [
        _Evaluated(i, run, run.env, run.evaluations, "success_rate" in run.metrics())
        for i, run in enumerate(runs)
        if run.evaluations
    ]
    parts = [_evaluations(own, runs, samples)] if own else []
    for name in sorted({name for run in runs for name in run.elsewhere}):
        there = [(i, run) for i, run in enumerate(runs) if name in run.elsewhere]
        # The environment defines success if any record contains one.
        counts = any(_has_success(record) for _, run in there for record in run.elsewhere[name])
        shown = [_Evaluated(i, run, name, run.elsewhere[name], counts) for i, run in there]
        parts += [tag("h3", name), _evaluations(shown, runs, samples)]
    return join(*parts)


def _evaluations(shown: Sequence[_Evaluated], runs: Sequence[Run], samples: int) -> Markup:
    columns = {
        name: _estimates(
            [
                np.array([np.mean(s[name]) for s in one.newest["per_seed"].values()])
                for one in shown
            ],
            samples,
        )
        for name in ("success", "episode_return", "length")
    }
    rows, details = [], []
    experts = any(one.newest.get("expert") for one in shown)
    for place, one in enumerate(shown):
        record = one.newest
        regret = _regret(record)
        expert = record.get("expert")
        cells = [_with_interval(*columns[name][place]) for name in columns]
        if not one.counts:
            cells[0] = "–"
        if experts:
            cells.append(number(float(np.mean(expert["episode_return"]))) if expert else "–")
            cells.append("–" if regret is None else _with_interval(*regret))
        rows.append(
            tag(
                "tr",
                tag("th", figures.key(one.number), one.run.name, scope="row"),
                tag("td", record["update"], class_="n"),
                tag("td", f"{len(record['per_seed'])} × {record['episodes']}", class_="n"),
                tag("td", "greedy" if record.get("greedy") else "sampled"),
                *[tag("td", cell, class_="metric") for cell in cells],
            )
        )
        details.append(_per_seed(one))
    head = ["run", "update", "seeds × episodes", "actions", "success rate", "return", "length"]
    note = (
        "The newest evaluation of each run: interquartile mean over seeds and 95 % bootstrap "
        "interval over seeds."
    )
    if experts:
        head += ["expert's return", "regret"]
        note += (
            " Regret is the expert's return minus the policy's on the same tasks, mean over tasks "
            "and 95 % bootstrap interval over tasks."
        )
    return join(
        table(head, rows),
        tag("p", note, class_="note"),
        _paired(shown),
        _evaluation_curves(shown, runs, samples),
        details,
    )


def _paired(shown: Sequence[_Evaluated]) -> Markup:
    """Differences of runs that started from the same run's parameters, paired by seed; may be
    empty."""
    rows = []
    for a, one in enumerate(shown):
        for other in shown[a + 1 :]:
            x, y = one.newest, other.newest
            origins = {one.run.config.get("init_from"), other.run.config.get("init_from")}
            alike = all(x.get(name) == y.get(name) for name in ("seeds", "episodes", "task_seed"))
            if len(origins) > 1 or not origins.pop() or one.env != other.env or not alike:
                continue
            cells = []
            for name in ("success", "episode_return"):
                if name == "success" and not one.counts:
                    cells.append("–")
                    continue
                means = [
                    [np.mean(record["per_seed"][str(seed)][name]) for seed in x["seeds"]]
                    for record in (x, y)
                ]
                cells.append(_with_interval(*statistics.paired_difference(*means), 3))
            pair = tag("td", tag("b", one.run.name), " minus ", tag("b", other.run.name))
            rows.append(tag("tr", pair, *[tag("td", cell, class_="metric") for cell in cells]))
    if not rows:
        return Markup()
    note = (
        "Runs that started from the parameters of one run, seed by seed: mean over seeds of the "
        "difference on the same tasks, and its 95 % interval by Student's t."
    )
    return join(table(["", "success rate", "return"], rows), tag("p", note, class_="note"))


def _per_seed(one: _Evaluated) -> Markup:
    """Each seed's success rate with Wilson's interval, and return with a bootstrap interval."""
    rows = []
    for name, played in sorted(one.newest["per_seed"].items(), key=lambda item: int(item[0])):
        count, successes = len(played["success"]), int(np.sum(played["success"]))
        success = "–"
        if one.counts:
            success = _with_interval(successes / count, statistics.wilson(successes, count))
        mean = float(np.mean(played["episode_return"]))
        returned = _with_interval(mean, statistics.mean_interval(played["episode_return"]))
        cells = [tag("td", text, class_="metric") for text in (success, returned)]
        rows.append(tag("tr", tag("th", f"seed {name}", scope="row"), *cells))
    seeds = table(["", "success rate (Wilson)", "return (bootstrap over episodes)"], rows)
    return tag("details", tag("summary", f"{one.run.name}, seed by seed"), seeds)


def _evaluation_curves(
    evaluated: Sequence[_Evaluated], runs: Sequence[Run], samples: int
) -> Markup | None:
    charts = []
    for title, name in (("success rate", "success"), ("return", "episode_return")):
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
            y_range = (0.0, 1.0) if name == "success" else None
            charts.append(
                figures.lines(f"{title} in evaluation", series, x_label="update", y_range=y_range)
            )
    if not charts:
        return None
    shown = [one.run for one in evaluated if len(one.records) > 1]
    return join(legend(runs, shown), tag("div", *charts, class_="charts"))
