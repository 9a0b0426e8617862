"""Base class of the wrappers: everything that a subclass does not change is `base`'s."""

import dataclasses
from typing import Any, ClassVar

import jax
from flax import struct

from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class WrapperState(EnvState):
    """base: the wrapped environment's state. `time` counts the wrapper's steps."""

    base: EnvState


@struct.dataclass
class WrapperParams:
    """base: the wrapped environment's params, whose limits and rewards hold."""

    base: EnvParams

    @property
    def max_steps_in_episode(self) -> int:
        """The wrapped environment's limit."""
        return self.base.max_steps_in_episode

    @property
    def illegal_reward(self) -> float:
        """The wrapped environment's reward of an illegal action."""
        return self.base.illegal_reward


def check_base(name: str, base: Any) -> None:
    """ValueError unless a wrapper can be around an environment: ours, one agent, discrete."""
    # gymnax's environments have no state apart from `reset_env`.
    ours = isinstance(base, Environment) and type(base).initial is not Environment.initial
    if not ours or base.num_agents != 1 or base.continuous:
        raise ValueError(
            f"{name} base={base!r}: expected an environment of this package with one agent and "
            "discrete actions, as {'name': 'Coin-v1', ...} in envs.make"
        )


def check_subgoals(name: str, base: Any) -> None:
    """ValueError unless `check_base` holds and the environment has subgoals and a vector of floats
    as observation."""
    check_base(name, base)
    plain = base.num_codes is None and len(base.observation_shape) == 1
    if not base.subgoal_names or not plain:
        raise ValueError(
            f"{name} base={base.name}: expected an environment with subgoals whose observation is "
            "a vector of floats, as {'name': 'KeyDoor-v1', ...} in envs.make"
        )


@dataclasses.dataclass(frozen=True)
class Wrapper(Environment):
    """An environment of one agent around another, `base`.

    `envs.make("envs.wrappers.NAME", base={"name": "Coin-v1", ...}, ...)`, in a config
    `env_section("envs.wrappers.NAME", base=env_section("Coin-v1"), ...)`; wrappers nest.

    A subclass defines `default_params`, `initial` and `step_env` with a `WrapperState`, and what
    else it changes. Anchors are the wrapped environment's.
    """

    base: Environment

    wraps: ClassVar[bool] = True
    wordings: ClassVar[Any] = property(lambda self: self.base.wordings and self.words)
    # Module of the wrapper's wordings, if `base` has words.
    words: ClassVar[str] = ""
    num_codes: ClassVar[Any] = property(lambda self: self.base.num_codes)
    has_success: ClassVar[Any] = property(lambda self: self.base.has_success)
    kinds: ClassVar[Any] = property(lambda self: self.base.kinds)
    costly_reset: ClassVar[Any] = property(lambda self: self.base.costly_reset)
    deterministic: ClassVar[Any] = property(lambda self: self.base.deterministic)

    def __post_init__(self):
        check_base(type(self).__name__, self.base)

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.base.name})"

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.base.action_names

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.base.observation_shape

    def added(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(the action is the wrapper's own, the environment's action otherwise), for a wrapper with
        one action behind the environment's."""
        # Actions with free text have numbers behind all others.
        number = self.base.num_actions
        return action == number, action - (action > number)

    def observe(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.observe(state.base, params.base)

    def is_terminated(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.is_terminated(state.base, params.base)

    def is_truncated(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.is_truncated(state.base, params.base)

    def is_success(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.is_success(state.base, params.base)

    def legal(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.legal(state.base, params.base)

    def is_legal(self, state: WrapperState, action: jax.Array, params: WrapperParams) -> jax.Array:
        return self.base.is_legal(state.base, action, params.base)

    def rejected(self, state: WrapperState, params: WrapperParams) -> WrapperState:
        return state.replace(base=self.base.rejected(state.base, params.base))

    def expert(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.expert(state.base, params.base)

    def kind_of(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.kind_of(state.base, params.base)

    @property
    def subgoal_names(self) -> tuple[str, ...]:
        return self.base.subgoal_names

    def reached(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.reached(state.base, params.base)

    def subgoal(self, state: WrapperState, params: WrapperParams) -> jax.Array:
        return self.base.subgoal(state.base, params.base)

    def fingerprint(
        self, state: WrapperState, params: WrapperParams, *, of: str = "observation"
    ) -> jax.Array:
        return self.base.fingerprint(state.base, params.base, of=of)

    def render(self, state: WrapperState, params: WrapperParams) -> str:
        return self.base.render(state.base, params.base)
