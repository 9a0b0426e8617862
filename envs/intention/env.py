"""Intention-v1: ask for the details that a vague request leaves out, the important ones first."""

import dataclasses
import functools
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

KINDS = ("trip", "party", "dinner", "gift", "lesson", "repair", "garden", "film")
DETAILS = ("date", "place", "size", "price", "style", "guests", "colour", "length")
# Importance 0 to 3 of a detail that was asked for, and 0 of one that was known.
WORTH = np.array([0.0, 0.4, 0.7, 1.0], np.float32)
# Of the details of a kind, two each are of importance 3, 2, 1 and 0.
IMPORTANCE = np.array([3, 3, 2, 2, 1, 1, 0, 0], np.int32)
FEWEST = 3


@struct.dataclass
class IntentionState(EnvState):
    """kind: i32[]. missing: bool[D], details that the user has in mind and did not say. asked:
    bool[D]. finished: bool[]."""

    kind: jax.Array
    missing: jax.Array
    asked: jax.Array
    finished: jax.Array


@struct.dataclass
class IntentionParams(EnvParams):
    """extra: what a question costs for each detail in it beyond the first."""

    max_steps_in_episode: int = 6
    extra: float = 0.2


@dataclasses.dataclass(frozen=True)
class Intention(Environment):
    """A user wants something of one of eight kinds and says some of its details; ask for the rest.

    Which details matter is a matter of the kind alone and never changes (`world` draws it): two
    each are of importance 3, 2, 1 and 0. Of the six that matter three to six are missing.

    Observation: float32, the kind [8], and per detail whether the user said it at first, answered
    a question about it, or was asked and did not care [8 * 3]. Actions: `ask DETAIL`, with `pairs`
    also `ask DETAIL DETAIL`, and `finish`; all are legal. Reward: of a question 1, 0.7 or 0.4 by
    the most important missing detail that it is the first to ask for, less `extra` (0.2) for a
    second detail in it. Ends when nothing is missing, or with `finish`. Success: nothing is
    missing. Limit: 6 steps, which the six questions of a task may take.

    Kinds of tasks: the number of missing details, 3 to 6.

    Expert: asks for the most important missing detail, alone; optimal.

    Source: UserRL's IntentionGym (Qian et al., 2025, https://arxiv.org/abs/2509.19736, code
    cf55a30, from notes): importance, rewards and the price of further details. There a model plays
    the user, requests are texts, and turns are up to 20; kinds and details are ours.
    """

    world: int = 0
    pairs: bool = True

    wordings: ClassVar[str] = "envs.intention.words"
    costly_reset: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("3 missing", "4 missing", "5 missing", "6 missing")
    default_params: ClassVar[IntentionParams] = IntentionParams()

    @functools.cached_property
    def importance(self) -> np.ndarray:
        """i32[K, D], 0 to 3, of each detail for each kind."""
        draws = (np.random.default_rng([self.world, kind]) for kind in range(len(KINDS)))
        return np.stack([draw.permutation(IMPORTANCE) for draw in draws])

    @functools.cached_property
    def questions(self) -> np.ndarray:
        """bool[Q, D], the details that each action asks for."""
        number = range(len(DETAILS))
        groups = [(d,) for d in number]
        if self.pairs:
            groups += list(itertools.combinations(number, 2))
        return np.array([[d in group for d in number] for group in groups])

    @property
    def action_names(self) -> tuple[str, ...]:
        """Questions for one detail, for two, and `finish`."""
        asked = (" ".join(np.array(DETAILS)[question]) for question in self.questions)
        return (*(f"ask {names}" for names in asked), "finish")

    def initial(self, key: jax.Array, params: IntentionParams) -> IntentionState:
        kind_key, count_key, order_key = jax.random.split(key, 3)
        kind = jax.random.randint(kind_key, (), 0, len(KINDS))
        matters = jnp.asarray(self.importance)[kind] > 0
        most = int(np.sum(IMPORTANCE > 0))
        count = jax.random.randint(count_key, (), FEWEST, most + 1)
        draw = jnp.where(matters, jax.random.uniform(order_key, matters.shape), 2.0)
        rank = jnp.sum(draw[:, None] > draw[None], axis=1)
        no = jnp.zeros(len(DETAILS), bool)
        return IntentionState(
            time=jnp.zeros((), jnp.int32),
            kind=kind,
            missing=rank < count,
            asked=no,
            finished=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: IntentionState, action: jax.Array, params: IntentionParams
    ) -> tuple[IntentionState, jax.Array]:
        """A question, or the end."""
        finishes = action == self.num_actions - 1
        number = jnp.clip(action, 0, len(self.questions) - 1)
        asks = jnp.asarray(self.questions)[number] & ~finishes
        newly = asks & state.missing & ~state.asked
        best = jnp.max(jnp.where(newly, jnp.asarray(WORTH)[self._matters(state)], 0.0))
        reward = best - params.extra * jnp.maximum(jnp.sum(asks) - 1, 0)
        return state.replace(asked=state.asked | asks, finished=finishes), reward

    def _matters(self, state: IntentionState) -> jax.Array:
        return jnp.asarray(self.importance)[state.kind]

    def _stated(self, state: IntentionState) -> jax.Array:
        """Details that the user said at first, bool[D]."""
        return (self._matters(state) > 0) & ~state.missing

    def observe(self, state: IntentionState, params: IntentionParams) -> jax.Array:
        answered = state.asked & state.missing
        ignored = state.asked & (self._matters(state) == 0)
        of_details = jnp.stack([self._stated(state), answered, ignored], axis=-1)
        kind = np.arange(len(KINDS)) == state.kind
        return jnp.concatenate([kind, of_details.reshape(-1)]).astype(jnp.float32)

    def is_terminated(self, state: IntentionState, params: IntentionParams) -> jax.Array:
        return state.finished | self.is_success(state, params)

    def is_success(self, state: IntentionState, params: IntentionParams) -> jax.Array:
        return jnp.all(state.asked | ~state.missing)

    def kind_of(self, state: IntentionState, params: IntentionParams) -> jax.Array:
        """The number of missing details, from 3."""
        return (jnp.sum(state.missing) - FEWEST).astype(jnp.int32)

    def expert(self, state: IntentionState, params: IntentionParams) -> jax.Array:
        unknown = state.missing & ~state.asked
        first = jnp.argmax(jnp.where(unknown, self._matters(state), -1))
        return jnp.where(jnp.any(unknown), first, self.num_actions - 1).astype(jnp.int32)

    def render(self, state: IntentionState, params: IntentionParams) -> str:
        """The kind, then each detail: stated, missing or asked, with its importance."""
        lines = [KINDS[int(state.kind)]]
        for d, name in enumerate(DETAILS):
            missing = "missing" if state.missing[d] else "not missing"
            asked = ", asked" if state.asked[d] else ""
            lines.append(f"{name} ({self.importance[int(state.kind), d]}): {missing}{asked}")
        return "\n".join(lines)
