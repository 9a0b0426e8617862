"""Submission: a task is done when the agent says so, and not before."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.wrappers.wrapper import Wrapper, WrapperParams, WrapperState


@struct.dataclass
class SubmissionState(WrapperState):
    """submitted: bool[], the agent has ended the episode."""

    submitted: jax.Array


@dataclasses.dataclass(frozen=True)
class Submission(Wrapper):
    """An episode ends when the agent submits: reward 1 if the task is solved then, else 0.

    One more action, `submit`, stands behind the environment's own and is always legal. Where the
    environment would end, it stands still. Its rewards are left out, and so the reward of `submit`
    is the only one; its time limit cuts an episode that is not submitted.

    Expert: the environment's, until it has ended; then `submit`.

    Source: the smallest task for G-RA, https://arxiv.org/abs/2508.10548, is NumberLine-v1 with
    length=9 in this wrapper: dense rewards for turns are easier to collect than that of `submit`.
    """

    words: ClassVar[str] = "envs.wrappers.submission_words"

    @property
    def default_params(self) -> WrapperParams:
        return WrapperParams(base=self.base.default_params)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The environment's actions, then `submit`."""
        return (*self.base.action_names, "submit")

    def initial(self, key: jax.Array, params: WrapperParams) -> SubmissionState:
        return SubmissionState(
            time=jnp.zeros((), jnp.int32),
            base=self.base.initial(key, params.base),
            submitted=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: SubmissionState, action: jax.Array, params: WrapperParams
    ) -> tuple[SubmissionState, jax.Array]:
        """The environment's step, or the end."""
        submits, own = self.added(action)
        _, base, *_ = self.base.step_env(key, state.base, own, params.base)
        base = jax.tree.map(lambda new, old: jnp.where(submits, old, new), base, state.base)
        solved = self.base.is_success(base, params.base)
        return state.replace(base=base, submitted=submits), 1.0 * (submits & solved)

    def is_terminated(self, state: SubmissionState, params: WrapperParams) -> jax.Array:
        return state.submitted

    def is_truncated(self, state: SubmissionState, params: WrapperParams) -> jax.Array:
        return state.time >= params.max_steps_in_episode

    def is_success(self, state: SubmissionState, params: WrapperParams) -> jax.Array:
        return state.submitted & super().is_success(state, params)

    def legal(self, state: SubmissionState, params: WrapperParams) -> jax.Array:
        """The environment's legal actions, and `submit`."""
        return jnp.append(super().legal(state, params), True)

    def is_legal(
        self, state: SubmissionState, action: jax.Array, params: WrapperParams
    ) -> jax.Array:
        submits, own = self.added(action)
        return submits | super().is_legal(state, own, params)

    def expert(self, state: SubmissionState, params: WrapperParams) -> jax.Array:
        over = super().is_terminated(state, params) | super().is_truncated(state, params)
        return jnp.where(over, self.base.num_actions, super().expert(state, params))

    def render(self, state: SubmissionState, params: WrapperParams) -> str:
        return super().render(state, params) + ("\nsubmitted" if bool(state.submitted) else "")
