"""ToolProgram-v1: questions about hidden digits, answered by calling tools (after CodeGym)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.tool_program import rules

_SPLITS = {"seen": rules.SEEN, "unseen": rules.UNSEEN}


@struct.dataclass
class ToolProgramState(EnvState):
    """The task, the results of the tools, and the outcome.

    family u8[]: index in `envs.tool_program.rules.FAMILIES`. digits u8[N], hidden. arguments
    u8[2], shown. notes: results of reading, summing and comparing. last u8[]: 1 + the last call, 0
    before. finished, won bool[].
    """

    family: jax.Array
    digits: jax.Array
    arguments: jax.Array
    notes: rules.Notes
    last: jax.Array
    finished: jax.Array
    won: jax.Array


@struct.dataclass
class ToolProgramParams(EnvParams):
    """slack: a family's limit is this multiple of the calls of its program in the worst case."""

    max_steps_in_episode: int = 48
    slack: float = 1.5


@dataclasses.dataclass(frozen=True)
class ToolProgram(Environment):
    """A question about N = `cells` hidden digits, to be answered after calls of a few tools.

    Families: max, min (position of a greatest or least digit, by cmp), count (how often a digit
    occurs, by get), find (position of a digit in sorted cells, by get), range (last digit of a
    range's sum, by sum), pair (position of a cell that sums to a given number with another cell, by
    get), sort (by cmp and swap, then done 0), balance (whether 0 for ( and 1 for ) match, by get).

    Observation: uint8, the family, its two arguments, then with `notes` all results so far: digits
    read [N] and prefix sums [N], 0 for unknown or 1 + digit, comparisons [P], 0 or 1 less, 2 equal,
    3 greater; without `notes` only the last call, 1 + its index, and its result, coded likewise,
    which requires memory. Actions: get i, sum i (last digit of the sum of cells 0 to i), cmp i j,
    swap i j with i < j, done v; actions other than the family's tools and answers are illegal.
    Reward: 1 for done with a right answer, else 0. Ends with done; limit `slack` times the calls
    that the family's program needs in the worst case (for find fewer than for reading all cells).
    Task: a family of the split (seen: max, count, find, range, sort; unseen: min, pair, balance),
    or of `families`, then digits and arguments.

    Expert: the family's program, which uses only the notes.
    Source: after CodeGym (its description: programs as environments, sparse reward; its code is not
    public); families, tools and limits are ours.
    """

    cells: int = 6
    notes: bool = True
    split: str = "seen"
    families: tuple[str, ...] = ()

    wordings: ClassVar[str] = "envs.tool_program.words"

    def __post_init__(self):
        if self.cells not in (4, 6, 8):
            raise ValueError(f"cells {self.cells}: expected 4, 6 or 8 (brackets need an even row)")
        if self.split not in _SPLITS:
            raise ValueError(f"split {self.split!r}: expected one of {', '.join(_SPLITS)}")
        for family in self.families:
            if family not in rules.FAMILIES:
                raise ValueError(f"family {family!r}: expected some of {', '.join(rules.FAMILIES)}")

    @property
    def layout(self) -> rules.Layout:
        """The index of the first action of each tool, and the number of actions (`size`)."""
        return rules.layout(self.cells)

    @property
    def num_codes(self) -> int:
        """Codes of the observation: arguments go up to 18, calls to the number of actions."""
        return 19 if self.notes else self.layout.size + 1

    @property
    def default_params(self) -> ToolProgramParams:
        """One and a half times the calls that the programs need."""
        worst = int(rules.longest(self.cells).max())
        return ToolProgramParams(max_steps_in_episode=int(np.ceil(1.5 * worst)))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Calls as in the compact wording."""
        joined = [f"{i} {j}" for i, j in zip(*rules.pairs(self.cells), strict=True)]
        return (
            *(f"get {i}" for i in range(self.cells)),
            *(f"sum {i}" for i in range(self.cells)),
            *(f"cmp {pair}" for pair in joined),
            *(f"swap {pair}" for pair in joined),
            *(f"done {v}" for v in range(10)),
        )

    def initial(self, key: jax.Array, params: ToolProgramParams) -> ToolProgramState:
        family_key, task_key = jax.random.split(key)
        names = self.families or _SPLITS[self.split]
        numbers = np.array([rules.FAMILIES.index(name) for name in names], np.uint8)
        family = jnp.asarray(numbers)[jax.random.randint(family_key, (), 0, len(numbers))]
        digits, arguments = rules.draw(task_key, family, self.cells)
        unknown = jnp.zeros(self.cells, bool)
        pairs = jnp.zeros(self.cells * (self.cells - 1) // 2, bool)
        return ToolProgramState(
            time=jnp.zeros((), jnp.int32),
            family=family,
            digits=digits,
            arguments=arguments,
            notes=rules.Notes(unknown, unknown, pairs),
            last=jnp.zeros((), jnp.uint8),
            finished=jnp.zeros((), bool),
            won=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: ToolProgramState, action: jax.Array, params: ToolProgramParams
    ) -> tuple[ToolProgramState, jax.Array]:
        """Answers a call, or judges the answer."""
        del key, params
        at, notes = self.layout, state.notes
        cells, pairs = jnp.arange(self.cells), jnp.arange(at.swap - at.cmp)
        swaps = (action >= at.swap) & (action < at.done)
        pair = jnp.where(swaps, action - at.swap, 0)
        digits, compared = rules.swap(state.digits, notes.compared, pair)
        digits = jnp.where(swaps, digits, state.digits)
        compared = jnp.where(swaps, compared, notes.compared)
        notes = rules.Notes(
            read=notes.read | (at.get + cells == action),
            summed=notes.summed | (at.sum + cells == action),
            compared=compared | (at.cmp + pairs == action),
        )
        answers = rules.right(digits, state.arguments)
        asked = np.arange(len(rules.FAMILIES), dtype=np.uint8)[:, None] == state.family
        given = at.done + np.arange(10) == action
        won = jnp.any(answers & asked & given)
        state = state.replace(
            digits=digits,
            notes=notes,
            last=(1 + action).astype(jnp.uint8),
            finished=action >= at.done,
            won=won,
        )
        return state, jnp.where(won, 1.0, 0.0)

    def results(self, state: ToolProgramState) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Results of all calls: digits u8[N], prefix sums u8[N], relations u8[P]."""
        relations = rules.relations(state.digits).astype(jnp.uint8)
        return state.digits, rules.prefix_sums(state.digits), relations

    def result(self, state: ToolProgramState) -> jax.Array:
        """1 + the result of the last call, u8[]; 0 for none."""
        at, told = self.layout, jnp.concatenate(self.results(state))
        # Calls of get, sum and cmp are numbered in the order of their results.
        last = jnp.arange(1, at.swap + 1, dtype=jnp.uint8) == state.last
        return jnp.sum(jnp.where(last, 1 + told, 0), dtype=jnp.uint8)

    def observe(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        """The task, with the notes or the last result."""
        task = jnp.append(state.family, state.arguments)
        if not self.notes:
            return jnp.concatenate([task, jnp.stack([state.last, self.result(state)])])
        told = jnp.concatenate(self.results(state))
        return jnp.append(task, jnp.where(jnp.concatenate(state.notes), 1 + told, 0))

    def is_terminated(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        return state.finished

    def is_success(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        return state.won

    def is_truncated(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        """At the family's limit, or the environment's."""
        worst = _of(state.family, rules.longest(self.cells))
        return super().is_truncated(state, params) | (state.time >= params.slack * worst)

    def legal(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        asked = np.arange(len(rules.FAMILIES), dtype=np.uint8)[:, None] == state.family
        return jnp.any(asked & rules.allowed(self.cells), axis=0)

    def fingerprint(
        self, state: ToolProgramState, params: ToolProgramParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; of="state" leaves out the last call, which the notes contain."""
        if of == "state":
            state = state.replace(last=jnp.zeros_like(state.last))
        return super().fingerprint(state, params, of=of)

    def expert(self, state: ToolProgramState, params: ToolProgramParams) -> jax.Array:
        """Next call of the family's program."""
        return _of(state.family, rules.programs(state.digits, state.arguments, state.notes))

    def render(self, state: ToolProgramState, params: ToolProgramParams) -> str:
        """`find 7 | 2 [4] 4 7 9 9 | get 1`: digits, in brackets if read, and the last call."""
        digits = zip(np.asarray(state.digits), np.asarray(state.notes.read), strict=True)
        shown = " ".join(f"[{digit}]" if read else str(digit) for digit, read in digits)
        family = rules.FAMILIES[int(state.family)]
        arguments = np.asarray(state.arguments)[: rules.ARITY[family]]
        task = " ".join(map(str, (family, *arguments)))
        last = self.action_names[int(state.last) - 1] if int(state.last) else ""
        return " | ".join(part for part in (task, shown, last) if part)


def _of(family: jax.Array, values: jax.Array) -> jax.Array:
    chosen = np.arange(len(rules.FAMILIES), dtype=np.uint8) == family
    return jnp.sum(jnp.where(chosen, values, 0), dtype=jnp.int32)
