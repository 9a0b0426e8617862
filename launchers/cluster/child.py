"""The process of a job: `launchers.train`, with its output in the job's log."""

import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from launchers.cluster.launch import Job, Resources
from launchers.cluster.remote import STOPPED_CODE


def command(job: Job, resources: Resources) -> list[str]:
    """The command of a job, for each of its nodes."""
    line = [sys.executable, "-m", "launchers.train", *job.arguments, f"--workdir={job.workdir}"]
    if resources.nodes > 1:
        line.append("--distributed")
    return [*line, f"--stopped_code={STOPPED_CODE}"]


def start(
    line: list[str], log: pathlib.Path, environment: Mapping[str, str], **options: Any
) -> subprocess.Popen:
    """Starts a command whose output is added to a log.

    environment: beside this process's. options: of `subprocess.Popen`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(line)}\n".encode())
        output.flush()
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            **options,
        )


def stopped(code: int) -> bool:
    """Whether a process ended because it was told to: it has saved, or had not begun to train."""
    return code in (STOPPED_CODE, -signal.SIGTERM)


def write_code(path: pathlib.Path, code: int) -> None:
    """Writes an exit code, at once or not at all."""
    code = STOPPED_CODE if stopped(code) else code
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(f"{code}\n")
    os.replace(temporary, path)
