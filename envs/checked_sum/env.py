"""CheckedSum-v1: a solver answers, a verifier approves or has it answer again."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening

SOLVER, VERIFIER = 0, 1
QUESTIONS = ("sum", "largest")


@struct.dataclass
class CheckedSumState(GameState):
    """terms: i32[K]. answer: i32[], the last one, -1 for none. tries: i32[], answers so far.
    checking: bool[], it is the verifier's turn. finished: bool[]."""

    terms: jax.Array
    answer: jax.Array
    tries: jax.Array
    checking: jax.Array
    finished: jax.Array


@struct.dataclass
class CheckedSumParams(GameParams):
    """An illegal reply costs its turn, and nothing else: the same agent is asked again."""

    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000


@dataclasses.dataclass(frozen=True)
class CheckedSum(TurnGame):
    """A solver and a verifier answer a question about numbers below `modulus`.

    The solver (agent 0) answers; the verifier (agent 1) reads question and answer, and approves, or
    the solver answers again, reading the answer that was rejected. There are `loops` answers at
    most. After the last one nobody is asked: a verifier's call exists only where there is something
    to decide, a second answer only where the first one was rejected.

    question: "sum", modulo `modulus`, of which one number alone says nothing; or "largest".
    terms: how many numbers. Actions: `say` each number, then approve, reject; each agent's own are
    legal. Reward, of all: 1 at the end if the last answer is right. Ends with an approval or the
    last answer; success: it is right.

    Observation: float32, each term one-hot, the last answer one-hot (nothing if there is none), and
    whether it is the verifier that reads.

    Expert: right answers, and approval of those alone.

    Source: the solver and verifier of Dr. MAS, https://arxiv.org/abs/2602.08847 (code read:
    langfengQ/DrMAS 19c632b, its orchestra for mathematics); the questions are ours.
    """

    modulus: int = 7
    terms: int = 2
    loops: int = 2
    question: str = "sum"

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    sides: ClassVar[tuple[str, ...]] = ("solver", "verifier")
    wordings: ClassVar[str] = "envs.checked_sum.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 2 <= self.modulus <= 20 or not 1 <= self.terms <= 4 or not 1 <= self.loops <= 8:
            raise ValueError(
                f"modulus {self.modulus}, terms {self.terms}, loops {self.loops}: expected 2 to "
                "20, 1 to 4 and 1 to 8"
            )
        if self.question not in QUESTIONS:
            raise ValueError(f"question {self.question!r}: expected one of {', '.join(QUESTIONS)}")

    @property
    def default_params(self) -> CheckedSumParams:
        """Turns for every answer and every check, and one illegal reply before each."""
        return CheckedSumParams(max_steps_in_episode=4 * self.loops - 2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The answers, approve, reject."""
        return (*(f"say {n}" for n in range(self.modulus)), "approve", "reject")

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The solver says a number, the verifier approves or rejects."""
        return (0, self.modulus), (self.modulus, 2)

    def initial(self, key: jax.Array, params: CheckedSumParams) -> CheckedSumState:
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return CheckedSumState(
            **opening(),
            terms=jax.random.randint(key, (self.terms,), 0, self.modulus),
            answer=zero - 1,
            tries=zero,
            checking=no,
            finished=no,
        )

    def mover(self, state: CheckedSumState, params: CheckedSumParams) -> jax.Array:
        return state.checking.astype(jnp.int32)

    def legal(self, state: CheckedSumState, params: CheckedSumParams) -> jax.Array:
        """Numbers for the solver, approve and reject for the verifier."""
        return (np.arange(self.num_actions) >= self.modulus) == state.checking

    def right(self, state: CheckedSumState) -> jax.Array:
        """Whether the last answer is the right one, bool[]."""
        return state.answer == self.solution(state)

    def solution(self, state: CheckedSumState) -> jax.Array:
        """The right answer, i32[]."""
        if self.question == "largest":
            return jnp.max(state.terms)
        return jnp.sum(state.terms) % self.modulus

    def transition(
        self, key: jax.Array, state: CheckedSumState, action: jax.Array, params: CheckedSumParams
    ) -> tuple[CheckedSumState, jax.Array]:
        answer = jnp.where(state.checking, state.answer, action)
        following = self._next(state, answer, action == self.modulus)
        reward = following.finished & self.right(following)
        return following, jnp.broadcast_to(reward * 1.0, (2,))

    def _next(
        self, state: CheckedSumState, answer: jax.Array, approved: jax.Array
    ) -> CheckedSumState:
        """The state after an answer, or after a check."""
        tries = state.tries + ~state.checking
        last = ~state.checking & (tries >= self.loops)
        finished = last | (state.checking & approved)
        return state.replace(
            answer=answer, tries=tries, checking=~state.checking & ~last, finished=finished
        )

    def observe_as(
        self, state: CheckedSumState, agent: jax.Array, params: CheckedSumParams
    ) -> jax.Array:
        numbers = np.arange(self.modulus)
        terms = (state.terms[:, None] == numbers).reshape(-1)
        told = [terms, state.answer == numbers, jnp.atleast_1d(agent == VERIFIER)]
        return jnp.concatenate(told).astype(jnp.float32)

    def is_over(self, state: CheckedSumState, params: CheckedSumParams) -> jax.Array:
        return state.finished

    def won(self, state: CheckedSumState, params: CheckedSumParams) -> jax.Array:
        """Both, if the last answer is right."""
        return jnp.broadcast_to(self.right(state), (2,))

    def expert(self, state: CheckedSumState, params: CheckedSumParams) -> jax.Array:
        """The right answer; approval of it and of nothing else."""
        check = self.modulus + ~self.right(state)
        return jnp.where(state.checking, check, self.solution(state)).astype(jnp.int32)

    def render(self, state: CheckedSumState, params: CheckedSumParams) -> str:
        """For example `3 + 5 = 1? (answer 1)`."""
        told = "none" if int(state.answer) < 0 else str(int(state.answer))
        terms = " + ".join(str(n) for n in np.asarray(state.terms))
        return f"{terms} = {told}? (answer {int(state.tries)})"
