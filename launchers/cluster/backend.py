"""What a back end has to provide."""

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

from launchers.cluster.launch import Job, Launch


class State(enum.StrEnum):
    """What a job is doing, as its scheduler says; what it has learnt, its run directory says."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"
    STOPPED = "stopped"  # saved and not at its end, or not begun: the same sweep goes on with it
    DONE = "done"
    UNKNOWN = "unknown"  # the scheduler has forgotten it, or cannot be asked


class Backend(Protocol):
    """Carries out launches. Every method may raise `ValueError` with one clear line."""

    def plan(self, launch: Launch) -> str:
        """Exactly what `submit` would submit, as text. Contacts nothing."""

    def submit(self, launch: Launch, names: Sequence[str]) -> Mapping[str, str]:
        """Submits the jobs of these names, in their stages; {job's name: scheduler's number}."""

    def states(self, launch: Launch, numbers: Mapping[str, str]) -> Mapping[str, State]:
        """{job's name: state} of jobs that were submitted."""

    def cancel(self, launch: Launch, numbers: Mapping[str, str]) -> None:
        """Asks these jobs to save and stop. A later submission goes on with them."""

    def logs(self, launch: Launch, job: Job) -> str:
        """The newest output of a job; "" if it has none."""
