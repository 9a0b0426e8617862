"""Characters-v1: several characters answer the same questions, each in its own way."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, SimultaneousGame, opening

NAMES = ("poet", "guard", "cook", "judge", "nurse", "thief", "queen", "clown")
WORDS = ("sea", "wall", "bread", "law", "cure", "gold", "crown", "joke", "moon", "door")


@struct.dataclass
class CharactersState(GameState):
    """question: i32[]. answered: bool[]. right: bool[characters], who gave the own answer."""

    question: jax.Array
    answered: jax.Array
    right: jax.Array


@struct.dataclass
class CharactersParams(GameParams):
    """An illegal reply is taken as the first word."""

    max_steps_in_episode: int = 1
    illegal_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class Characters(SimultaneousGame):
    """Several characters are asked what comes to their minds at a word, all at once.

    Each character is an agent. To a share `common` of the words all have the same answer; to the
    others each has its own, one of the same words, all different from each other where there are
    enough: what is right for one is wrong for another. An episode is one question.

    names: of the characters; asked: numbers of those that are asked, (): all. words: number of
    words. named: the question says whose it is. seed: of the answers, the same in every episode; a
    character's do not depend on which others there are.

    Observation: float32, the word one-hot, then the character one-hot if `named`. Actions: the
    words; always legal. Reward of each: 1 for its own answer, which is success. Ends with the
    answers.

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

    wordings: ClassVar[str] = "envs.characters.words"
    costly_reset: ClassVar[bool] = False
    default_params: ClassVar[CharactersParams] = CharactersParams()

    def __post_init__(self):
        distinct = set(self.names)
        if not distinct <= set(NAMES) or len(distinct) < max(len(self.names), 2):
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
    def action_names(self) -> tuple[str, ...]:
        """An answer is one of the words that are asked about."""
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
        return CharactersState(
            **opening(),
            question=jax.random.randint(key, (), 0, self.words),
            answered=jnp.zeros((), bool),
            right=jnp.zeros(self.num_agents, bool),
        )

    def acting(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """Those that are asked."""
        every = np.arange(self.num_agents)
        return self.is_running(state, params) & np.isin(every, self.asked or every)

    def legal_actions(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """Every word, of those that are asked."""
        return jnp.broadcast_to(self.acting(state, params)[:, None], (self.num_agents, self.words))

    def transition(
        self, key: jax.Array, state: CharactersState, action: jax.Array, params: CharactersParams
    ) -> tuple[CharactersState, jax.Array]:
        right = (action == self.expert(state, params)) & self.acting(state, params)
        return state.replace(answered=jnp.ones((), bool), right=right), right * 1.0

    def observe_as(
        self, state: CharactersState, agent: jax.Array, params: CharactersParams
    ) -> jax.Array:
        seen = np.arange(self.words) == state.question
        if self.named:
            seen = jnp.concatenate([seen, np.arange(self.num_agents) == agent])
        return seen.astype(jnp.float32)

    def is_over(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        return state.answered

    def won(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """Each that gave its own answer."""
        return state.right

    def expert(self, state: CharactersState, params: CharactersParams) -> jax.Array:
        """What comes to each character's mind."""
        return jnp.asarray(self.answers)[:, state.question]

    def render(self, state: CharactersState, params: CharactersParams) -> str:
        """For example `moon? right: poet, cook`."""
        right = [n for n, r in zip(self.names, np.asarray(state.right), strict=True) if r]
        told = f" right: {', '.join(right) or 'nobody'}" if bool(state.answered) else ""
        return f"{WORDS[int(state.question)]}?{told}"
