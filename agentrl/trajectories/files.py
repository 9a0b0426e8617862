"""Files of trajectories: one episode per line, written whole or not at all."""

import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from agentrl.trajectories.schema import Episode, SchemaError, from_line, to_line


class Rejected(NamedTuple):
    """A line that is no episode. line: its number, from 1."""

    path: pathlib.Path
    line: int
    reason: str

    def __str__(self) -> str:
        """The message for people, one line."""
        return f"{self.path}, line {self.line}: {self.reason}"


def tell(rejected: Rejected) -> None:
    """Says on stderr that a line was left out."""
    print(f"left out: {rejected}", file=sys.stderr)


def write(path: pathlib.Path, episodes: Iterable[Episode]) -> int:
    """Writes the episodes, and returns how many; readers see the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, count = path.with_suffix(".tmp"), 0
    with temporary.open("w", encoding="utf-8", newline="\n") as out:
        for episode in episodes:
            out.write(to_line(episode) + "\n")
            count += 1
    os.replace(temporary, path)
    return count


def read(
    path: str | os.PathLike[str], report: Callable[[Rejected], None] = tell
) -> Iterator[Episode]:
    """The episodes of a file, in order; `report` is called with each line that is none.

    Blank lines are skipped. Episodes of the same id are read once, the first.

    Raises:
      OSError: the file cannot be read.
    """
    path, seen = pathlib.Path(path), set()
    with path.open("rb") as lines:
        for i, data in enumerate(lines, 1):
            if not data.strip():
                continue
            try:
                episode = from_line(data.decode("utf-8"))
                if episode.id in seen:
                    raise SchemaError(f"id: {episode.id!r} a second time, expected each once")
            except UnicodeDecodeError as error:
                report(Rejected(path, i, f"not UTF-8 ({error.reason} at byte {error.start})"))
            except SchemaError as error:
                report(Rejected(path, i, str(error)))
            else:
                seen.add(episode.id)
                yield episode


def found(directory: pathlib.Path) -> list[pathlib.Path]:
    """The files of trajectories of a run's directory, in order of updates."""
    return sorted((directory / "trajectories").glob("*.jsonl"))
