"""Environments in Python, outside the accelerator, each in a process of its own.

Their names start with their source, `envs.make("textarena:TicTacToe-v0")`; `envs.hosted.worker`
explains how to write one of your own.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from envs.agents import Agents
from envs.hosted.pool import HostError as HostError
from envs.hosted.pool import Pool as Pool
from envs.hosted.pool import probe
from envs.text import View


def _nothing(state: Any, params: Any) -> Any:
    raise NotImplementedError("the state of an environment in Python is visible to its worker only")


# An empty lexicon: such an environment may write any text.
_VIEW = View(
    lexicon=("",),
    describe=_nothing,
    templates=(),
    slots=_nothing,
    max_fragments=1,
    max_bytes=1,
    max_command_bytes=1,
)


@dataclasses.dataclass(frozen=True)
class Hosted(Agents):
    """An environment that `pool` starts, with its properties.

    name: its source, see `envs.hosted.worker`. options: its options. python: the interpreter; ""
    for the current one. start_timeout_s: time limit of its start, in seconds.
    num_agents: number of players. has_success: whether it reports success. simultaneous: all agents
    act at once. callers, roles, speakers: see `envs.hosted.worker`. observation_shape, num_actions,
    continuous: of environments of numbers; () and 0 of those in words. metrics: names of the
    numbers that it reports. calls_model: it is a program that calls the model itself.
    """

    in_python: ClassVar[Literal[True]] = True

    name: str
    options: Mapping[str, Any]
    python: str
    start_timeout_s: float
    num_agents: int = 1
    has_success: bool = False
    simultaneous: bool = False
    observation_shape: tuple[int, ...] = ()
    num_actions: int = 0
    continuous: bool = False
    callers: tuple[int, ...] | None = None
    roles: tuple[int, ...] | None = None
    speakers: int = 1
    metrics: tuple[str, ...] = ()
    calls_model: bool = False

    # Observations are numbers, not codes.
    num_codes: ClassVar[None] = None
    # Its state is not seen here.
    anchors: ClassVar[tuple[str, ...]] = ()
    # Its tasks are not sorted into kinds.
    kinds: ClassVar[tuple[str, ...]] = ()

    @property
    def roles_of_seats(self) -> tuple[int, ...]:
        """The role of each seat: `roles` as declared, or a role of its own for each agent."""
        return tuple(range(self.num_agents)) if self.roles is None else self.roles

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        """One team where agents call others, else each its own."""
        return super().sides_of_seats if self.callers is None else (0,) * self.num_agents

    @property
    def in_turns(self) -> bool:
        """The agents act one at a time."""
        return self.num_agents > 1 and not self.simultaneous

    @property
    def view(self) -> View:
        return _VIEW

    def pool(self, workers: int, timeout_s: float) -> Pool:
        """Starts `workers` processes; an answer may take `timeout_s` seconds."""
        return Pool(
            self.name,
            self.options,
            python=self.python,
            workers=workers,
            timeout_s=timeout_s,
            start_timeout_s=self.start_timeout_s,
        )


def make(
    name: str, *, python: str = "", start_timeout_s: float = 120.0, **options: Any
) -> tuple[Hosted, None]:
    """Starts the environment once to read its properties, and ends it: (Hosted, None).

    python, start_timeout_s: see `Hosted`. options: the environment's own.

    Raises:
      ValueError: it does not start; the message gives the reason.
    """
    try:
        about = probe(name, options, python=python, start_timeout_s=start_timeout_s)
    except HostError as error:
        raise ValueError(str(error)) from None
    env = Hosted(
        name=name,
        options=options,
        python=python,
        start_timeout_s=start_timeout_s,
        num_agents=about["seats"],
        has_success=about["has_success"],
        simultaneous=about.get("simultaneous", False),
        callers=tuple(about["callers"]) if "callers" in about else None,
        roles=tuple(about["roles"]) if "roles" in about else None,
        speakers=about.get("speakers", 1),
        metrics=tuple(about.get("metrics", ())),
        calls_model=about.get("calls_model", False),
        observation_shape=tuple(about.get("observation_shape", ())),
        num_actions=about.get("num_actions", 0),
        continuous=about.get("continuous", False),
    )
    return env, None
