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
    """place, goal: i32[2], column and row. before: i32[], the last action + 1, 0 for none."""

    place: jax.Array
    goal: jax.Array
    before: jax.Array


@dataclasses.dataclass(frozen=True)
class Meadow(Environment):
    """A meadow of 7 x 7 places, nearly half of it grass, with six possible goals, which are its tasks.

    Tasks are goals 0 to `goals` - 1, on map `grass`; 4 and 5, and map `grass` + 1, are held out for
    `transfer`. The reward is 1 at the goal, the end. A common-sense reward that all tasks share,
    -0.15 for a step onto grass and -0.05 for a turn, is paid only as far as `manners` says, and the
    expert keeps to it: it plays the best walk for both, discounted by 0.97.

    Observation: uint8[9], column and row, those of the goal, last direction (0 for none, action
    + 1), and the ground to the left, right, below and above (0 path, 1 grass, 2 wall). Actions:
    left, right, down, up; at a wall one stays. Start: any place but the goal. Limit 30.

    Source: ours, after the setting of multi-task inverse reinforcement learning, of which only
    summaries were read: tasks with known rewards, and one unknown reward that they share.
    """

    goals: int = 4
    grass: int = 0

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
        if self.grass < 0:
            raise ValueError(f"grass {self.grass}: expected a number of a map, 0 or more")

    def initial(self, key: jax.Array, params: MeadowParams) -> MeadowState:
        goal_key, place_key = jax.random.split(key)
        goal = jnp.asarray(GOALS)[jax.random.randint(goal_key, (), 0, self.goals)]
        # Any place but the goal: one of the others, counted from it.
        number = goal[0] * SIZE + goal[1] + jax.random.randint(place_key, (), 1, SIZE**2)
        number = number % SIZE**2
        place = jnp.stack([number // SIZE, number % SIZE])
        zero = jnp.zeros((), jnp.int32)
        return MeadowState(zero, place, goal, zero)

    def transition(
        self, key: jax.Array, state: MeadowState, action: jax.Array, params: MeadowParams
    ) -> tuple[MeadowState, jax.Array]:
        del key
        polite = self.common_reward(self.observe(state, params), action)
        place = jnp.asarray(rules.steps(self.grass).place)[state.place[0], state.place[1], action]
        arrived = jnp.all(place == state.goal)
        reward = jnp.where(arrived, 1.0, 0.0) + params.manners * polite
        before = jnp.asarray(action + 1, jnp.int32)
        return state.replace(place=place, before=before), reward

    def observe(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return seen(self.grass, state.place, state.goal, state.before)

    def is_terminated(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return jnp.all(state.place == state.goal)

    def is_success(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        return jnp.all(state.place == state.goal)

    def expert(self, state: MeadowState, params: MeadowParams) -> jax.Array:
        """The best walk for the goal and manners together."""
        goal = jnp.argmax(jnp.all(jnp.asarray(GOALS) == state.goal, axis=-1))
        choice = jnp.asarray(experts(self.grass))
        return choice[goal, state.place[0], state.place[1], state.before]

    # What a discriminator and its evaluation read.

    @property
    def tasks(self) -> int:
        """Number of tasks."""
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
        """How an agent does in the held-out tasks, on a map that training does not have, that plays
        the best walk for the goal's reward and an extra one.

        extra: of observations [n, 9], the rewards of all actions f32[n, A]. Returns by name, means
        over tasks and starts: success, and common, the sum of the true common-sense rewards.
        """
        number, found = self.grass + 1, []
        for goal in (jnp.asarray(GOALS[i]) for i in self.held_out):
            observed = observations(number, goal)
            paid = extra(observed.reshape(-1, 9)).reshape(*rules.STATES, len(MOVES))
            value, _ = rules.plan(number, goal, paid, GAMMA)
            polite = self.common_reward(observed[..., None, :], jnp.arange(len(MOVES)))
            choice, limit = jnp.argmax(value, axis=-1), self.default_params.max_steps_in_episode
            found.append(rules.walked(number, goal, choice, polite, limit))
        success, common = (sum(x) / len(found) for x in zip(*found, strict=True))
        return {"success": success, "common": common}

    def render(self, state: MeadowState, params: MeadowParams) -> str:
        """@ the agent, G the goal, " grass."""
        drawn = np.where(rules.grass(self.grass), '"', ".")
        drawn[tuple(np.asarray(state.goal))] = "G"
        drawn[tuple(np.asarray(state.place))] = "@"
        return "\n".join("".join(line) for line in drawn.T[::-1])


def seen(number: int, place: jax.Array, goal: jax.Array, before: jax.Array) -> jax.Array:
    """The observation uint8[9] of a state on map `number`."""
    ground = jnp.asarray(rules.steps(number).ground)[place[0], place[1]]
    return jnp.concatenate([place, goal, before[None], ground]).astype(jnp.uint8)


def observations(number: int, goal: jax.Array) -> jax.Array:
    """The observations of all states of a goal on map `number`, uint8[7, 7, 5, 9]."""
    parts = jnp.meshgrid(*(jnp.arange(size) for size in rules.STATES), indexing="ij")
    flat = [part.reshape(-1) for part in parts]
    found = jax.vmap(lambda x, y, b: seen(number, jnp.stack([x, y]), goal, b))(*flat)
    return found.reshape(*rules.STATES, 9)


@functools.cache
def experts(number: int) -> np.ndarray:
    """The expert's action by goal, place and last direction, i32[6, 7, 7, 5]."""
    with jax.ensure_compile_time_eval():
        found = []
        for goal in GOALS:
            observed = observations(number, jnp.asarray(goal))
            polite = Meadow(grass=number).common_reward(observed[..., None, :], jnp.arange(4))
            value, _ = rules.plan(number, jnp.asarray(goal), polite, GAMMA)
            found.append(np.asarray(jnp.argmax(value, axis=-1), np.int32))
    return np.stack(found)
