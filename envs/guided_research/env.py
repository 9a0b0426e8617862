"""GuidedResearch-v1: a planner writes one plan for the questions of Research-v1, then an executor
opens the sources."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.research.rules import FAILED, FOUND, KINDS, Question, Sources

PLANNER, EXECUTOR = range(2)


@struct.dataclass
class GuidedResearchState(GameState):
    """The question, the plan and what was opened.

    plan: i32[H], the source that it names for each fact, -1 for none. planned: i32[], facts that it
    has dealt with. opened: bool[2 n], sources opened for the fact at hand since all of them were.
    openings: i32[]. result: i32[], of the last opening.
    """

    question: Question
    plan: jax.Array
    planned: jax.Array
    opened: jax.Array
    openings: jax.Array
    result: jax.Array


@struct.dataclass
class GuidedResearchParams(GameParams):
    """right, answers, open_price: as in `ResearchParams`. An illegal action costs its turn."""

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000
    right: float = 0.8
    answers: tuple[float, float, float] = (0.95, 0.3, 0.15)
    open_price: float = 0.0


@dataclasses.dataclass(frozen=True)
class GuidedResearch(Sources, TurnGame):
    """Seat 0, the planner, names a source for each fact; seat 1, the executor, opens and answers.

    The planner acts first, one turn per fact of the question, and not again: its turns are one
    plan. It may name nothing for a fact. The executor has `budget` openings for all facts, one
    after the other, of both kinds of sources, and answers; where the budget is used up it can only
    answer. Where a topic's facts are is the same in all episodes, and neither is told.

    Actions: `plan` of each source, `plan nothing`, then the executor's `open` of each source and
    `answer`. Illegal: the other seat's actions; opening with nothing missing or beyond the budget.
    Reward, of both: 1 for a right answer, less `open_price` per opening. Ends with the answer;
    success: it is right. Observation: topics and status of all facts; of the planner the fact whose
    turn it is, of the executor the plan for the first missing fact, the sources opened for it, the
    last result, the share of the budget that is left; what belongs to the other is 0.

    Expert: the planner names each topic's source. The executor knows no topics: it opens what the
    plan names for the fact at hand, then the sources that it has not opened for it in their order,
    then all anew; it answers when nothing is missing or the budget is used up. It therefore works
    without a plan too, and a wrong plan costs it an opening.

    Source: the smallest world in which the plan of EAGLET (arXiv:2510.05608) can help executors
    that work without it; ours, with the questions and the answerer of `Research`.
    """

    budget: int = 6

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    planner: ClassVar[int | None] = PLANNER
    sides: ClassVar[tuple[str, ...]] = ("planner", "executor")
    wordings: ClassVar[str] = "envs.guided_research.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.budget <= 64:
            raise ValueError(f"budget {self.budget}: expected 1 to 64 openings")

    @property
    def places(self) -> int:
        """Sources of both kinds."""
        return len(KINDS) * self.sources

    @property
    def default_params(self) -> GuidedResearchParams:
        """Turns for the plan, all openings and the answer."""
        return GuidedResearchParams(max_steps_in_episode=self.facts[1] + self.budget + 1)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The planner's, then the executor's."""
        names = [f"{kind} {j + 1}" for kind in KINDS for j in range(self.sources)]
        plans, opens = (f"plan {name}" for name in names), (f"open {name}" for name in names)
        return (*plans, "plan nothing", *opens, "answer")

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """Each has the same number of actions."""
        own = self.places + 1
        return (0, own), (own, own)

    def initial(self, key: jax.Array, params: GuidedResearchParams) -> GuidedResearchState:
        zero = jnp.zeros((), jnp.int32)
        return GuidedResearchState(
            **opening(),
            question=self.drawn(key),
            plan=jnp.full(self.facts[1], -1, jnp.int32),
            planned=zero,
            opened=jnp.zeros(self.places, bool),
            openings=zero,
            result=zero,
        )

    def mover(self, state: GuidedResearchState, params: GuidedResearchParams) -> jax.Array:
        """The planner until it has dealt with all facts."""
        plans = state.planned < jnp.sum(state.question.topic >= 0)
        return jnp.where(plans, PLANNER, EXECUTOR)

    def legal(self, state: GuidedResearchState, params: GuidedResearchParams) -> jax.Array:
        """The mover's own actions; openings while the budget lasts and something is missing."""
        plans = self.mover(state, params) == PLANNER
        opens = jnp.any(self.missing(state.question)) & (state.openings < self.budget) & ~plans
        plan = jnp.broadcast_to(plans, (self.places + 1,))
        return jnp.concatenate([plan, jnp.broadcast_to(opens, (self.places,)), ~plans[None]])

    def transition(
        self, key: jax.Array, state: GuidedResearchState, action: jax.Array, params
    ) -> tuple[GuidedResearchState, jax.Array]:
        """A line of the plan, an opening, or the answer."""
        named = jnp.where(action < self.places, action, -1)
        here = np.arange(self.facts[1]) == state.planned
        planned = state.replace(plan=jnp.where(here, named, state.plan), planned=state.planned + 1)
        choice = action - self.places - 1
        kind, source = choice // self.sources, choice % self.sources
        fact = self.first_missing(state.question)
        paged, hit = self.opens(key, state.question, fact, kind, source, params)
        told, right = self.answer(key, state.question, params)
        opened = state.opened | (np.arange(self.places) == choice)
        looked = state.replace(
            question=self.learnt(paged, fact, hit),
            opened=opened & ~hit & ~jnp.all(opened),
            openings=state.openings + 1,
            result=jnp.where(hit, FOUND, FAILED),
        )
        answers = choice == self.places
        acted = jax.tree.map(
            lambda a, b: jnp.where(answers, a, b), state.replace(question=told), looked
        )
        plans = self.mover(state, params) == PLANNER
        following = jax.tree.map(lambda a, b: jnp.where(plans, a, b), planned, acted)
        reward = jnp.where(plans, 0.0, jnp.where(answers, right, -params.open_price))
        return following, jnp.broadcast_to(reward, (self.num_agents,))

    def observe_as(
        self, state: GuidedResearchState, agent: jax.Array, params: GuidedResearchParams
    ) -> jax.Array:
        """The question, then the planner's indicators, then the executor's."""
        planner = np.arange(self.facts[1]) == state.planned
        plan = state.plan[self.first_missing(state.question)]
        executor = jnp.concatenate(
            [
                np.arange(self.places) == plan,
                state.opened,
                np.arange(3) == state.result,
                jnp.atleast_1d(1 - state.openings / self.budget),
            ]
        )
        planner = jnp.where(agent == PLANNER, planner, False)
        executor = jnp.where(agent == EXECUTOR, executor, 0.0)
        return jnp.concatenate([self.seen(state.question), planner, executor]).astype(jnp.float32)

    def is_over(self, state: GuidedResearchState, params: GuidedResearchParams) -> jax.Array:
        return state.question.answered

    def won(self, state: GuidedResearchState, params: GuidedResearchParams) -> jax.Array:
        """Both, if the answer is right."""
        return jnp.broadcast_to(state.question.correct, (self.num_agents,))

    def expert(self, state: GuidedResearchState, params: GuidedResearchParams) -> jax.Array:
        """A topic's own source; of the executor see the class."""
        fact = jnp.minimum(state.planned, self.facts[1] - 1)
        kind, source = self.home(state.question.topic[fact])
        line = state.plan[self.first_missing(state.question)]
        follows = (line >= 0) & ~state.opened[jnp.maximum(line, 0)]
        place = jnp.where(follows, line, jnp.argmin(state.opened))
        opens = jnp.any(self.missing(state.question)) & (state.openings < self.budget)
        act = self.places + 1 + jnp.where(opens, place, self.places)
        plans = self.mover(state, params) == PLANNER
        return jnp.where(plans, kind * self.sources + source, act).astype(jnp.int32)

    def render(self, state: GuidedResearchState, params: GuidedResearchParams) -> str:
        """For example `boss found, heir | plan local 1, nothing | 4 openings left`."""
        names = [*(name.removeprefix("plan ") for name in self.action_names[: self.places + 1])]
        plan = [names[int(line)] for line in np.asarray(state.plan)[: int(state.planned)]]
        told = f"{self.shown(state.question)} | plan {', '.join(plan) or 'not begun'}"
        return f"{told} | {self.budget - int(state.openings)} openings left"


def silent(env: GuidedResearch, state: GuidedResearchState, params) -> jax.Array:
    """A player that plans nothing, i32[]: what the executor does without a plan."""
    return jnp.full((), env.places, jnp.int32)
