"""NumberLine-v1: walk to a number, one step at a time.

Source: gym-cards (RL4VLM, and the copy in verl-agent), read; replayed against recorded episodes.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class NumberLineState(EnvState):
    """position i32[], target i32[], both in 0..length."""

    position: jax.Array
    target: jax.Array


@dataclasses.dataclass(frozen=True)
class NumberLine(Environment):
    """The numbers 0 to `length`.

    Observation: uint8[2], position and target. Actions: 0 down, 1 up, always legal; moves beyond
    the ends do nothing. Reward: 1 on reaching the target, -1 if the distance did not shrink, else
    0. Ends at the target; limit 2 `length` steps, 10 for the reference's 0..5. Task: position and
    target uniform among unequal pairs. Deviations: the reference moves an equal target by one,
    which makes a few pairs twice as likely, and an unreadable action does not count as a step.

    Expert: towards the target; optimal.
    """

    length: int = 5

    wordings: ClassVar[str] = "envs.number_line.words"
    # In gym-cards' order: action 0 subtracts 1, action 1 adds 1.
    action_names: ClassVar[tuple[str, ...]] = ("-", "+")

    def __post_init__(self):
        if not 1 <= self.length <= 255:
            raise ValueError(
                f"length is {self.length}: expected 1 to 255 (numbers are stored in bytes)"
            )

    @property
    def num_codes(self) -> int:
        """One more than the largest number."""
        return self.length + 1

    @property
    def default_params(self) -> EnvParams:
        """Twice the time that the longest walk needs."""
        return EnvParams(max_steps_in_episode=2 * self.length)

    def initial(self, key: jax.Array, params: EnvParams) -> NumberLineState:
        position, gap = jax.random.randint(
            key, (2,), jnp.array([0, 1]), jnp.array([self.length + 1, self.length + 1])
        )
        target = (position + gap) % (self.length + 1)
        return NumberLineState(jnp.zeros((), jnp.int32), position, target)

    def transition(
        self, key: jax.Array, state: NumberLineState, action: jax.Array, params: EnvParams
    ) -> tuple[NumberLineState, jax.Array]:
        del key, params
        position = jnp.clip(state.position + jnp.where(action == 1, 1, -1), 0, self.length)
        distance = jnp.abs(position - state.target)
        shrank = distance < jnp.abs(state.position - state.target)
        reward = jnp.where(distance == 0, 1.0, jnp.where(shrank, 0.0, -1.0))
        return state.replace(position=position), reward

    def observe(self, state: NumberLineState, params: EnvParams) -> jax.Array:
        return jnp.stack([state.position, state.target]).astype(jnp.uint8)

    def is_terminated(self, state: NumberLineState, params: EnvParams) -> jax.Array:
        return state.position == state.target

    def is_success(self, state: NumberLineState, params: EnvParams) -> jax.Array:
        return state.position == state.target

    def expert(self, state: NumberLineState, params: EnvParams) -> jax.Array:
        return (state.target > state.position).astype(jnp.int32)

    def render(self, state: NumberLineState, params: EnvParams) -> str:
        """For example `target 4 | current 3`."""
        return f"target {int(state.target)} | current {int(state.position)}"
