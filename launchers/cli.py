"""Shared by the command lines: flags with clear errors, options, and the compilation cache."""

import ast
import functools
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

import launchers
from launchers import config_files

# Seeds are 32 bits. Of more tasks or matches the keys alone fill the memory of small machines.
LARGEST_SEED = 2**31 - 1
MOST_TASKS = 10_000_000


def one_line(message: object) -> str:
    """A message of several lines as one."""
    lines = str(message).strip().splitlines()
    if any("Traceback" in line for line in lines):  # a config file that raised: its error message
        lines = lines[-1:]
    return " ".join(" ".join(lines).split())


def fail(message: object) -> NoReturn:
    """Ends the program with one line on stderr and exit code 2."""
    print(f"error: {one_line(message)}", file=sys.stderr)
    sys.exit(2)


def output(flag: str, path: str, *, folder: bool = False) -> pathlib.Path:
    """The path of a file, or folder, that a command writes once its work is done.

    Ends the program, before the work, if it cannot be written.
    """
    out, kind = pathlib.Path(path), "folder" if folder else "file"
    where = f"--{flag}={path}"
    try:
        if not path:
            fail(f"--{flag} is empty: name a {kind}")
        if out.is_dir() and not folder:
            fail(f"{where}: this is a folder; expected the name of a file, such as {out / 'out'}")
        if out.exists() and folder and not out.is_dir():
            fail(f"{where}: this is a file; expected the name of a folder to write into")
        places = [out.absolute(), *out.absolute().parents][not folder :]
        there = next(place for place in places if os.path.lexists(place))
        if not there.is_dir():
            fail(f"{where}: {there} is no folder; name another {kind}")
        with tempfile.TemporaryFile(dir=there):  # no other way tells for all file systems
            pass
    except OSError as error:
        fail(f"{where}: nothing can be written there ({error.strerror}); name another {kind}")
    return out


def named(flag: str, values: Sequence[str], example: str) -> list[str]:
    """The words of a flag; ends the program if there is none, or an empty one."""
    if not values or not all(values):
        fail(f"--{flag}={','.join(values)}: expected one name or several, such as {example}")
    return list(values)


# What flags and config files raise for what a user gave.
_WRONG = (AttributeError, KeyError, TypeError, SyntaxError, ValueError, OSError, flags.Error)


def _of_key(error: KeyError, arguments: Sequence[str]) -> str:
    """Message for an invalid key: the exception contains its name, and perhaps a similar one."""
    key, _, similar = str(error.args[0] if error.args else "").partition("\n")
    key = key.strip("'\"")
    for argument in arguments:
        path = argument.partition("=")[0].lstrip("-")
        if path.startswith("config.") and key in path.split(".") and similar:
            return f"--{path}: this config has no {key!r}. {similar}"
        if key == "name" and path.endswith(".name"):
            return (
                f"--{path}: {path.removesuffix('.name')} is of one function alone and has no name"
            )
        if path.startswith("config.") and key in path.split("."):
            section = path.partition(f".{key}")[0]
            return (
                f"--{path}: this config has no {key!r}; a section that names another function is "
                f"given as a whole, --{section}=\"{{'name': ..., '{key}': ...}}\""
            )
    return str(error)


def _of_import(error: ImportError) -> str:
    """Message for an import that failed in a config file, with what could be meant."""
    pattern = r"cannot import name '(\w+)' from 'configs'|No module named 'configs\.(.+)'"
    name = re.search(pattern, str(error))
    home = config_files.moved(name[1] or name[2]) if name else ""
    remedy = "modules are found in the folder where the command is started, and on PYTHONPATH"
    return f"{error}; {f'it is {home}' if home else remedy}"


@functools.cache
def _say_which(path: pathlib.Path) -> None:
    """Once: a sweep reads the same file for each of its cells."""
    print(f"config: {path}", file=sys.stderr)


def _with_config(arguments: Sequence[str]) -> tuple[list[str], str, str | None]:
    """The arguments with the path at which the file of --config is, that path, and the variant.

    Prints the variants and ends the program if the variant is "?". ValueError without such a file.
    """
    arguments = list(arguments)
    for i, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag not in ("--config", "-config"):
            continue
        if not equals and i + 1 < len(arguments):
            i, flag, equals, value = i + 1, "", "", arguments[i + 1]
        named, colon, variant = value.partition(":")
        path = config_files.located(named)
        config_files.check_defines(named, path)
        if variant == "?":
            print(config_files.explained(named, config_files.glance(path)))
            sys.exit(0)
        if path != pathlib.Path(named):
            _say_which(path)
        arguments[i] = f"{flag}{equals}{path}{colon}{variant}"
        return arguments, named, variant if colon else None
    return arguments, "", None


def read(values: flags.FlagValues, arguments: Sequence[str]) -> list[str]:
    """Reads a command line, of which the first word is the program; what is left over.

    Raises:
      ValueError: it cannot be read.
    """
    path, variant = "", None
    if "config" in values:
        arguments, path, variant = _with_config(arguments)
    try:
        rest = values(arguments, known_only=False)
        _check_variant(path, variant)
        return rest
    except ImportError as error:
        raise ValueError(_of_import(error)) from None
    except _WRONG as error:
        _check_variant(path, variant)
        # ml_collections wraps an exception about a key in an AttributeError.
        inner = next((e for e in (error, *error.args) if isinstance(e, KeyError)), None)
        raise ValueError(error if inner is None else _of_key(inner, arguments)) from None


def _parse(arguments: Sequence[str]) -> list[str]:
    try:
        return read(flags.FLAGS, arguments)
    except ValueError as error:
        fail(error)


def _check_variant(path: str, variant: str | None) -> None:
    """ValueError if --config names a variant that its file, which is loaded, does not have."""
    module = sys.modules.get("config_config")  # the name under which ml_collections loads it
    if variant is not None and hasattr(module, "get_config"):
        config_files.check_variant(path, variant, module)


def run(main: Callable[[Sequence[str]], None]) -> None:
    """absl's `app.run`, with errors in flags and config files as one line."""
    for line in launchers.hidden():
        print(line, file=sys.stderr)
    # Libraries report every step of a checkpoint at level INFO.
    logging.set_verbosity(logging.WARNING)
    app.run(main, flags_parser=_parse)


def given(config: Any) -> Any:
    """The config of a flag --config; ends the program if it was left out or cannot be read."""
    if config is None:
        fail("--config is missing: name a file, for example --config=configs/credit/coin.py")
    try:
        config.keys()
    except OSError as error:  # which ml_collections keeps for the first access
        fail(error.__cause__ or error)
    try:
        check_trains(config)
    except ValueError as error:
        fail(error)
    return config


def check_trains(config: Any) -> None:
    """ValueError for a config that launchers.solve is for."""
    if "game" in config and "method" in config:
        raise ValueError(
            "this config is of launchers.solve, which solves a game exactly: start python -m "
            "launchers.solve --config=FILE --out=FILE.json"
        )


def cache_home() -> pathlib.Path:
    """$XDG_CACHE_HOME, else ~/.cache. By its specification an empty or a relative one is none."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
    return home if home.is_absolute() else pathlib.Path.home() / ".cache"


def use_compilation_cache() -> None:
    """Keeps compiled programs across processes, so that a command starts faster the second time.

    The directory is $AGENTRL_CACHE, else agentrl in `cache_home()`; an empty $AGENTRL_CACHE turns
    the cache off.
    """
    import jax

    directory = os.environ.get("AGENTRL_CACHE", str(cache_home() / "agentrl"))
    if not directory:
        return
    jax.config.update("jax_compilation_cache_dir", directory)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def parse_options(text: str) -> dict[str, Any]:
    """Options written as keyword arguments; a word without quotes is a string.

    Raises:
      ValueError: the text has another form.
    """
    try:
        call = ast.parse(f"options({text})", mode="eval").body
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        return {keyword.arg: _literal(keyword.value) for keyword in call.keywords}
    except (AttributeError, SyntaxError, ValueError):
        raise ValueError(
            f"--options={text!r}: expected name=value, ..., for example size=(7, 7), boxes=2"
        ) from None


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
