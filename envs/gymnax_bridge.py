"""gymnax's environments under our protocol."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envs.environment import Environment


@dataclasses.dataclass(frozen=True)
class GymnaxEnvironment(Environment):
    """A gymnax environment, as `envs.make("CartPole-v1")` returns it.

    Rules, parameters and observations are gymnax's; finished episodes absorb, as in all
    environments here. Observations are cast to float32. Continuous actions are in [-1, 1] and are
    scaled to the bounds of gymnax's space (Pendulum-v1: -2 and 2). There is no expert and no
    success.
    """

    identifier: str
    env: Any

    has_success: ClassVar[bool] = False
    costly_reset: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.identifier

    @property
    def default_params(self) -> Any:
        return self.env.default_params

    @property
    def _actions(self) -> Any:
        return self.env.action_space(self.default_params)

    @property
    def continuous(self) -> bool:
        """Whether gymnax's action space is continuous."""
        return not hasattr(self._actions, "n")

    @property
    def action_names(self) -> tuple[str, ...]:
        """Indices: gymnax does not name its actions."""
        count = int(np.prod(self._actions.shape)) if self.continuous else self._actions.n
        return tuple(map(str, range(count)))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        observation, state = self.env.reset_env(key, params)
        return observation.astype(jnp.float32), jax.tree.map(jnp.asarray, state)

    def step_env(
        self, key: jax.Array, state: Any, action: jax.Array, params: Any
    ) -> tuple[jax.Array, Any, jax.Array, jax.Array, dict[str, jax.Array]]:
        """gymnax's step, absorbing at the end."""
        ended = self.is_terminated(state, params) | self.is_truncated(state, params)
        valid = jnp.ones((), bool)
        if self.continuous:
            valid = jnp.all(jnp.isfinite(action))
            action = self._between(jnp.where(valid, action, 0.0))
        observation, following, reward, terminated, _ = self.env.step_env(
            key, state, action, params
        )
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        reward = jnp.where(ended, 0.0, reward).astype(jnp.float32)
        terminated = jnp.where(ended, self.is_terminated(state, params), terminated)
        info = {
            "valid": valid,
            "success": jnp.zeros((), bool),
            "discount": jnp.where(terminated, 0.0, 1.0),
        }
        return observation.astype(jnp.float32), following, reward, terminated, info

    def _between(self, action: jax.Array) -> jax.Array:
        """An action in [-1, 1] scaled to the bounds of gymnax's space."""
        space = self._actions
        share = (jnp.clip(action, -1.0, 1.0).reshape(space.shape) + 1) / 2
        return space.low + share * (space.high - space.low)

    def is_terminated(self, state: Any, params: Any) -> jax.Array:
        return jnp.asarray(self.env.is_terminated(state, params))

    def is_truncated(self, state: Any, params: Any) -> jax.Array:
        return jnp.asarray(self.env.is_truncated(state, params))

    def action_space(self, params: Any = None) -> Any:
        """gymnax's space; `Box` of [-1, 1] if actions are continuous."""
        return super().action_space(params) if self.continuous else self.env.action_space(params)

    def observation_space(self, params: Any = None) -> Any:
        return self.env.observation_space(self.default_params if params is None else params)


@functools.cache
def load(name: str) -> GymnaxEnvironment:
    """The environment of a gymnax id; one object per id, so that compiled code is shared."""
    import gymnax  # slow to import, so only when one of its environments is asked for
    from gymnax.environments import spaces

    env, params = gymnax.make(name)
    space = env.action_space(params)
    bounded = isinstance(space, spaces.Box) and np.all(np.isfinite([space.low, space.high]))
    if not isinstance(space, spaces.Discrete) and not bounded:
        raise ValueError(
            f"environment {name!r} has actions of type {type(space).__name__}; expected "
            "Discrete, or a Box with finite bounds"
        )
    return GymnaxEnvironment(name, env)
