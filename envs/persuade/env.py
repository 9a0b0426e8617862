"""Persuade-v1: find the arguments that move one person, from disagreement to agreement."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

STANCES = 7
ARGUMENTS = ("facts", "story", "expert", "humour", "values", "question")
MANNERS = ("strict", "warm", "proud", "playful", "anxious", "curious")
# What the six arguments do to a person in some order, in levels.
MOVES = np.array([-1, 0, 1, 1, 2, 2], np.int32)
REACTIONS = np.array([-1, 0, 1, 2], np.int32)
UNUSED = -2


@struct.dataclass
class PersuadeState(EnvState):
    """person: i32[], hidden. manner: i32[], how they seem. stance: i32[], 0 (strongly disagree) to
    6. used: bool[A], arguments that were made."""

    person: jax.Array
    manner: jax.Array
    stance: jax.Array
    used: jax.Array


@struct.dataclass
class PersuadeParams(EnvParams):
    """open: the probability that a person seems as they are; otherwise any manner is seen."""

    max_steps_in_episode: int = 8
    open: float = 0.5


@dataclasses.dataclass(frozen=True)
class Persuade(Environment):
    """A person disagrees; arguments of six types move them, by as much as fits their character.

    There are six characters, which never change (`world` draws them): two arguments move by two
    levels, two by one, one does nothing, and one offends (a level back). An argument that is made a
    second time costs a level, whatever it did before.

    Observation: float32, the stance [7], the manner that is seen [6], which is the character's with
    probability `open` and any otherwise, and per argument the reaction to it, of -1, 0, 1 and 2
    [6 * 4], zeros before it is made. Actions: the arguments; all are legal. Reward: the levels by
    which the stance moved, of six: (new - old) / 6. Success, and the end: the stance is 6, strong
    agreement. Limit: 8 steps. Task: a character, a manner, and a stance from 0 to 2.

    Kinds: the stance at first, "0" to "2".

    Expert: the argument not yet made that moves most on average over the characters that manner and
    reactions leave possible, by Bayes' rule; one that is expected to move nothing is made before
    any is repeated. Strong; not shown to be optimal.

    Source: UserRL's PersuadeGym (Qian et al., 2025, https://arxiv.org/abs/2509.19736; code cf55a30,
    from notes): seven stances and their reward. There a model plays the person and arguments are
    texts; characters, types of arguments and the price of repetition are ours.
    """

    world: int = 0

    wordings: ClassVar[str] = "envs.persuade.words"
    costly_reset: ClassVar[bool] = False
    action_names: ClassVar[tuple[str, ...]] = ARGUMENTS
    kinds: ClassVar[tuple[str, ...]] = ("0", "1", "2")
    default_params: ClassVar[PersuadeParams] = PersuadeParams()

    @functools.cached_property
    def moves(self) -> np.ndarray:
        """i32[P, A], the levels by which an argument moves each character at first."""
        draws = (np.random.default_rng([self.world, person]) for person in range(len(MANNERS)))
        return np.stack([draw.permutation(MOVES) for draw in draws])

    def initial(self, key: jax.Array, params: PersuadeParams) -> PersuadeState:
        person_key, open_key, manner_key, stance_key = jax.random.split(key, 4)
        person = jax.random.randint(person_key, (), 0, len(MANNERS))
        other = jax.random.randint(manner_key, (), 0, len(MANNERS))
        as_is = jax.random.uniform(open_key) < params.open
        return PersuadeState(
            time=jnp.zeros((), jnp.int32),
            person=person,
            manner=jnp.where(as_is, person, other),
            stance=jax.random.randint(stance_key, (), 0, 3),
            used=jnp.zeros(len(ARGUMENTS), bool),
        )

    def reactions(self, state: PersuadeState) -> jax.Array:
        """To each argument when it was made first, i32[A]; `UNUSED` before."""
        return jnp.where(state.used, jnp.asarray(self.moves)[state.person], UNUSED)

    def transition(
        self, key: jax.Array, state: PersuadeState, action: jax.Array, params: PersuadeParams
    ) -> tuple[PersuadeState, jax.Array]:
        """An argument is made."""
        is_made = np.arange(len(ARGUMENTS)) == action
        move = jnp.sum(jnp.where(is_made, jnp.asarray(self.moves)[state.person], 0))
        move = jnp.where(jnp.any(is_made & state.used), -1, move)
        stance = jnp.clip(state.stance + move, 0, STANCES - 1)
        following = state.replace(stance=stance, used=state.used | is_made)
        return following, (stance - state.stance) / (STANCES - 1)

    def observe(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        stance = np.arange(STANCES) == state.stance
        manner = np.arange(len(MANNERS)) == state.manner
        reaction = self.reactions(state)[:, None] == REACTIONS
        return jnp.concatenate([stance, manner, reaction.reshape(-1)]).astype(jnp.float32)

    def is_terminated(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        return self.is_success(state, params)

    def is_success(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        return state.stance == STANCES - 1

    def kind_of(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        """The stance, if it is one of those at first."""
        return jnp.minimum(state.stance, 2).astype(jnp.int32)

    def belief(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        """The probability of each character, f32[P], after manner and reactions."""
        people = len(MANNERS)
        seems = np.arange(people) == state.manner
        prior = jnp.where(seems, params.open, 0.0) + (1.0 - params.open) / people
        fits = jnp.all(~state.used | (self.moves == self.reactions(state)), axis=1)
        weight = jnp.where(fits, prior, 0.0)
        return weight / jnp.sum(weight)

    def expert(self, state: PersuadeState, params: PersuadeParams) -> jax.Array:
        expected = jnp.sum(self.belief(state, params)[:, None] * self.moves, axis=0)
        return jnp.argmax(jnp.where(state.used, -1.5, expected)).astype(jnp.int32)

    def render(self, state: PersuadeState, params: PersuadeParams) -> str:
        """The stance, then each argument's move, in brackets those that were made."""
        moves = self.moves[int(state.person)]
        said = (
            f"[{name} {move:+d}]" if used else f"{name} {move:+d}"
            for name, move, used in zip(ARGUMENTS, moves, state.used, strict=True)
        )
        return f"stance {int(state.stance)} of {STANCES - 1}\n{' '.join(said)}"
