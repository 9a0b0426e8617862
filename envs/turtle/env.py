"""Turtle-v1: a story whose facts are found by questions that are answered yes, no or irrelevant."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

ASPECTS = {
    "who": ("twin", "pilot", "child", "thief"),
    "where": ("attic", "desert", "ship", "train"),
    "how": ("rope", "mirror", "letter", "storm"),
    "why": ("love", "debt", "fear", "bet"),
}
OPTIONS = 4
UNASKED, NO, YES, IRRELEVANT = range(4)


@struct.dataclass
class TurtleState(EnvState):
    """fact: i32[G], the true option of each aspect, -1 where the aspect does not matter. answers:
    i32[G, V], what was said about each option: `UNASKED`, `NO`, `YES`, `IRRELEVANT`. best: f32[],
    the best score of an explanation. finished: bool[]."""

    fact: jax.Array
    answers: jax.Array
    best: jax.Array
    finished: jax.Array


@struct.dataclass
class TurtleParams(EnvParams):
    """matters: the probability that an aspect matters; one at least does."""

    max_steps_in_episode: int = 10
    matters: float = 0.7


@dataclasses.dataclass(frozen=True)
class Turtle(Environment):
    """A lateral-thinking puzzle: some of `aspects` aspects of a story matter, one of four options
    each is true.

    Observation: float32, per option the answer about it, of no, yes and irrelevant [G * 4 * 3], and
    the best score so far. Actions: `ask OPTION`, option by option of all aspects; then all
    explanations, an option or nothing per aspect, the last aspect running fastest and nothing being
    the last; `finish`. All are legal. A question is answered with yes, with no (another option of
    its aspect is true), or irrelevant (the aspect does not matter). The score of an explanation is
    (right options - wrong ones) / facts, at least 0. Reward: of an explanation what it adds to the
    best score so far; 0 otherwise. Ends with a score of 1, or with `finish`. Success: a score of 1.
    Limit: 10 steps, in which three questions per aspect and the explanation fit.

    Kinds: the number of facts, from "1 fact".

    Expert: asks for the options of the first aspect that is open, in order, and explains when all
    are known; it always succeeds within three questions per aspect. Not optimal.

    Source: UserRL's TurtleGym (Qian et al., 2025, https://arxiv.org/abs/2509.19736; code cf55a30,
    from notes): questions to a user who knows the story, and max(0, score - best score) as the
    reward. There stories are texts and a model grades by a rubric; this analogue is ours.
    """

    aspects: int = 3

    wordings: ClassVar[str] = "envs.turtle.words"
    costly_reset: ClassVar[bool] = False
    default_params: ClassVar[TurtleParams] = TurtleParams()

    def __post_init__(self):
        if not 1 <= self.aspects <= len(ASPECTS):
            raise ValueError(f"aspects {self.aspects}: expected 1 to {len(ASPECTS)}")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The number of facts."""
        return tuple(f"{n} fact{'s' * (n > 1)}" for n in range(1, self.aspects + 1))

    @property
    def options(self) -> tuple[tuple[str, ...], ...]:
        """The names of the options of each aspect."""
        return tuple(ASPECTS.values())[: self.aspects]

    @property
    def num_questions(self) -> int:
        """One question per option."""
        return self.aspects * OPTIONS

    @property
    def explanations(self) -> np.ndarray:
        """i32[E, G], an option per aspect; 4 for nothing."""
        return np.indices((OPTIONS + 1,) * self.aspects).reshape(self.aspects, -1).T

    @property
    def action_names(self) -> tuple[str, ...]:
        """Questions, explanations, `finish`."""
        questions = (f"ask {name}" for names in self.options for name in names)
        named = (
            " ".join((*names, "nothing")[v] for names, v in zip(self.options, values, strict=True))
            for values in self.explanations
        )
        return (*questions, *(f"answer {names}" for names in named), "finish")

    def initial(self, key: jax.Array, params: TurtleParams) -> TurtleState:
        option_key, matters_key, one_key = jax.random.split(key, 3)
        option = jax.random.randint(option_key, (self.aspects,), 0, OPTIONS)
        matters = jax.random.uniform(matters_key, (self.aspects,)) < params.matters
        one = np.arange(self.aspects) == jax.random.randint(one_key, (), 0, self.aspects)
        return TurtleState(
            time=jnp.zeros((), jnp.int32),
            fact=jnp.where(matters | (one & ~jnp.any(matters)), option, -1),
            answers=jnp.zeros((self.aspects, OPTIONS), jnp.int32),
            best=jnp.zeros(()),
            finished=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: TurtleState, action: jax.Array, params: TurtleParams
    ) -> tuple[TurtleState, jax.Array]:
        """A question, an explanation, or the end."""
        number = np.arange(self.num_questions).reshape(self.aspects, OPTIONS)
        is_it = np.arange(OPTIONS) == state.fact[:, None]
        answer = jnp.where(is_it, YES, jnp.where(state.fact[:, None] < 0, IRRELEVANT, NO))
        place = action - self.num_questions
        explains = (place >= 0) & (place < len(self.explanations))
        said = jnp.asarray(self.explanations)[jnp.clip(place, 0, len(self.explanations) - 1)]
        score = jnp.where(explains, self.score(state, said), 0.0)
        following = state.replace(
            answers=jnp.where(number == action, answer, state.answers),
            best=jnp.maximum(state.best, score),
            finished=action == self.num_actions - 1,
        )
        return following, following.best - state.best

    def score(self, state: TurtleState, said: jax.Array) -> jax.Array:
        """f32[], of an explanation i32[G], 4 for nothing."""
        right = said == state.fact
        wrong = (said < OPTIONS) & ~right
        return jnp.maximum(jnp.sum(right) - jnp.sum(wrong), 0) / jnp.sum(state.fact >= 0)

    def observe(self, state: TurtleState, params: TurtleParams) -> jax.Array:
        answers = state.answers[..., None] == np.array([NO, YES, IRRELEVANT])
        return jnp.append(answers.reshape(-1), state.best).astype(jnp.float32)

    def is_terminated(self, state: TurtleState, params: TurtleParams) -> jax.Array:
        return state.finished | self.is_success(state, params)

    def is_success(self, state: TurtleState, params: TurtleParams) -> jax.Array:
        return state.best >= 1.0

    def kind_of(self, state: TurtleState, params: TurtleParams) -> jax.Array:
        """The number of facts, from one."""
        return (jnp.sum(state.fact >= 0) - 1).astype(jnp.int32)

    def known(self, state: TurtleState) -> tuple[jax.Array, jax.Array]:
        """(bool[G], whether the answers leave one possibility; i32[G], which: 4 for nothing)."""
        yes, no = state.answers == YES, state.answers == NO
        last = jnp.sum(no, axis=1) == OPTIONS - 1
        nothing = jnp.any(state.answers == IRRELEVANT, axis=1)
        option = jnp.where(jnp.any(yes, axis=1), jnp.argmax(yes, axis=1), jnp.argmin(no, axis=1))
        return jnp.any(yes, axis=1) | last | nothing, jnp.where(nothing, OPTIONS, option)

    def expert(self, state: TurtleState, params: TurtleParams) -> jax.Array:
        known, option = self.known(state)
        aspect = jnp.argmin(known)
        ask = aspect * OPTIONS + jnp.argmin(state.answers[aspect] != UNASKED)
        places = (OPTIONS + 1) ** np.arange(self.aspects - 1, -1, -1)
        answer = self.num_questions + jnp.sum(option * places)
        return jnp.where(jnp.all(known), answer, ask).astype(jnp.int32)

    def render(self, state: TurtleState, params: TurtleParams) -> str:
        """A line per aspect, in brackets what is true, with the answers."""
        signs = {UNASKED: "?", NO: "-", YES: "+", IRRELEVANT: "*"}
        lines = []
        for g, names in enumerate(self.options):
            marks = [f"{name}{signs[int(state.answers[g, v])]}" for v, name in enumerate(names)]
            true = int(state.fact[g])
            lines.append(" ".join(f"[{x}]" if v == true else x for v, x in enumerate(marks)))
        return "\n".join(lines)
