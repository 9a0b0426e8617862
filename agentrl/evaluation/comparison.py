"""Comparisons of runs: task by task on what both were evaluated on, and seed against seed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.intervals import Row, dot_plot, estimate
from agentrl.evaluation.markup import Markup, join, stacked, tag
from agentrl.evaluation.metric_names import describe
from agentrl.evaluation.runs import HEADLINE, Run

# Metrics of an evaluation's columns.
_COLUMNS = {"success": "success_rate", "episode_return": "episode_return"}
# Pairs of runs that are put into words.
_SPOKEN = 3


class Evaluated(NamedTuple):
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

    def scores(self, column: str) -> np.ndarray:
        """A column of the newest evaluation, f64[seeds, tasks], by ascending seed."""
        played = sorted(self.newest["per_seed"].items(), key=lambda item: int(item[0]))
        return np.asarray([record[column] for _, record in played], np.float64)


class Difference(NamedTuple):
    """`one` minus `other` in a column of evaluations on the same tasks.

    seeds: of the two. paired: they started seed by seed from the same parameters.
    """

    one: Evaluated
    other: Evaluated
    column: str
    value: float
    interval: statistics.Interval
    seeds: tuple[int, int]
    tasks: int
    paired: bool

    @property
    def covers_seeds(self) -> bool:
        """Whether the interval is over seeds as well as tasks."""
        return min(self.seeds) > 1

    @property
    def title(self) -> str:
        """The two runs' names."""
        return f"{self.one.run.name} − {self.other.run.name}"


def own(runs: Sequence[Run]) -> list[Evaluated]:
    """The runs' evaluations in their own environments, of those that have any."""
    return [
        Evaluated(i, run, run.env, run.evaluations, "success_rate" in run.metrics())
        for i, run in enumerate(runs)
        if run.evaluations
    ]


def differences(shown: Sequence[Evaluated]) -> list[Difference]:
    """Every pair of runs that were evaluated on the same tasks, in success and return."""
    found = []
    for a, one in enumerate(shown):
        for other in shown[a + 1 :]:
            x, y = one.newest, other.newest
            alike = ("episodes", "task_seed", "greedy")
            if one.env != other.env or any(x.get(name) != y.get(name) for name in alike):
                continue
            starts = [z.run.config.get("init_from") for z in (one, other)]
            paired = bool(starts[0]) and starts[0] == starts[1] and x["seeds"] == y["seeds"]
            for column in _COLUMNS:
                if column == "success" and not one.counts:
                    continue
                pair = one.scores(column), other.scores(column)
                value, interval = statistics.crossed_difference(*pair, paired=paired)
                seeds = len(pair[0]), len(pair[1])
                tasks = int(x["episodes"])
                row = Difference(one, other, column, value, interval, seeds, tasks, paired)
                found.append(row)
    return found


def in_words(runs: Sequence[Run]) -> list[str]:
    """What the runs say about each other and what they cannot, in sentences."""
    found, said = differences(own(runs)), []
    columns = [d for d in found if d.column == "success"] or found
    for d in columns[:_SPOKEN]:
        metric = describe(_COLUMNS[d.column]).title.lower()
        low, high = d.interval
        clear = math.isfinite(low) and (low > 0 or high < 0)
        more = d.one.run.name if d.value > 0 else d.other.run.name
        verdict = f"{more} is ahead" if clear else "which of the two is ahead stays open"
        numbers = estimate(d.value, d.interval, 3)
        of = f"{d.title}, {metric} on the same {d.tasks:,} tasks: {numbers}. "
        if low == high:
            said.append(
                f"{of}Both have the same difference on every task: no spread to judge it by."
            )
        elif d.covers_seeds:
            said.append(f"{of}Over seeds and tasks, {verdict}.")
        else:
            verdict = (
                verdict.replace("is ahead", "is ahead on these tasks", 1) if clear else verdict
            )
            said.append(
                f"{of}Of these two checkpoints, {verdict}; of the methods this says little."
            )
    if len(columns) > _SPOKEN:
        said.append(f"{len(columns) - _SPOKEN} more pairs are below.")
    if len(runs) > 1 and not found:
        said.append(
            "No two runs were evaluated on the same tasks, so nothing is compared task by task: "
            "python -m launchers.evaluate --workdir=RUN does it for each run."
        )
    fewest = min(len(run.lines) for run in runs)
    if fewest == 1:
        said.append(
            "A run with one seed shows no spread between seeds. Whether a method or a lucky seed "
            "is at work cannot be told: train more seeds (config.num_seeds)."
        )
    elif fewest < 5:
        said.append(
            f"With {fewest} seeds an interval over seeds is a rough guide: a bootstrap interval of "
            "95 % covers about 74 % with 3 seeds and 90 % with 5."
        )
    return said


def section(runs: Sequence[Run], environments: Sequence[str], samples: int) -> Markup:
    """Differences on the same tasks, and the probability of improvement; empty without pairs."""
    same = on_the_same_tasks(own(runs))
    title = tag("h3", "On the same tasks") if same else None
    return join(title, same, improvement(runs, environments, samples))


def on_the_same_tasks(shown: Sequence[Evaluated]) -> Markup:
    """Differences between runs on the same tasks, with what their intervals are about."""
    found = differences(shown)
    if not found:
        return Markup()
    charts = []
    # Zero in the middle, and one scale for success and return: equal data look equal.
    ends = [abs(x) for d in found for x in (d.value, *d.interval) if math.isfinite(x)]
    widest = 1.05 * max(ends) or 1.0
    for column, metric in _COLUMNS.items():
        named = describe(metric)
        rows = [
            Row(d.title, d.value, *d.interval, d.one.number) for d in found if d.column == column
        ]
        if rows:
            title = f"{named.title}, difference"
            scale = {"bounds": (-widest, widest), "reference": 0.0}
            charts.append(dot_plot(title, rows, key=metric, **scale))
    return join(
        tag("div", *charts, class_="charts"),
        *[tag("p", text, class_="note") for text in _about(found)],
    )


def _about(found: Sequence[Difference]) -> list[str]:
    """What the intervals of differences cover, in words, once for each kind."""
    said = []
    tasks = " and ".join(f"{count:,}" for count in sorted({d.tasks for d in found}))
    if any(not d.covers_seeds for d in found):
        said.append(
            f"Where a run has one seed the interval is over the {tasks} tasks, paired: it says how "
            "these two checkpoints would differ on other tasks of the same kind. Tasks of one seed "
            "do not speak about seeds: two other seeds may differ by more, or the other way round."
        )
    if any(d.covers_seeds for d in found):
        counts = sorted({d.seeds for d in found if d.covers_seeds})
        seeds = ", ".join(f"{a} and {b}" for a, b in counts)
        said.append(
            f"Intervals are over both seeds ({seeds}) and the {tasks} tasks, crossed: they say how "
            "other seeds of the two methods would differ on other tasks of the same kind. 95 %, "
            "Student's t."
        )
    if any(d.paired and d.covers_seeds for d in found):
        said.append(
            "Runs that started from the parameters of one run are compared seed by seed: what the "
            "seeds have in common cancels."
        )
    return said


def by_chance(m: int, n: int) -> float:
    """Probability that m seeds are all above, or all below, n seeds of the same method.

    2 m! n! / (m + n)!, the smallest p that a two-sided permutation test can give.
    """
    return 2 / math.comb(m + n, m)


def improvement(runs: Sequence[Run], environments: Sequence[str], samples: int) -> Markup:
    """Every pair of runs of one environment with two seeds or more each; empty without one."""
    rows = []
    for environment in environments:
        shown = [(i, run) for i, run in enumerate(runs) if run.env == environment]
        for metric in HEADLINE:
            for a, (i, one) in enumerate(shown):
                for _, other in shown[a + 1 :]:
                    x, y = one.final(metric), other.final(metric)
                    if min(len(x), len(y)) < 2:
                        continue
                    value, interval = statistics.probability_of_improvement(
                        x[:, None], y[:, None], samples=samples
                    )
                    dot = figures.whisker(value, *interval, (0.0, 1.0), i, reference=0.5)
                    rows.append(
                        [
                            join(one.name, " over ", other.name),
                            describe(metric).title,
                            environment,
                            join(estimate(value, interval, 2), dot),
                            f"{by_chance(len(x), len(y)):.2g}",
                        ]
                    )
    if not rows:
        return Markup()
    note = (
        "From the last tenth of training: chance that a seed of the first run ends better than a "
        "seed of the second, ties counted half, with its 95 % bootstrap interval over seeds; the "
        "line in the middle is 0.5. If no two seeds overlap, the interval has no width, however "
        "few the seeds are. The last column is how often that happens by chance between equal "
        "methods: with 3 and 3 seeds once in ten."
    )
    head = ["pair", "metric", "environment", "probability", "all apart by chance"]
    return join(
        tag("h3", "Seed against seed"),
        stacked(head, rows, ["", "", "", "metric", "n"]),
        tag("p", note, class_="note"),
    )
