"""SoloResearch-v1: the questions of Research-v1, for one agent that opens all sources itself."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import NO_CALL, PAGE, Environment, EnvParams, EnvState
from envs.research.rules import FAILED, FOUND, KINDS, Question, Sources


@struct.dataclass
class SoloResearchState(EnvState):
    """The question; opened: bool[2 n], sources opened for the fact at hand. result: i32[]."""

    question: Question
    opened: jax.Array
    result: jax.Array


@struct.dataclass
class SoloResearchParams(EnvParams):
    """right, answers, open_price: as in `ResearchParams`."""

    right: float = 0.8
    answers: tuple[float, float, float] = (0.95, 0.3, 0.15)
    open_price: float = 0.0


@dataclasses.dataclass(frozen=True)
class SoloResearch(Sources, Environment):
    """The questions of `Research`, sources and answerer the same, by one agent that opens itself.

    Actions: `open` of each local source, of each web source, then `answer`. A fact is found as soon
    as its page has it. Illegal: opening with nothing missing. Reward: 1 for a right answer, less
    `open_price` per opening. Limit: 13 steps. Observation: topics and status of all facts, the
    sources opened for the fact at hand, the last result. Expert: opens the topic's source until
    the fact is found, then answers.
    """

    wordings: ClassVar[str] = "envs.research.words"
    costly_reset: ClassVar[bool] = False

    @property
    def default_params(self) -> SoloResearchParams:
        return SoloResearchParams(max_steps_in_episode=13)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Openings of local sources, of web sources, and the answer."""
        opens = (f"open {kind} {j + 1}" for kind in KINDS for j in range(self.sources))
        return (*opens, "answer")

    def initial(self, key: jax.Array, params: SoloResearchParams) -> SoloResearchState:
        zero = jnp.zeros((), jnp.int32)
        opened = jnp.zeros(2 * self.sources, bool)
        return SoloResearchState(time=zero, question=self.drawn(key), opened=opened, result=zero)

    def legal(self, state: SoloResearchState, params: SoloResearchParams) -> jax.Array:
        """Opening as long as something is missing; answering always."""
        wants = jnp.any(self.missing(state.question))
        return jnp.append(jnp.broadcast_to(wants, (2 * self.sources,)), True)

    def transition(
        self, key: jax.Array, state: SoloResearchState, action: jax.Array, params
    ) -> tuple[SoloResearchState, jax.Array]:
        """Opens a source for the first missing fact, or answers, which ends the episode."""
        answers = action == 2 * self.sources
        kind, source = action // self.sources, action % self.sources
        fact = self.first_missing(state.question)
        paged, hit = self.opens(key, state.question, fact, kind, source, params)
        told, right = self.answer(key, state.question, params)
        opened = state.opened | (np.arange(2 * self.sources) == action)
        looked = state.replace(
            question=self.learnt(paged, fact, hit),
            opened=jnp.where(hit, False, opened),
            result=jnp.where(hit, FOUND, FAILED),
        )
        following = jax.tree.map(
            lambda a, b: jnp.where(answers, a, b), state.replace(question=told), looked
        )
        return following, jnp.where(answers, right, -params.open_price)

    def observe(self, state: SoloResearchState, params: SoloResearchParams) -> jax.Array:
        parts = [self.seen(state.question), state.opened, np.arange(3) == state.result]
        return jnp.concatenate(parts).astype(jnp.float32)

    def is_terminated(self, state: SoloResearchState, params: SoloResearchParams) -> jax.Array:
        return state.question.answered

    def is_success(self, state: SoloResearchState, params: SoloResearchParams) -> jax.Array:
        return state.question.correct

    def expert(self, state: SoloResearchState, params: SoloResearchParams) -> jax.Array:
        """The topic's own source, or the answer."""
        kind, source = self.home(state.question.topic[self.first_missing(state.question)])
        wants = jnp.any(self.missing(state.question))
        opens = kind * self.sources + source
        return jnp.where(wants, opens, 2 * self.sources).astype(jnp.int32)

    @property
    def tools_listed(self) -> tuple[int, ...]:
        """Number of tools of the agent: all sources."""
        return (2 * self.sources,)

    def tools_of(self, action: jax.Array) -> jax.Array:
        """Which sources actions open, first the local ones, bool[..., 2 n]."""
        return action[..., None] == np.arange(2 * self.sources)

    def call_kind(self, action: jax.Array) -> jax.Array:
        """PAGE of openings, NO_CALL of the answer and of what is no action."""
        return jnp.where((action >= 0) & (action < 2 * self.sources), PAGE, NO_CALL)

    def render(self, state: SoloResearchState, params: SoloResearchParams) -> str:
        """For example `boss found, heir`, and what was opened for the fact at hand."""
        names = [self.action_names[j] for j in np.flatnonzero(np.asarray(state.opened))]
        return "\n".join([self.shown(state.question), *names])
