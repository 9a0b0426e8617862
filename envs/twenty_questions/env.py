"""TwentyQuestions-v1: identify a hidden thing by questions, without a language model."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.twenty_questions import rules


@struct.dataclass
class TwentyQuestionsState(EnvState):
    """The hidden thing and the answers so far.

    target u8[]. balance i8[A]: answers "yes" minus answers "no" about each attribute. guessed
    bool[E]. table u16[E]: truths of this episode as bits, None for the fixed ones.
    """

    target: jax.Array
    balance: jax.Array
    guessed: jax.Array
    table: jax.Array | None


@struct.dataclass
class TwentyQuestionsParams(EnvParams):
    """noise: probability that the answer to a question is wrong; guesses are answered correctly."""

    max_steps_in_episode: int = 20
    illegal_reward: float = -1.0
    noise: float = 0.0


@dataclasses.dataclass(frozen=True)
class TwentyQuestions(Environment):
    """One of `entities` things is hidden; questions ask for its `attributes`, in at most `turns`.

    Observation: float32, balance of the answers about each attribute [A], wrong or right guesses
    [E], and with `redraw` the truths [E * A]. Actions: 0 to A - 1 ask about an attribute, the next
    E guess a thing; all always legal. Reward: -1 per question or guess, 0 for the right guess. Ends
    with the right guess or with the last turn, which terminates by the rules and is not a time
    limit. Task: a uniform thing; with `redraw` the truths are also drawn, each a fair coin, and
    shown, so that they have to be read instead of learnt (two things may then have the same
    attributes; guesses separate them).

    Expert: the question or guess of the highest information gain under the exact posterior; the
    value of a guess includes its probability to end the game.
    Source: after LMRL-Gym's twenty questions (read: rewards, turns), where a language model answers
    questions about 158 objects; things, attributes and noise are ours, and so is the summary of the
    answers instead of a transcript.
    """

    entities: int = 32
    attributes: int = 12
    turns: int = 20
    redraw: bool = False

    wordings: ClassVar[str] = "envs.twenty_questions.words"

    def __post_init__(self):
        things, questions = len(rules.THINGS), len(rules.ATTRIBUTES)
        if not (2 <= self.entities <= things and 1 <= self.attributes <= questions):
            raise ValueError(
                f"{self.entities} entities with {self.attributes} attributes: expected 2 to "
                f"{things} entities and 1 to {questions} attributes"
            )
        if not 1 <= self.turns <= 100:
            raise ValueError(f"turns {self.turns}: expected 1 to 100")

    @property
    def default_params(self) -> TwentyQuestionsParams:
        """Truthful answers, and as many steps as there are turns."""
        return TwentyQuestionsParams(max_steps_in_episode=self.turns)

    @property
    def action_names(self) -> tuple[str, ...]:
        attributes = (word for word, _ in rules.ATTRIBUTES[: self.attributes])
        return (*attributes, *(name.split()[-1] for name, _ in rules.THINGS[: self.entities]))

    def truths(self, state: TwentyQuestionsState) -> jax.Array:
        """The answers of all entities, u16[E], bit a for attribute a: drawn for the episode with
        `redraw`, else fixed."""
        if self.redraw:
            return state.table
        return jnp.asarray(rules.truths(self.entities, self.attributes))

    def initial(self, key: jax.Array, params: TwentyQuestionsParams) -> TwentyQuestionsState:
        """A uniform thing, and truths if they are drawn."""
        target_key, table_key = jax.random.split(key)
        table = None
        if self.redraw:
            table = jax.random.bits(table_key, (self.entities,), jnp.uint16)
            table = table & np.uint16((1 << self.attributes) - 1)
        return TwentyQuestionsState(
            time=jnp.zeros((), jnp.int32),
            target=jax.random.randint(target_key, (), 0, self.entities).astype(jnp.uint8),
            balance=jnp.zeros(self.attributes, jnp.int8),
            guessed=jnp.zeros(self.entities, bool),
            table=table,
        )

    def transition(
        self,
        key: jax.Array,
        state: TwentyQuestionsState,
        action: jax.Array,
        params: TwentyQuestionsParams,
    ) -> tuple[TwentyQuestionsState, jax.Array]:
        things = jnp.arange(self.entities, dtype=jnp.uint8)
        here = things == state.target
        row = jnp.sum(jnp.where(here, self.truths(state), 0), dtype=jnp.uint16)
        true = rules.bits(row[None], self.attributes)[0]
        lie = jax.random.uniform(key) < params.noise
        asked = jnp.arange(self.attributes) == action
        answer = jnp.where(true ^ lie, 1, -1).astype(jnp.int8)
        balance = state.balance + jnp.where(asked, answer, 0).astype(jnp.int8)
        guess = jnp.arange(self.attributes, self.num_actions) == action
        state = state.replace(balance=balance, guessed=state.guessed | guess)
        return state, jnp.where(jnp.any(guess & here), 0.0, -1.0)

    def observe(self, state: TwentyQuestionsState, params: TwentyQuestionsParams) -> jax.Array:
        """Balances, guesses and drawn truths."""
        seen = [state.balance, state.guessed]
        if self.redraw:
            seen.append(rules.bits(state.table, self.attributes).reshape(-1))
        return jnp.concatenate([part.astype(jnp.float32) for part in seen])

    def is_terminated(
        self, state: TwentyQuestionsState, params: TwentyQuestionsParams
    ) -> jax.Array:
        return self.is_success(state, params) | (state.time >= self.turns)

    def is_success(self, state: TwentyQuestionsState, params: TwentyQuestionsParams) -> jax.Array:
        here = jnp.arange(self.entities, dtype=jnp.uint8) == state.target
        return jnp.any(state.guessed & here)

    def expert(self, state: TwentyQuestionsState, params: TwentyQuestionsParams) -> jax.Array:
        """argmax of the information gain, plus for guesses the probability to be right."""
        true = rules.bits(self.truths(state), self.attributes)
        chance = rules.posterior(true, state.balance, state.guessed, params.noise)
        return jnp.argmax(jnp.concatenate(rules.worth(true, chance, params.noise))).astype(
            jnp.int32
        )

    def render(self, state: TwentyQuestionsState, params: TwentyQuestionsParams) -> str:
        """`alive+1 big-1 | not: cat oak | (whale)`, the last of which is hidden from the agent."""
        names, balance = self.action_names, np.asarray(state.balance)
        told = [f"{names[a]}{d:+d}" for a, d in enumerate(balance) if d]
        target = int(state.target)
        guesses = np.flatnonzero(np.asarray(state.guessed))
        wrong = [names[self.attributes + e] for e in guesses if e != target]
        found = "found" if len(wrong) < len(guesses) else "thinks of"
        parts = [" ".join(told), f"not: {' '.join(wrong)}" if wrong else ""]
        parts.append(f"({found} {names[self.attributes + target]})")
        return " | ".join(part for part in parts if part)
