"""SIGTERM and SIGINT: the first lets a run save and stop, the second ends it at once."""

import os
import signal
import sys
import threading
from typing import Any

# Clusters announce the end of a job 30 to 120 seconds ahead.
NOTICE_SECONDS = 30.0


class Stop:
    """Set by SIGTERM and SIGINT; the loop checks it after every program.

    A handler in Python waits until the main thread returns from the program that it runs, which
    may take minutes. Therefore a thread reads the signals' numbers, which the interpreter writes
    into a pipe as they arrive.
    """

    def __init__(self):
        self.requested = False
        self.saved: int | None = None  # the update of the last checkpoint, for the message
        # While entered: the pipe, the handlers and wake-up file before it, and the thread.
        self._writes, self._wakeup = -1, -1
        self._before: dict[int, Any] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Stop":
        reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._wakeup = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, self._set) for number in (signal.SIGTERM, signal.SIGINT)
        }
        self._thread = threading.Thread(target=self._watch, args=(reads,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writes)
        self._thread.join()

    def _set(self, number: int, frame: object) -> None:
        self.requested = True

    def _watch(self, reads: int) -> None:
        again = False
        while number := os.read(reads, 1):
            if number[0] not in self._before:
                continue
            name = signal.Signals(number[0]).name
            kept = "nothing is saved yet" if self.saved is None else f"saved: update {self.saved}"
            if again:
                print(f"{name} again: ended at once; {kept}", file=sys.stderr, flush=True)
                os._exit(128 + number[0])
            again = self.requested = True
            print(
                f"{name}: the run saves and stops after the program that is running; a second "
                f"signal ends it at once ({kept})",
                file=sys.stderr,
                flush=True,
            )
        os.close(reads)
