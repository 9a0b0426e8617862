"""Packages that import a name's module when the name is first used.

    if TYPE_CHECKING:
        from agentrl.losses.value import value_loss as value_loss

    __getattr__, __dir__ = lazy(__name__)

Readers and type checkers see ordinary imports, and a run loads the modules that it uses. A name
that is also a module of the package is imported outside of the block: the module would take its
place.
"""

import ast
import pathlib
import sys
from collections.abc import Callable
from typing import Any


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for the names that it imports `as` themselves."""
    module = sys.modules[package]
    homes = {
        alias.name: node.module
        for node in ast.walk(ast.parse(pathlib.Path(module.__file__).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(__import__(homes[name], fromlist=[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted(homes)
