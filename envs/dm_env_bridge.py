"""Our environments of one agent, and gymnax's, as `dm_env.Environment`.

    env = dm_env_bridge.single("Sokoban-v1", seed=3, size=(7, 7))
    env = dm_env_bridge.single("ConnectFour-v1", ...)                   # refused: several agents

The discount at the end is 0 if the rules ended the episode, 1 if a limit of steps truncated it.
With `mask=True` an observation is a dict of `observation` and `action_mask`, i8[num_actions], the
legal actions, which dm_env has no other place for. Needs the package dm_env.
"""

from typing import Any

import dm_env
import numpy as np
from dm_env import specs

from envs.played import Played


class _Single(dm_env.Environment):
    """One environment on the host with dm_env's interface, made by `single`."""

    def __init__(self, played: Played, mask: bool, seed: int):
        self._played, self._with_mask, self._seed = played, mask, seed
        self._over = True

    def _seen(self) -> Any:
        seen = self._played.now["observation"][0]
        if not self._with_mask:
            return seen
        return {"observation": seen, "action_mask": self._played.now["legal"][0].astype(np.int8)}

    def reset(self) -> dm_env.TimeStep:
        self._played.begin(self._seed)
        self._seed, self._over = None, False
        return dm_env.restart(self._seen())

    def step(self, action: Any) -> dm_env.TimeStep:
        if self._over:
            return self.reset()
        reward, terminated, truncated, _ = self._played.advance(np.asarray(action)[None])
        self._over, reward = terminated or truncated, float(reward[0])
        if terminated:
            return dm_env.termination(reward, self._seen())
        if truncated:
            return dm_env.truncation(reward, self._seen())
        return dm_env.transition(reward, self._seen())

    def observation_spec(self) -> Any:
        env = self._played.env
        space = env.observation_space(self._played.params)
        seen = specs.BoundedArray(
            space.shape, np.dtype(space.dtype), np.asarray(space.low), np.asarray(space.high),
            name="observation",
        )  # fmt: skip
        if not self._with_mask:
            return seen
        mask = specs.BoundedArray((env.num_actions,), np.int8, 0, 1, name="action_mask")
        return {"observation": seen, "action_mask": mask}

    def action_spec(self) -> specs.Array:
        env = self._played.env
        if env.continuous:
            return specs.BoundedArray(env.action_shape, np.float32, -1.0, 1.0, name="action")
        return specs.DiscreteArray(env.num_actions, name="action")


def single(name: str, *, seed: int = 0, mask: bool = False, **options: Any) -> dm_env.Environment:
    """An environment of one agent by its name (`envs.make`) as a `dm_env.Environment`.

    seed: `jax.random.key(seed)` determines all episodes, one after another.

    Raises:
      ValueError: several agents, an environment in Python, options that it does not have, or
        mask=True with continuous actions.
    """
    played = Played(name, False, options)
    env = played.env
    if env.num_agents > 1:
        raise ValueError(f"{name} has {env.num_agents} agents; dm_env's interface has one")
    if mask and env.continuous:
        raise ValueError(f"mask=True with {name}, whose actions are continuous: leave it out")
    return _Single(played, mask, seed)
