"""Worker processes with an environment each: asked without waiting, watched, and replaced.

The processes are ours, started with `subprocess`; what comes from them is JSON, never code.
"""

import contextlib
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from envs.hosted import worker as protocol

# Starts in a row that fail before it is taken for certain that none will succeed.
_FAILED_STARTS = 3
# Seconds that workers have to close their environments when the run ends.
_GRACE = 1.0


class HostError(RuntimeError):
    """An environment outside JAX that cannot be started or played; the message says why."""


class Answer(NamedTuple):
    """What came of a request to a worker: its reply, or None and what went wrong."""

    worker: int
    reply: dict[str, Any] | None
    failure: str = ""


class _Worker:
    """One process and what is known of it. `deadline`: of the request under way, or None."""

    def __init__(self, number: int, python: str, source: str, options: Mapping[str, Any]):
        self.number = number
        self.began = False
        self.buffer = bytearray()
        self.deadline: float | None = None
        # Unbuffered and appended to, so that cutting it at 0 is all there is to forget.
        self.noise = tempfile.TemporaryFile("a+b", buffering=0)
        # A session of its own: Ctrl-C is for us to answer, and whatever the environment starts can
        # be ended with it. Several workers share the cores, and so none takes all for itself.
        self.process = subprocess.Popen(
            [python, str(pathlib.Path(protocol.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.noise,
            start_new_session=True,
            env={"OMP_NUM_THREADS": "1", **os.environ},
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.send({"op": "make", "source": source, "options": dict(options)})

    def send(self, message: Mapping[str, Any]) -> None:
        # A process that is gone is found so by what it does not answer.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(protocol.frame(message))
            self.process.stdin.flush()

    def receive(self) -> tuple[dict[str, Any] | None, str]:
        """(message, "") if a whole one is there, (None, what went wrong) or (None, "")."""
        ended = False
        while True:
            try:
                data = os.read(self.process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not data:
                ended = True
                break
            self.buffer += data
        try:
            message = protocol.unframe(self.buffer)
        except (ValueError, json.JSONDecodeError) as error:
            return None, f"it sent no message ({error})"
        if message is not None:
            return message, ""
        if not ended:
            return None, ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        return None, f"its process ended with status {self.process.poll()}{self.last_words()}"

    def last_words(self) -> str:
        size = os.fstat(self.noise.fileno()).st_size
        tail = os.pread(self.noise.fileno(), 2000, max(0, size - 2000)).decode(errors="replace")
        lines = tail.strip().splitlines()
        return f"; its last words: {' / '.join(lines[-3:])}" if lines else ""

    def end(self) -> None:
        """Ends the process and all that it has started, now."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.noise.close()


class Pool:
    """A number of workers; those that fail are replaced by new ones.

    A worker has at most one request under way. It fails by raising, by ending, by sending what is
    no message, or by not answering within `timeout_s` seconds (`start_timeout_s` for the start);
    each of them is an answer without a reply, and the worker's successor is started at once.
    """

    def __init__(
        self,
        source: str,
        options: Mapping[str, Any],
        *,
        python: str = "",
        workers: int,
        timeout_s: float,
        start_timeout_s: float,
    ):
        self._start = (python or sys.executable, source, options)
        self._timeouts = (timeout_s, start_timeout_s)
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0
        self.replaced = 0
        self.about: dict[str, Any] | None = None
        self._workers: list[_Worker] = []
        try:
            for number in range(workers):
                self._workers.append(self._begin(number))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _begin(self, number: int) -> _Worker:
        python, source, options = self._start
        try:
            worker = _Worker(number, python, source, options)
        except OSError as error:
            raise HostError(
                f"environment {source!r}: cannot start {python!r} ({error}); name a Python "
                "interpreter in env.python, or leave it empty for this one"
            ) from None
        worker.deadline = time.monotonic() + self._timeouts[1]
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def idle(self) -> list[int]:
        """Workers that have nothing to do."""
        return [w.number for w in self._workers if w.began and w.deadline is None]

    def ask(self, number: int, request: Mapping[str, Any]) -> None:
        """Sends a request to an idle worker; `wait` gives its answer."""
        worker = self._workers[number]
        if request["op"] == "reset":
            os.ftruncate(worker.noise.fileno(), 0)
        worker.deadline = time.monotonic() + self._timeouts[0]
        worker.send(request)

    def wait(self, seconds: float | None = None) -> list[Answer]:
        """Answers that have come; waits until something happens, or `seconds` if given.

        There may be none even so: a worker that has started gives no answer, but is idle then, and
        of a long answer there may only be a part.

        Raises:
          HostError: the environment cannot be started.
        """
        due = [w.deadline for w in self._workers if w.deadline is not None]
        if due:
            until_due = max(0.0, min(due) - time.monotonic())
            seconds = until_due if seconds is None else min(seconds, until_due)
        # Whatever is readable now was in time: the clock is read after, so that our own absence
        # (a program that was compiled meanwhile) is held against nobody.
        readable = {key.data.number: key.data for key, _ in self._selector.select(seconds)}
        now = time.monotonic()
        answers = []
        for worker in list(self._workers):
            message, failure = worker.receive() if worker.number in readable else (None, "")
            if message is not None:
                failure = message.get("error", "")
            elif not failure and worker.deadline is not None and worker.deadline <= now:
                limit = self._timeouts[0 if worker.began else 1]
                failure = f"no answer within {limit:g} seconds{worker.last_words()}"
            if failure:
                answers += self._replace(worker, failure)
            elif message is not None:
                answers += self._answered(worker, message)
        return answers

    def _answered(self, worker: _Worker, message: dict[str, Any]) -> list[Answer]:
        worker.deadline = None
        if worker.began:
            return [Answer(worker.number, message)]
        worker.began, self._failed_starts, self.about = True, 0, message
        return []

    def _replace(self, worker: _Worker, failure: str) -> list[Answer]:
        self._selector.unregister(worker.process.stdout)
        worker.end()
        if not worker.began:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS or self.about is None:
                raise HostError(f"environment {self._start[1]!r} does not start: {failure}")
        self.replaced += worker.began
        self._workers[worker.number] = self._begin(worker.number)
        asked = worker.began and worker.deadline is not None
        return [Answer(worker.number, None, failure)] if asked else []

    def close(self) -> None:
        """Ends all workers; those that are not busy may close their environments first."""
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError):
                worker.process.stdin.close()
        until = time.monotonic() + _GRACE
        for worker in self._workers:
            if worker.deadline is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.process.wait(max(0.0, until - time.monotonic()))
            worker.end()
        self._workers = []
        self._selector.close()


def probe(
    source: str, options: Mapping[str, Any], *, python: str = "", start_timeout_s: float
) -> dict[str, Any]:
    """What an environment says of itself, {"seats": A, "has_success": bool}, by starting it once.

    Raises:
      HostError: it does not start.
    """
    with Pool(
        source,
        options,
        python=python,
        workers=1,
        timeout_s=start_timeout_s,
        start_timeout_s=start_timeout_s,
    ) as pool:
        while pool.about is None:
            pool.wait()
        return pool.about
