"""Launchers as processes of their own, as a user starts them."""

import os
import subprocess
import sys


def call(module, *arguments, text="", cwd=None):
    """`python -m launchers.MODULE ARGUMENTS`, without this process's simulated devices."""
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
