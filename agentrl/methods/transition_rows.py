"""Rows of the transitions of a data set, for a policy over arrays or a language policy.

Letters: M transitions, n of them drawn; A actions, R rows of L positions.
"""

from typing import Literal, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from agentrl.learner.component import Setup
from agentrl.methods.networks import observations
from agentrl.methods.transitions import Transitions
from agentrl.methods.twin_q import rows_of
from agentrl.policies.actor_critic import Policy
from agentrl.streams import Rows

Actions = Literal["data", "policy"]


class RowsOf(Protocol):
    """What is learnt from transitions by a policy of one kind. states: rows are made of the
    environment's states, which the data have to hold."""

    states: bool

    def told(self, data: Transitions) -> Transitions:
        """The data with all that rows are made of."""

    def probability(self, params: chex.ArrayTree, turns: Transitions) -> jax.Array:
        """The policy's probability of each action, f32[n, A]."""

    def rows(
        self, params: chex.ArrayTree, turns: Transitions, number: jax.Array, key: jax.Array
    ) -> Rows:
        """A row [n, L] of each of n transitions; number: i32[n], theirs in the data set."""

    def acted(
        self, data: Transitions, rows: Rows, drawn: bool
    ) -> tuple[jax.Array, jax.Array] | None:
        """(observation [R, ...], action i32[R]) of each row; None where that is not known. drawn:
        they are of `rows`, and not of episodes that the policy itself has played."""


class ArrayRows(NamedTuple):
    """Of a policy over arrays without memory: rows of one position.

    actions: of the rows, the data's, or drawn from the policy in the data's states.
    """

    policy: Policy
    actions: Actions
    states: bool = False

    def told(self, data: Transitions) -> Transitions:
        return data

    def probability(self, params: chex.ArrayTree, turns: Transitions) -> jax.Array:
        logits, _, _ = self.policy.step(params, None, turns.observation)
        return jax.nn.softmax(logits)

    def rows(
        self, params: chex.ArrayTree, turns: Transitions, number: jax.Array, key: jax.Array
    ) -> Rows:
        action = turns.action
        if self.actions == "policy":
            outputs, _, _ = self.policy.step(params, None, turns.observation)
            action = self.policy.head.draw(outputs, None, key)
        given = {"observation": turns.observation, "action": action}
        return rows_of(given | {"acted": jnp.ones(number.shape, bool)})

    def acted(
        self, data: Transitions, rows: Rows, drawn: bool
    ) -> tuple[jax.Array, jax.Array] | None:
        seen, there = observations(rows)
        return seen, jnp.where(there, rows.tokens.reshape(-1), 0)


def rows_by(setup: Setup, actions: Actions, asks: bool) -> RowsOf:
    """How rows are made of transitions in a run.

    actions: see `ArrayRows`. asks: whether `probability` is read.

    Raises:
      ValueError: a context that does not fit, of a language policy.
    """
    if not setup.policy.reads_text:
        return ArrayRows(setup.policy, actions)
    from agentrl.methods.transition_text import text_rows_by  # imports the decoder

    return text_rows_by(setup, actions, asks)
