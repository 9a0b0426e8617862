"""Delegation-v1: calls of one turn are answered at the same time, and who is called may call."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, SimultaneousGame, opening
from envs.research.rules import FAILED, FOUND, KINDS, NOTHING_YET, TOPICS, Question, Sources

# What became of a call beside FOUND and FAILED: nobody began to work.
LOST = 3
RESULTS = 4
# Of an agent: not called, at work, waiting for whom it called, done.
UNCALLED, WORKS, WAITS, DONE = range(4)
# The planner's calls: kinds for the first and the second missing fact, -1 for no call. Then its
# answer.
ASKS = np.array([[0, -1], [1, -1], [0, 0], [0, 1], [1, 0], [1, 1]])
ANSWER = len(ASKS)


@struct.dataclass
class DelegationState(GameState):
    """question: the facts. last: i32[H], the result of the last call for each. Of each agent, the
    planner's entries being unused: status: i32[A]. fact, kind, turn: i32[A], what it is to find,
    its kind, its turns so far. opened: bool[A, n], its sources. holds: bool[A], it has the fact.
    result: i32[A], of its last opening or call. page: i32[A, W], filler words of its last page."""

    question: Question
    last: jax.Array
    status: jax.Array
    fact: jax.Array
    kind: jax.Array
    turn: jax.Array
    opened: jax.Array
    holds: jax.Array
    result: jax.Array
    page: jax.Array


@struct.dataclass
class DelegationParams(GameParams):
    """right, answers: as in Research-v1. lost: chance that a call is lost. call_price, open_price,
    step_price: cost of each call, opening and step. An illegal action costs its turn."""

    illegal_reward: float = 0.0
    right: float = 0.8
    answers: tuple[float, float, float] = (0.95, 0.3, 0.15)
    lost: float = 0.0
    call_price: float = 0.0
    open_price: float = 0.0
    step_price: float = 0.0


@dataclasses.dataclass(frozen=True)
class Delegation(Sources, SimultaneousGame):
    """A planner calls workers for several facts in one turn, and they work at the same time.

    Questions, sources and the answerer are Research-v1's. The planner (agent 0) calls a local or a
    web worker for the first missing fact, or one for each of the first two, or has the question
    answered; it goes on when all of them have reported. A worker opens sources of its kind,
    reports, or passes its call on to a worker of the other kind, once, and waits for it. `depth`
    is how deep calls go: 1 is the planner's alone. All calls of an episode are at most `calls`;
    where two agents pass on and one call is left, the first one has it and the other one's turn is
    gone. Who has not reported after `patience` turns has failed. A call is lost with chance `lost`:
    the caller is told, and it counts. With `at_once=False` the same calls are answered one after
    the other, the first one's with all that it called first.

    The planner's call k is agent k's, and agent a's own is agent a + `calls`'s: each call is a
    stream of its own. Actions: six calls and `answer` of the planner; `open` of each source,
    `report` and `pass` of workers. Illegal: more calls than are left, facts that are not missing,
    passing in the last turn, twice or too deep, actions of the other role. Reward, of all agents: 1
    for a right answer, less the prices. Ends with the answer; success: it is right.

    Observation: float32 indicators. Of the planner: topics and status of all facts, which of them
    failed and were lost the last time, the share of calls that are left. Of a worker: topic, kind,
    opened sources, last result, whether it has the fact, its share of turns, whether it can pass
    on. What belongs to the other role is 0.

    Expert: calls the topics' kinds for two facts while there are calls; a worker opens the topic's
    source until it has the fact, and one of the wrong kind passes on, or reports.

    Source: Research-v1's; calls at the same time and nested calls as in today's frameworks of
    agents. The world is ours.
    """

    calls: int = 6
    patience: int = 3
    depth: int = 2
    at_once: bool = True

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    planner: ClassVar[int | None] = 0
    idle: ClassVar[int] = -1
    sides: ClassVar[tuple[str, ...]] = ("planner", "workers")
    wordings: ClassVar[str] = "envs.delegation.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.calls <= 8 or not 1 <= self.patience <= 16 or not 1 <= self.depth <= 3:
            raise ValueError(
                f"calls {self.calls}, patience {self.patience}, depth {self.depth}: expected 1 to "
                "8, 1 to 16 and 1 to 3"
            )

    @property
    def num_agents(self) -> int:
        """The planner, and one worker per call and depth."""
        return 1 + self.calls * self.depth

    @property
    def callers(self) -> tuple[int, ...]:
        """The planner calls the first `calls` workers, each of these the one `calls` further on."""
        return (-1, *[0] * self.calls, *range(1, 1 + self.calls * (self.depth - 1)))

    @property
    def roles_of_seats(self) -> tuple[int, ...]:
        """Agent 0 plans, all others work."""
        return (0, *[1] * (self.num_agents - 1))

    @property
    def default_params(self) -> DelegationParams:
        """Turns for every call and the answer, one after the other."""
        return DelegationParams(max_steps_in_episode=self.calls * (1 + self.patience) + 1)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The planner's seven, then the workers'."""
        asks = (" ".join(["ask", *(KINDS[k] for k in row if k >= 0)]) for row in ASKS)
        opens = (f"open {j + 1}" for j in range(self.sources))
        return (*asks, "answer", *opens, "report", "pass")

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The planner asks and answers, workers open, report and pass on."""
        plans = ANSWER + 1
        return (0, plans), *[(plans, self.sources + 2)] * (self.num_agents - 1)

    def initial(self, key: jax.Array, params: DelegationParams) -> DelegationState:
        none, no = jnp.zeros(self.num_agents, jnp.int32), jnp.zeros(self.num_agents, bool)
        return DelegationState(
            **opening(),
            question=self.drawn(key),
            last=jnp.zeros(self.facts[1], jnp.int32),
            status=none,
            fact=none,
            kind=none,
            turn=none,
            opened=jnp.zeros((self.num_agents, self.sources), bool),
            holds=no,
            result=none,
            page=jnp.full((self.num_agents, self.filler), -1, jnp.int32),
        )

    def left(self, state: DelegationState) -> jax.Array:
        """Calls that are left, i32[]."""
        return self.calls - jnp.sum(state.status[1:] != UNCALLED)

    def wanted(self, state: DelegationState) -> jax.Array:
        """The first two facts that are missing, i32[2]; 0 for none."""
        missing = self.missing(state.question)
        first = jnp.argmax(missing)
        second = jnp.argmax(missing & (np.arange(self.facts[1]) != first))
        return jnp.stack([first, second]).astype(jnp.int32)

    def acting(self, state: DelegationState, params: DelegationParams) -> jax.Array:
        """All that work, or the first of them, else the planner, bool[A]."""
        works = state.status == WORKS
        if not self.at_once:
            place = (np.arange(self.num_agents) - 1) % self.calls
            first = jnp.min(jnp.where(works, place, self.calls))
            works = works & (place == first)
        acts = works.at[0].set(~jnp.any(works))
        return acts & self.is_running(state, params)

    def legal_actions(self, state: DelegationState, params: DelegationParams) -> jax.Array:
        """See the class, bool[A, num_actions]; none of agents that do not act."""
        left, missing = self.left(state), jnp.sum(self.missing(state.question))
        number = np.sum(ASKS >= 0, axis=1)
        plans = jnp.append((left >= number) & (missing >= number), True)
        rows = jnp.zeros((self.num_agents, self.num_actions), bool)
        rows = rows.at[0, : ANSWER + 1].set(plans).at[1:, ANSWER + 1 : -1].set(True)
        rows = rows.at[1:, -1].set(self.can_pass(state)[1:])
        return rows & self.acting(state, params)[:, None]

    def can_pass(self, state: DelegationState) -> jax.Array:
        """Which agents have a worker that they could call now, bool[A]."""
        agent = np.arange(self.num_agents)
        below = jnp.roll(state.status == UNCALLED, -self.calls) & (
            (agent > 0) & (agent + self.calls < self.num_agents)
        )
        return below & (state.turn < self.patience - 1) & (self.left(state) > 0)

    def transition(
        self, key: jax.Array, state: DelegationState, action: jax.Array, params: DelegationParams
    ) -> tuple[DelegationState, jax.Array]:
        """The planner's calls or answer, or a turn of all that work now."""
        acts = self.acting(state, params)
        planned, gain = self._plan(key, state, action[0], params)
        worked, cost = self._work(key, state, action - ANSWER - 1, acts, params)
        following = jax.tree.map(lambda a, b: jnp.where(acts[0], a, b), planned, worked)
        reward = jnp.where(acts[0], gain, -cost) - params.step_price
        return following, jnp.broadcast_to(reward, (self.num_agents,))

    def _plan(self, key, state, action, params):
        """(state, reward) of a planner's turn."""
        asked = jnp.asarray(ASKS)[jnp.clip(action, 0, ANSWER - 1)]
        asked = jnp.where((action >= 0) & (action < ANSWER), asked, -1)
        called, fact = asked >= 0, self.wanted(state)
        direct = jnp.sum(state.status[1 : self.calls + 1] != UNCALLED)
        agent = direct + jnp.cumsum(called)
        who = (np.arange(self.num_agents) == agent[:, None]) & called[:, None]
        lost = jax.random.uniform(key, (2,)) < params.lost
        status = jnp.where(lost, DONE, WORKS)
        for place in range(2):
            state = state.replace(
                status=jnp.where(who[place], status[place], state.status),
                fact=jnp.where(who[place], fact[place], state.fact),
                kind=jnp.where(who[place], asked[place], state.kind),
                last=jnp.where(
                    (np.arange(self.facts[1]) == fact[place]) & called[place],
                    jnp.where(lost[place], LOST, NOTHING_YET), state.last,
                ),
            )  # fmt: skip
        told, right = self.answer(key, state.question, params)
        answers = action == ANSWER
        question = jax.tree.map(lambda a, b: jnp.where(answers, a, b), told, state.question)
        gain = jnp.where(answers, right, -params.call_price * jnp.sum(called))
        return state.replace(question=question), gain

    def _work(self, key, state, choice, acts, params):
        """(state, cost) of a turn of the workers that act; choice: i32[A], a source, `sources` for
        a report, then passing on."""
        agents, below = np.arange(self.num_agents), self.calls
        luck_key, lost_key = jax.random.split(key)
        opens = acts & (choice >= 0) & (choice < self.sources)
        source = jnp.clip(choice, 0, self.sources - 1)
        reports = acts & (choice == self.sources)
        passes = acts & (choice == self.sources + 1)
        passes = passes & (jnp.cumsum(passes) <= self.left(state))
        lost = passes & (jax.random.uniform(lost_key, agents.shape) < params.lost)
        paged, hit = jax.vmap(self.opens, (0, None, 0, 0, 0, None))(
            jax.random.split(luck_key, self.num_agents), state.question, state.fact, state.kind,
            source, params,
        )  # fmt: skip
        turn = state.turn + acts
        over = reports | (acts & ~passes & (turn >= self.patience))
        brings = reports & state.holds
        # To the worker that called, and from it to whom it calls.
        up = lambda x: jnp.roll(x, -below) & (agents > 0) & (agents + below < self.num_agents)  # noqa: E731
        down = lambda x: jnp.roll(x, below)  # noqa: E731
        told, begun = up(over), down(passes)
        status = jnp.where(over, DONE, jnp.where(passes & ~lost, WAITS, state.status))
        status = jnp.where(told, WORKS, status)
        status = jnp.where(begun, jnp.where(down(lost), DONE, WORKS), status)
        result = jnp.where(opens, jnp.where(hit, FOUND, FAILED), state.result)
        result = jnp.where(told, jnp.where(up(brings), FOUND, FAILED), result)
        result = jnp.where(lost, LOST, result)
        # What the planner's own workers bring.
        direct = (agents > 0) & (agents <= below)
        of_fact = state.fact[:, None] == np.arange(self.facts[1])
        ended = jnp.any(of_fact & (over & direct)[:, None], axis=0)
        found = jnp.any(of_fact & (brings & direct)[:, None], axis=0)
        state = state.replace(
            question=state.question.replace(found=state.question.found | found),
            last=jnp.where(ended, jnp.where(found, FOUND, FAILED), state.last),
            status=status,
            fact=jnp.where(begun, down(state.fact), state.fact),
            kind=jnp.where(begun, 1 - down(state.kind), state.kind),
            turn=turn,
            opened=state.opened | (opens[:, None] & (np.arange(self.sources) == source[:, None])),
            holds=state.holds | (opens & hit) | up(brings),
            result=result,
            page=jnp.where(opens[:, None], paged.page, state.page),
        )
        cost = params.open_price * jnp.sum(opens) + params.call_price * jnp.sum(passes)
        return state, cost

    def observe_as(
        self, state: DelegationState, agent: jax.Array, params: DelegationParams
    ) -> jax.Array:
        """The planner's indicators, then the worker's; those of the other role are 0."""
        planner = [
            self.seen(state.question),
            state.last == FAILED,
            state.last == LOST,
            jnp.atleast_1d(self.left(state) / self.calls),
        ]
        worker = [
            np.arange(self.topics) == state.question.topic[state.fact[agent]],
            np.arange(len(KINDS)) == state.kind[agent],
            state.opened[agent],
            np.arange(RESULTS) == state.result[agent],
            jnp.stack([state.holds[agent], state.turn[agent] / self.patience]),
            self.can_pass(state)[agent][None],
        ]
        planner, worker = (
            jnp.concatenate([jnp.asarray(x, jnp.float32) for x in part])
            for part in (planner, worker)
        )
        # A worker is shown its call while it works, and nothing before and after it.
        works = (agent > 0) & (state.status[agent] == WORKS)
        return jnp.append(jnp.where(agent == 0, planner, 0.0), jnp.where(works, worker, 0.0))

    def is_over(self, state: DelegationState, params: DelegationParams) -> jax.Array:
        return state.question.answered

    def won(self, state: DelegationState, params: DelegationParams) -> jax.Array:
        """All, if the answer is right."""
        return jnp.broadcast_to(state.question.correct, (self.num_agents,))

    def expert(self, state: DelegationState, params: DelegationParams) -> jax.Array:
        """Two facts' kinds at once, or the last one's, or the answer; see the class."""
        kind, _ = self.home(state.question.topic[self.wanted(state)])
        number = jnp.minimum(jnp.sum(self.missing(state.question)), self.left(state))
        plan = jnp.where(number > 1, 2 + 2 * kind[0] + kind[1], kind[0])
        plan = jnp.where(number > 0, plan, ANSWER)
        home_kind, home_source = self.home(state.question.topic[state.fact])
        last = state.turn >= self.patience - 1
        stray = home_kind != state.kind
        report, hand_on = ANSWER + 1 + self.sources, self.num_actions - 1
        work = jnp.where(stray, report, ANSWER + 1 + home_source)
        work = jnp.where(stray & self.can_pass(state), hand_on, work)
        work = jnp.where(state.holds | last, report, work)
        return work.at[0].set(plan).astype(jnp.int32)

    def render(self, state: DelegationState, params: DelegationParams) -> str:
        """For example `boss found, heir | 4 calls left`, and a line for who works or waits."""
        text = f"{self.shown(state.question)} | {int(self.left(state))} calls left"
        for agent in range(1, self.num_agents):
            if (status := int(state.status[agent])) in (WORKS, WAITS):
                topic = TOPICS[int(state.question.topic[int(state.fact[agent])])]
                opened = [str(j + 1) for j in np.flatnonzero(np.asarray(state.opened[agent]))]
                holds = ", has it" if bool(state.holds[agent]) else ""
                waits = f", waits for {agent + self.calls}" if status == WAITS else ""
                text += f"\n{KINDS[int(state.kind[agent])]} worker {agent} looks for {topic}"
                text += f", opened {' '.join(opened) or 'nothing'}{holds}{waits}"
        return text
