"""Sokoban-v1: push boxes onto targets; a wrong push can make the room unsolvable (gym-sokoban's
rules)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.sokoban import levels, rules

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
GLYPHS = "#_O*XPS"

DIRECTIONS = ("up", "down", "left", "right")
ACTIONS = {
    "push": DIRECTIONS,
    "gym": ("none", *(f"push {d}" for d in DIRECTIONS), *(f"move {d}" for d in DIRECTIONS)),
}


@struct.dataclass
class SokobanState(EnvState):
    """The room.

    floor, targets, boxes, player: boards of the interior (`envs.sokoban.rules.Board`). The floor
    includes cells under targets, boxes and player.
    """

    floor: rules.Board
    targets: rules.Board
    boxes: rules.Board
    player: rules.Board


@struct.dataclass
class SokobanParams(EnvParams):
    """step_reward: for every action. finished_reward: in addition when all targets are covered.

    box_reward: for a box pushed onto a target, subtracted for a box pushed off. 0 makes the reward
    sparse.
    """

    max_steps_in_episode: int = 15
    step_reward: float = -0.1
    box_reward: float = 1.0
    finished_reward: float = 10.0


@dataclasses.dataclass(frozen=True)
class Sokoban(Environment):
    """A room of `size` (a side, or rows and columns, walls included) with `boxes` boxes.

    Observation: uint8[rows, cols], codes 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5
    player, 6 player on target. gym-sokoban shows 5 in the last case too and leaves the target under
    the player to be inferred by counting; text renderers (RAGEN) mark it. Actions, always legal; a
    blocked one changes nothing but costs a step: actions="push" (default): 0 up, 1 down, 2 left, 3
    right; a box ahead is pushed if it can be. actions="gym": 0 none, 1 to 4 the same pushes, 5 to 8
    moves that a box blocks.
    Reward: -0.1 a step, +-1 for a box on or off a target, +10 when all are on; each a param. As in
    the reference, the first step counts boxes as if no target had been covered before; levels drawn
    here never start with a covered target. Ends when all targets are covered. Limit: 15 steps with
    one box (verl-agent), 120 with more (gym-sokoban). Task: a random solvable room that is not
    solved at the start.

    Expert: a shortest solution (breadth first over player and boxes, `rules.solve`), which is also
    the best return without limit; an arbitrary action in an unsolvable room. The search runs at
    every call: 16^boxes words per sweep at 6 x 6, and ValueError above 4 M words (4 boxes at 10 x
    10).
    Source: gym-sokoban 0.0.6 (read; replayed against its recorded episodes), RAGEN's glyphs.
    """

    size: int | tuple[int, int] = 6
    boxes: int = 1
    actions: str = "push"

    num_codes: ClassVar[int] = 7
    wordings: ClassVar[str] = "envs.sokoban.words"

    def __post_init__(self) -> None:
        if self.actions not in ACTIONS:
            raise ValueError(f"actions={self.actions!r}: expected one of {', '.join(ACTIONS)}")
        rows, cols = self.observation_shape
        if not (5 <= rows <= 32 and 5 <= cols <= 32):
            raise ValueError(f"size={self.size!r}: expected 5 to 32 rows and columns")
        # With more boxes most rooms are unsolvable, and drawing one would take long.
        most = min(max(1, (rows - 2) * (cols - 2) // 8), levels.MAX_BOXES)
        if not 1 <= self.boxes <= most:
            raise ValueError(
                f"boxes={self.boxes}: expected 1 to {most} for {rows} x {cols}; choose fewer "
                "boxes or a larger size"
            )

    @property
    def default_params(self) -> SokobanParams:
        """verl-agent's 15 steps for one box, gym-sokoban's 120 for more."""
        return SokobanParams(max_steps_in_episode=15 if self.boxes == 1 else 120)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Directions, or gym-sokoban's nine actions."""
        return ACTIONS[self.actions]

    @property
    def observation_shape(self) -> tuple[int, int]:
        """Rows and columns, by which rooms are drawn."""
        return (self.size, self.size) if isinstance(self.size, int) else tuple(self.size)

    def initial(self, key: jax.Array, params: SokobanParams) -> SokobanState:
        rows, cols = self.observation_shape
        room = levels.generate(key, (rows - 2, cols - 2), self.boxes)
        return SokobanState(jnp.zeros((), jnp.int32), *room)

    def from_codes(self, codes: jax.Array) -> SokobanState:
        """Start state of a given room from its codes [rows, cols]; the outermost cells are
        walls."""
        codes = jnp.asarray(codes)
        boxes = (codes == BOX) | (codes == BOX_ON_TARGET)
        player = (codes == PLAYER) | (codes == PLAYER_ON_TARGET)
        targets = (codes == TARGET) | (codes == BOX_ON_TARGET) | (codes == PLAYER_ON_TARGET)
        cells = (codes != WALL, targets, boxes, player)
        return SokobanState(jnp.zeros((), jnp.int32), *map(rules.board, cells))

    def transition(
        self, key: jax.Array, state: SokobanState, action: jax.Array, params: SokobanParams
    ) -> tuple[SokobanState, jax.Array]:
        """Pushes or moves, then counts the boxes on targets."""
        direction, pushing = action, True
        if self.actions == "gym":
            direction, pushing = jnp.where(action > 0, (action - 1) % 4, -1), action <= 4
        boxes, player = rules.move(state.floor, state.boxes, state.player, direction, pushing)
        before = jnp.where(state.time == 0, 0, (state.boxes & state.targets).count())
        gained = jnp.sign((boxes & state.targets).count() - before)
        state = state.replace(boxes=boxes, player=player)
        finished = jnp.where(self.is_success(state, params), params.finished_reward, 0.0)
        return state, params.step_reward + params.box_reward * gained + finished

    def observe(self, state: SokobanState, params: SokobanParams) -> jax.Array:
        # The three bits of a code, each as a board: the room is unpacked into cells three
        # times instead of once per kind of object.
        low = state.floor - (state.targets ^ state.boxes)
        high = state.player | (state.boxes - state.targets)
        bits = (low, 1), (state.targets, 2), (high, 4)
        low, middle, high = (
            jnp.where(board.cells(), np.uint8(value), np.uint8(0)) for board, value in bits
        )
        return low | middle | high

    def is_terminated(self, state: SokobanState, params: SokobanParams) -> jax.Array:
        return self.is_success(state, params)

    def is_success(self, state: SokobanState, params: SokobanParams) -> jax.Array:
        return ~(state.targets - state.boxes).any()

    def expert(self, state: SokobanState, params: SokobanParams) -> jax.Array:
        """First push or move of a shortest solution."""
        room = (state.floor, state.targets, state.boxes, state.player)
        direction, _ = rules.solve(*room, self.boxes)
        return direction + 1 if self.actions == "gym" else direction

    def render(self, state: SokobanState, params: SokobanParams) -> str:
        """RAGEN's glyphs, with * for a box on its target and S for the player on one."""
        codes = np.asarray(self.observe(state, params))
        return "\n".join("".join(GLYPHS[c] for c in row) for row in codes)
