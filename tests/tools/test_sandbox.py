"""The interpreter of agents: it computes and prints; all else is refused, and nothing is left."""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from hostile_programs import PROGRAMS

from agentrl.tools import interpreter
from agentrl.tools.function import Call
from agentrl.tools.sandbox import Output, run_program


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print(3 * 4)", Output("12\n", "ok")),
        ("import math, statistics; print(math.comb(5, 2), statistics.mean([1, 2]))", "10 1.5\n"),
        ("x = 'é'\nprint(x, end='')", Output("é", "ok")),
        ("import sys; print('a'); sys.exit(3)", Output("a\n", "failed")),
        ("if __name__ == '__main__': print(1)", "1\n"),
        ("", ""),
    ],
)
def test_programs_print_what_they_compute(program, expected):
    expected = Output(expected, "ok") if isinstance(expected, str) else expected
    assert run_program(program) == expected


def test_errors_are_read_with_their_lines():
    out = run_program("def f():\n  return 1 / 0\nf()")
    assert out.status == "failed"
    assert out.text.splitlines()[1:] == [
        '  File "program", line 3, in <module>',
        '  File "program", line 2, in f',
        "ZeroDivisionError: division by zero",
    ]


def left_behind():
    """Files and processes that a program might have left."""
    marks = [path for path in pathlib.Path("/tmp").glob("agentrl_left*")]
    running = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            running += [path] if b"closed_process.py" in path.read_bytes() else []
        except OSError:
            continue
    return marks + running


@pytest.mark.parametrize("kind", PROGRAMS)
def test_hostile_programs_are_stopped_and_leave_nothing(kind):
    # Of those that differ in a path, a mode or a number every sixth.
    some = PROGRAMS[kind][:: 6 if kind in ("files", "processes") else 2]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        before = time.monotonic()
        outs = list(threads.map(lambda p: run_program(p, seconds=1.5, memory_mb=192), some))
    assert time.monotonic() - before < 60
    for program, out in zip(some, outs, strict=True):
        assert "escaped" not in out.text, program
        assert out.status != "ok" or not out.text, program
        assert len(out.text.encode()) < 1 << 17
    assert kind != "time" or {out.status for out in outs} <= {"timeout", "failed"}
    assert not left_behind()


def test_a_program_ends_with_the_process_that_runs_it():
    code = (
        "from agentrl.tools.sandbox import run_program\nprint('begun', flush=True)\n"
        "run_program('import time; time.sleep(100)', seconds=100)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    until = time.monotonic() + 20
    while not left_behind() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    while left_behind() and time.monotonic() < until:
        time.sleep(0.05)
    assert not left_behind()


def test_the_tool_shows_what_is_printed_or_what_went_wrong():
    python = interpreter(seconds=1.0, longest=60)
    assert python.run(Call("python", {"code": "print(6 * 7)"})).text == "42\n"
    long = python.run(Call("python", {"code": "print('ab' * 500)"}))
    assert len(long.text) == 60 and long.status == "ok"
    late = python.run(Call("python", {"code": "while True: pass"}))
    assert late.status == "failed" and "no end in 1 s" in late.text


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="needs Linux and the package pyseccomp"):
        interpreter()
