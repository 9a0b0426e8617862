"""A clock in every observation: what is seen hardly ever repeats, and means the same."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.fingerprint import fingerprint
from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@struct.dataclass
class ClockState(WrapperState):
    """clock: i32[], the minute that is shown."""

    clock: jax.Array


@dataclasses.dataclass(frozen=True)
class Clock(Wrapper):
    """Each observation has a clock with one of `minutes` random times, which do not matter.

    The clock is a share of `minutes` behind an observation that is a vector of floats (others stay
    as they are), and a last line in words. Anchors of="observation" include it, so that two turns
    are seldom acted from the same; those of="state" are the environment's.

    Expert: the environment's.

    Source: ours, for methods that compare what agents saw: GiGPO's anchor groups by equality and by
    similarity.
    """

    minutes: int = 60

    words: ClassVar[str] = "envs.wrappers.clock_words"
    deterministic: ClassVar[bool] = False
    timed: ClassVar[Any] = property(lambda self: self.base.timed)

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.minutes <= 60:
            raise ValueError(f"Clock minutes={self.minutes}: expected 1 to 60")

    @property
    def default_params(self) -> WrapperParams:
        return WrapperParams(base=self.base.default_params)

    @property
    def _shown(self) -> bool:
        return self.base.num_codes is None and len(self.base.observation_shape) == 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The environment's, one longer if it is a vector of floats."""
        shape = self.base.observation_shape
        return (shape[0] + 1,) if self._shown else shape

    def observe(self, state: ClockState, params: WrapperParams) -> jax.Array:
        seen = super().observe(state, params)
        return jnp.append(seen, state.clock / self.minutes) if self._shown else seen

    def fingerprint(
        self, state: ClockState, params: WrapperParams, *, of: str = "observation"
    ) -> jax.Array:
        if of == "observation":
            return fingerprint((self.base.observe(state.base, params.base), state.clock))[None]
        return super().fingerprint(state, params, of=of)

    def initial(self, key: jax.Array, params: WrapperParams) -> ClockState:
        task_key, clock_key = jax.random.split(key)
        return ClockState(
            time=jnp.zeros((), jnp.int32),
            base=self.base.initial(task_key, params.base),
            clock=jax.random.randint(clock_key, (), 0, self.minutes),
        )

    def step_env(
        self, key: jax.Array, state: ClockState, action: jax.Array, params: WrapperParams
    ) -> tuple[jax.Array, ClockState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """The environment's step, and another time after a legal action."""
        ended = self.is_terminated(state, params) | self.is_truncated(state, params)
        step_key, clock_key = jax.random.split(key)
        _, base, *told = self.base.step_env(step_key, state.base, action, params.base)
        another = jax.random.randint(clock_key, (), 0, self.minutes)
        clock = jnp.where(told[-1]["valid"], another, state.clock)
        following = ClockState(time=state.time + 1, base=base, clock=clock)
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        return self.observe(following, params), following, *told

    def render(self, state: ClockState, params: WrapperParams) -> str:
        return f"{super().render(state, params)}\nIt is {int(state.clock)} past."
