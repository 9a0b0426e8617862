"""SwitchedKeyDoor-v1, SwitchedHousehold-v1: planner, executor, and who decides when to plan."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment
from envs.household.env import Household
from envs.key_door.env import KeyDoor
from envs.planned.env import Planned, PlannedParams, PlannedState

SWITCHER = 2


@struct.dataclass
class SwitchedState(PlannedState):
    """switching: bool[], it is the switcher's turn."""

    switching: jax.Array


@struct.dataclass
class SwitchedParams(PlannedParams):
    """keep_reward: for each turn in which the subgoal is kept."""

    keep_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class Switched(Planned):
    """`Planned` with a third seat, the switcher, who keeps the subgoal or asks for a new one.

    The planner sets the first subgoal. Before each later turn of the executor the switcher chooses:
    after `switch` it is the planner's turn, after `keep` the executor's. After `patience` turns
    under one subgoal the planner decides without being asked. That a subgoal is reached changes
    nobody's turn.

    Actions: those of `Planned`, then keep, switch. Observation: that of `Planned`, then whether it
    is the switcher's; the switcher sees the subgoal, too. Reward: as there, and `keep_reward` to
    all for each `keep`. The limit is two and a half times the environment's own.

    Expert: as in `Planned`; it switches when the environment's subgoal is another one.

    Source: HiPER (2026), https://arxiv.org/abs/2602.16165, code JonP07/HiPER-agent 9d3c118 (read),
    where one reply holds switch, subgoal and action, as in `envs.wrappers.Subgoals`. Deviations:
    three replies, each in a turn of its own, and a closed list of subgoals.
    """

    num_agents: ClassVar[int] = 3
    wordings: ClassVar[str] = "envs.switched.words"

    @property
    def _decisions(self) -> int:
        """Index of `keep`; `switch` is the next."""
        return self.base.num_actions + len(self.base.subgoal_names)

    @property
    def default_params(self) -> SwitchedParams:
        """The environment's limit and one and a half of it for planner and switcher."""
        base = self.base.default_params
        limit = base.max_steps_in_episode
        return SwitchedParams(base=base, max_steps_in_episode=2 * limit + limit // 2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions, `plan` and a subgoal, keep, switch."""
        return (*super().action_names, "keep", "switch")

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The ranges of actions (first, count) by role; the switcher's are keep and switch."""
        return (*super().role_actions, (self._decisions, 2))

    def initial(self, key: jax.Array, params: SwitchedParams) -> SwitchedState:
        """The environment's start, at the planner's turn."""
        fields = vars(super().initial(key, params))
        return SwitchedState(**fields, switching=jnp.zeros((), bool))

    def mover(self, state: SwitchedState, params: SwitchedParams) -> jax.Array:
        """The switcher before the executor, the planner when it is asked."""
        return jnp.where(state.switching, SWITCHER, super().mover(state, params))

    def legal(self, state: SwitchedState, params: SwitchedParams) -> jax.Array:
        """Of `Planned`, or keep and switch."""
        others = super().legal(state, params) & ~state.switching
        return jnp.append(others, jnp.broadcast_to(state.switching, (2,)))

    def is_legal(
        self, state: SwitchedState, action: jax.Array, params: SwitchedParams
    ) -> jax.Array:
        """Whether one action is legal, bool[], without the mask of all that `legal` makes."""
        decides = (action >= self._decisions) & (action < self._decisions + 2)
        return jnp.where(state.switching, decides, super().is_legal(state, action, params))

    def transition(
        self, key: jax.Array, state: SwitchedState, action: jax.Array, params: SwitchedParams
    ) -> tuple[SwitchedState, jax.Array]:
        """A decision of the switcher, or the turn of a planner or an executor."""
        following, reward = super().transition(key, state, action, params)
        acted, late = ~state.planning, following.held >= params.patience
        following = following.replace(planning=acted & late, switching=acted & ~late)
        anew = action == self._decisions + 1
        decided = state.replace(planning=anew, switching=jnp.zeros((), bool))
        following = jax.tree.map(
            lambda new, other: jnp.where(state.switching, new, other), decided, following
        )
        return following, jnp.where(
            state.switching, jnp.where(anew, 0.0, params.keep_reward), reward
        )

    def observe_as(
        self, state: SwitchedState, agent: jax.Array, params: SwitchedParams
    ) -> jax.Array:
        """That of `Planned`; the switcher sees the subgoal, and that it is the switcher."""
        seen = super().observe_as(state, agent, params)
        goals = np.arange(len(self.base.subgoal_names)) == state.subgoal
        told = seen[-len(goals) :] + (goals & (agent == SWITCHER))
        return jnp.concatenate([seen[: -len(goals)], told, (agent == SWITCHER)[None]]).astype(
            jnp.float32
        )

    def expert(self, state: SwitchedState, params: SwitchedParams) -> jax.Array:
        """Switches when the environment's expert has another subgoal."""
        anew = self.base.subgoal(state.base, params.base) != state.subgoal
        return jnp.where(state.switching, self._decisions + anew, super().expert(state, params))

    def render(self, state: SwitchedState, params: SwitchedParams) -> str:
        """That of `Planned`, and whether it is the switcher's turn."""
        return super().render(state, params) + (" (keep it?)" if bool(state.switching) else "")


@dataclasses.dataclass(frozen=True)
class SwitchedKeyDoor(Switched):
    """`PlannedKeyDoor-v1` with a switcher; the same options."""

    base: Environment = KeyDoor()


@dataclasses.dataclass(frozen=True)
class SwitchedHousehold(Switched):
    """`PlannedHousehold-v1` with a switcher; the same options."""

    base: Environment = Household(expert_sees_all=False)
