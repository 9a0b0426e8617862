"""Presets of the configs, and the rows of `findings.csv` that say what came of each.

A preset is a config file with one of its variants. Its results are rows of the `findings.csv` in
its folder; those of a suite of methods, in a table of its own, `NAME.csv` beside `NAME.py`.
"""

import csv
import math
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from launchers import config_files

# What `low` and `high` are.
SPREADS = {
    "bootstrap": "95 % interval, bootstrap over seeds",
    "range": "lowest and highest seed",
    "student": "95 % interval, Student's t over seeds",
    "wilson": "95 % interval, Wilson's, over tasks of one seed",
}
NAME = "findings.csv"


class Finding(NamedTuple):
    """A row of `findings.csv`: what a preset came to, or why it has no result.

    preset: FILE.py:VARIANT, as behind the folder in --config. seeds: how many. measure: the metric,
    of what, on how many tasks, and the keys that differ from the preset's. value: the mean over
    the seeds, unless `measure` names another statistic. low, high, spread: about it, and what they
    are, of SPREADS. minutes: of a run, at most, on two CPU cores, which were seldom idle. section:
    of the README.md beside, as in a link. missing: why there is no result; what is measured is then
    empty.
    """

    preset: str
    seeds: str
    measure: str
    value: str
    low: str
    high: str
    spread: str
    minutes: str
    section: str
    missing: str


def folders() -> list[pathlib.Path]:
    """The folders of experiments, by name."""
    found = {path.parent for path in config_files.CONFIGS.glob("*/*.py")}
    return sorted(path for path in found if not path.name.startswith("_"))


def listed(folder: pathlib.Path) -> list[str]:
    """FILE.py:VARIANT of all presets of a folder; words in capitals stand for any of their kind."""
    names = []
    for path in sorted(folder.glob("[!_]*.py")):
        variants = getattr(config_files.glance(path), "VARIANTS", ("",))
        names += [path.name + (f":{variant}" if variant else "") for variant in variants]
    return names


def preset_of(name: str, known: Iterable[str]) -> str:
    """The preset that a row is of: of its very name, or the narrowest that it is one of a kind of.

    "" if there is none.
    """
    kinds = {preset: re.sub("[A-Z]{3,}", "(.+)", re.escape(preset)) for preset in known}
    if name in kinds:
        return name
    fitting = [preset for preset, pattern in kinds.items() if re.fullmatch(pattern, name)]
    return max(fitting, key=lambda preset: len(re.sub("[A-Z]{3,}", "", preset)), default="")


def sections(page: pathlib.Path) -> set[str]:
    """The names by which links reach the headings of a page, as GitHub makes them."""
    text = page.read_text() if page.is_file() else ""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def read(folder: pathlib.Path) -> list[Finding]:
    """The rows of a folder's `findings.csv`; none without one.

    Raises:
      ValueError: the columns are others, or a row is longer or shorter.
    """
    path = folder / NAME
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    columns = ",".join(Finding._fields)
    if not lines or tuple(lines[0]) != Finding._fields:
        raise ValueError(f"{path}: expected the columns {columns}")
    for number, line in enumerate(lines, 1):
        if len(line) != len(Finding._fields):
            raise ValueError(f"{path}:{number}: {len(line)} values, expected those of {columns}")
    return [Finding(*line) for line in lines[1:]]


def wrong(rows: list[Finding], known: list[str], headings: set[str]) -> Iterator[str]:
    """What is wrong with rows, one line each. known: presets. headings: of the page beside."""
    seen = set()
    for row in rows:
        if not preset_of(row.preset, known):
            yield f"{row.preset}: no such preset"
        if (row.preset, row.measure) in seen:
            yield f"{row.preset}: two rows of {row.measure!r}"
        seen.add((row.preset, row.measure))
        if row.section not in headings:
            yield f"{row.preset}: README.md has no section {row.section!r}"
        yield from (f"{row.preset}: {line}" for line in _wrong_numbers(row))


def _wrong_numbers(row: Finding) -> Iterator[str]:
    result = (row.seeds, row.measure, row.value, row.low, row.high, row.spread, row.minutes)
    if row.missing:
        if any(result):
            yield "there is a result, and a reason why there is none"
        return
    if not row.measure:
        yield "the measure is missing: name the metric, and on how many tasks"
    if not row.seeds.isdecimal() or int(row.seeds) == 0:
        yield f"seeds={row.seeds!r}: expected their number"
    value, low, high, minutes = map(_number, (row.value, row.low, row.high, row.minutes))
    if value is None:
        yield f"value={row.value!r}: expected a number, or say in `missing` why there is none"
    if row.minutes and minutes is None:
        yield f"minutes={row.minutes!r}: expected a number"
    if row.low or row.high or row.spread:
        if row.spread not in SPREADS:
            yield f"spread={row.spread!r}: expected one of {', '.join(SPREADS)}"
        if low is None or high is None or (value is not None and not low <= value <= high):
            yield f"{row.value} [{row.low}, {row.high}]: expected low <= value <= high"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def without(folder: pathlib.Path, known: list[str], rows: list[Finding]) -> list[str]:
    """The presets of a folder for which no row stands, nor a table of their own."""
    shown = {preset_of(row.preset, known) for row in rows}
    for preset in known:
        table = folder / f"{preset.partition(':')[0].removesuffix('.py')}.csv"
        if table.is_file() and len(table.read_text().splitlines()) > 1:
            shown.add(preset)
    return [preset for preset in known if preset not in shown]
