"""A pool of worker processes, one environment each, with asynchronous requests and replacement.

The processes are started with `subprocess`; messages from them are JSON, never code.
"""

import contextlib
import json
import os
import pathlib
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from envs.hosted import worker as protocol
from envs.hosted.answers import answers

# After this many failed starts in a row the environment is considered broken.
_FAILED_STARTS = 3
# Seconds that workers have to close their environments when the run ends.
_GRACE = 1.0


class HostError(RuntimeError):
    """An environment in Python cannot be started or played; the message gives the reason."""


class Answer(NamedTuple):
    """Result of a request to a worker: its reply, or None and the reason of the failure."""

    worker: int
    reply: dict[str, Any] | None
    failure: str = ""


class _Worker:
    """One process and its state. `pending`: the op of its last request; `deadline`: until when its
    answer may come, None if there is no request."""

    def __init__(self, number: int, python: str, source: str, options: Mapping[str, Any]):
        self.number = number
        self.began = False
        self.buffer = bytearray()
        self.deadline: float | None = None
        self.pending = "make"
        self._mark = secrets.token_hex(16)
        # Unbuffered and opened for appending, so that truncating it at 0 discards all of
        # it.
        self.noise = tempfile.TemporaryFile("a+b", buffering=0)
        # A session of its own: Ctrl-C is handled by this process, and all processes that
        # the environment starts can be ended with it. Workers share the cores, so none may
        # use all of them.
        self.process = subprocess.Popen(
            [python, str(pathlib.Path(protocol.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.noise,
            start_new_session=True,
            env={"OMP_NUM_THREADS": "1", **os.environ, protocol.MARK: self._mark},
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.send({"op": "make", "source": source, "options": dict(options)})

    def send(self, message: Mapping[str, Any]) -> None:
        self.pending = message["op"]
        # A process that has died is detected by its missing answer.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(protocol.frame(message))
            self.process.stdin.flush()

    def receive(self) -> tuple[dict[str, Any] | None, str]:
        """(message, "") if a whole one arrived, (None, reason) after a failure, else (None, "")."""
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
        """Ends the process and all processes that it has started, immediately."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        protocol.end_marked(self._mark)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.noise.close()


class Pool:
    """A fixed number of workers; those that fail are replaced.

    A worker has at most one pending request. It fails by raising, by exiting, by sending an invalid
    message, or by not answering within `timeout_s` seconds (`start_timeout_s` for the start). A
    failure gives an answer without a reply, and a new worker is started at once.
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
        """Workers without a pending request."""
        return [w.number for w in self._workers if w.began and w.deadline is None]

    def ask(self, number: int, request: Mapping[str, Any]) -> None:
        """Sends a request to an idle worker; `wait` returns its answer."""
        worker = self._workers[number]
        if request["op"] == "reset":
            os.ftruncate(worker.noise.fileno(), 0)
        worker.deadline = time.monotonic() + self._timeouts[0]
        worker.send(request)

    def wait(self, seconds: float | None = None) -> list[Answer]:
        """Answers that have arrived; waits until something happens, or `seconds` if given.

        The list may be empty: a worker that has started gives no answer but becomes idle, and of a
        long answer only a part may have arrived.

        Raises:
          HostError: the environment cannot be started.
        """
        due = [w.deadline for w in self._workers if w.deadline is not None]
        if due:
            until_due = max(0.0, min(due) - time.monotonic())
            seconds = until_due if seconds is None else min(seconds, until_due)
        # Data that are readable now arrived in time: the clock is read afterwards, so that
        # time spent elsewhere in this process (such as a compilation) does not count
        # against a worker.
        readable = {key.data.number: key.data for key, _ in self._selector.select(seconds)}
        now = time.monotonic()
        answers = []
        for worker in list(self._workers):
            message, failure = worker.receive() if worker.number in readable else (None, "")
            if message is not None:
                failure = self._wrong(worker, message)
            elif not failure and worker.deadline is not None and worker.deadline <= now:
                limit = self._timeouts[0 if worker.began else 1]
                failure = f"no answer within {limit:g} seconds{worker.last_words()}"
            if failure:
                answers += self._replace(worker, failure)
            elif message is not None:
                answers += self._answered(worker, message)
        return answers

    def _wrong(self, worker: _Worker, message: Any) -> str:
        """What is wrong with a message, "" if it answers the request: the environment shares the
        process, and may have written it itself."""
        if isinstance(message, dict) and isinstance(message.get("error"), str):
            return message["error"]
        asked = worker.deadline is not None
        if asked and answers(worker.pending, message, self.about or {}):
            return ""
        return f"it sent no answer, but {json.dumps(message):.200}"

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
        """Ends all workers; idle ones may close their environments first."""
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
    """Starts an environment once and returns its properties, {"seats": A, "has_success": bool}.

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
