"""Command lines: see README.md.

Importing this package makes sure that the `agentrl`, `envs` and `configs` that are imported are
those beside it, also where a project has packages of these names, which come first on the path.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]


def _others(name: str) -> list[pathlib.Path]:
    """Folders and modules of a package's name that precede ours on the path."""
    found = []
    for entry in sys.path:
        folder = pathlib.Path(entry or ".").absolute()
        if folder == ROOT:
            break
        found += [p for p in (folder / name, folder / f"{name}.py") if p.is_dir() or p.is_file()]
    return found


# What precedes ours, by the name of the package.
OTHERS = {
    name: others
    for name in ("agentrl", "envs", "configs")
    if name not in sys.modules and (others := _others(name))
}


class _OursFirst(importlib.abc.MetaPathFinder):
    """Finds our packages, whose modules may also lie in folders of `OTHERS`, after ours."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in OTHERS:
            return None
        folders = [ROOT / fullname, *(other for other in OTHERS[fullname] if other.is_dir())]
        return importlib.util.spec_from_file_location(
            fullname,
            folders[0] / "__init__.py",
            submodule_search_locations=[str(folder) for folder in folders],
        )


def hidden() -> list[str]:
    """A line for each module and each `__init__.py` in `OTHERS` that is not run."""
    files = [
        other / "__init__.py" if other.is_dir() else other
        for others in OTHERS.values()
        for other in others
    ]
    return [
        f"{file} is not run: agentrl's own package of that name is imported, and modules beside it "
        "are found"
        for file in files
        if file.is_file() and file.stat().st_size > 0
    ]


if OTHERS:
    sys.meta_path.insert(0, _OursFirst())
