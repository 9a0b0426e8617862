"""Wordle-v1: find a word from the colours of previous guesses (LMRL-Gym's rules)."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.wordle import rules

# Codes of observations: 0 empty, then 1 + 3 * letter + colour, then a refused try.
NOTHING, REFUSED = 0, 79


@struct.dataclass
class WordleState(EnvState):
    """State of one game.

    target i16[]: index of the word. guesses i16[tries]: word of each try, -1 for none. A try before
    `time` without a word was refused: the reply was not in the vocabulary.
    """

    target: jax.Array
    guesses: jax.Array


@dataclasses.dataclass(frozen=True)
class Wordle(Environment):
    """A word of `letters` letters to be found in `tries` guesses.

    Observation: uint8[tries, letters], the history: 0 empty, 1 + 3 letter + colour with letters a =
    0 and colours 0 black, 1 yellow, 2 green (see `envs.wordle.rules.colours`), 79 a
    refused try. Actions: the words of the vocabulary, always legal. Any other word is illegal and
    uses up a try. Reward: -1 per try, 0 for the one that finds the word. Ends when the word is
    found or the tries are used up, which terminates by the rules and is not a time limit. Task: a
    uniform word.

    vocabulary: words of equal length; default: our own, 97 of 4 letters or 132 of 5. listed: the
    rules, which language models that were not trained here read, name them all; LMRL-Gym's player
    has to know them.

    Anchors with of="state" are the target and the set of guesses, without their order and without
    refused tries.

    Expert: the guess with the highest information gain plus its probability to be the word.
    `consistent` is the set of words that the history allows, for a policy that guesses any of them.
    Source: LMRL-Gym (read); replayed against episodes recorded with its vocabulary of 431 words.
    """

    letters: int = 5
    tries: int = 6
    vocabulary: tuple[str, ...] = ()
    listed: bool = False

    num_codes: ClassVar[int] = 80
    wordings: ClassVar[str] = "envs.wordle.words"

    def __post_init__(self):
        if not self.vocabulary and self.letters not in rules.WORDS:
            raise ValueError(
                f"letters {self.letters} without a vocabulary: expected one of "
                f"{', '.join(map(str, rules.WORDS))}, or vocabulary=(words of that length)"
            )
        for word in self.words:
            if len(word) != self.letters or not (word.isascii() and word.islower()):
                raise ValueError(
                    f"word {word!r}: expected {self.letters} letters of a to z; "
                    "all words of the vocabulary must have `letters` letters"
                )
        if len(set(self.words)) != len(self.words):
            raise ValueError("vocabulary: a word occurs twice; expected every word once")
        if self.tries < 1 or not 1 <= self.letters <= 8:
            raise ValueError(
                f"tries {self.tries} with {self.letters} letters: expected at least 1 try and "
                "1 to 8 letters"
            )

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in the order of their indices."""
        return self.vocabulary or rules.WORDS[self.letters]

    @property
    def default_params(self) -> EnvParams:
        """A refused try costs the same as a wrong one."""
        return EnvParams(max_steps_in_episode=self.tries, illegal_reward=-1.0)

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.words

    def initial(self, key: jax.Array, params: EnvParams) -> WordleState:
        return WordleState(
            time=jnp.zeros((), jnp.int32),
            target=jax.random.randint(key, (), 0, len(self.words)).astype(jnp.int16),
            guesses=jnp.full(self.tries, -1, jnp.int16),
        )

    def transition(
        self, key: jax.Array, state: WordleState, action: jax.Array, params: EnvParams
    ) -> tuple[WordleState, jax.Array]:
        """Writes the guess into the row of this try."""
        del key, params
        action = action.astype(jnp.int16)
        now = jnp.arange(self.tries) == state.time
        guesses = jnp.where(now, action, state.guesses)
        return state.replace(guesses=guesses), jnp.where(action == state.target, 0.0, -1.0)

    def rows(self, state: WordleState) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The history per try: guessed, refused bool[T], letters, colours u8[T, L]."""
        table = jnp.asarray(_letters(self.words))
        letters = table[jnp.maximum(state.guesses, 0).astype(jnp.int32)]
        colours = rules.colours(letters, table[state.target.astype(jnp.int32)])
        guessed = state.guesses >= 0
        refused = ~guessed & (jnp.arange(self.tries) < state.time)
        return guessed, refused, letters, colours

    def observe(self, state: WordleState, params: EnvParams) -> jax.Array:
        guessed, refused, letters, colours = self.rows(state)
        blank = jnp.where(refused, REFUSED, NOTHING)[:, None]
        return jnp.where(guessed[:, None], 1 + 3 * letters + colours, blank).astype(jnp.uint8)

    def is_terminated(self, state: WordleState, params: EnvParams) -> jax.Array:
        return self.is_success(state, params) | (state.time >= self.tries)

    def is_success(self, state: WordleState, params: EnvParams) -> jax.Array:
        return jnp.any(state.guesses == state.target)

    def fingerprint(
        self, state: WordleState, params: EnvParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; of="state" does not depend on the order of the guesses."""
        if of == "state":
            state = state.replace(guesses=jnp.sort(state.guesses))
        return super().fingerprint(state, params, of=of)

    def consistent(self, state: WordleState) -> jax.Array:
        """Words that the history allows, bool[W]."""
        guesses, target = state.guesses.astype(jnp.int32), state.target.astype(jnp.int32)
        return rules.consistent(rules.patterns(self.words), guesses, target)

    def expert(self, state: WordleState, params: EnvParams) -> jax.Array:
        """argmax over words of H(colours) + P(it is the word)."""
        possible = self.consistent(state)
        bits = rules.information(rules.patterns(self.words), possible)
        return jnp.argmax(bits + possible / jnp.maximum(jnp.sum(possible), 1)).astype(jnp.int32)

    def render(self, state: WordleState, params: EnvParams) -> str:
        """One line per try: the word and g, y, b for its colours; - for a refused try."""
        guessed, refused, _, colours = (np.asarray(part) for part in self.rows(state))
        lines = []
        for row in range(self.tries):
            if guessed[row]:
                marks = "".join("byg"[colour] for colour in colours[row])
                lines.append(f"{self.words[int(state.guesses[row])]} {marks}")
            elif refused[row]:
                lines.append("-")
        return "\n".join(lines)


@functools.lru_cache(maxsize=8)
def _letters(words: tuple[str, ...]) -> np.ndarray:
    return rules.letters_of(words)
