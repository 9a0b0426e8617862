"""Who is ahead, by the rows of a comparison: over all worlds, and in each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau

from agentrl.evaluation import ranks, statistics
from agentrl.evaluation.metric_names import describe
from agentrl.evaluation.statistics import Interval
from launchers.comparison.rows import REASONS, Row
from launchers.comparison.suites import Suite

# Share of the methods of the fullest world that a world of the table over all has at least: some do
# not apply everywhere, as MATPO, one of the nine in games, where nobody is called.
WHOLE = 0.85


class Standing(NamedTuple):
    """A method over the worlds of the table.

    score, area: interquartile mean of the final scores, and of those over the budget. improves:
    probability that a seed of it ends above one of the baseline. rank: among the methods of the
    table. seconds: median over worlds of an update, in parts of the baseline's.
    """

    method: str
    score: float
    score_interval: Interval
    area: float
    improves: float
    improves_interval: Interval
    rank: ranks.MeanRank
    seconds: float


def matrix(rows: Sequence[Row], method: str, worlds: Sequence[str], *, area=False) -> np.ndarray:
    """Scores [seeds, worlds] of a method that has all of these worlds."""
    columns = [
        [row.area if area else row.final for row in rows if (row.method, row.world) == (method, w)]
        for w in worlds
    ]
    return np.asarray(columns, np.float64).T


def common(rows: Sequence[Row], suite: Suite) -> tuple[list[str], list[str]]:
    """(methods, worlds) of the table over all worlds: the worlds in which hardly any method is
    missing, and the methods that have all of them with as many seeds.

    A world whose runs have only begun has a table of its own.
    """
    count, found = len(suite.seeds), {}
    for row in rows:
        found.setdefault(row.world, {}).setdefault(row.method, []).append(row.seed)
    whole = {w: {m for m, s in own.items() if len(s) == count} for w, own in found.items()}
    most = max(map(len, whole.values()), default=0)
    worlds = [
        world
        for world in suite.worlds
        if suite.baseline in whole.get(world, ()) and len(whole[world]) >= WHOLE * most
    ]
    methods = [m for m in suite.methods if worlds and all(m in whole[w] for w in worlds)]
    own = {m for w in worlds for m in whole[w]} - set(suite.methods)
    return methods + sorted(m for m in own if all(m in whole[w] for w in worlds)), worlds


def standings(suite: Suite, rows: Sequence[Row]) -> list[Standing]:
    """All methods that are in all worlds, the best rank first."""
    methods, worlds = common(rows, suite)
    if len(methods) < 2:
        return []
    finals = {method: matrix(rows, method, worlds) for method in methods}
    of_each = ranks.mean_ranks(list(finals.values()), paired=bool(suite.start))
    placed = dict(zip(methods, of_each, strict=True))
    base, seconds = finals[suite.baseline], _seconds(rows)
    found = []
    for method, scores in finals.items():
        improves, interval = statistics.probability_of_improvement(scores, base)
        ratios = [seconds[method, w] / seconds[suite.baseline, w] for w in worlds]
        area = statistics.iqm(matrix(rows, method, worlds, area=True))
        found.append(
            Standing(
                method,
                float(statistics.iqm(scores)),
                statistics.stratified_bootstrap(scores),
                float(area),
                improves,
                interval,
                placed[method],
                float(np.median(ratios)),
            )
        )
    return sorted(found, key=lambda one: one.rank.value)


def agreement(suite: Suite, rows: Sequence[Row]) -> tuple[float, int]:
    """(Kendall's tau-b between the mean ranks in the reduced worlds and in all, number of methods).

    Of the methods that have results in all worlds. 1: the same order.
    """
    methods, worlds = common(rows, suite)
    ranked = [
        [one.value for one in ranks.mean_ranks([matrix(rows, m, some) for m in methods])]
        for some in (suite.reduced, worlds)
    ]
    return float(kendalltau(*ranked).statistic), len(methods)


def _seconds(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    found = {}
    for row in rows:
        found.setdefault((row.method, row.world), []).append(row.seconds)
    return {key: float(np.median(values)) for key, values in found.items()}


def text(suite: Suite, rows: Sequence[Row]) -> list[str]:
    """Both tables as Markdown, in lines."""
    lines, (_, worlds) = [], common(rows, suite)
    overall = standings(suite, rows)
    if overall:
        lines += [
            f"All of {', '.join(worlds)}; {len(suite.seeds)} seeds:",
            "",
            f"| method | rank | score at the end | over the budget | P(above {suite.baseline}) | "
            "seconds per update |",
            "|---|---|---|---|---|---|",
        ]
    for one in overall:
        low, high = one.rank.interval
        lines.append(
            f"| {one.method} | {one.rank.value:.1f} [{low:.1f}, {high:.1f}] | {one.score:.3f} "
            f"[{one.score_interval.low:.3f}, {one.score_interval.high:.3f}] | {one.area:.3f} | "
            f"{one.improves:.2f} [{one.improves_interval.low:.2f}, "
            f"{one.improves_interval.high:.2f}] | {one.seconds:.2f} |"
        )
    if overall and suite.start:
        lines += _seed_by_seed(suite, rows, [one.method for one in overall], worlds)
    for world in suite.worlds:
        of_world = [row for row in rows if row.world == world]
        if of_world:
            lines += ["", *_of_world(world, of_world, suite)]
    return lines + _reasons(suite, rows)


def _seed_by_seed(
    suite: Suite, rows: Sequence[Row], methods: Sequence[str], worlds: Sequence[str]
) -> list[str]:
    """Differences to the baseline's seed that went on from the same parameters, which take out
    what a seed owes to its start."""
    finals = {(row.world, row.method, row.seed): row.final for row in rows}
    lines = [
        "",
        f"Seed by seed, from the same parameters (mean difference to {suite.baseline}, in how many "
        "worlds and seeds it is above and below):",
        "",
        "| method | difference | above | below |",
        "|---|---|---|---|",
    ]
    for method in methods:
        difference = np.asarray(
            [
                [finals[w, method, seed] - finals[w, suite.baseline, seed] for w in worlds]
                for seed in suite.seeds
            ]
        )
        interval = statistics.stratified_bootstrap(difference, np.mean)
        lines.append(
            f"| {method} | {difference.mean():.3f} [{interval.low:.3f}, {interval.high:.3f}] | "
            f"{np.sum(difference > 0)} | {np.sum(difference < 0)} |"
        )
    return lines


def _reasons(suite: Suite, rows: Sequence[Row]) -> list[str]:
    """What explains an order: means of the baseline's runs in each world, over updates and seeds.

    Standard deviation of returns within groups, share of groups without any, share of anchor groups
    of a single turn, entropy in nats, and the KL divergence of an update.
    """
    found = {
        world: [row.reasons for row in rows if (row.world, row.method) == (world, suite.baseline)]
        for world in suite.worlds
    }
    lines = [f"| {world} | {_means(own)} |" for world, own in found.items() if own]
    if not lines:
        return []
    titles = [describe(name).title.lower() for name in REASONS]
    head = [
        "",
        f"Means of {suite.baseline}'s runs:",
        "",
        f"| world | {' | '.join(titles)} |",
        "|---" * (len(titles) + 1) + "|",
    ]
    return head + lines


def _means(reasons: Sequence[Mapping[str, float]]) -> str:
    known = [[one[name] for one in reasons if name in one] for name in REASONS]
    return " | ".join(f"{np.mean(values):.2g}" if values else "" for values in known)


def _of_world(world: str, rows: Sequence[Row], suite: Suite) -> list[str]:
    budget, keys = suite.worlds[world].env_steps, sorted(suite.tuning)
    names = [key.removesuffix(".weight").rpartition(".")[2].replace("_", " ") for key in keys]
    lines = [
        f"{world}, {budget:,} turns:",
        "",
        f"| method | score at the end | over the budget | worst seed | {', '.join(names)} |",
        "|---|---|---|---|---|",
    ]
    methods = {row.method: [r for r in rows if r.method == row.method] for row in rows}
    order = sorted(methods, key=lambda m: -np.mean([row.final for row in methods[m]]))
    for method in order:
        own = methods[method]
        finals = np.asarray([[row.final] for row in own])
        low, high = statistics.stratified_bootstrap(finals)
        area = float(np.mean([row.area for row in own]))
        tuned = ", ".join(f"{own[0].tuned[key]:g}" for key in keys)
        lines.append(
            f"| {method} | {statistics.iqm(finals):.3f} [{low:.3f}, {high:.3f}] | {area:.3f} | "
            f"{finals.min():.3f} | {tuned} |"
        )
    return lines
