"""Python programs of an agent, each in a process that can compute and write, and nothing else."""

import contextlib
import importlib.util
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from agentrl.tools.function import Keep, Tool, shortened, tool

# What programs may import: modules that are there before the process is closed.
MODULES = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "heapq", "itertools", "json", "math", "operator", "random", "re", "statistics"),
    *("string", "textwrap", "time", "typing"),
)
_CHUNK = 1 << 16


class Output(NamedTuple):
    """What a program wrote, both streams. status: "ok"; "failed", it raised or was ended by the
    system; "timeout"; "written", it wrote more than it may and was ended."""

    text: str
    status: Literal["ok", "failed", "timeout", "written"]


def check_platform() -> None:
    """RuntimeError where programs cannot be closed in: not Linux, or without package pyseccomp."""
    if not sys.platform.startswith("linux") or importlib.util.find_spec("pyseccomp") is None:
        raise RuntimeError(
            "a Python interpreter for agents needs Linux and the package pyseccomp: "
            "pip install 'agentrl[tools]'"
        )


def run_program(
    program: str,
    *,
    seconds: float = 5.0,
    memory_mb: int = 256,
    output_bytes: int = 1 << 16,
    modules: Sequence[str] = MODULES,
) -> Output:
    """Runs a Python program and returns what it wrote.

    Its process has no files, no network and no other processes: by a filter of system calls
    (seccomp) it may compute, take memory, read the clock and write to its two outputs, which the
    kernel holds it to. `modules` are imported beforehand; nothing else can be. It is ended after
    `seconds` of wall time or of processor time, and where it writes more than `output_bytes`;
    beyond `memory_mb` it gets a MemoryError.

    Raises:
      RuntimeError: see `check_platform`.
    """
    check_platform()
    runner = pathlib.Path(__file__).with_name("closed_process.py")
    limits = [str(memory_mb), str(int(seconds) + 1), ",".join(modules)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", str(runner), *limits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd="/",
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        data, status = _output(process, program.encode(errors="replace"), seconds, output_bytes)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    text = data.decode(errors="replace")
    if status == "ok" and process.returncode:
        status = "failed"
        if process.returncode < 0:
            text += f"\nended by signal {signal.Signals(-process.returncode).name}"
    return Output(text, status)


def _output(process, program, seconds, most):
    """(bytes written, status) of a process that is given its program."""
    out, until = bytearray(), time.monotonic() + seconds
    # The runner reads all of it before it begins.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(program)
        process.stdin.close()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return bytes(out), "timeout"
            if not selector.select(left):
                continue
            data = os.read(process.stdout.fileno(), _CHUNK)
            out += data
            if len(out) > most:
                return bytes(out[:most]), "written"
            if not data:
                break
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, until - time.monotonic()))
        return bytes(out), "ok"
    return bytes(out), "timeout"


def interpreter(
    *,
    name: str = "python",
    seconds: float = 5.0,
    memory_mb: int = 256,
    longest: int = 2048,
    keep: Keep = "both",
    calls: int | None = None,
    modules: Sequence[str] = MODULES,
) -> Tool:
    """A tool that runs a Python program and shows what it prints; see `run_program`.

    Each call is a program by itself. name, longest, keep, calls: see `agentrl.tools.tool`.
    """
    check_platform()

    def run(code: str) -> str:
        out = run_program(code, seconds=seconds, memory_mb=memory_mb, modules=modules)
        if out.status == "ok":
            return out.text
        why = {"timeout": f"no end in {seconds:g} s", "written": "it wrote too much"}
        raise RuntimeError(
            shortened(f"{out.text}\n{why.get(out.status, '')}".strip(), longest, keep)
        )

    about = (
        f"Runs a Python program and returns what it prints. Modules: {', '.join(modules)}; no "
        "files, no network."
    )
    # The process has a limit of its own, which comes first.
    options = {"longest": longest, "keep": keep, "calls": calls, "timeout_s": seconds + 5}
    return tool(run, name=name, description=about, **options)
