"""Foraging-v1: players of different levels collect food, some of it only together."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.foraging import rules
from envs.game import GameParams, GameState, SimultaneousGame, opening


@struct.dataclass
class ForagingState(GameState):
    """State of one field.

    cells, levels: i32[P] of the players; food_cells, food_levels: i32[F], level 0 once eaten.
    total: i32[], sum of the food levels at the start.
    """

    cells: jax.Array
    levels: jax.Array
    food_cells: jax.Array
    food_levels: jax.Array
    total: jax.Array


@struct.dataclass
class ForagingParams(GameParams):
    """Levels are drawn between the lowest and the highest.

    max_food_level: 0 stands for the sum of the lowest three players' levels.
    penalty: for each player that tries to load a food when too few players do.
    """

    max_steps_in_episode: int = 50
    illegal_reward: float = 0.0
    min_player_level: int = 1
    max_player_level: int = 2
    min_food_level: int = 1
    max_food_level: int = 0
    penalty: float = 0.0


@dataclasses.dataclass(frozen=True)
class Foraging(SimultaneousGame):
    """P `players` move at once on a field of `size` x `size` with F `foods`.

    A food is eaten when players next to it load in the same step whose levels sum to its level or
    more. Foods block players; players that move to the same cell all stay (`envs.foraging.rules`).

    Observation: uint8 of row + 1, column + 1 and level, three codes for each food, then for the
    player itself, then for the others by seat; 0 for eaten foods and for objects farther away than
    `sight` rows or columns (0: no limit). Actions: none, north, south, west, east, load; illegal
    ones (into a food or out of the field, loading nothing) count as none.

    Reward: the level of a loaded food is shared among the loading players by their levels and
    divided by the sum of all foods, so the total of an episode is at most 1. `shared`: each player
    receives the sum over all players. Ends when all food is eaten, a success of all; limit 50
    steps. Task: levels and places; `force_coop` gives all foods the highest level. Levels must be
    below 32.

    Expert: sees everything; goes to the nearest food that it can load alone, else to the one that
    all players together can load in the fewest steps, and loads when enough players are there.
    Source: lbforaging v3 (read), `Foraging-8x8-2p-2f-v3` by default; its recorded episodes are
    replayed. Deviations: its limit of steps is a truncation here; with limited sight, it gives
    places relative to the window and sees players, not food, farther to the south and east when
    near the north and west edges.
    """

    size: int = 8
    players: int = 2
    foods: int = 2
    sight: int = 0
    force_coop: bool = False
    shared: bool = False

    num_codes: ClassVar[int] = 32
    cooperative: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.foraging.words"
    # The source's settings (lbforaging): 50 steps, player levels 1 or 2, no penalty.
    default_params: ClassVar[ForagingParams] = ForagingParams()
    # What each action of an agent does, in the order of the source, lbforaging.
    action_names: ClassVar[tuple[str, ...]] = ("none", "north", "south", "west", "east", "load")

    def __post_init__(self):
        if not 5 <= self.size <= 20:
            raise ValueError(f"size {self.size}: expected 5 to 20")
        if not 2 <= self.players <= 9 or not 1 <= self.foods <= 9:
            raise ValueError(
                f"players {self.players}, foods {self.foods}: expected 2 to 9 and 1 to 9"
            )

    @property
    def num_agents(self) -> int:
        """Number of players, each of which acts in every step."""
        return self.players

    def initial(self, key: jax.Array, params: ForagingParams) -> ForagingState:
        cells, levels, food_cells, food_levels = rules.generate(
            key,
            self.size,
            self.players,
            self.foods,
            (params.min_player_level, params.max_player_level),
            (params.min_food_level, params.max_food_level),
            self.force_coop,
        )
        return ForagingState(
            **opening(),
            cells=cells,
            levels=levels,
            food_cells=food_cells,
            food_levels=food_levels,
            total=jnp.sum(food_levels),
        )

    def legal_actions(self, state: ForagingState, params: ForagingParams) -> jax.Array:
        """Steps to cells without food, loading beside food, none."""
        return rules.legal(state.cells, state.food_cells, state.food_levels, self.size)

    def transition(
        self, key: jax.Array, state: ForagingState, action: jax.Array, params: ForagingParams
    ) -> tuple[ForagingState, jax.Array]:
        food_levels, gains, failed = rules.load(
            state.cells,
            state.levels,
            state.food_cells,
            state.food_levels,
            action == rules.LOAD,
            self.size,
        )
        cells = rules.move(state.cells, action, self.size)
        reward = gains / jnp.maximum(state.total, 1) - jnp.where(failed, params.penalty, 0.0)
        if self.shared:
            reward = jnp.broadcast_to(jnp.sum(reward), reward.shape)
        return state.replace(cells=cells, food_levels=food_levels), reward

    def order(self, agent: jax.Array) -> jax.Array:
        """Seats in the order of the agent's observation: itself, then the others, i32[P]."""
        rest = np.arange(self.players)
        return jnp.where(rest == 0, agent, rest - (rest <= agent))

    def observe_as(
        self, state: ForagingState, agent: jax.Array, params: ForagingParams
    ) -> jax.Array:
        """Places and levels of what is in sight."""
        seats = self.order(agent)
        cells = jnp.append(state.food_cells, state.cells[seats])
        levels = jnp.append(state.food_levels, state.levels[seats])
        places = rules.place(cells, self.size)
        seen = levels > 0
        if self.sight:
            away = jnp.abs(places - rules.place(state.cells[agent], self.size))
            seen &= jnp.max(away, axis=-1) <= self.sight
        codes = jnp.append(places + 1, levels[:, None], axis=1)
        return jnp.where(seen[:, None], codes, 0).astype(jnp.uint8)

    def is_over(self, state: ForagingState, params: ForagingParams) -> jax.Array:
        return ~jnp.any(state.food_levels > 0)

    def won(self, state: ForagingState, params: ForagingParams) -> jax.Array:
        return jnp.broadcast_to(self.is_over(state, params), (self.players,))

    def expert(self, state: ForagingState, params: ForagingParams) -> jax.Array:
        """To the nearest food that can be loaded."""
        return rules.experts(
            state.cells, state.levels, state.food_cells, state.food_levels, self.size
        )

    def render(self, state: ForagingState, params: ForagingParams) -> str:
        """Rows of the field: a, b .. players, digits the levels of foods."""
        glyphs = np.full(self.size * self.size, ".")
        for cell, level in zip(state.food_cells, state.food_levels, strict=True):
            if level > 0:
                glyphs[int(cell)] = str(int(level))
        for seat, cell in enumerate(state.cells):
            glyphs[int(cell)] = "abcdefghi"[seat]
        return "\n".join("".join(row) for row in glyphs.reshape(self.size, self.size))
