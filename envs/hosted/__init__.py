"""Environments in Python, outside the accelerator: each in a process of its own.

Named by where they are from, `envs.make("textarena:TicTacToe-v0")`; how to write one of your own
stands in `envs.hosted.worker`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from envs.agents import Agents
from envs.hosted.pool import HostError as HostError
from envs.hosted.pool import Pool as Pool
from envs.hosted.pool import probe
from envs.text import View


def _nothing(state: Any, params: Any) -> Any:
    raise NotImplementedError("an environment outside JAX is seen by its processes only")


# No fragments: what such an environment says is any text at all.
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
    """An environment that `pool` starts, and what it says of itself.

    name: where it is from, see `envs.hosted.worker`. options: what it is made with. python: the
    interpreter; "" for this one. start_timeout_s: seconds that it may take to start.
    num_agents: who play. has_success: whether it tells of success. simultaneous: all agents act at
    once. observation_shape, num_actions, continuous: of environments of numbers; () and 0 of those
    in words.
    """

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

    # Observations are numbers, not codes.
    num_codes: ClassVar[None] = None

    @property
    def in_turns(self) -> bool:
        """The agents act one at a time."""
        return self.num_agents > 1 and not self.simultaneous

    @property
    def view(self) -> View:
        """Without words of its own."""
        return _VIEW

    def pool(self, workers: int, timeout_s: float) -> Pool:
        """That many processes of it; an answer may take `timeout_s` seconds."""
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
    """Starts the environment once, to hear who plays, and ends it: (Hosted, None).

    python, start_timeout_s: see `Hosted`. options: the environment's own.

    Raises:
      ValueError: it does not start; says why.
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
        observation_shape=tuple(about.get("observation_shape", ())),
        num_actions=about.get("num_actions", 0),
        continuous=about.get("continuous", False),
    )
    return env, None
