"""Single steps from states on the expert's way: what learning from logged screens is."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@struct.dataclass
class SingleStepState(WrapperState):
    """right: bool[], the action was the expert's. answered: bool[], it was legal."""

    right: jax.Array
    answered: jax.Array


@struct.dataclass
class SingleStepParams(WrapperParams):
    """noise: share of the steps towards the state that are random legal actions instead."""

    noise: float = 0.0

    @property
    def max_steps_in_episode(self) -> int:
        """1: every episode ends with its first turn."""
        return 1


@dataclasses.dataclass(frozen=True)
class SingleStep(Wrapper):
    """An episode of one turn: reward 1 for the expert's action, 0 for any other legal one.

    The state is the task's first one, from which the expert has taken 0 to `depth` - 1 steps, as
    many as are drawn, but not the one that would end the episode.

    One action counts in each state, as in logs: another that is as good gets nothing.

    Expert: the environment's.

    Source: the action-level stage of Mobile-R1 (2025), https://arxiv.org/abs/2506.20332, from notes
    on the paper; there the states are logged screens and a click counts within its box.
    """

    depth: int = 8

    words: ClassVar[str] = "envs.wrappers.single_step_words"

    def __post_init__(self):
        super().__post_init__()
        if self.depth < 1:
            raise ValueError(f"SingleStep depth={self.depth}: expected 1 (first states) or more")

    @property
    def default_params(self) -> SingleStepParams:
        return SingleStepParams(base=self.base.default_params)

    def initial(self, key: jax.Array, params: SingleStepParams) -> SingleStepState:
        """A state on the expert's way."""
        task_key, count_key, walk_key = jax.random.split(key, 3)
        count = jax.random.randint(count_key, (), 0, self.depth)
        inner = params.base

        def walk(state, numbered):
            number, key = numbered
            step_key, choice_key, noise_key = jax.random.split(key, 3)
            legal = jnp.where(self.base.legal(state, inner), 0.0, -jnp.inf)
            chance = jax.random.uniform(noise_key) < params.noise
            action = self.base.expert(state, inner)
            action = jnp.where(chance, jax.random.categorical(choice_key, legal), action)
            _, after, _, terminated, _ = self.base.step_env(step_key, state, action, inner)
            over = terminated | self.base.is_truncated(after, inner)
            moves = (number < count) & ~over
            return jax.tree.map(lambda new, old: jnp.where(moves, new, old), after, state), None

        first = self.base.initial(task_key, inner)
        steps = jnp.arange(self.depth - 1), jax.random.split(walk_key, self.depth - 1)
        base, _ = jax.lax.scan(walk, first, steps)
        no = jnp.zeros((), bool)
        return SingleStepState(time=jnp.zeros((), jnp.int32), base=base, right=no, answered=no)

    def transition(
        self, key: jax.Array, state: SingleStepState, action: jax.Array, params: SingleStepParams
    ) -> tuple[SingleStepState, jax.Array]:
        """Compares the action with the expert's; the state stays."""
        right = action == self.base.expert(state.base, params.base)
        answered = jnp.ones((), bool)
        return state.replace(right=right, answered=answered), right.astype(jnp.float32)

    def is_terminated(self, state: SingleStepState, params: SingleStepParams) -> jax.Array:
        return state.answered

    def is_truncated(self, state: SingleStepState, params: SingleStepParams) -> jax.Array:
        return state.time >= 1

    def is_success(self, state: SingleStepState, params: SingleStepParams) -> jax.Array:
        return state.right
