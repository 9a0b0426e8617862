"""Treasures-v1: what a treasure pays depends on a memory that is not observed."""

import dataclasses
import typing
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.treasures import rules
from envs.treasures.rules import Memory, Walk


@struct.dataclass
class TreasuresState(EnvState):
    """walk: where the agent is, and what the hidden memory holds."""

    walk: Walk


@dataclasses.dataclass(frozen=True)
class Treasures(Environment):
    """A square of `cells` x `cells` places with a treasure at the upper middle.

    Being at the treasure pays, by `memory`: "key", 1 once the key's place at the lower middle has
    been visited; "timer", -1 in the first half of the episode and 1 in the second; "charger", the
    charge, which grows by 2 / limit with each step spent in the lowest third, up to 1; "moving", 1
    at a treasure that moves sideways by 2 / limit per step between the walls. The reward of a turn
    is of the place in front of the move, so the position before it is all it needs beside the
    memory.

    Observation: uint8[2], column and row. Actions: stay, left, right, down, up; walls stop. No end
    but the limit, 10 (cells - 1) steps. Start: left or right of the middle. There is no success.

    Expert: the shortest way to what pays; not optimal in waiting. Source: the four sets of
    of Early et al. (2022), https://arxiv.org/abs/2205.15367, code 4e9edcd (read): boxes, memory,
    rewards and 100 steps of 0.1. Deviation: five moves on a grid in the place of continuous ones;
    with cells=11 a step is 0.1 and the limit 100.
    """

    cells: int = 6
    memory: Memory = "key"

    wordings: ClassVar[str] = "envs.treasures.words"
    # In the order of `envs.treasures.rules.MOVES`.
    action_names: ClassVar[tuple[str, ...]] = ("stay", "left", "right", "down", "up")
    has_success: ClassVar[bool] = False

    def __post_init__(self):
        if self.memory not in typing.get_args(Memory):
            raise ValueError(
                f"memory {self.memory!r}: expected one of {', '.join(typing.get_args(Memory))}"
            )
        if not 6 <= self.cells <= 255 or (self.cells - 1) % 5:
            raise ValueError(
                f"cells {self.cells}: expected 6, 11, 16, ... up to 251, so that all places exist"
            )

    @property
    def num_codes(self) -> int:
        """One per column or row."""
        return self.cells

    @property
    def default_params(self) -> EnvParams:
        """Ten times the steps from one side to the other."""
        return EnvParams(max_steps_in_episode=10 * (self.cells - 1))

    def initial(self, key: jax.Array, params: EnvParams) -> TreasuresState:
        walk = rules.begin(key, self.cells, params.max_steps_in_episode)
        return TreasuresState(jnp.zeros((), jnp.int32), walk)

    def transition(
        self, key: jax.Array, state: TreasuresState, action: jax.Array, params: EnvParams
    ) -> tuple[TreasuresState, jax.Array]:
        del key
        limit = params.max_steps_in_episode
        walk = rules.remembered(state.walk, self.cells, limit)
        reward = rules.worth(walk, state.time + 1, self.cells, limit, self.memory)
        return state.replace(walk=rules.moved(walk, action, self.cells)), reward

    def observe(self, state: TreasuresState, params: EnvParams) -> jax.Array:
        return state.walk.position.astype(jnp.uint8)

    def is_terminated(self, state: TreasuresState, params: EnvParams) -> jax.Array:
        return jnp.zeros((), bool)

    def is_success(self, state: TreasuresState, params: EnvParams) -> jax.Array:
        """Always False: there are returns alone (`has_success` is False)."""
        return jnp.zeros((), bool)

    def expert(self, state: TreasuresState, params: EnvParams) -> jax.Array:
        """Moves to the key, the charger or a place to wait at, then to the treasure."""
        limit = params.max_steps_in_episode
        return rules.expert(state.walk, state.time, self.cells, limit, self.memory)

    def render(self, state: TreasuresState, params: EnvParams) -> str:
        """@ the agent, $ the treasure, k the key's places, _ those that charge."""
        walk = jax.tree.map(np.asarray, state.walk)
        lines = []
        for row in reversed(range(self.cells)):
            line = ""
            for column in range(self.cells):
                place = np.array([column, row]) / (self.cells - 1)
                line += self._drawn(place, walk, (walk.position == (column, row)).all())
            lines.append(line)
        return "\n".join(lines)

    def _drawn(self, place: np.ndarray, walk: Walk, here: bool) -> str:
        shift = walk.left - 0.4 if self.memory == "moving" else 0.0
        if here:
            return "@"
        if rules.inside(place - np.array([shift, 0.0]), rules.TREASURE):
            return "$"
        if self.memory == "key" and rules.inside(place, rules.KEY):
            return "k"
        return "_" if self.memory == "charger" and place[1] <= rules.CHARGER else "."
