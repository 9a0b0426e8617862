"""Drafts side by side, or attempts at one task, as data: which there were and which were chosen."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envs.agents import Draft


@dataclasses.dataclass(frozen=True)
class Sheet:
    """Drafts of one place, beside each other.

    title: where that is. scores: of a model, one per draft, or () without one. chosen: the number
    of the draft that each way to choose takes, -1 for none. task: what all of them are about, "" if
    their text says so.
    """

    title: str
    drafts: tuple[Draft, ...]
    scores: tuple[float, ...] = ()
    chosen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    task: str = ""

    @property
    def went_on(self) -> int | None:
        """The draft that was shown or played; None if none was."""
        return next((i for i, draft in enumerate(self.drafts) if draft.went_on), None)


def best_formed(scores: Sequence[float], formed: Sequence[bool]) -> int:
    """The first one with the highest score among those that are formed, or among all if none is."""
    score, formed = np.asarray(scores, float), np.asarray(formed, bool)
    return int(np.argmax(np.where(formed | ~formed.any(), score, -np.inf)))


def shares(sheets: Sequence[Sheet]) -> dict[str, np.ndarray]:
    """Right (1) or not (0) per sheet f64[S], by way to choose: "any draft" in expectation, "went
    on", every name in `chosen`, and "a right one if there is any".

    Unless it is known of all drafts, only "went on" is counted, where it is known of that one.
    """
    known = [s for s in sheets if s.drafts and all(d.right is not None for d in s.drafts)]
    if len(known) < len(sheets):
        told = [s.drafts[s.went_on].right for s in sheets if s.went_on is not None]
        told = [float(x) for x in told if x is not None]
        return {"went on": np.array(told)} if told else {}
    if not known:
        return {}
    right = [[bool(d.right) for d in sheet.drafts] for sheet in known]
    found = {"any draft": [float(np.mean(x)) for x in right]}
    went = [sheet.went_on for sheet in known]
    if any(i is not None for i in went):
        found["went on"] = [float(i is not None and x[i]) for i, x in zip(went, right, strict=True)]
    for name in dict.fromkeys(name for sheet in known for name in sheet.chosen):
        at = [sheet.chosen.get(name, -1) for sheet in known]
        found[name] = [float(i >= 0 and x[i]) for i, x in zip(at, right, strict=True)]
    found["a right one if there is any"] = [float(any(x)) for x in right]
    return {name: np.array(values) for name, values in found.items()}


def telling(sheets: Sequence[Sheet], count: int = 4) -> list[Sheet]:
    """At most `count` sheets, in their order: first those of right and wrong drafts, as many in
    which a right one went on as in which a wrong one did, as far as there are. Where nobody knows
    what is right, those whose drafts differ count as the latter.
    """

    def kind(sheet: Sheet) -> int:
        right, at = [draft.right for draft in sheet.drafts], sheet.went_on
        if at is None:
            at = next((i for i in reversed(list(sheet.chosen.values())) if i >= 0), None)
        told = None if at is None else right[at]
        if told is None:
            return 1 if len({(draft.text, draft.right) for draft in sheet.drafts}) > 1 else 2
        # Of two that are the same nothing is learnt.
        return (0 if told else 1) if any(x is not told for x in right) else 2

    kinds = [kind(sheet) for sheet in sheets]
    good, bad, rest = ([i for i, k in enumerate(kinds) if k == which] for which in range(3))
    few = min(len(bad), max(count // 2, count - len(good)))
    taken = bad[:few] + good[: count - few]
    return [sheets[i] for i in sorted(taken + rest[: count - len(taken)])]


def write(path: pathlib.Path, about: Mapping[str, Any], sheets: Sequence[Sheet]) -> None:
    """Writes sheets and what is said about them as JSON."""
    content = {**about, "sheets": [dataclasses.asdict(s) | {"drafts": _plain(s)} for s in sheets]}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)


def _plain(sheet: Sheet) -> list[dict[str, Any]]:
    return [draft._asdict() for draft in sheet.drafts]


def read(path: pathlib.Path) -> tuple[dict[str, Any], tuple[Sheet, ...]]:
    """(what is said about them, sheets) of a file of `write`.

    Raises:
      ValueError: the file is no such record.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        about = {key: value for key, value in content.items() if key != "sheets"}
        return about, tuple(map(_sheet, content["sheets"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no record of attempts ({error}); run launchers.select again"
        ) from None


def _sheet(told: Mapping[str, Any]) -> Sheet:
    drafts = tuple(
        Draft(
            writer=str(x["writer"]),
            text=str(x["text"]),
            grades=tuple(map(float, x["grades"])),
            formed=bool(x["formed"]),
            right=None if x["right"] is None else bool(x["right"]),
            went_on=bool(x["went_on"]),
        )
        for x in told["drafts"]
    )
    scores = tuple(map(float, told["scores"]))
    chosen = {str(name): int(i) for name, i in told["chosen"].items()}
    bounds = all(-1 <= i < len(drafts) for i in chosen.values())
    if len(scores) not in (0, len(drafts)) or not all(map(math.isfinite, scores)) or not bounds:
        raise ValueError("scores or choices that do not fit the drafts")
    return Sheet(str(told["title"]), drafts, scores, chosen, str(told["task"]))
