"""FrozenLake-v1: cross a lake with holes, on slippery ice or not (RAGEN's rules)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.frozen_lake import rules

FROZEN, HOLE, GOAL, PLAYER, PLAYER_IN_HOLE, PLAYER_ON_GOAL = range(6)
GLYPHS = "_OGPX*"


@struct.dataclass
class FrozenLakeState(EnvState):
    """holes: words of `rules.pack`; goal, position i32[] (cells are numbered by rows)."""

    holes: tuple[jax.Array, ...]
    goal: jax.Array
    position: jax.Array


@struct.dataclass
class FrozenLakeParams(EnvParams):
    """frozen: probability that a cell is ice. success_rate: probability to move ahead if
    slippery."""

    max_steps_in_episode: int = 10
    frozen: float = 0.8
    success_rate: float = 1 / 3


@dataclasses.dataclass(frozen=True)
class FrozenLake(Environment):
    """A lake of `size` x `size` cells.

    Observation: uint8[size, size], codes 0 frozen, 1 hole, 2 goal, 3 player, 4 player in a hole,
    5 player on the goal. Actions: 0 left, 1 down, 2 right, 3 up, always legal; moves over the edge
    do nothing. On slippery ice the agent goes ahead with `success_rate` and to each side with
    half of the rest. Reward: 1 on entering the goal, else 0. Ends at the goal or in a hole; limit
    10 steps (RAGEN's action budget). Task: random map with random, connected start and goal.

    Expert: optimal for the game without limit, discounted by 0.99 (value iteration).
    Source: RAGEN and gymnasium 1.4 (both read); replayed against gymnasium's episodes.
    """

    size: int = 4
    slippery: bool = True

    num_codes: ClassVar[int] = 6
    wordings: ClassVar[str] = "envs.frozen_lake.words"
    # RAGEN's defaults: 10 actions, 80 % frozen.
    default_params: ClassVar[FrozenLakeParams] = FrozenLakeParams()
    # Directions in Gymnasium's order: action 0 is left.
    action_names: ClassVar[tuple[str, ...]] = ("left", "down", "right", "up")

    def initial(self, key: jax.Array, params: FrozenLakeParams) -> FrozenLakeState:
        holes, start, goal = rules.generate(key, self.size, params.frozen)
        return FrozenLakeState(jnp.zeros((), jnp.int32), rules.pack(holes), goal, start)

    def transition(
        self,
        key: jax.Array,
        state: FrozenLakeState,
        action: jax.Array,
        params: FrozenLakeParams,
    ) -> tuple[FrozenLakeState, jax.Array]:
        if self.slippery:
            action = rules.slip(key, action, params.success_rate)
        position = rules.move(state.position, action, self.size)
        return state.replace(position=position), jnp.where(position == state.goal, 1.0, 0.0)

    def observe(self, state: FrozenLakeState, params: FrozenLakeParams) -> jax.Array:
        """Codes of the map with the player on it."""
        cells = jnp.arange(self.size * self.size).reshape(self.size, self.size)
        holes = rules.unpack(state.holes, self.size)
        ground = jnp.where(holes, HOLE, jnp.where(cells == state.goal, GOAL, FROZEN))
        return jnp.where(cells == state.position, ground + PLAYER, ground).astype(jnp.uint8)

    def is_terminated(self, state: FrozenLakeState, params: FrozenLakeParams) -> jax.Array:
        return rules.has(state.holes, state.position) | self.is_success(state, params)

    def is_success(self, state: FrozenLakeState, params: FrozenLakeParams) -> jax.Array:
        return state.position == state.goal

    def expert(self, state: FrozenLakeState, params: FrozenLakeParams) -> jax.Array:
        """Greedy in the optimal action values."""
        rate = params.success_rate if self.slippery else 1.0
        holes = rules.unpack(state.holes, self.size)
        values = rules.action_values(holes, state.goal, rate)
        return jnp.argmax(values.reshape(4, -1)[:, state.position]).astype(jnp.int32)

    def render(self, state: FrozenLakeState, params: FrozenLakeParams) -> str:
        """RAGEN's glyphs, with * for the player on the goal."""
        codes = np.asarray(self.observe(state, params))
        return "\n".join("".join(GLYPHS[c] for c in row) for row in codes)
