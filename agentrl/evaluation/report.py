"""The report of one or several runs: one self-contained HTML file."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.evaluation import (
    comparison,
    curves,
    drafts_view,
    drift_view,
    figures,
    results,
    standings,
)
from agentrl.evaluation.alarms import begun, compares_groups
from agentrl.evaluation.markup import Markup, join, stacked, table, tag
from agentrl.evaluation.page import page
from agentrl.evaluation.runs import Run, flat

# Beginnings of an alarm that are listed of each seed; the first ones tell.
MAX_ALARMS = 4
# What the sections show, beside their headings.
_ABOUT = {
    "results": "How the runs ended, what they cost, and what can be said of them.",
    "comparison": "Each pair of runs. The text below a picture says what its intervals are about.",
    "alarms": "Where a metric begins to ask for a look, and what to change.",
    "curves": "Of the episodes that training collected.",
    "evaluation": "Every run and every checkpoint plays the same tasks.",
    "metrics": "Over environment steps. Below each title is the metric's name in metrics.jsonl.",
    "anchors": "In which turns GiGPO can compare actions.",
    "drift": "How far the policy is from itself with its task fresh in the prompt.",
    "drafts": "What was written for one place or one task, and which of it went on.",
    "replaced": "Who or what was replaced in counterfactual runs, and what changed.",
    "replies": "What training changed in what the policy says.",
    "credit": "Episodes that the newest checkpoint played, and what each turn is credited with.",
    "provenance": "How to run it again.",
}


@dataclasses.dataclass(frozen=True)
class Credit:
    """The report's section on a run's credit, and others on the same batch.

    Made by `credit_cards` or `transcripts`; or the reason why there is none. drafts, replaced: of
    drafts side by side and of counterfactual runs, by `drafts_view`; replies: of a language policy
    before and after training, by `replies_view`; None without any.
    """

    section: Markup | None
    reason: str = ""
    drafts: Markup | None = None
    replaced: Markup | None = None
    replies: Markup | None = None


def report(
    runs: Sequence[Run],
    *,
    credit: Mapping[str, Credit] | None = None,
    matches: Mapping[str, Markup] | None = None,
    metrics: Sequence[str] | None = None,
    samples: int = 1000,
) -> str:
    """The report as an HTML document.

    credit, matches: sections by name of the run. metrics: names of the metrics in the grid of small
    charts, all by default. samples: number of bootstrap samples.

    Raises:
      ValueError: a metric in `metrics` that no run has.
    """
    known = set().union(*(run.metrics() for run in runs))
    for name in metrics or ():
        if name not in known:
            there_are = ", ".join(sorted(known - set(curves.NOT_CURVES)))
            raise ValueError(f"no run has metric {name!r}; there are {there_are}")
    environments = list(dict.fromkeys(run.env for run in runs))
    sections = [
        ("results", "Results", results.ends(runs, samples)),
        ("comparison", "Comparison", comparison.section(runs, environments, samples)),
        ("alarms", "Alarms", _alarms(runs)),
        ("curves", "Learning curves", curves.learning(runs, environments, samples)),
        ("evaluation", "Evaluation on fixed tasks", results.evaluation(runs, samples)),
        ("metrics", "Metrics", curves.others(runs, environments, metrics, samples)),
        ("anchors", "Anchor groups", curves.anchor_groups(runs)),
        ("drift", "Drift, turn by turn", drift_view.section(runs)),
        ("arena", "Arena", _arenas(runs)),
        ("matches", "Matches", _matches(runs, matches or {})),
        ("drafts", "Drafts, side by side", _drafts(runs, credit or {})),
        ("replaced", "With a player replaced", _beside(runs, credit or {}, "replaced")),
        ("replies", "Replies, before and after", _beside(runs, credit or {}, "replies")),
        ("credit", "Credit, turn by turn", _credit(runs, credit or {})),
        ("config", "Configuration", _configuration(runs)),
        ("provenance", "Provenance", _provenance(runs)),
    ]
    seeds = sum(len(run.lines) for run in runs)
    lead = tag(
        "p",
        f"{_count(len(runs), 'run')}, {_count(seeds, 'seed')}, {', '.join(environments)}",
        class_="lead",
    )
    title = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    shown = [(*section, _ABOUT.get(section[0], "")) for section in sections if section[2]]
    return page(title, lead, shown)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _alarms(runs: Sequence[Run]) -> Markup:
    """Where the metrics of seeds begin to ask for a look, alarm by alarm."""
    rows = []
    for i, run in enumerate(runs):
        groups, found = compares_groups(run.config), {}
        for seed, records in run.lines.items():
            for update, name, text in begun(records, groups=groups):
                found.setdefault(name, ({}, text))[0].setdefault(seed, []).append(update)
        for name, (seeds, text) in found.items():
            where = [tag("div", _updates(seed, seeds[seed])) for seed in seeds]
            rows.append([join(figures.key(i), run.name), name, where, text])
    head = ["run", "alarm", "begins at update", "first of them, and what to do"]
    return stacked(head, rows, ["", "", "words", "words"]) if rows else Markup("")


def _updates(seed: int, updates: Sequence[int]) -> str:
    """The first updates at which an alarm of a seed begins."""
    more = f" and {len(updates) - MAX_ALARMS} more" if len(updates) > MAX_ALARMS else ""
    return f"{', '.join(map(str, updates[:MAX_ALARMS]))}{more} (seed {seed})"


def _arenas(runs: Sequence[Run]) -> Markup:
    """Results of the arenas whose records are in the runs' directories."""
    parts = []
    for i, run in enumerate(runs):
        for arena, about in run.arenas:
            parts.append(tag("h3", figures.key(i), run.name))
            parts.append(standings.section(arena, about))
    return join(*parts)


def _matches(runs: Sequence[Run], matches: Mapping[str, Markup]) -> Markup:
    parts = []
    for i, run in enumerate(runs):
        if run.name in matches:
            parts += [tag("h3", figures.key(i), run.name), matches[run.name]]
    return join(*parts)


def _drafts(runs: Sequence[Run], credit: Mapping[str, Credit]) -> Markup:
    """Drafts of the batch of each run's credit, and attempts that launchers.select chose among."""
    parts = []
    for i, run in enumerate(runs):
        shown = [credit[run.name].drafts] if run.name in credit else []
        shown += [drafts_view.attempts(*record) for record in run.attempts]
        if any(shown):
            parts += [tag("h3", figures.key(i), run.name), *shown]
    return join(*parts)


def _beside(runs: Sequence[Run], credit: Mapping[str, Credit], field: str) -> Markup:
    """A field of each run's `Credit`, where it has one."""
    parts = []
    for i, run in enumerate(runs):
        shown = getattr(credit[run.name], field) if run.name in credit else None
        if shown is not None:
            parts += [tag("h3", figures.key(i), run.name), shown]
    return join(*parts)


def _credit(runs: Sequence[Run], credit: Mapping[str, Credit]) -> Markup:
    parts = []
    for i, run in enumerate(runs):
        if run.name not in credit:
            continue
        shown = credit[run.name]
        content = shown.section
        if content is None:
            content = tag("p", f"Not shown: {shown.reason}", class_="note")
        title = tag("summary", figures.key(i), run.name)
        parts.append(tag("details", title, content, class_="run"))
    return join(*parts)


def _shown_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _configuration(runs: Sequence[Run]) -> Markup:
    """The differences between the runs' configs, and all configs, key by key."""
    configs = [dict(flat(run.config)) for run in runs]
    keys = list(dict.fromkeys(key for config in configs for key in config))
    missing = object()
    differs = [k for k in keys if len({repr(c.get(k, missing)) for c in configs}) > 1]
    head = ["key", *[join(figures.key(i), run.name) for i, run in enumerate(runs)]]

    def row(key: str, marked: bool) -> Markup:
        cells = [
            tag("td", tag("code", _shown_value(config[key])) if key in config else "–")
            for config in configs
        ]
        name = tag("th", tag("code", key), scope="row")
        return tag("tr", name, *cells, class_="differs" if marked else None)

    parts = []
    if len(runs) > 1:
        parts.append(tag("h3", "What differs"))
        if differs:
            parts.append(table(head, [row(key, False) for key in differs]))
        else:
            parts.append(tag("p", "Nothing: the runs have the same config."))
    whole = table(head, [row(key, key in differs) for key in keys])
    parts.append(tag("details", tag("summary", f"All {len(keys)} keys"), whole))
    return join(*parts)


def _provenance(runs: Sequence[Run]) -> Markup:
    parts = []
    for i, run in enumerate(runs):
        parts.append(tag("h3", figures.key(i), run.name, id=f"provenance-{i}"))
        for launch in run.launches:
            facts = dict(launch.provenance)
            parts.append(tag("pre", facts.pop("command", "command unknown"), class_="command"))
            rows = [("directory", str(launch.path)), *flat(facts)]
            body = []
            for key, value in rows:
                text = value if isinstance(value, str) else _shown_value(value)
                body.append(tag("tr", tag("th", key, scope="row"), tag("td", tag("code", text))))
            facts_table = table(["", ""], body)
            parts.append(tag("details", tag("summary", "code, versions, machine"), facts_table))
    return join(*parts)
