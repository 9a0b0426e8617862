"""Shared by the command lines: flags with clear errors, options, and the compilation cache."""

import ast
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging


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


def read(values: flags.FlagValues, arguments: Sequence[str]) -> list[str]:
    """Reads a command line, of which the first word is the program; what is left over.

    Raises:
      ValueError: it cannot be read.
    """
    try:
        return values(arguments, known_only=False)
    except (AttributeError, KeyError, TypeError, ValueError, OSError, flags.Error) as error:
        # ml_collections wraps an exception about a key in an AttributeError.
        inner = next((e for e in (error, *error.args) if isinstance(e, KeyError)), None)
        raise ValueError(error if inner is None else _of_key(inner, arguments)) from None


def _parse(arguments: Sequence[str]) -> list[str]:
    try:
        return read(flags.FLAGS, arguments)
    except ValueError as error:
        fail(error)


def run(main: Callable[[Sequence[str]], None]) -> None:
    """absl's `app.run`, with errors in flags and config files as one line."""
    # Libraries report every step of a checkpoint at level INFO.
    logging.set_verbosity(logging.WARNING)
    app.run(main, flags_parser=_parse)


def given(config: Any) -> Any:
    """The config of a flag --config; ends the program if it was left out or its file is missing."""
    if config is None:
        fail("--config is missing: name a file, for example --config=configs/credit/coin.py")
    try:
        config.keys()
    except OSError as error:  # ml_collections reports a missing file at the first access
        fail(error)
    return config


def use_compilation_cache() -> None:
    """Keeps compiled programs across processes, so that a command starts faster the second time.

    The directory is $AGENTRL_CACHE, else $XDG_CACHE_HOME/agentrl, else ~/.cache/agentrl; an empty
    $AGENTRL_CACHE turns the cache off.
    """
    import jax

    home = os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))
    directory = os.environ.get("AGENTRL_CACHE", str(pathlib.Path(home) / "agentrl"))
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
