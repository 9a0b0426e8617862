"""The report's pages of drafts side by side, and of what was replaced, as HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, join, stacked, tag
from agentrl.evaluation.sheets import Sheet, shares, telling
from agentrl.evaluation.statistics import Interval, mean_interval, paired_difference

# Episodes of which it is shown what a replacement changed.
CHANGES = 6
_SHARES = (
    "Right answers by way to choose, over {count}, with 95 % bootstrap intervals over them. "
    '"Any draft" is the expected share of one drawn at random. Where it is not known of all drafts '
    "whether they are right, the one that went on is counted, where it is known of that."
)
_ATTEMPTS = (
    "Attempts of update {update} at each of {tasks} tasks. Below are some of them; scores are the "
    "verifier's probability of yes."
)
_REPLACED = (
    "The same {count} episodes, from the same start and with the same randomness, with another "
    "player in the policy's place. Difference: the policy's return less the replacement's, mean "
    "and 95 % interval (Student's t) over the {groups} tasks."
)


def section(sheets: Sequence[Sheet], *, noun: str, count: int = 4, table: bool = True) -> Markup:
    """Shares by way to choose, and `count` sheets whose drafts stand beside each other.

    noun: what a sheet is, in the plural. table: with the shares.
    """
    if not sheets:
        return Markup("")
    shown = telling(sheets, count)
    return join(
        shares_table(shares(sheets), noun) if table else None,
        [_sheet(sheet) for sheet in shown],
    )


def attempts(about: Mapping[str, Any], sheets: Sequence[Sheet], count: int = 4) -> Markup:
    """Attempts that launchers.select chose among, see `sheets.read`: success by way to choose, over
    all tasks, and some of the tasks."""
    rows = [
        [name, _interval(float(x["mean"]), (float(x["low"]), float(x["high"])))]
        for name, x in about.get("shares", {}).items()
    ]
    told = _ATTEMPTS.format(**{name: about.get(name, "?") for name in ("update", "tasks")})
    return join(
        stacked(["chosen by", "success (95 %)"], rows, ["", "n"]) if rows else None,
        tag("p", told, class_="note"),
        section(sheets, noun="tasks", count=count, table=False),
    )


def shares_table(found: Mapping[str, np.ndarray], noun: str) -> Markup:
    """A row per way to choose, of whether its choice is right, f64[S] each."""
    if not found:
        return Markup("")
    over = f"{len(next(iter(found.values())))} {noun}"
    rows = [[name, _interval(float(x.mean()), mean_interval(x))] for name, x in found.items()]
    note = tag("p", _SHARES.format(count=over), class_="note")
    return join(stacked(["chosen by", "right (95 %)"], rows, ["", "n"]), note)


def _interval(value: float, interval: Interval | tuple[float, float]) -> str:
    low, high = interval
    if not np.isfinite([low, high]).all():
        return f"{value:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]".replace("-", "−")


def _sheet(sheet: Sheet) -> Markup:
    chosen: dict[int, list[str]] = {}
    for name, i in sheet.chosen.items():
        chosen.setdefault(i, []).append(name)
    cards = []
    for i, draft in enumerate(sheet.drafts):
        facts = [f"grades {', '.join(map(number, draft.grades))}"] if draft.grades else []
        if sheet.scores:
            facts.append(f"score {sheet.scores[i]:.2f}".replace("-", "−"))
        verdict = {None: "", True: "right", False: "wrong"}[draft.right]
        marks = [tag("b", "went on")] if draft.went_on else []
        marks += [tag("span", f"chosen by {name}", class_="anchor") for name in chosen.get(i, ())]
        formed = None if draft.formed else tag("span", "not well formed", class_="invalid")
        cards.append(
            tag(
                "section",
                tag("h4", draft.writer, tag("span", verdict, class_="note")),
                tag("pre", draft.text or "(nothing)", class_="read"),
                tag("div", tag("span", " · ".join(facts), class_="note"), formed, class_="did"),
                tag("div", *marks, class_="did"),
                class_="draft on" if draft.went_on else "draft",
                aria_label=f"{sheet.title}, {draft.writer}",
            )
        )
    about = tag("pre", sheet.task, class_="read") if sheet.task else None
    head = tag("p", tag("b", sheet.title), class_="sheet")
    return tag("div", head, about, tag("div", *cards, class_="episodes"), class_="talk")


def replaced(
    runs: np.ndarray,
    said: Sequence[str],
    *,
    group: np.ndarray,
    partners: Sequence[str],
    replacements: Sequence[str],
    side: str,
) -> Markup:
    """What replacing the policy's side changed, over episodes and in those where it changed most.

    runs: f32[E, 3, P, 1 + K] of E episodes: return, steps and success beside each of P partners, of
    the policy first, then of each of K replacements (`Streams.runs`). said: what the side did in
    each episode, which is what was replaced. group: i64[E], equal for episodes of one task. side:
    its name.
    """
    runs = np.asarray(runs, np.float64)
    _, of_task = np.unique(group, return_inverse=True)
    size = np.bincount(of_task)

    def by_task(x):
        return np.bincount(of_task, x) / size

    names = [name if ":" in name else name.rpartition(".")[2] or name for name in replacements]
    rows, columns = [], []
    for p, partner in enumerate(partners):
        own, solved = runs[:, 0, p, 0], runs[:, 2, p]
        for k, name in enumerate(names, 1):
            other = runs[:, 0, p, k]
            gain, interval = paired_difference(by_task(own), by_task(other))
            above = f"{np.mean(own > other):.2f}, {np.mean(own == other):.2f}, "
            rows.append(
                [
                    f"{name}, beside {partner}",
                    f"{own.mean():.3f}".replace("-", "−"),
                    f"{other.mean():.3f}".replace("-", "−"),
                    _interval(gain, interval),
                    above + f"{np.mean(own < other):.2f}",
                    f"{solved[:, 0].mean():.2f}, {solved[:, k].mean():.2f}",
                ]
            )
            columns.append((partner, name, p, k))
    head = [f"in place of the {side}", "return with", "without", "difference (95 %)"]
    head += ["better, equal, worse", "success with, without"]
    note = tag("p", _REPLACED.format(count=len(runs), groups=len(size)), class_="note")
    changes = [_change(runs, said, column) for column in columns]
    return join(stacked(head, rows, ["", *["n"] * 5]), note, changes)


def _change(runs: np.ndarray, said: Sequence[str], column: tuple[str, str, int, int]) -> Markup:
    """The episodes in which one replacement changed most, equal courses once."""
    partner, name, p, k = column
    change = runs[:, 0, p, 0] - runs[:, 0, p, k]
    rows, seen = [], set()
    for i in np.argsort(-np.abs(change), kind="stable"):
        own, other = (float(runs[i, 0, p, at]) for at in (0, k))
        course = said[i], own, other
        if course in seen or len(rows) == CHANGES:
            continue
        seen.add(course)
        sign = "+" if change[i] > 0 else ""
        told = f"{sign}{number(float(change[i]))}"
        rows.append([f"episode {i}", said[i] or "(nothing)", number(own), number(other), told])
    head = ["where it changed most", "what was replaced", "return with", "without", "difference"]
    kinds = ["", "words", "n", "n", "n"]
    return join(tag("h4", f"{name}, beside {partner}", class_="family"), stacked(head, rows, kinds))
