"""Meadow-v1: goals are rewarded, manners are shown."""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.meadow import rules
from envs.meadow.rules import GOALS, MOVES, SIZE

GAMMA = 0.97


@struct.dataclass
class MeadowParams(EnvParams):
    """manners: how much of the common-sense reward is paid beside the goal's; 0: none of it."""

    max_steps_in_episode: int = 30
    manners: float = 0.0


@struct.dataclass
class MeadowState(EnvState):
    """place: i32[2], column and row. goal: i32[], its number. before: i32[], the last action + 1, 0
    for none."""

    place: jax.Array
    goal: jax.Array
    before: jax.Array


@dataclasses.dataclass(frozen=True)
class Meadow(Environment):
    """Meadows of 7 x 7 places, nearly half of them grass, each with a goal of its own.

    Tasks are goals 0 to `goals` - 1, one meadow each; 4 and 5 are held out for `transfer`. `maps`
    is the number of a set of six meadows. The reward is 1 at the goal, the end. A common-sense
    reward that all tasks share, -0.15 for a step onto grass and -0.05 for a turn, is paid only as
    far as `manners` says, and the expert keeps to it: it plays the best walk for both, discounted
    by 0.97.

    Observation: uint8[9], column and row, those of the goal, last direction (0 for none, action
    + 1), and the ground to the left, right, below and above (0 path, 1 grass, 2 wall). Actions:
    left, right, down, up; at a wall one stays. Start: any place but the goal. Limit 30.

    Source: ours, after the setting of Glazer et al. (2024), https://arxiv.org/abs/2402.11367, of
    which summaries were read: tasks with known rewards, and an unknown one that they share.
    """

    goals: int = 4
    maps: int = 0

    wordings: ClassVar[str] = "envs.meadow.words"
    num_codes: ClassVar[int] = SIZE
    # In the order of `envs.meadow.rules.MOVES`.
    action_names: ClassVar[tuple[str, ...]] = ("left", "right", "down", "up")
    default_params: ClassVar[MeadowParams] = MeadowParams()
    on_grass: ClassVar[float] = 0.15
    turning: ClassVar[float] = 0.05
    held_out: ClassVar[tuple[int, ...]] = (4, 5)
    # Entries of an observation that tell neither where the agent is nor where it wants to go.
    common: ClassVar[tuple[int, ...]] = (4, 5, 6, 7, 8)

    def __post_init__(self):
        if not 1 <= self.goals <= len(GOALS):
            raise ValueError(f"goals {self.goals}: expected 1 to {len(GOALS)}")
        if self.maps < 0:
            raise ValueError(f"maps {self.maps}: expected the number of a set, 0 or more")

    def initial(self, key: jax.Array, params: MeadowParams) -> MeadowState:
        goal_key, place_key = jax.random.split(key)
        goal = jax.random.randint(goal_key, (), 0, self.goals)
        column, row = jnp.asarray(GOALS)[goal]
        # Any place but the goal: one of the others, counted from it.
        number = column * SIZE + row + jax.random.randint(place_key, (), 1, SIZE**2)
        number = number % SIZE**2
        zero = jnp.zeros((), jnp.int32)
        return MeadowState(zero, jnp.stack([number // SIZE, number % SIZE]), goal, zero)

    def transition(
        self, key: jax.Array, state: MeadowState, action: jax.Array, params: MeadowParams
    ) -> tuple[MeadowState, jax.Array]:
        del key
        polite = self.common_reward(self.observe(state, params), action)
        place = jnp.asarray(rules.steps(self.maps).place)[state.place[0], state.place[1], action]
        arrived = jnp.all(place == jnp.asarray(GOALS)[state.goal])
        reward = jnp.where(arrived, 1.0, 0.0) + params.manners * polite
        return state.replace(place=place, before=jnp.asarray(action + 1, jnp.int32)), reward

    def observe(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return seen(self.maps, state.goal, state.place, state.before)

    def is_terminated(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return jnp.all(state.place == jnp.asarray(GOALS)[state.goal])

    def is_success(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return self.is_terminated(state, params)

    def expert(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        """The best walk for the goal and manners together."""
        choice = jnp.asarray(experts(self.maps))
        return choice[state.goal, state.place[0], state.place[1], state.before]

    # What a discriminator and its evaluation read.

    @property
    def tasks(self) -> int:
        """K, goals that are drawn, one meadow each; those held out do not count."""
        return self.goals

    def task_of(self, observation: jax.Array) -> jax.Array:
        """The task that an observation [..., 9] is of, i32[...]."""
        goal = observation[..., None, 2:4].astype(jnp.int32)
        return jnp.argmax(jnp.all(goal == jnp.asarray(GOALS), axis=-1), axis=-1)

    def common_reward(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """The true common-sense reward of actions i32[...] in observations [..., 9], f32[...]."""
        codes, action = observation.astype(jnp.int32), jnp.asarray(action)
        ahead = jnp.arange(len(MOVES)) == action[..., None]
        ground = jnp.sum(jnp.where(ahead, codes[..., 5:], 0), axis=-1)
        return rules.manners(codes[..., 4], ground, action, self.on_grass, self.turning)

    def transfer(self, extra: Callable[[jax.Array], jax.Array]) -> dict[str, jax.Array]:
        """What an agent gets in the held-out tasks that plays the best walk for an extra reward
        beside the goal's.

        extra: of observations [n, 9], the rewards of all actions f32[n, A]. Returns by name, means
        over tasks and starts: success, and common, the sum of the true common-sense rewards.
        """
        place, found = rules.steps(self.maps).place, []
        for number in self.held_out:
            observed, goal = observations(self.maps, number), jnp.asarray(GOALS[number])
            paid = extra(observed.reshape(-1, 9)).reshape(*rules.STATES, len(MOVES))
            choice = jnp.argmax(rules.plan(place, goal, paid, GAMMA), axis=-1)
            polite = self.common_reward(observed[..., None, :], jnp.arange(len(MOVES)))
            limit = self.default_params.max_steps_in_episode
            found.append(rules.walked(place, goal, choice, polite, limit))
        success, common = (sum(x) / len(found) for x in zip(*found, strict=True))
        return {"success": success, "common": common}

    def render(self, state: MeadowState, params: MeadowParams) -> str:
        """@ the agent, G the goal, " grass."""
        goal = int(state.goal)
        drawn = np.where(rules.grass(self.maps)[goal], '"', ".")
        drawn[tuple(GOALS[goal])] = "G"
        drawn[tuple(np.asarray(state.place))] = "@"
        return "\n".join("".join(line) for line in drawn.T[::-1])


def seen(maps: int, goal: jax.Array, place: jax.Array, before: jax.Array) -> jax.Array:
    """The observation uint8[9] of a state, goal i32[] by its number, in a set of meadows."""
    ground = jnp.asarray(rules.steps(maps).ground)[goal, place[0], place[1]]
    codes = [place, jnp.asarray(GOALS)[goal], before[None], ground]
    return jnp.concatenate(codes).astype(jnp.uint8)


def observations(maps: int, goal: int) -> jax.Array:
    """The observations of all states of a goal, uint8[7, 7, 5, 9]."""
    parts = jnp.meshgrid(*(jnp.arange(size) for size in rules.STATES), indexing="ij")
    flat = [part.reshape(-1) for part in parts]
    found = jax.vmap(lambda x, y, before: seen(maps, goal, jnp.stack([x, y]), before))(*flat)
    return found.reshape(*rules.STATES, 9)


@functools.cache
def experts(maps: int) -> np.ndarray:
    """The expert's action by goal, place and last direction, i32[6, 7, 7, 5]."""
    found = []
    with jax.ensure_compile_time_eval():
        for number, goal in enumerate(GOALS):
            observed = observations(maps, number)
            polite = Meadow(maps=maps).common_reward(observed[..., None, :], jnp.arange(4))
            value = rules.plan(rules.steps(maps).place, jnp.asarray(goal), polite, GAMMA)
            found.append(np.asarray(jnp.argmax(value, axis=-1), np.int32))
    return np.stack(found)
