"""HierResearch-v1: a planner, a local and a web agent, and a refiner between them."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.research.env import Research, ResearchParams, ResearchState
from envs.research.rules import FAILED, FOUND, KINDS, Question

PLANNER, LOCAL, WEB = range(3)


@struct.dataclass
class Claims(Question):
    """claimed: bool[H], facts of which the planner has evidence that does not support them."""

    claimed: jax.Array


@struct.dataclass
class HierResearchState(ResearchState):
    """holds: the worker has something that looks like the fact. lured: bool[], it is not."""

    lured: jax.Array


@struct.dataclass
class HierResearchParams(ResearchParams):
    """lures: chance that a page without the fact has what looks like it. answers: not used."""

    lures: float = 0.3


@dataclasses.dataclass(frozen=True)
class HierResearch(Research):
    """`Research` with an agent for all local work, one for all web work, and false evidence.

    Seats: planner, local agent, web agent. A page that does not have the fact has, with chance
    `lures`, what looks like it, and no agent can tell. If the worker reports it, the knowledge
    refiner between the agents, a fixed check of evidence against the question, drops it, and the
    planner is told that the call failed. With refined=False it passes, the planner is told that
    the fact is found, and nobody can ask for it again.

    The answer lists what the planner has evidence of. Its reward is the F1 against the facts of the
    question, 2 x right / (listed + asked), less prices as in `Research`. Success: an F1 of 1.
    Actions: the planner's four; `open local` of each local source, `report local`; the same of the
    web. Observation and expert: as in `Research`; the expert is lured like everybody.

    Source: HierSearch (arXiv:2508.08088, code plageon/HierSearch 4e3a4d0): a planner over frozen
    local and web agents, a knowledge refiner, F1; the world is ours.
    """

    refined: bool = True

    num_agents: ClassVar[int] = 3
    planner: ClassVar[int | None] = None
    sides: ClassVar[tuple[str, ...]] = ("planner", *KINDS)
    roles_of_seats: ClassVar[tuple[int, ...]] = (0, 1, 2)

    @property
    def default_params(self) -> HierResearchParams:
        """Turns for every call and the answer."""
        return HierResearchParams(max_steps_in_episode=self.calls * (1 + self.patience) + 1)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The planner's four, then each agent's."""
        own = [
            [*(f"open {kind} {j + 1}" for j in range(self.sources)), f"report {kind}"]
            for kind in KINDS
        ]
        return (*super().action_names[:4], *own[0], *own[1])

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The planner asks and answers, agents open their sources and report."""
        own = self.sources + 1
        return (0, 4), (4, own), (4 + own, own)

    def drawn(self, key: jax.Array) -> Claims:
        question = super().drawn(key)
        fields = {f.name: getattr(question, f.name) for f in dataclasses.fields(question)}
        return Claims(**fields, claimed=jnp.zeros(self.facts[1], bool))

    def known(self, question: Claims) -> jax.Array:
        """Facts that the planner has evidence of, true or false, bool[H]."""
        return question.found | question.claimed

    def answer(self, key: jax.Array, question: Claims, params) -> tuple[Claims, jax.Array]:
        """(question that is answered, F1 of what is listed)."""
        right = jnp.sum(question.found)
        asked, listed = jnp.sum(question.topic >= 0), jnp.sum(self.known(question))
        done = question.replace(answered=jnp.ones((), bool), correct=right == asked)
        return done, 2.0 * right / (listed + asked)

    def initial(self, key: jax.Array, params: HierResearchParams) -> HierResearchState:
        state = super().initial(key, params)
        fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
        return HierResearchState(**fields, lured=jnp.zeros((), bool))

    def mover(self, state: HierResearchState, params: HierResearchParams) -> jax.Array:
        """The agent whose kind is called, else the planner."""
        return jnp.where(state.worker > 0, 1 + state.kind, PLANNER)

    def legal(self, state: HierResearchState, params: HierResearchParams) -> jax.Array:
        """As in `Research`; an agent has its own actions alone."""
        both = super().legal(state, params)
        parts = [both[4:] & (state.kind == kind) for kind in range(2)]
        return jnp.concatenate([both[:4], *parts])

    def _work(self, key, state, choice, params):
        choice = choice - state.kind * (self.sources + 1)
        reports = choice >= self.sources
        source = jnp.clip(choice, 0, self.sources - 1)
        paged, hit = self.opens(key, state.question, state.fact, state.kind, source, params)
        luck = jax.random.uniform(jax.random.fold_in(key, 2))
        lure = ~hit & (luck < params.lures) & ~reports
        hit = hit & ~reports
        turn = state.turn + 1
        brings, misled = reports & state.holds & ~state.lured, reports & state.lured
        question = jax.tree.map(lambda a, b: jnp.where(reports, a, b), state.question, paged)
        question = self.learnt(question, state.fact, brings)
        passes = misled & (not self.refined)
        claimed = question.claimed | ((np.arange(self.facts[1]) == state.fact) & passes)
        opened = state.replace(
            question=question.replace(claimed=claimed),
            turn=turn,
            opened=state.opened | ((np.arange(self.sources) == source) & ~reports),
            holds=state.holds | hit | lure,
            # What is held for true stays, and replaces what is not.
            lured=(state.lured | (lure & ~state.holds)) & ~hit,
            result=jnp.where(hit | lure, FOUND, FAILED),
        )
        last = jnp.where(brings | passes, FOUND, FAILED)
        ended = self._next(opened.replace(last=last)).replace(lured=jnp.zeros((), bool))
        over = reports | (turn >= self.patience)
        following = jax.tree.map(lambda a, b: jnp.where(over, a, b), ended, opened)
        return following, params.open_price * ~reports

    def observe_as(
        self, state: HierResearchState, agent: jax.Array, params: HierResearchParams
    ) -> jax.Array:
        """As in `Research`, whose workers are numbered by calls."""
        works = (agent > 0) & (agent == self.mover(state, params))
        number = jnp.where(works, state.worker, jnp.where(agent == PLANNER, 0, -1))
        return super().observe_as(state, number, params)

    def expert(self, state: HierResearchState, params: HierResearchParams) -> jax.Array:
        """The planner asks the kind of the first missing fact, or answers; an agent opens the
        topic's source until it holds something, true or false, and reports."""
        action = super().expert(state, params)
        shift = jnp.where(state.worker > 0, state.kind * (self.sources + 1), 0)
        return (action + shift).astype(jnp.int32)

    @property
    def tools_listed(self) -> tuple[int, ...]:
        """The two agents; each agent's sources."""
        return (2, self.sources, self.sources)

    def tools_of(self, action: jax.Array) -> jax.Array:
        """Which agents actions ask, which local and which web sources they open, bool[..., 2 +
        2 n]."""
        own = self.sources + 1
        asked = super().tools_of(action)
        web = super().tools_of(jnp.where(action >= 4 + own, action - own, -1))
        asked = asked & (action < 4 + own)[..., None]
        return jnp.concatenate([asked, web[..., 2:]], axis=-1)
