"""Config files of a command line: where they are, and the variants that they have."""

import ast
import contextlib
import difflib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import pathlib
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import launchers

CONFIGS = launchers.ROOT / "configs"


def located(path: str) -> pathlib.Path:
    """The file of --config: the path from here or, if there is none, in the installed configs.

    Raises:
      ValueError: there is no such file; names where it is now, or the nearest one.
    """
    here = pathlib.Path(path)
    if here.is_file():
        return here
    places = [here.absolute()]
    installed = launchers.ROOT / path
    for folder in (here, installed):
        if folder.is_dir():
            inside = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*.py"))]
            inside = [x for x in inside if not x.startswith("_") and "/_" not in x]
            such = f", such as {pathlib.Path(path) / inside[0]}" if inside else ""
            raise ValueError(f"{path}: this is a folder; expected a config file{such}")
    if installed.resolve().is_relative_to(CONFIGS.resolve()):
        if installed.is_file():
            return installed
        places.append(installed)
    known = _known(here.parent)
    same = [shown for shown in known if pathlib.Path(shown).name == here.name]
    if same:
        raise ValueError(f"{path}: no such file; it is {' or '.join(same)}")
    looked = " and ".join(dict.fromkeys(map(str, places)))
    message = f"{path}: no such file; looked for {looked}"
    names = {pathlib.Path(shown).stem: shown for shown in reversed(known)}
    close = difflib.get_close_matches(here.stem, names, n=1, cutoff=0.6)
    close += [name for name in names if here.stem and here.stem in name]
    raise ValueError(message + (f"; did you mean {names[close[0]]}?" if close else ""))


def _known(folder: pathlib.Path) -> list[str]:
    """Files that can be given: those of a folder, of `configs` here, and the installed ones."""
    here = [p for p in folder.glob("*.py") if p.is_file()] if folder.is_dir() else []
    own = [*here, *pathlib.Path("configs").rglob("*.py")]
    installed = [path.relative_to(launchers.ROOT) for path in CONFIGS.rglob("*.py")]
    paths = dict.fromkeys([*sorted(own), *sorted(installed)])
    return [str(p) for p in paths if not p.name.startswith("_") and p.parent.name != "_shared"]


def check_defines(named: str, path: pathlib.Path) -> None:
    """ValueError unless a file, named so by the user, is one of Python that gives `get_config`."""
    expected = "expected a config file, which defines get_config(), as configs/credit/coin.py"
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno}: {error.msg})" if isinstance(error, SyntaxError) else ""
        raise ValueError(f"{named}: this is no Python{line}; {expected}") from None
    except OSError as error:
        raise ValueError(f"{named}: {error.strerror}; {expected}") from None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name):
            names.add(node.id)
    if not {"get_config", "*"} & names:
        raise ValueError(f"{named}: this file has no get_config(); {expected}")


def moved(missing: str) -> str:
    """The module of `configs` that has the name of one that is missing; "" if there is not one."""
    stem = missing.rpartition(".")[2]
    found = [path for path in CONFIGS.rglob(f"{stem}.py") if path.parent != CONFIGS]
    parts = found[0].relative_to(launchers.ROOT).with_suffix("").parts if len(found) == 1 else ()
    return ".".join(parts)


class Absent(types.ModuleType):
    """A module that is not imported; what is taken from it, called or computed is the same."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: tuple) -> tuple:
        return (_AbsentBase,)

    __getitem__ = __or__ = __ror__ = __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __call__


class _AbsentClass(type):
    def __getattr__(cls, name: str) -> Any:
        return getattr(Absent(name), name)


class _AbsentBase(metaclass=_AbsentClass):
    """In the place of a class that is not imported, for classes that derive from it."""


class _AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `Absent` for all but some packages and the standard library."""

    def __init__(self, packages: tuple[str, ...]):
        self._found = {*packages, *sys.stdlib_module_names}

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in self._found:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


@contextlib.contextmanager
def _absent(packages: tuple[str, ...], instead: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """Leaves no module behind, but of the standard library."""
    before, finder = dict(sys.modules), _AbsentFinder(packages)
    sys.meta_path.insert(0, finder)
    sys.modules.update(instead)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [x for x in sys.modules if sys.modules[x] is not before.get(x)]:
            if name.partition(".")[0] in sys.stdlib_module_names:
                continue
            module, (parent, _, child) = sys.modules.pop(name), name.rpartition(".")
            if getattr(sys.modules.get(parent), child, None) is module:
                delattr(sys.modules[parent], child)
            if name in before:
                sys.modules[name] = before[name]


def glance(
    path: pathlib.Path,
    packages: tuple[str, ...] = ("configs",),
    instead: Mapping[str, types.ModuleType] = types.MappingProxyType({}),
) -> types.ModuleType:
    """A config file as a module, in milliseconds: nothing that it imports is, but `configs`.

    packages: those that are imported, beside the standard library. instead: modules that take the
    place of others.

    Raises:
      What the file raises if it has to know something of what it imports.
    """
    spec = importlib.util.spec_from_file_location("config_file", path)
    module = importlib.util.module_from_spec(spec)
    with _absent(packages, instead):
        spec.loader.exec_module(module)
    return module


def is_closed(variants: Iterable[str]) -> bool:
    """Whether there are no others: words in capitals stand for any of their kind."""
    return not any(re.search("[A-Z]{3}", name) for name in variants)


def check_variant(path: str, variant: str, module: types.ModuleType) -> None:
    """ValueError if the config file has variants, and not this one, or takes none."""
    variants = getattr(module, "VARIANTS", None)
    if not inspect.signature(module.get_config).parameters:
        raise ValueError(f"{path}:{variant}: this config has no variants; leave ':{variant}' out")
    if variants is None or variant in variants or not is_closed(variants):
        return
    close = difflib.get_close_matches(variant, variants, n=1, cutoff=0.5)
    raise ValueError(
        f"{path}:{variant}: no such variant{f' (did you mean {close[0]!r}?)' if close else ''}; "
        f"expected one of {', '.join(variants)}"
    )


def explained(path: str, module: types.ModuleType) -> str:
    """What a config file is about, and its variants, one line each."""
    lines = [(inspect.getdoc(module) or "").partition("\n")[0]]
    variants = getattr(module, "VARIANTS", None)
    parameters = list(inspect.signature(module.get_config).parameters.values())
    if not parameters:
        return "\n".join([*lines, f"{path} has no variants."])
    default = parameters[0].default
    if variants is None:
        return "\n".join([*lines, f"{path}:{parameters[0].name.upper()}, by default {default!r}."])
    meanings = variants if isinstance(variants, dict) else {}
    for name in variants:
        meaning = meanings.get(name)
        notes = [meaning] if isinstance(meaning, str) and meaning else []
        notes += ["the default"] if name == default else []
        lines.append(f"  {path}:{name}" + (f"   {'; '.join(notes)}" if notes else ""))
    return "\n".join(lines)
