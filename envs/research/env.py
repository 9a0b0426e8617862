"""Research-v1: a planner calls workers that look for facts in several sources, then answers."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.research.rules import FAILED, FOUND, KINDS, TOPICS, Question, Sources

ASK_LOCAL, ASK_WEB, ASK_BOTH, ANSWER = range(4)


@struct.dataclass
class ResearchState(GameState):
    """The question and the calls.

    calls: i32[], so far; call k is agent k's. waiting: bool[2], which kinds are called and
    have not begun. worker: i32[], the agent that works, 0 for none. fact, kind, turn: i32[],
    what it is to find, its kind, its turns so far. opened: bool[n], its sources. holds: bool[], it
    has the fact. result: i32[], NOTHING_YET, FOUND or FAILED, of its last opening. last: i32[], the
    same of the last call. price: i32[], number of the price of a call among `Research.prices`.
    """

    question: Question
    calls: jax.Array
    waiting: jax.Array
    worker: jax.Array
    fact: jax.Array
    kind: jax.Array
    turn: jax.Array
    opened: jax.Array
    holds: jax.Array
    result: jax.Array
    last: jax.Array
    price: jax.Array


@struct.dataclass
class ResearchParams(GameParams):
    """right: chance that the page of the fact's own source has it. answers: chance of a right
    answer where 0, 1, or more facts are missing. call_price, open_price: cost of each call and each
    opening, subtracted from the reward. An illegal action costs its turn."""

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000
    right: float = 0.8
    answers: tuple[float, float, float] = (0.95, 0.3, 0.15)
    call_price: float = 0.0
    open_price: float = 0.0


@dataclasses.dataclass(frozen=True)
class Research(Sources, TurnGame):
    """A planner calls workers for the facts of a question, one after the other, then answers.

    A question names `facts` (fewest, most) facts of `topics`. Each topic's facts are in one of the
    sources, always the same: two kinds of `sources` each. The planner (agent 0) asks a local worker
    or a web worker or both for the first fact that is missing, or has the question answered: that
    is a fixed answerer's work, whose chance depends on how many facts are missing. A worker opens
    sources of its kind, and reports: with the fact if it came upon it, else that it failed. After
    `patience` turns without a report it has failed. Call k is agent k, with a stream of its own
    that begins with the call; there are `calls` of them in an episode, of all workers. Both workers
    of "ask both" work on the same fact, one after the other, and the second does not know of the
    first.

    Actions: `ask local`, `ask web`, `ask both`, `answer` of the planner; `open` of each source and
    `report` of workers. Illegal: asking beyond the calls, or with nothing missing; actions of the
    other role. Reward, of all agents: 1 for a right answer, less `call_price` per call and
    `open_price` per opening. Ends with the answer; success: it is right. With `prices` each
    question has one of them as price of a call in place of `call_price`, which the planner is
    shown: one policy then learns every trade-off.

    Observation: float32 indicators. Of the planner: topics and status of all facts, the last call's
    result, the share of calls that are left, the price if it varies. Of a worker: the topic that it
    is to find, its kind, which sources it has opened, the last result, whether it holds the fact,
    its share of turns. What belongs to the other role is 0.

    Expert: asks the kind that has the topic, as long as there are calls; opens the topic's source
    until it has the fact; a worker of the wrong kind reports at once.

    Source: the roles of MATPO (arXiv:2510.04678), HierSearch (arXiv:2508.08088, local and web
    workers) and AI-SearchPlanner (arXiv:2508.20368, a fixed answerer); the world is ours.
    """

    calls: int = 6
    patience: int = 3
    prices: tuple[float, ...] = ()

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    planner: ClassVar[int | None] = 0
    sides: ClassVar[tuple[str, ...]] = ("planner", "workers")
    wordings: ClassVar[str] = "envs.research.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.calls <= 16 or not 1 <= self.patience <= 16:
            raise ValueError(
                f"calls {self.calls}, patience {self.patience}: expected 1 to 16 of each"
            )
        if len(self.prices) > 16 or any(not 0 <= price <= 1 for price in self.prices):
            raise ValueError(f"prices {self.prices}: expected at most 16, of 0 to 1")

    @property
    def num_agents(self) -> int:
        """The planner and one worker per call."""
        return 1 + self.calls

    @property
    def roles_of_seats(self) -> tuple[int, ...]:
        """Agent 0 plans, all others work."""
        return (0, *[1] * self.calls)

    @property
    def default_params(self) -> ResearchParams:
        """Turns for every call and the answer."""
        return ResearchParams(max_steps_in_episode=self.calls * (1 + self.patience) + 1)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The planner's four, then the workers'."""
        opens = (f"open {j + 1}" for j in range(self.sources))
        return (*(f"ask {kind}" for kind in (*KINDS, "both")), "answer", *opens, "report")

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The planner asks and answers, workers open and report."""
        return (0, 4), *[(4, self.sources + 1)] * self.calls

    def initial(self, key: jax.Array, params: ResearchParams) -> ResearchState:
        zero = jnp.zeros((), jnp.int32)
        price = zero
        if self.prices:
            price = jax.random.randint(jax.random.fold_in(key, 1), (), 0, len(self.prices))
        return ResearchState(
            **opening(),
            question=self.drawn(key),
            calls=zero,
            waiting=jnp.zeros(2, bool),
            worker=zero,
            fact=zero,
            kind=zero,
            turn=zero,
            opened=jnp.zeros(self.sources, bool),
            holds=jnp.zeros((), bool),
            result=zero,
            last=zero,
            price=price,
        )

    def price_of_call(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        """What each call of this episode costs, f32[]."""
        own = jnp.asarray(self.prices or (0.0,), jnp.float32)[state.price]
        return own if self.prices else jnp.asarray(params.call_price, jnp.float32)

    def mover(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        """The worker that works, else the planner."""
        return state.worker

    def legal(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        """Of the planner calls that are left, with something missing; of a worker everything."""
        left = self.calls - state.calls
        asks = jnp.any(self.missing(state.question)) & (left >= np.array([1, 1, 2]))
        plans = jnp.append(asks, True) & (state.worker == 0)
        works = jnp.broadcast_to(state.worker > 0, (self.sources + 1,))
        return jnp.concatenate([plans, works])

    def transition(
        self, key: jax.Array, state: ResearchState, action: jax.Array, params: ResearchParams
    ) -> tuple[ResearchState, jax.Array]:
        """The planner's call or answer, or a worker's opening or report."""
        planned, gain = self._plan(key, state, action, params)
        worked, cost = self._work(key, state, action - 4, params)
        plans = state.worker == 0
        following = jax.tree.map(lambda a, b: jnp.where(plans, a, b), planned, worked)
        reward = jnp.where(plans, gain, -cost)
        return following, jnp.broadcast_to(reward, (self.num_agents,))

    def _plan(self, key, state, action, params):
        """(state, reward) of a planner's turn."""
        kinds = np.array([[True, False], [False, True], [True, True]])
        asked = jnp.asarray(kinds)[jnp.clip(action, 0, 2)]
        called = self._next(state.replace(waiting=asked, fact=self.first_missing(state.question)))
        told, right = self.answer(key, state.question, params)
        answers, price = action == ANSWER, self.price_of_call(state, params)
        following = jax.tree.map(
            lambda a, b: jnp.where(answers, a, b), state.replace(question=told), called
        )
        return following, jnp.where(answers, right, -price * jnp.sum(asked))

    def _work(self, key, state, choice, params):
        """(state, cost) of a worker's turn: choice i32[], a source, or `sources` for a report."""
        reports = choice >= self.sources
        source = jnp.clip(choice, 0, self.sources - 1)
        paged, hit = self.opens(key, state.question, state.fact, state.kind, source, params)
        holds = state.holds | (hit & ~reports)
        turn = state.turn + 1
        brings = reports & state.holds
        question = jax.tree.map(lambda a, b: jnp.where(reports, a, b), state.question, paged)
        opened = state.replace(
            question=self.learnt(question, state.fact, brings),
            turn=turn,
            opened=state.opened | ((np.arange(self.sources) == source) & ~reports),
            holds=holds,
            result=jnp.where(hit, FOUND, FAILED),
        )
        ended = self._next(opened.replace(last=jnp.where(brings, FOUND, FAILED)))
        over = reports | (turn >= self.patience)
        following = jax.tree.map(lambda a, b: jnp.where(over, a, b), ended, opened)
        return following, params.open_price * ~reports

    def _next(self, state: ResearchState) -> ResearchState:
        """The next worker that waits begins, or else the planner goes on."""
        kind, some = jnp.argmax(state.waiting).astype(jnp.int32), jnp.any(state.waiting)
        calls = state.calls + some
        zero = jnp.zeros((), jnp.int32)
        return state.replace(
            question=state.question.replace(page=jnp.full_like(state.question.page, -1)),
            waiting=state.waiting & (np.arange(2) != kind),
            calls=calls,
            worker=jnp.where(some, calls, 0),
            kind=kind,
            turn=zero,
            opened=jnp.zeros(self.sources, bool),
            holds=jnp.zeros((), bool),
            result=zero,
        )

    def observe_as(
        self, state: ResearchState, agent: jax.Array, params: ResearchParams
    ) -> jax.Array:
        """The planner's indicators, then the worker's; those of the other role are 0."""
        planner = jnp.concatenate(
            [
                self.seen(state.question),
                np.arange(3) == state.last,
                jnp.atleast_1d((self.calls - state.calls) / self.calls),
                np.arange(len(self.prices)) == state.price,
            ]
        )
        worker = jnp.concatenate(
            [
                np.arange(self.topics) == state.question.topic[state.fact],
                np.arange(2) == state.kind,
                state.opened,
                np.arange(3) == state.result,
                jnp.stack([state.holds, state.turn / self.patience]),
            ]
        )
        # A worker is shown its call while it works, and nothing before and after it.
        planner = jnp.where(agent == 0, planner, 0.0)
        worker = jnp.where((agent > 0) & (agent == state.worker), worker, 0.0)
        return jnp.concatenate([planner, worker]).astype(jnp.float32)

    def is_over(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        return state.question.answered

    def won(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        """All, if the answer is right."""
        return jnp.broadcast_to(state.question.correct, (self.num_agents,))

    def expert(self, state: ResearchState, params: ResearchParams) -> jax.Array:
        """The first missing fact's kind, or the answer; of a worker the topic's source, or a
        report."""
        first = self.first_missing(state.question)
        kind, _ = self.home(state.question.topic[first])
        wants = jnp.any(self.missing(state.question)) & (state.calls < self.calls)
        plan = jnp.where(wants, kind, ANSWER)
        home_kind, home_source = self.home(state.question.topic[state.fact])
        last = state.turn >= self.patience - 1
        done = state.holds | last | (home_kind != state.kind)
        work = 4 + jnp.where(done, self.sources, home_source)
        return jnp.where(state.worker == 0, plan, work).astype(jnp.int32)

    @property
    def tools_listed(self) -> tuple[int, ...]:
        """Number of tools of each role, among those of `tools_of`: two kinds of workers, and the
        sources of a kind."""
        return (2, self.sources)

    def tools_of(self, action: jax.Array) -> jax.Array:
        """Which kinds of workers actions ask, and which sources they open, bool[..., 2 + n]."""
        both = action == ASK_BOTH
        asked = jnp.stack([(action == ASK_LOCAL) | both, (action == ASK_WEB) | both], axis=-1)
        opened = (action - 4)[..., None] == np.arange(self.sources)
        return jnp.concatenate([asked, opened], axis=-1)

    def render(self, state: ResearchState, params: ResearchParams) -> str:
        """For example `boss found, heir | 4 calls left`, and who works on what."""
        text = f"{self.shown(state.question)} | {self.calls - int(state.calls)} calls left"
        if int(state.worker):
            topic = TOPICS[int(state.question.topic[int(state.fact)])]
            opened = [str(j + 1) for j in np.flatnonzero(np.asarray(state.opened))]
            holds = ", has it" if bool(state.holds) else ""
            text += f"\n{KINDS[int(state.kind)]} worker {int(state.worker)} looks for {topic}"
            text += f", opened {' '.join(opened) or 'nothing'}{holds}"
        return text


def direct(env: Research, state: ResearchState, params: ResearchParams) -> jax.Array:
    """A planner that has the question answered at once, i32[]: no search."""
    return jnp.full((), ANSWER, jnp.int32)


def naive(env: Research, state: ResearchState, params: ResearchParams) -> jax.Array:
    """A planner that asks both kinds once for the first fact, and has the question answered,
    i32[]: one search with the question itself."""
    asks = (state.calls == 0) & jnp.any(env.missing(state.question)) & (env.calls > 1)
    return jnp.where(asks, ASK_BOTH, ANSWER).astype(jnp.int32)
