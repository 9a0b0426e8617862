"""Subgoals in the agent's own replies: each keeps the current one or sets another, and acts."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.fingerprint import fingerprint
from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState, check_subgoals


@struct.dataclass
class SubgoalsState(WrapperState):
    """subgoal: i32[], the current one, -1 before the first."""

    subgoal: jax.Array


@dataclasses.dataclass(frozen=True)
class Subgoals(Wrapper):
    """The agent says in each turn whether it keeps its subgoal, if not which one is next, and acts.

    One reply holds all three, one agent writes them. The subgoal changes nothing but what the agent
    sees: it is a plan that the agent keeps to itself. Around an environment with subgoals, such as
    KeyDoor-v1 or Household-v1.

    Actions: the environment's A under `keep`, then A for each of its G subgoals, which set this one
    first: number (1 + g) A + a. A subgoal can be kept once there is one, and set while it is not
    reached. Observation: the environment's vector and the current subgoal [G]. In words a command
    has its parts in tags, `<switch>keep</switch>left` or
    `<switch>switch</switch><subgoal>red key</subgoal>left`, so that `Rows.span` tells them apart.
    Reward, end and success: the environment's. Anchors include the subgoal.

    Expert: the environment's subgoal and action; it keeps the one that is the environment's still,
    so on its own way it switches at first and whenever the subgoal is reached.

    Source: the interface of HiPER (2026), https://arxiv.org/abs/2602.16165, code JonP07/HiPER-agent
    9d3c118 (read). Deviations: a closed list of subgoals, as they are part of the action; an action
    follows in the same turn without a tag of its own. What HiPER's recipe charges for the text of a
    subgoal that changes although it is kept cannot occur, as a reply that keeps names none; for
    turns that keep there is `agentrl.rewards.keep_penalty`.
    """

    words: ClassVar[str] = "envs.wrappers.subgoals_words"

    def __post_init__(self):
        check_subgoals(type(self).__name__, self.base)

    @property
    def default_params(self) -> WrapperParams:
        return WrapperParams(base=self.base.default_params)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions under `keep` and under each subgoal, `red key: left`."""
        choices = ("keep", *self.base.subgoal_names)
        return tuple(f"{choice}: {name}" for choice in choices for name in self.base.action_names)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The environment's, longer by the number of subgoals."""
        return (self.base.observation_shape[0] + len(self.base.subgoal_names),)

    def initial(self, key: jax.Array, params: WrapperParams) -> SubgoalsState:
        return SubgoalsState(
            time=jnp.zeros((), jnp.int32),
            base=self.base.initial(key, params.base),
            subgoal=jnp.full((), -1, jnp.int32),
        )

    def _told(self, state: SubgoalsState) -> jax.Array:
        return np.arange(len(self.base.subgoal_names)) == state.subgoal

    def observe(self, state: SubgoalsState, params: WrapperParams) -> jax.Array:
        seen = self.base.observe(state.base, params.base)
        return jnp.append(seen, self._told(state).astype(jnp.float32))

    def choices(self, state: SubgoalsState, params: WrapperParams) -> jax.Array:
        """Whether the subgoal can be kept, and which ones can be set, bool[1 + G]."""
        return jnp.append(state.subgoal >= 0, ~self.base.reached(state.base, params.base))

    def parts(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(0 for keep or 1 + the subgoal that is set i32[], the environment's action i32[]); -1 of
        an action out of range."""
        count, inside = self.base.num_actions, (action >= 0) & (action < self.num_actions)
        return jnp.where(inside, action // count, -1), jnp.where(inside, action % count, -1)

    def legal(self, state: SubgoalsState, params: WrapperParams) -> jax.Array:
        acts = self.base.legal(state.base, params.base)
        return (self.choices(state, params)[:, None] & acts).reshape(-1)

    def _may(self, state: SubgoalsState, choice: jax.Array, params: WrapperParams) -> jax.Array:
        # A comparison instead of an index: no gather under vmap.
        numbers = np.arange(1 + len(self.base.subgoal_names))
        return jnp.any(self.choices(state, params) & (numbers == choice))

    def is_legal(self, state: SubgoalsState, action: jax.Array, params: WrapperParams) -> jax.Array:
        choice, own = self.parts(action)
        acts = self.base.is_legal(state.base, own, params.base)
        return self._may(state, choice, params) & acts

    def step_env(
        self, key: jax.Array, state: SubgoalsState, action: jax.Array, params: WrapperParams
    ) -> tuple[jax.Array, SubgoalsState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """The environment's step; of an illegal reply neither part counts."""
        ended = self.is_terminated(state, params) | self.is_truncated(state, params)
        choice, own = self.parts(action)
        own = jnp.where(self._may(state, choice, params), own, -1)
        _, base, *told = self.base.step_env(key, state.base, own, params.base)
        anew = told[-1]["valid"] & (choice > 0)
        subgoal = jnp.where(anew, choice - 1, state.subgoal).astype(jnp.int32)
        following = SubgoalsState(time=state.time + 1, base=base, subgoal=subgoal)
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        return self.observe(following, params), following, *told

    def fingerprint(
        self, state: SubgoalsState, params: WrapperParams, *, of: str = "observation"
    ) -> jax.Array:
        base = self.base.fingerprint(state.base, params.base, of=of)
        return fingerprint((base, state.subgoal))[None]

    def expert(self, state: SubgoalsState, params: WrapperParams) -> jax.Array:
        """The environment's expert under its subgoal, which is set if it is another one."""
        goal = self.base.subgoal(state.base, params.base)
        choice = jnp.where(goal == state.subgoal, 0, 1 + goal)
        own = self.base.expert(state.base, params.base)
        return (choice * self.base.num_actions + own).astype(jnp.int32)

    def render(self, state: SubgoalsState, params: WrapperParams) -> str:
        """The environment, and a line with the subgoal."""
        goal = int(state.subgoal)
        name = self.base.subgoal_names[goal] if goal >= 0 else "none"
        return f"{super().render(state, params)}\nsubgoal: {name}"
