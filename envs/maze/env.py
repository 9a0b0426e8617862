"""Maze-v1: walk to the goal of a maze with a full or a partial view (LMRL-Gym's task)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.maze import rules

WALL, FREE, GOAL, PLAYER = range(4)
GLYPHS = "#.GP"
# Length of the observation of each partial sight; each is a prefix of the longer ones.
SIGHTS = {"walls": 4, "goal": 6, "position": 8}


@struct.dataclass
class MazeState(EnvState):
    """walls u16[R] (bit c of row r), goal u8[], position u8[] (cells are numbered by rows)."""

    walls: jax.Array
    goal: jax.Array
    position: jax.Array


@struct.dataclass
class MazeParams(EnvParams):
    """LMRL-Gym's rewards: each step, the step that reaches the goal, an unknown command."""

    illegal_reward: float = -4.0
    step_reward: float = -1.0
    goal_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class Maze(Environment):
    """A maze of R x C cells with one goal; the agent starts in any other free cell.

    `layout`: "random" (a perfect maze drawn for every task by Kruskal's algorithm, `size` odd and
    3 x 5 to 13 x 13, default 9 x 9), or LMRL-Gym's "double_t" (10 x 13) and "umaze" (5 x 5), where
    only the start varies.

    Observation, by `sight`: "grid" is the maze, uint8[R, C], codes 0 wall, 1 free, 2 goal, 3 player
    (hides the goal it stands on). The others are codes too, uint8[8], [6] or [4], prefixes of one
    vector: wall above, below, left, right; row and column of the goal; row and column of the
    player. "position" is all eight, "goal" six, "walls" four: the texts of LMRL-Gym's
    `describe_observation_give_position` (its fully observed task), `describe_observation` and
    `describe_observation_only_walls`. In the last two, different positions have the same
    observation, so a policy needs memory.

    Actions: 0 up, 1 down, 2 left, 3 right, always legal; moves into a wall do nothing. Reward:
    `step_reward` -1 per step, `goal_reward` 0 for the step onto the goal, which ends the episode,
    and `illegal_reward` -4 for an unknown command. LMRL-Gym's other two rewards are (step, goal,
    illegal) = (0, 1, -1) and (-1, 1, -100). Limit 100 steps.

    Expert: a shortest path to the goal.
    Source: LMRL-Gym's maze (read), replayed against its recorded episodes. Deviations: its 101st
    step fails and has no effect, here step 100 truncates; its history of the last k moves is left
    to the context; the random mazes are ours.
    """

    layout: str = "random"
    size: tuple[int, int] | None = None
    sight: str = "grid"

    wordings: ClassVar[str] = "envs.maze.words"
    # LMRL-Gym's standard reward, 100 steps.
    default_params: ClassVar[MazeParams] = MazeParams()
    action_names: ClassVar[tuple[str, ...]] = ("up", "down", "left", "right")

    def __post_init__(self):
        if self.layout != "random" and self.layout not in rules.LAYOUTS:
            known = ", ".join(["random", *rules.LAYOUTS])
            raise ValueError(f"layout {self.layout!r}: expected one of {known}")
        if self.sight != "grid" and self.sight not in SIGHTS:
            raise ValueError(
                f"sight {self.sight!r}: expected one of {', '.join(['grid', *SIGHTS])}"
            )
        if self.size is None:
            return
        if self.layout != "random":
            raise ValueError(
                f"size {self.size}: layout {self.layout!r} has a fixed size; leave it out"
            )
        rows, cols = self.size
        if not (rows % 2 and cols % 2 and 3 <= min(self.size) and 5 <= max(self.size) <= 13):
            raise ValueError(f"size {self.size}: expected odd numbers, from 3 x 5 to 13 x 13")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows R and columns C with the outer walls; of random mazes `size`, or 9 x 9."""
        if self.layout == "random":
            return self.size or (9, 9)
        return rules.layout(self.layout)[0].shape

    @property
    def num_codes(self) -> int:
        """Contents of a cell, or the longer side if the observation contains coordinates."""
        return {"grid": 4, "walls": 2}.get(self.sight, max(self.shape))

    def initial(self, key: jax.Array, params: MazeParams) -> MazeState:
        """A maze of the layout with a random start."""
        maze_key, cell_key = jax.random.split(key)
        if self.layout == "random":
            walls = rules.carve(maze_key, *self.shape)
            position, goal = rules.two_cells(cell_key, ~walls)
        else:
            walls, goal = rules.layout(self.layout)
            cells = np.arange(walls.size).reshape(walls.shape)
            position, _ = rules.two_cells(cell_key, jnp.asarray(~walls & (cells != goal)))
        return MazeState(
            time=jnp.zeros((), jnp.int32),
            walls=rules.pack(walls),
            goal=jnp.asarray(goal, jnp.uint8),
            position=position.astype(jnp.uint8),
        )

    def transition(
        self, key: jax.Array, state: MazeState, action: jax.Array, params: MazeParams
    ) -> tuple[MazeState, jax.Array]:
        ahead = rules.ahead(state.position, action, self.shape[1])
        position = jnp.where(
            rules.is_wall(state.walls, ahead, self.shape[1]), state.position, ahead
        )
        reward = jnp.where(position == state.goal, params.goal_reward, params.step_reward)
        return state.replace(position=position), reward

    def observe(self, state: MazeState, params: MazeParams) -> jax.Array:
        """Codes of the whole maze, or of the part that `sight` reveals."""
        cols = self.shape[1]
        if self.sight == "grid":
            cells = jnp.arange(np.prod(self.shape), dtype=jnp.uint8).reshape(self.shape)
            ground = jnp.where(rules.unpack(state.walls, cols), jnp.uint8(WALL), jnp.uint8(FREE))
            ground = jnp.where(cells == state.goal, jnp.uint8(GOAL), ground)
            return jnp.where(cells == state.position, jnp.uint8(PLAYER), ground)
        around = [rules.ahead(state.position, jnp.int32(move), cols) for move in range(4)]
        walls = [rules.is_wall(state.walls, cell, cols) for cell in around]
        places = [state.goal // cols, state.goal % cols, state.position // cols]
        seen = [*walls, *places, state.position % cols][: SIGHTS[self.sight]]
        return jnp.stack([code.astype(jnp.uint8) for code in seen])

    def is_terminated(self, state: MazeState, params: MazeParams) -> jax.Array:
        return state.position == state.goal

    def is_success(self, state: MazeState, params: MazeParams) -> jax.Array:
        return state.position == state.goal

    def expert(self, state: MazeState, params: MazeParams) -> jax.Array:
        """Towards the goal; ties are broken by action order."""
        distance = rules.distances(rules.unpack(state.walls, self.shape[1]), state.goal).ravel()
        around = rules.ahead(state.position, jnp.arange(4), self.shape[1])
        return jnp.argmin(distance[around]).astype(jnp.int32)

    def render(self, state: MazeState, params: MazeParams) -> str:
        """Glyphs # wall, . free, G goal, P player, for every `sight`."""
        walls = np.asarray(rules.unpack(state.walls, self.shape[1]))
        glyphs = [GLYPHS[WALL] if wall else GLYPHS[FREE] for wall in walls.flat]
        glyphs[int(state.goal)] = GLYPHS[GOAL]
        glyphs[int(state.position)] = GLYPHS[PLAYER]
        cols = self.shape[1]
        return "\n".join("".join(glyphs[i : i + cols]) for i in range(0, len(glyphs), cols))
