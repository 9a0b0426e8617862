"""Attempts: one question is answered several times, with the wrong answers in sight."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.environment import Environment
from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@struct.dataclass
class AttemptsState(WrapperState):
    """wrong: i32[attempts], the answers that were wrong, in their order; -1: none, or a refused
    one. solved: bool[]."""

    wrong: jax.Array
    solved: jax.Array


@struct.dataclass
class AttemptsParams(WrapperParams):
    """Of the wrapped environment; the limit is the wrapper's."""

    max_steps_in_episode: int = 5


@dataclasses.dataclass(frozen=True)
class Attempts(Wrapper):
    """A question of one answer may be answered `attempts` times.

    Around an environment whose episodes are one turn, and whose observation is a vector of floats,
    such as DictSum-v1 with turns=1. A wrong answer leaves the question as it is, and its reward is
    the environment's (0 of most); it is told and stays in sight. An illegal answer takes an attempt
    and is not remembered. Ends with the right answer, which is success, or after the last attempt.

    Observation: the environment's, then for each action whether it was a wrong answer. In words the
    environment's text, then a line `not 7` for each of them.

    Expert: the environment's, which does not look at what was wrong.

    Source: the multi-attempt form of RISE, https://arxiv.org/abs/2407.18219 (from notes).
    """

    attempts: int = 5

    words: ClassVar[str] = "envs.wrappers.attempts_words"

    def __post_init__(self):
        super().__post_init__()
        base = self.base
        plain = base.num_codes is None and len(base.observation_shape) == 1
        one_turn = base.default_params.max_steps_in_episode == 1
        if not (plain and one_turn and base.has_success):
            raise ValueError(
                f"Attempts base={base.name}: expected an environment of one turn with success, "
                "whose observation is a vector of floats, as {'name': 'DictSum-v1', 'turns': 1} in "
                "envs.make"
            )
        if self.attempts < 1:
            raise ValueError(f"Attempts attempts={self.attempts}: expected at least 1")

    @property
    def default_params(self) -> AttemptsParams:
        """A limit of one step per attempt."""
        return AttemptsParams(base=self.base.default_params, max_steps_in_episode=self.attempts)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The environment's, longer by a number per action."""
        return (self.base.observation_shape[0] + self.base.num_actions,)

    def observe(self, state: AttemptsState, params: AttemptsParams) -> jax.Array:
        wrong = jnp.any(state.wrong[:, None] == jnp.arange(self.num_actions), axis=0)
        return jnp.append(super().observe(state, params), wrong.astype(jnp.float32))

    def fingerprint(
        self, state: AttemptsState, params: AttemptsParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; the order of the wrong answers does not matter."""
        state = state.replace(wrong=jnp.sort(state.wrong))
        return Environment.fingerprint(self, state, params, of=of)

    def initial(self, key: jax.Array, params: AttemptsParams) -> AttemptsState:
        return AttemptsState(
            time=jnp.zeros((), jnp.int32),
            base=self.base.initial(key, params.base),
            wrong=jnp.full(self.attempts, -1, jnp.int32),
            solved=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: AttemptsState, action: jax.Array, params: AttemptsParams
    ) -> tuple[AttemptsState, jax.Array]:
        """The environment's step where the answer is right; else the question again."""
        _, after, reward, _, told = self.base.step_env(key, state.base, action, params.base)
        right = told["success"]
        now = (jnp.arange(self.attempts) == state.time) & ~right
        base = jax.tree.map(lambda new, old: jnp.where(right, new, old), after, state.base)
        wrong = jnp.where(now, action.astype(jnp.int32), state.wrong)
        return state.replace(base=base, wrong=wrong, solved=right), reward

    def rejected(self, state: AttemptsState, params: AttemptsParams) -> AttemptsState:
        """An answer that is not understood takes an attempt, and is not among the wrong ones."""
        return state

    def is_terminated(self, state: AttemptsState, params: AttemptsParams) -> jax.Array:
        return state.solved | (state.time >= self.attempts)

    def is_truncated(self, state: AttemptsState, params: AttemptsParams) -> jax.Array:
        """Whether a limit below the attempts cut the episode."""
        return Environment.is_truncated(self, state, params)

    def is_success(self, state: AttemptsState, params: AttemptsParams) -> jax.Array:
        return state.solved

    def render(self, state: AttemptsState, params: AttemptsParams) -> str:
        names = [self.action_names[i] for i in state.wrong.tolist() if i >= 0]
        return " | ".join([super().render(state, params), *(f"not {name}" for name in names)])
