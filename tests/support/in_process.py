"""Launchers in this process: their flags, their `main`, and nothing left over for the next one."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

from absl import flags

# Launchers that take words beside their flags: directories, a shell.
WITH_WORDS = ("launchers.runs", "launchers.completion")


@contextlib.contextmanager
def _own_flags() -> Iterator[flags.FlagValues]:
    """absl's flags emptied, so that a launcher defines its own; then as they were before."""
    kept = dict(flags.FLAGS.__dict__)
    flags.FLAGS.__dict__.clear()
    flags.FLAGS.__init__()
    try:
        yield flags.FLAGS
    finally:
        flags.FLAGS.__dict__.clear()
        flags.FLAGS.__dict__.update(kept)


def launch(words, *, main: bool = True):
    """Parses the flags of `launchers.NAME ...`, and with `main` runs it, too.

    Returns {flag: value}, what it prints, and its error, "" for none.
    """
    values, done = _run(words, main)
    assert not done.returncode or done.stderr, f"exit code {done.returncode}"
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    return values, done.stdout, "\n".join(errors)


def call_here(module, *arguments, text="", cwd=None):
    """What `commands.call` returns of `launchers.MODULE ARGUMENTS`, without a process of its own.

    It has the simulated devices and the compiled programs of this process.
    """
    words = [f"launchers.{module}", *map(str, arguments)]
    with (
        contextlib.chdir(cwd or os.curdir),
        mock.patch.object(sys, "stdin", io.StringIO(text)),
        # The tests' own compilation cache stays.
        mock.patch.dict(os.environ, AGENTRL_CACHE=""),
    ):
        return _run(words, main=True)[1]


def _run(words, main: bool):
    """({flag: value}, the ended call) of a launcher."""
    name, argv = words[0], sys.argv
    out, error, code = io.StringIO(), io.StringIO(), 0
    # A config's overrides are read off sys.argv, and flags are defined when a module is imported.
    sys.argv, before = list(words), sys.modules.pop(name, None)
    for other in ("launchers.search", "launchers.search.flags"):  # which define flags, too
        sys.modules.pop(other, None)
    values = {}
    with _own_flags() as own, contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            cli = importlib.import_module("launchers.cli")
            module = importlib.import_module(name)
            left = cli._parse(sys.argv)
            values = own.flag_values_dict()
            if main:
                module.main(left)
            else:
                assert len(left) == 1 or name in WITH_WORDS, f"{left[1]} is not a flag"
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.argv = argv
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before
    done = subprocess.CompletedProcess(list(words), code, out.getvalue(), error.getvalue())
    return values, done
