"""What happened in a collection of environments in Python, as NumPy arrays [T, B, ...]."""

from typing import Any, NamedTuple, cast

import jax
import numpy as np

from agentrl.actors.types import Decision
from agentrl.rollout.types import Trajectory, Turn
from envs.agents import Outcome


class HostCollection(NamedTuple):
    """bootstrap: the critic's value where an episode was cut, f32[B, A]; of segments f32[T, B, A],
    after each turn where it is needed. metrics: episodes left out and played again, and seconds
    spent in the policy and waiting. continues: segments go on from the collection before."""

    trajectory: Trajectory
    bootstrap: np.ndarray
    metrics: dict[str, jax.Array]
    continues: bool


def _traced(array: np.ndarray) -> jax.Array:
    # A NumPy array that is written to here, and is an argument of programs afterwards.
    return cast(jax.Array, array)


class HostRecord:
    """Everything is recorded at its episode's place, as `agentrl.rollout.types.Turn` describes.

    bootstrap: the critic's value of what follows, f32[B, A], of segments f32[T, B, A].
    """

    def __init__(
        self, decision: Decision, length: int, batch: int, agents: int, shown: int, *, restart: bool
    ):
        """decision: shapes of the decisions of one step, rows first."""
        self.length, self.shown, self.restart = length, shown, restart
        steps, each = (length, batch), (length, batch, agents)

        def zeros(leaf):
            return np.zeros((*steps, *leaf.shape[1:]), leaf.dtype)

        self.decision: Decision = jax.tree.map(zeros, decision)
        self.running, self.begun = np.zeros(steps, bool), np.zeros(steps, bool)
        self.agent = np.zeros((*steps, shown), np.int32)
        if shown == agents:
            self.agent[:] = np.arange(agents)
        self.acted = np.zeros((*steps, shown), bool)
        self.outcome = Outcome(
            reward=_traced(np.zeros(each, np.float32)),
            terminated=_traced(np.zeros(steps, bool)),
            truncated=_traced(np.zeros(steps, bool)),
            valid=_traced(np.ones(each, bool)),
            success=_traced(np.zeros(each, bool)),
            offender=_traced(np.full(steps, -1, np.int32)),
            seconds=None,
        )
        self.bootstrap = np.zeros(each if restart else (batch, agents), np.float32)

    def decided(
        self,
        at: int,
        episode: int,
        decision: Decision,
        agent: np.ndarray,
        acting: np.ndarray,
        begins: bool,
    ) -> None:
        """Writes the decision [S, ...] of one step of one episode to its place.

        at: the step. agent, acting: as in `Turn`. begins: it is the first step of an episode.
        """
        here = (at, episode)
        self.running[here], self.begun[here] = True, begins
        self.agent[here], self.acted[here] = agent, acting
        leaves = zip(jax.tree.leaves(self.decision), jax.tree.leaves(decision), strict=True)
        for array, value in leaves:
            array[here] = value

    def outcome_of(self, at: int, episode: int, answer: dict[str, Any], *, in_words: bool) -> None:
        """Records what an environment answered. in_words: it says which replies are commands."""
        outcome, here = self.outcome, (at, episode)
        outcome.reward[here] = answer["reward"]
        outcome.success[here] = answer["success"]
        outcome.terminated[here] = answer["terminated"]
        outcome.truncated[here] = answer["truncated"] and not answer["terminated"]
        outcome.offender[here] = answer["offender"]
        valid = np.broadcast_to(answer["valid"], self.shown)
        outcome.valid[(*here, self.agent[here])] = valid | ~self.acted[here]
        if in_words:
            self.decision.record.known[here] &= valid

    def forget(self, episode: int, first: int) -> None:
        """Clears an episode from turn `first` on."""
        gone = slice(first, self.length)
        arrays = [self.running, self.begun, self.acted, *jax.tree.leaves(self.decision)]
        for array in (*arrays, *jax.tree.leaves(self.outcome)):
            array[gone, episode] = 0
        self.outcome.valid[gone, episode] = True
        self.outcome.offender[gone, episode] = -1

    def turns(self) -> Turn:
        """The turns of the collection; every agent that acted is learnt from."""
        return Turn(
            running=_traced(self.running),
            begins=_traced(self.begun) if self.restart else None,
            agent=_traced(self.agent),
            acting=_traced(self.acted),
            learns=_traced(self.acted & self.running[..., None]),
            decision=self.decision,
            action=None,
            outcome=self.outcome,
        )
