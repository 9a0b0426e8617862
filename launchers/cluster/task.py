"""What a task of a Slurm job runs: one process of `launchers.train`, and what signals do to it."""

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
from typing import Any

from launchers.cluster import child

_ANSWER_SECONDS = 60


class Training:
    """Called by submitit in the task, which calls `checkpoint` when its signal arrives.

    Args:
      name: of the job.
      line: the command.
      log, code: files of the output and the exit code, of the first task; others have the task's
        number in the log's name.
      retries: how often it begins again.
    """

    def __init__(
        self, name: str, line: list[str], log: pathlib.Path, code: pathlib.Path, retries: int
    ):
        self._made_of = (name, line, log, code, retries)
        self.name, self.line, self.log, self.code, self.retries = self._made_of
        self._process: subprocess.Popen | None = None
        self._told = self._is_spent = False

    def __call__(self) -> None:
        """Runs to the end. RuntimeError if the run failed, so that Slurm's job fails, too."""
        rank = int(os.environ.get("SLURM_PROCID", "0"))
        log = self.log if rank == 0 else self.log.with_suffix(f".{rank}.log")
        if rank == 0:
            self.code.unlink(missing_ok=True)
            _scontrol("update", f"JobId={_number()}", f"JobName={self.name}")
        self._is_spent = _restarts() > self.retries
        code = child.STOPPED_CODE if self._is_spent else self._run(log)
        if self._told and child.stopped(code) and not self._is_spent and rank == 0:
            # Slurm requeues or cancels the job itself, or has left it the time to end.
            if _state() == "RUNNING":
                _scontrol("requeue", _number())
        if self._is_spent:
            with log.open("a") as output:
                output.write(f"error: begun again {self.retries} times, which is all (--retries)\n")
            code = 1
        if rank == 0:
            child.write_code(self.code, code)
        if code and (rank == 0 or not child.stopped(code)):
            raise RuntimeError(f"{self.name} ended with exit code {code}; see {log}")

    def checkpoint(self) -> Any:
        """Tells the run to save and waits. What is submitted again, or None if nothing is."""
        import submitit

        if self._process is not None:
            if not self._told:
                self._process.send_signal(signal.SIGTERM)
            # Without `Popen.wait`, which the handler has interrupted and which holds a lock.
            with contextlib.suppress(ChildProcessError):
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
                # A signal that killed the process is a negative code, as in `subprocess`.
                sign = 1 if ended.si_code == os.CLD_EXITED else -1
                if not child.stopped(sign * ended.si_status):
                    return None
        self._is_spent = _restarts() >= self.retries
        if self._is_spent:
            return None
        return submitit.helpers.DelayedSubmission(Training(*self._made_of))

    def _run(self, log: pathlib.Path) -> int:
        from submitit.core.job_environment import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        signal.signal(signal.SIGTERM, self._note)
        # Slurm sends submitit's signal to all processes of the task; it would kill the run.
        ignore = functools.partial(signal.signal, JobEnvironment._usr_sig(), signal.SIG_IGN)
        self._process = child.start(self.line, log, {}, preexec_fn=ignore)
        try:
            return self._process.wait()
        except UncompletedJobError:  # `checkpoint` returned None
            return self._process.wait()

    def _note(self, number: int, frame: Any) -> None:
        self._told = True


def _number() -> str:
    array, job = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ["SLURM_JOB_ID"]
    return job if array is None else f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def _restarts() -> int:
    """How often Slurm has requeued the job."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def _state() -> str:
    """What Slurm says of the job, "" if it does not answer."""
    state = ["squeue", "--noheader", "--format=%T", f"--jobs={_number()}"]
    done = subprocess.run(
        state, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
    )
    return done.stdout.strip()


def _scontrol(*arguments: str) -> None:
    subprocess.run(
        ["scontrol", *arguments], capture_output=True, timeout=_ANSWER_SECONDS, check=False
    )
