"""Launchers as processes of their own, as a user starts them."""

import os
import socket
import subprocess
import sys

# Whole programs compile in a third of the time.
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}


def call(module, *arguments, text="", cwd=None, optimized=False):
    """`python -m launchers.MODULE ARGUMENTS`, compiled as in the tests or, `optimized`, as users
    get it, which takes three times as long."""
    environment = os.environ | QUICK
    if optimized:
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return subprocess.run(
        [sys.executable, "-m", f"launchers.{module}", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=cwd,
    )


def free_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def refused(done, *words):
    """One line on stderr that starts with error:, exit code 2."""
    lines = [x for x in done.stderr.splitlines() if x.startswith("error:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    for word in words:
        assert word in lines[0], lines[0]
