"""Signals while the main thread is busy outside of Python."""

import signal
import subprocess
import sys
import time

import pytest

from agentrl.run.signals import Stop

SCRIPT = """
import hashlib, sys
from agentrl.run.signals import Stop
with Stop() as stop:
    stop.saved = 7
    print("busy", flush=True)
    # One call into C, which lets other threads run and no handler in Python.
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", int(sys.argv[1]))
print("stopped" if stop.requested else "done", flush=True)
"""


def busy(rounds):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "busy\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_a_run_at_once(number):
    process = busy(2**31 - 1)
    process.send_signal(number)
    first = process.stderr.readline()
    assert number.name in first and "a second signal ends it at once (saved: update 7)" in first
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number and "ended at once; saved: update 7" in err


def test_the_first_signal_lets_the_program_end():
    process = busy(3_000_000)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "stopped\n" and len(err.splitlines()) == 1


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        assert signal.getsignal(signal.SIGTERM) != before
        signal.raise_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while not stop.requested:
            assert time.monotonic() < deadline
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1
