"""The lines of metrics.jsonl, good and damaged. Imports no jax."""

import functools
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Numbers of damaged lines that a warning names.
_NAMED = 5


class Line(NamedTuple):
    """One line, with its end. number: from 1. record: None if it is not one of a run."""

    number: int
    text: bytes
    record: dict[str, Any] | None


def record_of(text: bytes) -> dict[str, Any] | None:
    """A line as a record, which has a seed and an update, both whole numbers; None if it is not."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or JSON of no run
        return None
    whole = isinstance(record, dict) and all(
        isinstance(record.get(name), int) and not isinstance(record[name], bool)
        for name in ("seed", "update")
    )
    return record if whole else None


def lines(path: pathlib.Path) -> Iterator[Line]:
    """All lines of a file but blank ones, and a last one without an end that is no record: it is
    being written, or the process was killed. Damaged lines are told on stderr, once a process."""
    damaged = []
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            record = record_of(text)
            if record is None and not text.endswith(b"\n"):
                break
            if record is None:
                damaged.append(number)
            yield Line(number, text, record)
    if damaged:
        _tell(path, tuple(damaged))


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """The records of a file, in its order."""
    return [line.record for line in lines(path) if line.record is not None]


def told(numbers: Sequence[int]) -> str:
    """What is said of damaged lines."""
    shown = ", ".join(map(str, numbers[:_NAMED]))
    shown += f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    one = len(numbers) == 1
    return f"line{'' if one else 's'} {shown} {'is' if one else 'are'} no record of a run"


@functools.cache
def _tell(path: pathlib.Path, numbers: tuple[int, ...]) -> None:
    print(f"warning: {path}: {told(numbers)}; the others are read", file=sys.stderr)
