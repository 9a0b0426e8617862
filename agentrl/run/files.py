"""Files of a run's directory: where they may lie, and how JSON is read and written.

What is wrong with one of them is a `RunError`: one line with what was found, what was expected and
what to do. Nothing is changed before it is raised. Imports no jax.
"""

import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable
from typing import Any

# What a run keeps in its directory.
FILES = (
    "config.json",
    "provenance.json",
    "process.json",
    "pending.json",
    "stages.json",
    "metrics.jsonl",
    "writers.json",
    "mlflow.db",
)
FOLDERS = ("checkpoints", "eval", "tb", "wandb", "rejected", "trajectories")
# Whether the user can be asked about who counts.
_EFFECTIVE = os.access in os.supports_effective_ids


class RunError(RuntimeError):
    """A run that cannot start, resume or be read; the message gives the remedy."""


def steps(directory: pathlib.Path) -> list[int]:
    """Updates with a finished checkpoint, ascending. Incomplete saves do not count.

    Nor do other names that Python reads as numbers (of other scripts, or with zeros before them):
    Orbax does not see them, either.
    """
    if not directory.is_dir():
        return []
    found = (p for p in directory.iterdir() if re.fullmatch(r"0|[1-9][0-9]*", p.name))
    return sorted(int(p.name) for p in found if p.is_dir())


def write_json(path: pathlib.Path, content: object) -> None:
    """Writes JSON with sorted keys; readers see the old file or the whole new one, never a part."""
    temporary = temporary_of(path)
    temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    os.replace(temporary, path)


def temporary_of(path: pathlib.Path) -> pathlib.Path:
    """The file that `write_json` renames; it stays if the process is killed in between."""
    return path.with_suffix(".tmp")


def read_json(
    path: pathlib.Path,
    keys: Iterable[str] = (),
    remedy: str = "put a copy of it back, or use another --workdir",
) -> dict[str, Any]:
    """A JSON object that has these keys. RunError with the remedy for anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not readable JSON ({error}); {remedy}") from None
    if not isinstance(content, dict):
        raise RunError(
            f"{path} contains {json.dumps(content)[:40]}, expected a JSON object; {remedy}"
        )
    missing = [key for key in keys if key not in content]
    if missing:
        raise RunError(f"{path} has no {', '.join(map(repr, missing))}; {remedy}")
    return content


def check(workdir: pathlib.Path) -> None:
    """RunError unless a run can be written in the directory, which may be missing."""
    place = workdir
    try:
        place = _nearest(workdir)
        if not place.is_dir():
            raise RunError(
                f"--workdir={workdir}: {place} is a {_kind(place)}, expected a directory; use "
                "another --workdir"
            )
        if place == workdir:
            _check_entries(workdir)
        with tempfile.TemporaryFile(dir=place):  # without a name, where the file system has that
            pass
    except OSError as error:
        where = "" if place == workdir else f"in {place}: "
        raise RunError(
            f"--workdir={workdir}: no run can be written there ({where}{error.strerror}); make it "
            "writable, or use another --workdir"
        ) from None


def _nearest(path: pathlib.Path) -> pathlib.Path:
    """The path, or the closest place above it where something is. OSError if nothing can be."""
    for place in (path, *path.parents):
        try:
            place.stat()
            return place
        except FileNotFoundError:
            if place.is_symlink():
                return place
        except NotADirectoryError:  # it is below a file
            continue
    return pathlib.Path()


def _check_entries(workdir: pathlib.Path) -> None:
    """RunError for a file in the place of a directory, and the other way round."""
    for names, expected in ((FILES, "file"), (FOLDERS, "directory")):
        for path in (workdir / name for name in names):
            if os.path.lexists(path) and _kind(path) != expected:
                raise RunError(
                    f"{path} is a {_kind(path)}, expected a {expected}; move it away, or use "
                    "another --workdir"
                )
            need = os.R_OK if expected == "file" else os.R_OK | os.W_OK | os.X_OK
            if path.exists() and not os.access(path, need, effective_ids=_EFFECTIVE):
                able = "readable" if expected == "file" else "writable"
                raise RunError(
                    f"{path} is not {able}; change its permissions, or use another --workdir"
                )


def _kind(path: pathlib.Path) -> str:
    """What a path is, for messages."""
    if path.is_dir():
        return "directory"
    if path.is_file():
        return "file"
    return "link that leads nowhere" if path.is_symlink() else "special file"
