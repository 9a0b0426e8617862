"""A budget of turns: fixed, told to the agent, or extended when the agent asks for it."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@struct.dataclass
class TurnBudgetState(WrapperState):
    """limit: i32[], turns granted so far."""

    limit: jax.Array


@struct.dataclass
class TurnBudgetParams(WrapperParams):
    """turns: granted at the start; more than the wrapped environment's limit changes nothing.

    extension_price: what an extension costs, subtracted from the reward.
    """

    turns: int = 8
    extension_price: float = 0.0


@dataclasses.dataclass(frozen=True)
class TurnBudget(Wrapper):
    """An episode is truncated after `turns` turns, unless the agent gets more.

    remind: the agent sees how many turns are left: as a share of the environment's limit behind an
    observation that is a vector of floats (others stay as they are), in words as a first line.
    extension: 0, or the turns that one more action, `extend`, grants. It is the action behind the
    environment's own, takes a turn itself, and is legal while the environment's limit allows for
    the extension.

    A budget of the environment's limit, without reminder and extension, is no wrapper at all.

    Expert: the environment's; it extends at its last turn where it can.

    Source: strategies of turn control for coding agents, from an abstract and notes by others (no
    code read): a fixed limit with a reminder, and a smaller one that is extended for agents that
    still act at its end. Number, size and price of extensions are ours, and so is that the agent
    asks before it is cut off. A price per turn is `agentrl.rewards.step_penalty`.
    """

    remind: bool = True
    extension: int = 0

    words: ClassVar[str] = "envs.wrappers.turn_budget_words"

    def __post_init__(self):
        super().__post_init__()
        if self.extension < 0:
            raise ValueError(f"TurnBudget extension={self.extension}: expected 0 (none) or more")

    @property
    def default_params(self) -> TurnBudgetParams:
        return TurnBudgetParams(base=self.base.default_params)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions, then `extend` if there are extensions."""
        return (*self.base.action_names, *(("extend",) if self.extension else ()))

    @property
    def _told(self) -> bool:
        return self.remind and self.base.num_codes is None and len(self.base.observation_shape) == 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The environment's, one longer with a reminder in a vector."""
        shape = self.base.observation_shape
        return (shape[0] + 1,) if self._told else shape

    def remaining(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        """Turns that are left of the episode's budget or the limit, whichever ends first, i32[]."""
        limit = jnp.minimum(state.limit, params.max_steps_in_episode)
        return jnp.maximum(limit - state.time, 0)

    def observe(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        seen = super().observe(state, params)
        if not self._told:
            return seen
        return jnp.append(seen, self.remaining(state, params) / params.max_steps_in_episode)

    def is_truncated(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        """Whether the budget or the environment's own limit is used up, bool[]."""
        return (self.remaining(state, params) == 0) | super().is_truncated(state, params)

    def extendable(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        """Whether the environment's limit allows for one more extension, bool[]."""
        granted = state.limit + self.extension
        return (self.extension > 0) & (granted <= params.max_steps_in_episode)

    def legal(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        """The environment's legal actions, and `extend`."""
        legal = super().legal(state, params)
        return jnp.append(legal, self.extendable(state, params)) if self.extension else legal

    def _own(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(the action is `extend`, the environment's action otherwise)."""
        return self.added(action) if self.extension else (jnp.zeros((), bool), action)

    def is_legal(
        self, state: TurnBudgetState, action: jax.Array, params: TurnBudgetParams
    ) -> jax.Array:
        extends, action = self._own(action)
        legal = super().is_legal(state, action, params)
        return jnp.where(extends, self.extendable(state, params), legal)

    def initial(self, key: jax.Array, params: TurnBudgetParams) -> TurnBudgetState:
        return TurnBudgetState(
            time=jnp.zeros((), jnp.int32),
            base=self.base.initial(key, params.base),
            limit=jnp.asarray(params.turns, jnp.int32),
        )

    def step_env(
        self, key: jax.Array, state: TurnBudgetState, action: jax.Array, params: TurnBudgetParams
    ) -> tuple[jax.Array, TurnBudgetState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """As in the base class; an extension leaves the environment as it is."""
        ended = self.is_terminated(state, params) | self.is_truncated(state, params)
        extends, moved = self._own(action)
        granted = extends & self.extendable(state, params)
        _, base, reward, _, info = self.base.step_env(key, state.base, moved, params.base)
        following = state.replace(
            time=state.time + 1,
            base=jax.tree.map(lambda new, old: jnp.where(extends, old, new), base, state.base),
            limit=state.limit + jnp.where(granted, self.extension, 0),
        )
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        asked = jnp.where(granted, 0.0 - params.extension_price, params.illegal_reward)
        reward = jnp.where(ended, 0.0, jnp.where(extends, asked, reward)).astype(jnp.float32)
        terminated = self.is_terminated(following, params)
        info = {
            "valid": jnp.where(extends, granted, info["valid"]),
            "success": self.is_success(following, params),
            "discount": jnp.where(terminated, 0.0, 1.0),
        }
        return self.observe(following, params), following, reward, terminated, info

    def expert(self, state: TurnBudgetState, params: TurnBudgetParams) -> jax.Array:
        """The environment's expert, which extends at its last turn where it can."""
        action = super().expert(state, params)
        if not self.extension:
            return action
        asks = (self.remaining(state, params) == 1) & self.extendable(state, params)
        return jnp.where(asks, self.base.num_actions, action)

    def render(self, state: TurnBudgetState, params: TurnBudgetParams) -> str:
        left = int(self.remaining(state, params))
        return f"{super().render(state, params)}\n{left} turns left"
