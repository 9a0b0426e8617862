"""PlannedKeyDoor-v1, PlannedHousehold-v1: a planner sets subgoals, an executor acts.

`Planned` turns any environment with subgoals into a game of two agents.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvState
from envs.fingerprint import fingerprint
from envs.game import GameParams, GameState, TurnGame, opening
from envs.household.env import Household, HouseholdParams
from envs.household.rules import TASKS
from envs.key_door.env import KeyDoor

PLANNER, EXECUTOR = range(2)


@struct.dataclass
class PlannedState(GameState):
    """State of the environment and of the plan.

    base: the environment's state. subgoal: i32[], the current one, -1 before the first. held:
    i32[], turns of the executor under it. planning: bool[], it is the planner's turn.
    """

    base: EnvState
    subgoal: jax.Array
    held: jax.Array
    planning: jax.Array


@struct.dataclass
class PlannedParams(GameParams):
    """patience: number of the executor's turns after which the planner decides again.

    An illegal action costs its turn; there is no limit on their number.
    """

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000
    patience: int = 8


@dataclasses.dataclass(frozen=True)
class Planned(TurnGame):
    """Seat 0, the planner, chooses a subgoal; seat 1, the executor, acts under it.

    The planner decides at events: at the start, when the subgoal is reached, and after `patience`
    turns of the executor. It may set any subgoal that is not reached yet. Turns of both count
    towards the limit, so a decision costs a turn.

    Actions: the environment's A, then one for each of its G subgoals; the executor uses the first,
    the planner the second. Observation: the environment's indicators, then for the executor the
    current subgoal [G], for the planner zeros. In words the executor reads one more line
    (`envs.planned.words`). Reward, end and success: the environment's, for both seats. The limit
    is by default one and a half times the environment's own.

    Expert: the environment's subgoal and expert. A subclass defines the environment.

    Source: the interface of HiPER (2026), https://arxiv.org/abs/2602.16165, where one policy writes
    switch, subgoal and action in each turn (`envs.wrappers.Subgoals`). Deviations: the subgoals are
    a closed list, and the environment decides when to switch, not the policy.
    """

    cooperative: ClassVar[bool] = True
    planner: ClassVar[int | None] = PLANNER
    wordings: ClassVar[str] = "envs.planned.words"

    @property
    def base(self) -> Environment:
        """The environment in which the executor acts, and of whose subgoals the planner chooses."""
        raise NotImplementedError

    @property
    def default_params(self) -> PlannedParams:
        """The environment's limit and half of it for the planner."""
        own = self.base.default_params.max_steps_in_episode
        return PlannedParams(max_steps_in_episode=own + own // 2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions, then `plan` and a subgoal."""
        return (*self.base.action_names, *(f"plan {name}" for name in self.base.subgoal_names))

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The planner chooses among subgoals, the executor among the environment's actions."""
        own = self.base.num_actions
        return (own, len(self.base.subgoal_names)), (0, own)

    def initial(self, key: jax.Array, params: PlannedParams) -> PlannedState:
        """The environment's start, at the planner's turn."""
        return PlannedState(
            **opening(),
            base=self.base.initial(key, params),
            subgoal=jnp.full((), -1, jnp.int32),
            held=jnp.zeros((), jnp.int32),
            planning=jnp.ones((), bool),
        )

    def mover(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """The planner at its events, else the executor."""
        return jnp.where(state.planning, PLANNER, EXECUTOR)

    def legal(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """Subgoals that are not reached, or the environment's legal actions."""
        acts = self.base.legal(state.base, params) & ~state.planning
        return jnp.append(acts, ~self.base.reached(state.base, params) & state.planning)

    def is_legal(self, state: PlannedState, action: jax.Array, params: PlannedParams) -> jax.Array:
        """As `legal`; the environment may check one action faster."""
        count = self.base.num_actions
        goals = count + np.arange(len(self.base.subgoal_names)) == action
        plans = jnp.any(goals & ~self.base.reached(state.base, params))
        acts = (action < count) & self.base.is_legal(state.base, action, params)
        return jnp.where(state.planning, plans, acts)

    def transition(
        self, key: jax.Array, state: PlannedState, action: jax.Array, params: PlannedParams
    ) -> tuple[PlannedState, jax.Array]:
        count = self.base.num_actions
        planned = state.replace(
            subgoal=(action - count).astype(jnp.int32),
            held=jnp.zeros((), jnp.int32),
            planning=jnp.zeros((), bool),
        )
        # If a subgoal was set, the result is not used; the environment gets an action
        # anyway.
        base, reward = self.base.transition(key, state.base, jnp.minimum(action, count - 1), params)
        base, held = base.replace(time=state.base.time + 1), state.held + 1
        chosen = np.arange(len(self.base.subgoal_names)) == state.subgoal
        arrived = jnp.any(chosen & self.base.reached(base, params))
        acted = state.replace(base=base, held=held, planning=arrived | (held >= params.patience))
        following = jax.tree.map(lambda a, b: jnp.where(state.planning, a, b), planned, acted)
        reward = jnp.where(state.planning, 0.0, reward)
        return following, jnp.broadcast_to(reward, (self.num_agents,))

    def rejected(self, state: PlannedState, params: PlannedParams) -> PlannedState:
        """The environment's state after an action that it refuses."""
        told = self.base.rejected(state.base, params)
        base = jax.tree.map(lambda a, b: jnp.where(state.planning, a, b), state.base, told)
        return state.replace(base=base)

    def observe_as(self, state: PlannedState, agent: jax.Array, params: PlannedParams) -> jax.Array:
        """The environment's indicators, and the subgoal for the executor."""
        goals = np.arange(len(self.base.subgoal_names)) == state.subgoal
        told = (goals & (agent == EXECUTOR)).astype(jnp.float32)
        return jnp.append(self.base.observe(state.base, params), told)

    def is_over(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        return self.base.is_terminated(state.base, params)

    def won(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """Both agents win if the environment's task is solved."""
        return jnp.broadcast_to(self.base.is_success(state.base, params), (self.num_agents,))

    def fingerprint(
        self, state: PlannedState, params: PlannedParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; the environment defines its state."""
        if of != "state":
            return super().fingerprint(state, params, of=of)
        base = self.base.fingerprint(state.base, params, of=of)
        own = (state.subgoal, state.held, state.planning, state.errors, state.offender)
        return jnp.broadcast_to(fingerprint((base, own)), (self.num_agents, 2))

    def expert(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """The subgoal of the environment's expert, or its action."""
        plan = self.base.num_actions + self.base.subgoal(state.base, params)
        return jnp.where(state.planning, plan, self.base.expert(state.base, params))

    def render(self, state: PlannedState, params: PlannedParams) -> str:
        """The environment, and a line with the subgoal."""
        goal = int(state.subgoal)
        name = self.base.subgoal_names[goal] if goal >= 0 else "none"
        asked = " (planner's turn)" if bool(state.planning) else ""
        return f"{self.base.render(state.base, params)}\nsubgoal: {name}{asked}"


@struct.dataclass
class PlannedKeyDoorParams(PlannedParams):
    """door_reward: as in `KeyDoorParams`."""

    door_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class PlannedKeyDoor(Planned):
    """`KeyDoor-v1` with a planner (which key, or the door) and an executor; the same options."""

    rooms: int = 3
    keys: int = 2
    width: int = 5

    def __post_init__(self):
        self.base  # noqa: B018, raises for invalid options

    @property
    def base(self) -> KeyDoor:
        """The chain of rooms in which the executor acts."""
        return KeyDoor(self.rooms, self.keys, self.width)

    @property
    def default_params(self) -> PlannedKeyDoorParams:
        """The chain's limit and half of it for the planner."""
        limit = super().default_params.max_steps_in_episode
        return PlannedKeyDoorParams(max_steps_in_episode=limit)


@struct.dataclass
class PlannedHouseholdParams(PlannedParams):
    """openables, distractors: as in `HouseholdParams`."""

    openables: float = 1.0
    distractors: int = 0


@dataclasses.dataclass(frozen=True)
class PlannedHousehold(Planned):
    """`Household-v1` with a planner (find, take, transform, place) and an executor; the same
    options."""

    receptacles: int = 7
    objects: int = 7
    tasks: tuple[str, ...] = TASKS
    split: str = "seen"
    show_seen: bool = True
    expert_sees_all: bool = False

    def __post_init__(self):
        self.base  # noqa: B018, says what does not fit

    @property
    def base(self) -> Household:
        """The household in which the executor acts, with these rooms and tasks."""
        return Household(
            self.receptacles,
            self.objects,
            self.tasks,
            self.split,
            self.show_seen,
            self.expert_sees_all,
        )

    @property
    def default_params(self) -> PlannedHouseholdParams:
        """The house's limit and half of it for the planner."""
        limit, own = super().default_params.max_steps_in_episode, HouseholdParams()
        return PlannedHouseholdParams(
            max_steps_in_episode=limit, openables=own.openables, distractors=own.distractors
        )
