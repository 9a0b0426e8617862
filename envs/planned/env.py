"""PlannedKeyDoor-v1, PlannedHousehold-v1: a planner sets subgoals, an executor acts.

`Planned` is a wrapper: it turns any environment with subgoals into a game of two agents.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.fingerprint import fingerprint
from envs.game import GameParams, GameState, TurnGame, opening
from envs.household.env import Household
from envs.key_door.env import KeyDoor
from envs.wrappers.wrapper import check_subgoals

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
    """base: the environment's params, except for its limit and its cost of illegal actions.
    patience: number of the executor's turns after which the planner decides again.

    An illegal action costs its turn; there is no limit on their number.
    """

    base: EnvParams = struct.field(kw_only=True)
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

    Expert: the environment's subgoal and expert. The environment, `base`, has one agent, discrete
    actions, subgoals and a vector of floats as observation:
    `envs.make("envs.planned.env.Planned", base={"name": "KeyDoor-v1"}, patience=4)`.

    Source: the interface of HiPER (2026), https://arxiv.org/abs/2602.16165, where one policy writes
    switch, subgoal and action in each turn (`envs.wrappers.Subgoals`). Deviations: the subgoals are
    a closed list, and the environment decides when to switch, not the policy.
    """

    base: Environment

    wraps: ClassVar[bool] = True
    cooperative: ClassVar[bool] = True
    planner: ClassVar[int | None] = PLANNER
    wordings: ClassVar[str] = "envs.planned.words"

    def __post_init__(self):
        check_subgoals(type(self).__name__, self.base)

    @property
    def default_params(self) -> PlannedParams:
        """The environment's limit and half of it for the planner."""
        base = self.base.default_params
        limit = base.max_steps_in_episode
        return PlannedParams(base=base, max_steps_in_episode=limit + limit // 2)

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
            base=self.base.initial(key, params.base),
            subgoal=jnp.full((), -1, jnp.int32),
            held=jnp.zeros((), jnp.int32),
            planning=jnp.ones((), bool),
        )

    def mover(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """The planner at its events, else the executor."""
        return jnp.where(state.planning, PLANNER, EXECUTOR)

    def legal(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """Subgoals that are not reached, or the environment's legal actions."""
        acts = self.base.legal(state.base, params.base) & ~state.planning
        return jnp.append(acts, ~self.base.reached(state.base, params.base) & state.planning)

    def is_legal(self, state: PlannedState, action: jax.Array, params: PlannedParams) -> jax.Array:
        """As `legal`; the environment may check one action faster."""
        count = self.base.num_actions
        goals = count + np.arange(len(self.base.subgoal_names)) == action
        plans = jnp.any(goals & ~self.base.reached(state.base, params.base))
        acts = (action < count) & self.base.is_legal(state.base, action, params.base)
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
        move = jnp.minimum(action, count - 1)
        base, reward = self.base.transition(key, state.base, move, params.base)
        base, held = base.replace(time=state.base.time + 1), state.held + 1
        chosen = np.arange(len(self.base.subgoal_names)) == state.subgoal
        arrived = jnp.any(chosen & self.base.reached(base, params.base))
        acted = state.replace(base=base, held=held, planning=arrived | (held >= params.patience))
        following = jax.tree.map(lambda a, b: jnp.where(state.planning, a, b), planned, acted)
        reward = jnp.where(state.planning, 0.0, reward)
        return following, jnp.broadcast_to(reward, (self.num_agents,))

    def rejected(self, state: PlannedState, params: PlannedParams) -> PlannedState:
        """The environment's state after an action that it refuses."""
        told = self.base.rejected(state.base, params.base)
        base = jax.tree.map(lambda a, b: jnp.where(state.planning, a, b), state.base, told)
        return state.replace(base=base)

    def observe_as(self, state: PlannedState, agent: jax.Array, params: PlannedParams) -> jax.Array:
        """The environment's indicators, and the subgoal for the executor."""
        goals = np.arange(len(self.base.subgoal_names)) == state.subgoal
        told = (goals & (agent == EXECUTOR)).astype(jnp.float32)
        return jnp.append(self.base.observe(state.base, params.base), told)

    def is_over(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        return self.base.is_terminated(state.base, params.base)

    def won(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """Both agents win if the environment's task is solved."""
        return jnp.broadcast_to(self.base.is_success(state.base, params.base), (self.num_agents,))

    def fingerprint(
        self, state: PlannedState, params: PlannedParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; the environment defines its state."""
        if of != "state":
            return super().fingerprint(state, params, of=of)
        base = self.base.fingerprint(state.base, params.base, of=of)
        own = (state.subgoal, state.held, state.planning, state.errors, state.offender)
        return jnp.broadcast_to(fingerprint((base, own)), (self.num_agents, 2))

    def expert(self, state: PlannedState, params: PlannedParams) -> jax.Array:
        """The subgoal of the environment's expert, or its action."""
        plan = self.base.num_actions + self.base.subgoal(state.base, params.base)
        return jnp.where(state.planning, plan, self.base.expert(state.base, params.base))

    def render(self, state: PlannedState, params: PlannedParams) -> str:
        """The environment, and a line with the subgoal."""
        goal = int(state.subgoal)
        name = self.base.subgoal_names[goal] if goal >= 0 else "none"
        asked = " (planner's turn)" if bool(state.planning) else ""
        return f"{self.base.render(state.base, params.base)}\nsubgoal: {name}{asked}"


@dataclasses.dataclass(frozen=True)
class PlannedKeyDoor(Planned):
    """`KeyDoor-v1` with a planner (which key, or the door) and an executor; the same options."""

    base: Environment = KeyDoor()


@dataclasses.dataclass(frozen=True)
class PlannedHousehold(Planned):
    """`Household-v1` with a planner (find, take, transform, place) and an executor; the same
    options."""

    base: Environment = Household(expert_sees_all=False)
