"""Relay-v1: agents know a number each, speak one after another, and hear who spoke before them."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.checked_sum.env import QUESTIONS
from envs.game import GameParams, GameState, TurnGame, opening


@struct.dataclass
class RelayState(GameState):
    """terms: i32[agents + 1]. said: i32[agents], of this round, -1 for nothing yet. speaker: i32[],
    who is next. failed: i32[], the last round's answer, -1 in the first. right: bool[]."""

    terms: jax.Array
    said: jax.Array
    speaker: jax.Array
    failed: jax.Array
    right: jax.Array


@struct.dataclass
class RelayParams(GameParams):
    """An illegal reply costs its turn, and nothing else: the same agent speaks again."""

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000


@dataclasses.dataclass(frozen=True)
class Relay(TurnGame):
    """In each round every agent says a number, in order; the last one's is the team's answer.

    There is one number more than agents: the first agent sees two of them, each other one, and
    every agent what was said before it in this round. The question is their "sum" modulo `modulus`,
    of which one number alone says nothing, or the "largest". After a wrong answer there is another
    round with the same numbers, in which all know the answer that failed.

    Observation: float32, one-hot each: the agent, its numbers (two places, the second empty but for
    the first agent), what each agent has said, the answer that failed. Actions: the numbers; always
    legal. Reward, of all: 1 for a right answer. Ends with it, which is success; limit: 3 rounds.

    Expert: the sum so far, or the largest so far.

    Source: the order of play of MARFT, https://arxiv.org/abs/2504.16129 (code read:
    jwliao-ai/MARFT 1beacdb): agents act in a fixed order within a step and read their predecessors,
    three steps, the last agent's action is scored. There all see the whole state; the task is ours.
    """

    agents: int = 2
    modulus: int = 5
    question: str = "sum"

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.relay.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 2 <= self.agents <= 8 or not 2 <= self.modulus <= 20:
            raise ValueError(
                f"agents {self.agents}, modulus {self.modulus}: expected 2 to 8 and 2 to 20"
            )
        if self.question not in QUESTIONS:
            raise ValueError(f"question {self.question!r}: expected one of {', '.join(QUESTIONS)}")

    @property
    def num_agents(self) -> int:
        """Those that speak in a round."""
        return self.agents

    @property
    def default_params(self) -> RelayParams:
        """A turn for each agent in each of three rounds."""
        return RelayParams(max_steps_in_episode=3 * self.agents)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`say` and each number that an agent may pass on or answer with."""
        return tuple(f"say {n}" for n in range(self.modulus))

    def initial(self, key: jax.Array, params: RelayParams) -> RelayState:
        nothing = jnp.full((), -1, jnp.int32)
        return RelayState(
            **opening(),
            terms=jax.random.randint(key, (self.agents + 1,), 0, self.modulus),
            said=jnp.full(self.agents, -1, jnp.int32),
            speaker=jnp.zeros((), jnp.int32),
            failed=nothing,
            right=jnp.zeros((), bool),
        )

    def mover(self, state: RelayState, params: RelayParams) -> jax.Array:
        return state.speaker

    def legal(self, state: RelayState, params: RelayParams) -> jax.Array:
        return jnp.ones(self.modulus, bool)

    def transition(
        self, key: jax.Array, state: RelayState, action: jax.Array, params: RelayParams
    ) -> tuple[RelayState, jax.Array]:
        """What one agent says; after the last one the round is judged."""
        said = jnp.where(np.arange(self.agents) == state.speaker, action, state.said)
        judged = state.speaker == self.agents - 1
        right = judged & (action == self.solution(state.terms))
        again = judged & ~right
        following = state.replace(
            said=jnp.where(again, -1, said),
            speaker=jnp.where(judged, jnp.where(right, state.speaker, 0), state.speaker + 1),
            failed=jnp.where(again, action, state.failed),
            right=right,
        )
        return following, jnp.broadcast_to(right * 1.0, (self.agents,))

    def solution(self, numbers: jax.Array) -> jax.Array:
        """The answer to the question about numbers i32[K], i32[]."""
        if self.question == "largest":
            return jnp.max(numbers)
        return jnp.sum(numbers) % self.modulus

    def seen(self, state: RelayState, agent: jax.Array) -> tuple[jax.Array, jax.Array]:
        """An agent's numbers i32[2], -1 for none, and what it has heard in this round i32[agents],
        -1 for nothing."""
        second = jnp.where(agent == 0, state.terms[1], -1)
        first = state.terms[jnp.where(agent == 0, 0, agent + 1)]
        heard = jnp.where(np.arange(self.agents) < agent, state.said, -1)
        return jnp.stack([first, second]), heard

    def observe_as(self, state: RelayState, agent: jax.Array, params: RelayParams) -> jax.Array:
        own, heard = self.seen(state, agent)
        told = jnp.concatenate([own, heard, state.failed[None]])
        told = (told[:, None] == np.arange(self.modulus)).reshape(-1)
        return jnp.concatenate([np.arange(self.agents) == agent, told]).astype(jnp.float32)

    def is_over(self, state: RelayState, params: RelayParams) -> jax.Array:
        return state.right

    def won(self, state: RelayState, params: RelayParams) -> jax.Array:
        """All, if the answer was right."""
        return jnp.broadcast_to(state.right, (self.agents,))

    def expert(self, state: RelayState, params: RelayParams) -> jax.Array:
        """The answer to what was said last and the agent's own numbers."""
        own, heard = self.seen(state, state.speaker)
        before = jnp.where(np.arange(self.agents) == state.speaker - 1, heard, 0)
        known = jnp.maximum(jnp.concatenate([own, before]), 0)
        return self.solution(known).astype(jnp.int32)

    def render(self, state: RelayState, params: RelayParams) -> str:
        """For example `3 4 1 | said 2 | failed 0`."""
        said = " ".join(str(n) for n in np.asarray(state.said) if n >= 0) or "nothing"
        failed = f" | failed {int(state.failed)}" if int(state.failed) >= 0 else ""
        return f"{' '.join(map(str, np.asarray(state.terms)))} | said {said}{failed}"
