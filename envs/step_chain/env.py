"""StepChain-v1: one agent works steps at length, the other briefly, and they take turns."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening

LONG, SHORT = 0, 1


@struct.dataclass
class StepChainState(GameState):
    """hard: bool[steps]. done: i32[], steps worked so far. wrong: bool[], one of them was worked
    wrongly. briefly: bool[], it is the short agent's turn. closed: bool[], it has answered."""

    hard: jax.Array
    done: jax.Array
    wrong: jax.Array
    briefly: jax.Array
    closed: jax.Array


@struct.dataclass
class StepChainParams(GameParams):
    """error_rate: probability that a hard step that is worked briefly goes wrong. An illegal reply
    costs its turn, and nothing else: the same agent is asked again."""

    error_rate: float = 0.5
    illegal_reward: float = 0.0
    illegal_other_reward: float = 0.0
    illegal_allowance: int = 1_000_000


@dataclasses.dataclass(frozen=True)
class StepChain(TurnGame):
    """A chain of steps, of which some are hard: what is worth saying at length?

    In turn 2 t the long agent (0) thinks none or some of the next steps through, always rightly. In
    turn 2 t + 1 the short agent (1) works none or some of the next steps briefly, easy ones
    rightly, each hard one wrongly with probability `error_rate`, and closes with an answer, which
    ends the episode, or gives the floor back (rethink), for which it must have worked a step, and
    one must be left. In words a step costs `words` tokens at length and one briefly.

    Actions: think 0 to `steps`, answer after 0 to `steps`, rethink after 1 to `steps` - 1; legal if
    that many are left. Reward, of all: 1 for an answer after all steps, none of which went wrong,
    which is success. Nobody sees whether a step went wrong. Limit: a turn of both for each step.

    Observation: float32, of each place in the chain from the next step on, whether there is a step,
    and whether it is hard; and whether it is the short agent that reads.

    Expert: hard steps at length, easy ones briefly; always right if it plays from the start.

    Source: the smallest task for Long and Short (code read: usail-hkust/LongShort 4101257: roles,
    tags, who closes); the environment is ours. There the alternation has no cap.
    """

    steps: int = 6
    hard: int = 2
    words: int = 8

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    sides: ClassVar[tuple[str, ...]] = ("long", "short")
    wordings: ClassVar[str] = "envs.step_chain.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 2 <= self.steps <= 12 or not 0 <= self.hard <= self.steps or self.words < 1:
            raise ValueError(
                f"steps {self.steps}, hard {self.hard}, words {self.words}: expected 2 to 12 "
                "steps, no more hard ones than steps, and at least one word"
            )

    @property
    def default_params(self) -> StepChainParams:
        return StepChainParams(max_steps_in_episode=2 * self.steps)

    @property
    def action_names(self) -> tuple[str, ...]:
        """think, answer and rethink, each with a number of steps."""
        counts = range(self.steps + 1)
        thinks = (f"think {n}" for n in counts)
        return (*thinks, *(f"answer {n}" for n in counts), *(f"rethink {n}" for n in counts[1:-1]))

    @property
    def role_actions(self) -> tuple[tuple[int, int], ...]:
        """The long agent thinks; the short one answers or rethinks."""
        return (0, self.steps + 1), (self.steps + 1, 2 * self.steps)

    def _parts(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(steps worked i32, whether it answers bool) by actions."""
        count = self.steps + 1
        answers = (action >= count) & (action < 2 * count)
        return jnp.where(action >= 2 * count, action - 2 * count + 1, action % count), answers

    def initial(self, key: jax.Array, params: StepChainParams) -> StepChainState:
        no = jnp.zeros((), bool)
        return StepChainState(
            **opening(),
            hard=jax.random.permutation(key, np.arange(self.steps) < self.hard),
            done=jnp.zeros((), jnp.int32),
            wrong=no,
            briefly=no,
            closed=no,
        )

    def mover(self, state: StepChainState, params: StepChainParams) -> jax.Array:
        return state.briefly.astype(jnp.int32)

    def legal(self, state: StepChainState, params: StepChainParams) -> jax.Array:
        worked, answers = self._parts(np.arange(self.num_actions))
        left = self.steps - state.done
        briefly = np.arange(self.num_actions) > self.steps
        enough = jnp.where(briefly & ~answers, worked < left, worked <= left)
        return (briefly == state.briefly) & enough

    def transition(
        self, key: jax.Array, state: StepChainState, action: jax.Array, params: StepChainParams
    ) -> tuple[StepChainState, jax.Array]:
        worked, answers = self._parts(action)
        done = state.done + worked
        place = np.arange(self.steps)
        risky = state.briefly & state.hard & (place >= state.done) & (place < done)
        errs = jax.random.uniform(key, (self.steps,)) < params.error_rate
        following = state.replace(
            done=done,
            wrong=state.wrong | jnp.any(risky & errs),
            briefly=~state.briefly,
            closed=answers,
        )
        reward = answers & self._right(following)
        return following, jnp.broadcast_to(reward * 1.0, (2,))

    def _right(self, state: StepChainState) -> jax.Array:
        return (state.done == self.steps) & ~state.wrong

    def ahead(self, state: StepChainState) -> tuple[jax.Array, jax.Array]:
        """From the next step on: whether there is a step, whether it is hard, bool[steps] each."""
        place = np.arange(self.steps) + state.done
        there = place < self.steps
        return there, there & state.hard[jnp.minimum(place, self.steps - 1)]

    def observe_as(
        self, state: StepChainState, agent: jax.Array, params: StepChainParams
    ) -> jax.Array:
        told = [*self.ahead(state), jnp.atleast_1d(agent == SHORT)]
        return jnp.concatenate(told).astype(jnp.float32)

    def is_over(self, state: StepChainState, params: StepChainParams) -> jax.Array:
        return state.closed

    def won(self, state: StepChainState, params: StepChainParams) -> jax.Array:
        """Both, if all steps were worked rightly."""
        return jnp.broadcast_to(self._right(state), (2,))

    def expert(self, state: StepChainState, params: StepChainParams) -> jax.Array:
        """Hard steps at length, easy ones briefly."""
        there, hard = self.ahead(state)
        in_a_row = jnp.cumprod(there & (hard == ~state.briefly)).sum()
        left, count = self.steps - state.done, self.steps + 1
        # A hard step that was left to the short agent is worked briefly.
        worked = jnp.minimum(jnp.maximum(in_a_row, 1), left)
        closes = jnp.where(worked == left, count + worked, 2 * count + worked - 1)
        return jnp.where(state.briefly, closes, in_a_row).astype(jnp.int32)

    def render(self, state: StepChainState, params: StepChainParams) -> str:
        """For example `.. easy HARD easy | short`, a dot for each step done."""
        kinds = ["HARD" if hard else "easy" for hard in np.asarray(state.hard)]
        done = int(state.done)
        who = self.sides[int(state.briefly)]
        return " ".join(["." * done, *kinds[done:], "|", who]) + (" wrong" * bool(state.wrong))
