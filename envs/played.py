"""One episode at a time on the host, as other libraries' interfaces play them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs import registry
from envs.agents import Outcome
from envs.environment import Environment
from envs.text import join, make_grammar, parse


def playable(name: str, options: dict[str, Any]) -> tuple[Environment, Any]:
    """An environment and its params by name. ValueError if it is one in Python already."""
    env, params = registry.make(name, **options)
    if env.in_python:
        raise ValueError(f"{name} is an environment in Python: use it as it is")
    return env, params


def gymnasium_space(space: Any) -> Any:
    """Gymnasium's space of one of gymnax's, as `Environment.observation_space` returns them."""
    from gymnax.environments import spaces  # importing it touches a device

    return spaces.gymnax_space_to_gym_space(space)


class Played:
    """The episodes of one environment, one after another; a step is a call of a compiled program.

    words: also says what the agents read. Afterwards `now` holds, of the current state,
    `observation` [A, ...], `legal` bool[A, num_actions] (all of an agent that does not act),
    and `acting` bool[A].

    The same seed gives the same episodes: `jax.random.key(seed)` is split for each reset and step.
    """

    def __init__(self, name: str, words: bool, options: dict[str, Any]):
        self.env, self.params = playable(name, options)
        if words and not self.env.wordings:
            raise ValueError(f"words=True with {name}, which has no words: leave it out")
        self.words, self.key = words, jax.random.key(0)
        env = self.env
        self._reset, self._step = jax.jit(env.reset_agents), jax.jit(env.step_agents)
        self._look, self._reads = jax.jit(self._now), jax.jit(self._action)
        self.state: Any = None
        self.now: dict[str, np.ndarray] = {}

    def _now(self, state: Any) -> dict[str, jax.Array]:
        env, params = self.env, self.params
        acting = env.acting(state, params)
        found = {"acting": acting}
        if not env.continuous:
            found["legal"] = env.legal_actions(state, params) | ~acting[:, None]
        if self.words:
            found["text"] = env.describe(state, params).fragments
            commands = env.commands(state, params)
            found["commands"] = commands if commands.ndim == 3 else commands[None]
        return found

    def _next_key(self) -> jax.Array:
        self.key, key = jax.random.split(self.key)
        return key

    def _see(self, observation: Any) -> None:
        self.now = jax.device_get(self._look(self.state))
        self.now["observation"] = np.asarray(observation)

    def begin(self, seed: int | None) -> None:
        """A new episode; without a seed the next of this object's own."""
        if seed is not None:
            self.key = jax.random.key(seed)
        observation, self.state = self._reset(self._next_key(), self.params)
        self._see(observation)

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, bool, bool, Outcome]:
        """(rewards f32[A], terminated, truncated, the whole outcome) of actions [A, ...]."""
        actions = jnp.asarray(actions, jnp.float32 if self.env.continuous else jnp.int32)
        observation, self.state, outcome = self._step(
            self._next_key(), self.state, actions, self.params
        )
        self._see(observation)
        outcome = jax.device_get(outcome)
        return outcome.reward, bool(outcome.terminated), bool(outcome.truncated), outcome

    def text(self, seat: int) -> str:
        """The description of the current state for a seat, as a language policy reads it; needs
        words=True."""
        return join(self.env.view.lexicon, self.now["text"][seat])

    def commands(self, seat: int) -> list[str]:
        """The command that each action stands for at a seat, [num_actions], "" where it has none;
        needs words=True."""
        return [join(self.env.view.lexicon, row) for row in self.now["commands"][seat]]

    def _action(self, state: Any, reply: jax.Array, length: jax.Array) -> jax.Array:
        slots = self.env.slots_as(state, 0, self.params)
        return parse(make_grammar("bare"), self.env.view, slots, reply, length).actions[0]

    def read(self, reply: str) -> int:
        """The action that a reply of the only agent names, -1 for none."""
        written, most = reply.strip().encode(), self.env.view.max_command_bytes
        if len(written) > most:
            return -1
        padded = np.frombuffer(written.ljust(most), np.uint8)
        return int(self._reads(self.state, padded, len(written)))
