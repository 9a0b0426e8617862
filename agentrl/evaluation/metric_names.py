"""What each metric is called, what it means and in which unit: one table for every page.

The table is not written here. What reports a metric says so in its docstring, in a section

    Metrics (Credit):
      stare_gain: Weight of surprising gains; STARE.
      stare_gate: Gate of the weights [share]; STARE: updates in which they move.

of a family of metrics, then per line the name, the title for people, the unit and the meaning; and
`python -m launchers.pages` gathers them in metrics.json and in agentrl/README.md.

A name may have parts in braces, which stand for what a run fills in: `win_rate/{role}/{opponent}`.
A metric of another source, task or network has its name in front: `evaluation/success_rate`,
`expert/approx_kl`, `KuhnPoker-v1/episode_return`. `describe` reads such names, too. A run may have
metrics of a user's own components, which nobody has named here.
"""

import functools
import json
import pathlib
import re
from typing import NamedTuple


class Metric(NamedTuple):
    """A metric. name: as in metrics.jsonl. title: for people, without the unit.

    unit: "share" (0 to 1), "nats", "turns", ..., or "" for a plain number. family: the heading
    under which pages show it; "" for a name that is not in the table.
    """

    name: str
    title: str
    unit: str = ""
    meaning: str = ""
    family: str = ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range of possible values, where both ends are known."""
        return (0.0, 1.0) if self.unit == "share" else None


# {family: {name: [title, unit, meaning]}}, in the order in which pages show them; made from the
# docstrings of what reports the metrics by `python -m launchers.pages`.
_TABLE: dict[str, dict[str, list[str]]] = json.loads(
    pathlib.Path(__file__).with_name("metrics.json").read_text()
)
FAMILIES = tuple(_TABLE)
METRICS = tuple(
    Metric(name, *words, family) for family, rows in _TABLE.items() for name, words in rows.items()
)
_SLOT = re.compile(r"\{(\w+)\}")
_NUMBERS = {metric.name: number for number, metric in enumerate(METRICS)}
_PATTERNS = [re.compile(_SLOT.sub(r"(?P<\1>[^/]+)", metric.name)) for metric in METRICS]
# How roles are written in titles.
_WORDS = {"self": "itself", "pool": "the pool", "expert": "the expert"}


def _own(name: str) -> tuple[int, re.Match | None]:
    """The number of the metric whose pattern a name fits, and the match: an exact one first."""
    numbers = [_NUMBERS[name]] if name in _NUMBERS else range(len(METRICS))
    matches = ((i, _PATTERNS[i].fullmatch(name)) for i in numbers)
    return next((found for found in matches if found[1]), (len(METRICS), None))


@functools.cache
def describe(name: str) -> Metric:
    """The metric of a name, its title filled in; of an unknown name one without family.

    A part in front that is no metric's own says whose metric it is: "Return, evaluation".
    """
    number, match = _own(name)
    if match:
        metric = METRICS[number]
        return metric._replace(name=name, title=_filled(metric, match.groupdict()))
    whose, slash, rest = name.partition("/")
    if slash and (of := describe(rest)).family:
        return of._replace(name=name, title=f"{of.title}, {whose}")
    return Metric(name, name)


def place(name: str) -> tuple:
    """Sorts names as the table does, unknown ones last; numbers in them by value."""
    own = name
    while _own(own)[1] is None and "/" in own:
        own = own.partition("/")[2]
    return (_own(own)[0], natural(name))


def natural(text: str) -> list[tuple[int, int | str]]:
    """Sorts texts with their numbers by value: turn_2 before turn_16."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def _filled(metric: Metric, parts: dict[str, str]) -> str:
    """The title with what the name has in its slots."""

    def word(slot: re.Match) -> str:
        text = parts[slot[1]]
        if slot[1] == "role" and text.isdecimal():
            return f"role {text}"
        if slot[1] == "size":
            low, _, high = text.partition("_")
            return f"{low} and more" if high == "up" else f"{low} to {high}" if high else low
        return _WORDS.get(text, text.replace("_", " "))

    return _SLOT.sub(word, metric.title)
