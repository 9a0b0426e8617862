"""DictSum-v1: keep a running sum of the values of words, turn by turn."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.dict_sum import rules
from envs.environment import Environment, EnvParams, EnvState

REWARDS = ("all", *rules.ACCURACIES)
HISTORIES = ("own", "filled", "hidden")


@struct.dataclass
class DictSumState(EnvState):
    """A dictionary, the keys to come, and the answers so far.

    values i8[pairs]. keys i8[turns, keys]. errors i16[turns]: added to the true sums of a filled
    history. history i16[turns]: the answers that later turns are shown. turn i32[]. flawless
    bool[]: all answers so far were the true sum.
    """

    values: jax.Array
    keys: jax.Array
    errors: jax.Array
    history: jax.Array
    turn: jax.Array
    flawless: jax.Array


@struct.dataclass
class DictSumParams(EnvParams):
    """error_rate: probability that an answer of a filled history is wrong; error_size: at most by
    how much."""

    max_steps_in_episode: int = 8
    error_rate: float = 0.0
    error_size: int = 10


@dataclasses.dataclass(frozen=True)
class DictSum(Environment):
    """A dictionary of `pairs` words with values -span to span; each of `turns` turns names `keys`
    of them, and the answer is the sum of all values named so far, from 0.

    recall: earlier turns, with their answers, that an observation repeats. With 0 it repeats none,
    and its text gives the dictionary in the first turn only: for contexts that keep that.
    history: the answers shown are the agent's "own", or "filled" in: the true sum, wrong with
    probability `error_rate` (errors are independent of each other). With error_rate 0 every turn
    starts from the true sum. "hidden": recalled turns are shown without answers.
    dictionary_seed: one dictionary for all tasks; None: a new one per task.

    Observation: float32, the values / span [pairs], how often the turn names each word [pairs], and
    for each recalled turn, oldest first, the same counts [pairs], its answer / limit (0 if hidden),
    and whether there is such a turn. Actions: answer number a - limit, all legal. An answer that is
    not a number (illegal) counts as the previous sum unchanged, and is never right. Reward, at most
    1 in all: "index": 1 / turns for the true sum; "prefix": 1 / turns for the true sum if all
    answers before were right; "step": 1 / turns for the shown previous answer plus the turn's
    values; "all": 1 at the end if all answers were right. Ends after the last turn, never earlier.
    Task: uniform values and keys. Success: all answers were the true sum.

    Expert: the true sum; optimal, except for "step" where a filled history contains errors: there
    what the reward asks for.
    Source: after the long-horizon execution task of Sinha et al. (2025), "The illusion of
    diminishing returns" (code read: dictionary, keys, accuracies, filled histories). Deviations:
    prompts are ours, numbers are written as in Python, and a word's number may be one token.
    """

    pairs: int = 10
    span: int = 9
    turns: int = 8
    keys: int = 1
    limit: int = 99
    recall: int = 1
    history: str = "own"
    reward: str = "index"
    dictionary_seed: int | None = None

    wordings: ClassVar[str] = "envs.dict_sum.words"

    def __post_init__(self):
        if not 1 <= self.pairs <= len(rules.WORDS):
            raise ValueError(f"pairs {self.pairs}: expected 1 to {len(rules.WORDS)}")
        for name in ("span", "turns", "keys"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: expected at least 1")
        largest = self.turns * self.keys * self.span
        if not largest <= self.limit <= 9999:
            raise ValueError(
                f"limit {self.limit}: expected {largest} (turns * keys * span) to 9999, so that "
                "every sum is an answer"
            )
        if not 0 <= self.recall <= self.turns:
            raise ValueError(f"recall {self.recall}: expected 0 to turns={self.turns}")
        for name, known in (("reward", REWARDS), ("history", HISTORIES)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} {getattr(self, name)!r}: expected one of {', '.join(known)}"
                )
        if self.history != "own" and not self.recall:
            raise ValueError(
                f"history {self.history!r} with recall 0: expected a recall of at least 1"
            )

    @property
    def default_params(self) -> DictSumParams:
        """A limit of one step per turn of the task."""
        return DictSumParams(max_steps_in_episode=self.turns)

    @property
    def tells_answers(self) -> bool:
        """Whether recalled turns are shown with their answers."""
        return self.history != "hidden"

    @property
    def action_names(self) -> tuple[str, ...]:
        """The integers from -limit to limit, in that order."""
        return tuple(str(number) for number in range(-self.limit, self.limit + 1))

    def initial(self, key: jax.Array, params: DictSumParams) -> DictSumState:
        values_key, keys_key, errors_key = jax.random.split(key, 3)
        if self.dictionary_seed is not None:
            values_key = jax.random.key(self.dictionary_seed)
        shape, span = (self.turns, self.keys), self.span
        errors = rules.draw_errors(errors_key, self.turns, params.error_rate, params.error_size)
        return DictSumState(
            time=jnp.zeros((), jnp.int32),
            values=jax.random.randint(values_key, (self.pairs,), -span, span + 1).astype(jnp.int8),
            keys=jax.random.randint(keys_key, shape, 0, self.pairs).astype(jnp.int8),
            errors=errors.astype(jnp.int16),
            history=jnp.zeros(self.turns, jnp.int16),
            turn=jnp.zeros((), jnp.int32),
            flawless=jnp.ones((), bool),
        )

    def turn_values(self, state: DictSumState) -> jax.Array:
        """Sum of the values that each turn names, i32[turns]."""
        named = state.keys[..., None] == np.arange(self.pairs)
        return jnp.sum(jnp.where(named, state.values.astype(jnp.int32), 0), axis=(1, 2))

    def _sums(self, state: DictSumState) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(true sum including this turn, shown previous answer, this turn's values), i32[] each."""
        number, values = np.arange(self.turns), self.turn_values(state)
        total = jnp.sum(jnp.where(number <= state.turn, values, 0))
        previous = jnp.sum(jnp.where(number == state.turn - 1, state.history, 0), dtype=jnp.int32)
        return total, previous, jnp.sum(jnp.where(number == state.turn, values, 0))

    def _after(self, state: DictSumState, answer: jax.Array, right: jax.Array) -> DictSumState:
        """State after an answer, which the history shows or replaces."""
        now = np.arange(self.turns) == state.turn
        if self.history == "filled":
            total, *_ = self._sums(state)
            wrong_by = jnp.sum(jnp.where(now, state.errors, 0), dtype=jnp.int32)
            answer = jnp.clip(total + wrong_by, -self.limit, self.limit)
        return state.replace(
            history=jnp.where(now, answer.astype(jnp.int16), state.history),
            turn=state.turn + 1,
            flawless=state.flawless & right,
        )

    def transition(
        self, key: jax.Array, state: DictSumState, action: jax.Array, params: DictSumParams
    ) -> tuple[DictSumState, jax.Array]:
        del key, params
        answer = action - self.limit
        total, previous, values = self._sums(state)
        right = answer == total
        after = self._after(state, answer, right)
        if self.reward == "all":
            return after, jnp.where(after.flawless & (after.turn == self.turns), 1.0, 0.0)
        counted = {"index": right, "prefix": after.flawless, "step": answer == previous + values}
        return after, jnp.where(counted[self.reward], 1.0 / self.turns, 0.0)

    def rejected(self, state: DictSumState, params: DictSumParams) -> DictSumState:
        """A missing answer: the previous sum unchanged, and wrong."""
        _, previous, _ = self._sums(state)
        return self._after(state, previous, jnp.zeros((), bool))

    def recalled(self, state: DictSumState) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Earlier turns, oldest first: keys i32[recall, keys], answers i32[recall], and whether
        there is such a turn, bool[recall]."""
        number = state.turn - np.arange(self.recall, 0, -1)
        here = number[:, None] == np.arange(self.turns)
        keys = jnp.sum(jnp.where(here[..., None], state.keys, 0), axis=1, dtype=jnp.int32)
        answers = jnp.sum(jnp.where(here, state.history, 0), axis=1, dtype=jnp.int32)
        return keys, answers, number >= 0

    def asked(self, state: DictSumState) -> tuple[jax.Array, jax.Array]:
        """This turn's keys i32[keys], and whether there is one more turn, bool[]."""
        here = np.arange(self.turns) == state.turn
        keys = jnp.sum(jnp.where(here[:, None], state.keys, 0), axis=0, dtype=jnp.int32)
        return keys, state.turn < self.turns

    def observe(self, state: DictSumState, params: DictSumParams) -> jax.Array:
        """Values, counts of the turn's words, recalled turns."""

        def counts(keys, there):
            named = (keys[..., None] == np.arange(self.pairs)) & there[..., None, None]
            return jnp.sum(named, axis=-2, dtype=jnp.float32)

        keys, answers, there = self.recalled(state)
        answers = answers * self.tells_answers / self.limit
        columns = [counts(keys, there), answers[:, None], there[:, None]]
        earlier = jnp.concatenate([column.astype(jnp.float32) for column in columns], axis=1)
        values = state.values.astype(jnp.float32) / self.span
        return jnp.concatenate([values, counts(*self.asked(state)), earlier.reshape(-1)])

    def is_terminated(self, state: DictSumState, params: DictSumParams) -> jax.Array:
        return state.turn >= self.turns

    def is_success(self, state: DictSumState, params: DictSumParams) -> jax.Array:
        return (state.turn >= self.turns) & state.flawless

    def expert(self, state: DictSumState, params: DictSumParams) -> jax.Array:
        total, previous, values = self._sums(state)
        answer = previous + values if self.reward == "step" else total
        return jnp.clip(answer + self.limit, 0, 2 * self.limit).astype(jnp.int32)

    def render(self, state: DictSumState, params: DictSumParams) -> str:
        """`apple=5 grape=-3 | apple 5, grape 1 | apple`: dictionary, answered turns, this turn."""
        turn, keys = int(state.turn), np.asarray(state.keys)
        words = [" ".join(rules.WORDS[k] for k in row) for row in keys]
        pairs = zip(rules.WORDS, np.asarray(state.values), strict=False)
        answered = zip(words[:turn], np.asarray(state.history), strict=False)
        parts = [" ".join(f"{word}={value}" for word, value in pairs)]
        parts.append(", ".join(f"{word} {answer}" for word, answer in answered))
        return " | ".join([*parts, *words[turn : turn + 1]])
