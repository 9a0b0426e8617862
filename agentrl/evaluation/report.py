"""The report of one or several runs: one self-contained HTML file."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.evaluation import curves, figures, results, standings
from agentrl.evaluation.alarms import begun
from agentrl.evaluation.markup import Markup, join, table, tag
from agentrl.evaluation.page import page
from agentrl.evaluation.runs import Run, flat

# Of each seed; the first ones tell.
MAX_ALARMS = 8


@dataclasses.dataclass(frozen=True)
class Credit:
    """The report's section on a run's credit.

    Made by `credit_cards` or `transcripts`; or the reason why there is none.
    """

    section: Markup | None
    reason: str = ""


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
        ("alarms", "Alarms", _alarms(runs)),
        ("curves", "Learning curves", curves.learning(runs, environments, samples)),
        (
            "improvement",
            "Probability of improvement",
            results.improvement(runs, environments, samples),
        ),
        ("evaluation", "Evaluation on fixed tasks", results.evaluation(runs, samples)),
        ("arena", "Arena", _arenas(runs)),
        ("matches", "Matches", _matches(runs, matches or {})),
        ("credit", "Credit, turn by turn", _credit(runs, credit or {})),
        ("anchors", "Anchor groups", curves.anchor_groups(runs)),
        ("metrics", "Other metrics", curves.others(runs, environments, metrics, samples)),
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
    return page(f"agentrl: {title}", lead, [s for s in sections if s[2]])


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _alarms(runs: Sequence[Run]) -> Markup:
    """Where the metrics of a seed begin to ask for a look."""
    rows = [
        tag(
            "tr",
            tag("td", figures.key(i), run.name),
            *(tag("td", str(cell)) for cell in (seed, update, name, text)),
        )
        for i, run in enumerate(runs)
        for seed, records in run.lines.items()
        for update, name, text in begun(records)[:MAX_ALARMS]
    ]
    return table(["run", "seed", "update", "alarm", "what to do"], rows) if rows else Markup("")


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
        parts.append(tag("details", title, content, class_="run", open=not parts))
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
