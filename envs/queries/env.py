"""Queries-v1: a question about small tables, for a grounder, a generator and a validator."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.queries import rules
from envs.queries.rules import AGGREGATES, COMPARISONS

TABLES, COLUMNS = 3, 2
NAMES = ("age", "cost", "size", "rank", "mass", "year")
GROUNDER, GENERATOR, VALIDATOR = range(3)
# Subsets of the tables, without the empty one.
PICKS = np.array([[n >> t & 1 for t in range(TABLES)] for n in range(1, 2**TABLES)], bool)
# What became of a query: none yet, no rows (or a count of 0), failed, rows.
NONE, EMPTY, FAILED, FOUND = range(4)


@struct.dataclass
class QueriesState(GameState):
    """One question and the work on it.

    task: the tables, the gold query. hopeless: bool[], the gold query fails. picked: bool[T],
    tables that the grounder named, none before. query: the last one; result: what it gave, which
    fails before the first and on tables that were not picked. tries: i32[], queries that were run
    or answered with. answered, right, finished, malformed: bool[].
    """

    task: rules.Task
    hopeless: jax.Array
    picked: jax.Array
    query: rules.Query
    result: rules.Result
    tries: jax.Array
    answered: jax.Array
    right: jax.Array
    finished: jax.Array
    malformed: jax.Array


@struct.dataclass
class QueriesParams(GameParams):
    """A reply that is no command ends the episode, and is malformed: -1 for the team.

    extra_cost: what a table that was not needed costs the grounder, with grounding="recall".
    """

    illegal_reward: float = -1.0
    illegal_other_reward: float = -1.0
    illegal_allowance: int = 0
    extra_cost: float = 0.25


@dataclasses.dataclass(frozen=True)
class Queries(TurnGame):
    """Three roles turn a question about tables into a query, run it, and judge the answer.

    There are three tables (x, y, z) of 8 `rows`, each with a key and two columns of numbers from 1
    to `highest`. A question, `max age cost > 3`, names columns but no tables, and two tables have
    the column of the condition: in one of them no row fulfils it, so that only running a query
    tells which is meant. With `joins` half of the questions ask for a column of another table.

    The grounder (agent 0) reads the question and all columns, and picks tables. The generator
    (agent 1) reads the columns of those alone and has up to `turns` turns: it runs a query, reads
    the number of rows or the first values, repairs it, and answers with a query, in its last turn
    at the latest. A query on a table that was not picked fails; one on a column that no table has
    is malformed. The validator (agent 2) reads question, query and the first 3 values, and says
    yes or no.

    Reward, of the grounder and the generator, with the answer: 1 if its result is the gold query's
    (as a multiset), 0 if not or if it fails; -1 for a malformed reply and for no answer; 0 for all
    where the gold query fails, in a share `failing` of the tasks. With grounding="recall" the
    grounder's is, at once, the share of needed tables that it picked minus `extra_cost` for each
    other one. The validator's: 1 for a right verdict. Success, of all: the answer is right.

    Observation: uint8 codes, 0 for nothing: role, question (5), names of the columns that can be
    read (6), picked tables (3), last query (7), what became of it, its first 3 values, whether it
    is the last turn. Actions: 7 picks, then for run and for answer all queries, yes, no.

    Expert: picks the rivals and a joined table, tries one of the rivals (drawn with the task), then
    the other if no row was found; approves of right answers alone.

    Source: MARS-SQL, https://arxiv.org/abs/2511.01008 (code read: YangHaolin0526/MARS-SQL 0ece2af);
    tables and questions are ours.
    """

    turns: int = 5
    rows: int = 8
    highest: int = 6
    joins: bool = True
    failing: float = 0.0
    grounding: str = "shared"

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    num_agents: ClassVar[int] = 3
    validator: ClassVar[int | None] = VALIDATOR
    sides: ClassVar[tuple[str, ...]] = ("grounder", "generator", "validator")
    wordings: ClassVar[str] = "envs.queries.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 1 <= self.turns <= 16 or not 2 <= self.rows <= 16 or not 3 <= self.highest <= 9:
            raise ValueError(
                f"turns {self.turns}, rows {self.rows}, highest {self.highest}: expected 1 to 16, "
                "2 to 16 and 3 to 9"
            )
        if not 0 <= self.failing <= 1 or self.grounding not in ("shared", "recall"):
            raise ValueError(
                f"failing {self.failing}, grounding {self.grounding!r}: expected a share and "
                "'shared' or 'recall'"
            )

    @property
    def default_params(self) -> QueriesParams:
        """A turn of the grounder and of the validator, and `turns` of the generator."""
        return QueriesParams(max_steps_in_episode=self.turns + 2)

    @property
    def num_codes(self) -> int:
        """Results go up to the number of pairs of rows."""
        return self.rows**2 + 2

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the queries: aggregate, table, column, other, condition, comparison, value."""
        return len(AGGREGATES), TABLES, COLUMNS, TABLES, COLUMNS, len(COMPARISONS), self.highest

    @property
    def num_queries(self) -> int:
        """Number of queries; those that are run are followed by those that are answers."""
        return int(np.prod(self.shape))

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """Picks; runs and answers; verdicts."""
        picks, calls = len(PICKS), 2 * self.num_queries
        return (0, picks), (picks, calls), (picks + calls, 2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Columns by table and place, as `run max x0 y1 > 3`."""
        picks = ("use " + " ".join(np.array(list("xyz"))[pick]) for pick in PICKS)
        columns = [f"{t}{c}" for t in "xyz" for c in range(COLUMNS)]
        queries = [
            f"{aggregate} {column} {condition} {comparison} {value}"
            for aggregate in AGGREGATES
            for column in columns
            for condition in columns
            for comparison in COMPARISONS
            for value in range(1, self.highest + 1)
        ]
        calls = (f"{verb} {query}" for verb in ("run", "answer") for query in queries)
        return *picks, *calls, "yes", "no"

    @property
    def num_actions(self) -> int:
        return len(PICKS) + 2 * self.num_queries + 2

    def initial(self, key: jax.Array, params: QueriesParams) -> QueriesState:
        no = jnp.zeros((), bool)
        task = rules.draw(
            key, rows=self.rows, names=len(NAMES), highest=self.highest, joins=self.joins,
            failing=self.failing,
        )  # fmt: skip
        return QueriesState(
            **opening(),
            task=task,
            hopeless=rules.run(task.tables, task.gold).fails,
            picked=jnp.zeros(TABLES, bool),
            query=jax.tree.map(jnp.zeros_like, task.gold),
            result=rules.Result(jnp.full(self.rows**2, -1), jnp.ones((), bool)),
            tries=jnp.zeros((), jnp.int32),
            answered=no,
            right=no,
            finished=no,
            malformed=no,
        )

    def mover(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        works = jnp.where(state.answered, VALIDATOR, GENERATOR)
        return jnp.where(jnp.any(state.picked), works, GROUNDER).astype(jnp.int32)

    def legal(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        first, count = jnp.asarray(self.role_actions)[self.mover(state, params)]
        index = np.arange(self.num_actions)
        return (index >= first) & (index < first + count)

    def query_of(self, action: jax.Array) -> rules.Query:
        """The query that an action runs or answers with."""
        index = (action - len(PICKS)) % self.num_queries
        query = rules.Query(*(x.astype(jnp.int32) for x in jnp.unravel_index(index, self.shape)))
        return query._replace(value=query.value + 1)

    def index_of(self, query: rules.Query) -> jax.Array:
        """The inverse, as an index from 0, i32[]."""
        places = query._replace(value=query.value - 1)
        return jnp.ravel_multi_index(tuple(places), self.shape, mode="clip").astype(jnp.int32)

    def status(self, state: QueriesState) -> jax.Array:
        """NONE, EMPTY, FAILED or FOUND, i32[]; a count of 0 is EMPTY."""
        nothing = jnp.where(state.result.values[0] < 1, EMPTY, FOUND)
        return jnp.where(state.tries == 0, NONE, jnp.where(state.result.fails, FAILED, nothing))

    def result_of(self, state: QueriesState, params: QueriesParams) -> tuple[jax.Array, jax.Array]:
        values = jnp.sort(state.result.values)
        weights = jnp.asarray(31 ** np.arange(values.shape[0]) % 2**32, jnp.uint32)
        return jnp.sum((values + 2).astype(jnp.uint32) * weights), state.answered

    def needed(self, state: QueriesState) -> jax.Array:
        """Tables of the gold query, bool[T]."""
        gold, tables = state.task.gold, np.arange(TABLES)
        return (tables == gold.table) | (tables == gold.other)

    def transition(
        self, key: jax.Array, state: QueriesState, action: jax.Array, params: QueriesParams
    ) -> tuple[QueriesState, jax.Array]:
        mover = self.mover(state, params)
        grounds, writes = mover == GROUNDER, mover == GENERATOR
        pick = jnp.asarray(PICKS)[jnp.clip(action, 0, len(PICKS) - 1)]
        chosen = self.query_of(action)
        answers = writes & (action >= len(PICKS) + self.num_queries)
        tries = state.tries + writes
        silent = writes & ~answers & (tries >= self.turns)
        found = rules.run(state.task.tables, chosen)
        seen = state.picked[chosen.table] & state.picked[chosen.other]
        found = found._replace(fails=found.fails | ~seen)
        gold = rules.run(state.task.tables, state.task.gold)
        query, result = jax.tree.map(
            lambda new, old: jnp.where(writes, new, old),
            (chosen, found), (state.query, state.result),
        )  # fmt: skip
        state = state.replace(
            picked=jnp.where(grounds, pick, state.picked),
            query=query,
            result=result,
            tries=tries,
            answered=state.answered | answers,
            right=state.right | (answers & rules.equal(found, gold)),
            malformed=silent,
            finished=silent | (mover == VALIDATOR),
        )
        return state, self._reward(state, mover, answers, action == self.num_actions - 2, params)

    def _reward(self, state, mover, answers, approves, params) -> jax.Array:
        """Of each agent, f32[3], for what has just been done."""
        shared = rules.outcome(state.malformed, state.right, False)
        shared = jnp.where(answers | state.malformed, shared, 0.0)
        own = shared
        if self.grounding == "recall":
            needed = self.needed(state)
            recall = jnp.sum(needed & state.picked) / jnp.sum(needed)
            extra = params.extra_cost * jnp.sum(state.picked & ~needed)
            own = jnp.where(mover == GROUNDER, recall - extra, 0.0)
        verdict = (mover == VALIDATOR) & (approves == state.right)
        return jnp.stack([own, shared, verdict * 1.0])

    def play(
        self, key: jax.Array, state: QueriesState, action: jax.Array, params: QueriesParams
    ) -> tuple[QueriesState, jax.Array, jax.Array]:
        """As of all games; a malformed verdict costs the validator alone, and nothing has a reward
        where the gold query fails."""
        following, reward, valid = super().play(key, state, action, params)
        judges = self.mover(state, params) == VALIDATOR
        reward = jnp.where(judges & (np.arange(3) != VALIDATOR), 0.0, reward)
        return following, jnp.where(state.hopeless, 0.0, reward), valid

    def preview(self, state: QueriesState) -> jax.Array:
        """The first 3 values of the last result, i32[3], -1 for none."""
        return jnp.where(state.result.fails, -1, state.result.values[:3])

    def last_turn(self, state: QueriesState) -> jax.Array:
        """Whether the generator has to answer now, bool[]."""
        return jnp.any(state.picked) & ~state.answered & (state.tries >= self.turns - 1)

    def readable(self, state: QueriesState, agent: jax.Array) -> jax.Array:
        """Tables whose columns the agent reads, bool[T]: all, the picked ones, none."""
        return jnp.stack([jnp.ones(TABLES, bool), state.picked, jnp.zeros(TABLES, bool)])[agent]

    def observe_as(self, state: QueriesState, agent: jax.Array, params: QueriesParams) -> jax.Array:
        gold, names = state.task.gold, state.task.names
        question = [
            gold.aggregate,
            names[gold.table, gold.column],
            names[gold.other, gold.condition],
            gold.comparison,
            gold.value,
        ]
        done = (agent != GROUNDER) & (state.tries > 0)
        schema = jnp.where(self.readable(state, agent)[:, None], names + 1, 0)
        parts = [
            agent[None],
            jnp.stack(question) + 1,
            schema.reshape(-1),
            state.picked & (agent == GENERATOR),
            jnp.where(done, jnp.stack(state.query) + 1, 0),
            jnp.where(done, self.status(state), 0)[None],
            jnp.where(done, self.preview(state) + 1, 0),
            (self.last_turn(state) & (agent == GENERATOR))[None],
        ]
        return jnp.concatenate([part.astype(jnp.uint8) for part in parts])

    def is_over(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        return state.finished

    def is_success(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        """As of all games, but a malformed verdict does not undo a right answer."""
        ended = state.finished | (state.offender == VALIDATOR)
        return self.won(state, params) & ended

    def won(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        """All, if the answer is right."""
        return jnp.broadcast_to(state.right, (3,))

    def expert(self, state: QueriesState, params: QueriesParams) -> jax.Array:
        task, gold = state.task, state.task.gold
        wanted = task.rivals | (np.arange(TABLES) == gold.table)
        pick = jnp.argmax(jnp.all(PICKS == wanted, axis=1))
        # The rivals that can be read, the drawn one first; the other one if that found nothing.
        open_ = task.rivals & state.picked
        first = jnp.where(state.picked[task.first], task.first, jnp.argmax(open_))
        second = jnp.argmax(open_ & (np.arange(TABLES) != first))
        repairs = (self.status(state) != FOUND) & (state.tries > 0)
        other = jnp.where(repairs & (jnp.sum(open_) > 1), second, first)
        condition = jnp.argmax(task.names[other] == task.names[gold.other, gold.condition])
        joined = gold.table != gold.other
        table = jnp.where(joined, gold.table, other)
        column = jnp.argmax(task.names[table] == task.names[gold.table, gold.column])
        query = gold._replace(table=table, column=column, other=other, condition=condition)
        answers = (state.tries > 0) | self.last_turn(state)
        call = len(PICKS) + self.index_of(query) + answers * self.num_queries
        verdict = self.num_actions - 2 + ~state.right
        moves = jnp.stack([pick, call, verdict])
        return moves[self.mover(state, params)].astype(jnp.int32)

    def render(self, state: QueriesState, params: QueriesParams) -> str:
        """The tables, a line each, then the question and the last query with its result."""
        names, tables = np.asarray(state.task.names), state.task.tables
        lines = []
        for t, letter in enumerate("xyz"):
            head = " ".join(NAMES[n] for n in names[t])
            cells = zip(np.asarray(tables.key[t]), np.asarray(tables.values[t]), strict=True)
            rows = (":".join(map(str, (key, *values))) for key, values in cells)
            lines.append(f"{letter} {head}: " + " ".join(rows))
        gold = self.action_names[len(PICKS) + int(self.index_of(state.task.gold))]
        lines.append(f"gold {gold.removeprefix('run ')}")
        if int(state.tries):
            done = self.action_names[len(PICKS) + int(self.index_of(state.query))]
            kept = [int(v) for v in np.asarray(state.result.values) if v >= 0]
            lines.append(f"{done} gave {kept}")
        return "\n".join(lines)
