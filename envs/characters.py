"""Characters-v1: several characters answer the same questions, each in its own way."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening

NAMES = ("poet", "guard", "cook", "judge", "nurse", "thief", "queen", "clown")
WORDS = ("sea", "wall", "bread", "law", "cure", "gold", "crown", "joke", "moon", "door")


@struct.dataclass
class CharactersState(GameState):
    """asked: i32[], the agent that is asked. question: i32[]. answered, right: bool[]."""

    asked: jax.Array
    question: jax.Array
    answered: jax.Array
    right: jax.Array


@struct.dataclass
class CharactersParams(GameParams):
    """The limit leaves room for a legal reply after an illegal one where that is forgiven."""

    max_steps_in_episode: int = 2
    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1


@dataclasses.dataclass(frozen=True)
class Characters(TurnGame):
    """One of several characters is asked for what comes to its mind at a word.

    Each character is an agent. To a share `common` of the words all have the same answer; to the
    others each has its own, one of the same words, all different from each other where there are
    enough: what is right for one is wrong for another. An episode is one question to one character.

    names: of the characters; asked: numbers of those that are asked, (): all. words: number of
    words. named: the question says whose it is. seed: of the answers, the same in every episode; a
    character's do not depend on which others there are.

    Observation: float32, the word one-hot, then the character one-hot if `named`. Actions: the
    words; always legal. Reward, of all: 1 for the character's answer. Ends with it; success: right.

    Expert: the character's answer.

    Source: the smallest task for Neeko, https://arxiv.org/abs/2402.13717, many roles in one model;
    ours.
    """

    names: tuple[str, ...] = NAMES[:6]
    asked: tuple[int, ...] = ()
    words: int = 10
    common: float = 0.4
    named: bool = True
    seed: int = 0

    cooperative: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.wordings.characters"
    costly_reset: ClassVar[bool] = False
    default_params: ClassVar[CharactersParams] = CharactersParams()

    def __post_init__(self):
        if not set(self.names) <= set(NAMES) or len(set(self.names)) < len(self.names) >= 2:
            raise ValueError(f"names {self.names}: expected two or more of {', '.join(NAMES)}")
        if not 2 <= self.words <= len(WORDS) or not 0.0 <= self.common <= 1.0:
            raise ValueError(
                f"words {self.words}, common {self.common}: expected 2 to {len(WORDS)} words, and "
                "a share of 0 to 1"
            )
        if not all(0 <= agent < len(self.names) for agent in self.asked):
            raise ValueError(
                f"asked {self.asked}: expected numbers of characters, 0 to {len(self.names) - 1}"
            )

    @property
    def num_agents(self) -> int:
        """One agent per character."""
        return len(self.names)

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        """All characters are one team."""
        return (0,) * self.num_agents

    @property
    def action_names(self) -> tuple[str, ...]:
        """The words."""
        return WORDS[: self.words]

    @property
    def answers(self) -> np.ndarray:
        """The answer of each character to each word, i32[characters, words]."""
        drawn = np.random.default_rng(self.seed)
        # Of all characters there could be: row k of a cyclic square differs from all others.
        first, order = drawn.permutation(self.words), drawn.permutation(len(NAMES))
        shift = order[[NAMES.index(name) for name in self.names]]
        own = first[(np.arange(self.words) + shift[:, None] + 1) % self.words]
        shared = np.arange(self.words) < round(self.common * self.words)
        return np.where(shared, first, own).astype(np.int32)

    def initial(self, key: jax.Array, params: CharactersParams) -> CharactersState:
        asked_key, word_key = jax.random.split(key)
        those = np.array(self.asked or range(self.num_agents), np.int32)
        no = jnp.zeros((), bool)
        return CharactersState(
            **opening(),
            asked=jnp.asarray(those)[jax.random.randint(asked_key, (), 0, len(those))],
            question=jax.random.randint(word_key, (), 0, self.words),
            answered=no,
            right=no,
        )

    def mover(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """The character that is asked."""
        return state.asked

    def legal(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        return jnp.ones(self.words, bool)

    def transition(
        self, key: jax.Array, state: CharactersState, action: jax.Array, params: CharactersParams
    ) -> tuple[CharactersState, jax.Array]:
        right = action == self.expert(state, params)
        reward = jnp.broadcast_to(right * 1.0, (self.num_agents,))
        return state.replace(answered=jnp.ones((), bool), right=right), reward

    def observe_as(
        self, state: CharactersState, agent: jax.Array, params: CharactersParams
    ) -> jax.Array:
        """The word, and whose it is; others than the character that is asked see nothing."""
        seen = np.arange(self.words) == state.question
        if self.named:
            seen = jnp.concatenate([seen, np.arange(self.num_agents) == agent])
        return jnp.where(agent == state.asked, seen, 0).astype(jnp.float32)

    def is_over(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        return state.answered

    def won(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """All, if the answer was the character's."""
        return jnp.broadcast_to(state.right, (self.num_agents,))

    def expert(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """What comes to the character's mind."""
        return jnp.asarray(self.answers)[state.asked, state.question]

    def render(self, state: CharactersState, params: CharactersParams) -> str:
        """For example `poet: moon?`."""
        end = " right" if bool(state.right) else " wrong" if bool(state.answered) else ""
        return f"{self.names[int(state.asked)]}: {WORDS[int(state.question)]}?{end}"
