"""Checksums beside a checkpoint's files: a bit that a disk has flipped is found before it is used.

Imports no jax.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable

from agentrl.run import files

NAME = "checksums.json"
# SHA-256 has instructions of its own in processors: twice as fast as BLAKE2 there.
_ALGORITHM = "sha256"


def write(folder: pathlib.Path) -> None:
    """Keeps the checksum of every file below a folder in the folder's checksums.json."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != NAME]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    sums = dict(zip(names, _digests(folder, names, _ALGORITHM), strict=True))
    files.write_json(folder / NAME, {"algorithm": _ALGORITHM, "files": sums})


def damage(folder: pathlib.Path) -> str | None:
    """The first file below a folder that is not as `write` found it, and how; None if all are.

    Also None without checksums, as earlier versions left their checkpoints.
    """
    path = folder / NAME
    if not os.path.lexists(path):
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        algorithm, sums = content["algorithm"], dict(content["files"])
        hashlib.new(algorithm)
        if not all(isinstance(name, str) for name in (*sums, *sums.values())):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        return f"{path} is not readable"
    try:
        for name, digest in zip(sums, _digests(folder, sums, algorithm), strict=True):
            if digest != sums[name]:
                return f"{folder / name} is not as it was saved (its checksum differs)"
    except OSError as error:
        return f"{error.filename or folder} cannot be read ({error.strerror})"
    return None


def _digests(folder: pathlib.Path, names: Iterable[str], algorithm: str) -> list[str]:
    """Digests of the files, a few at once: hashing does not hold Python's lock."""

    def digest(name: str) -> str:
        with (folder / name).open("rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest()

    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(digest, names))
