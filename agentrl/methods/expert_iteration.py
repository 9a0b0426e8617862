"""Expert iteration by rounds: one policy collects a round, and the next learns from the base."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import (
    Component,
    InitInputs,
    Inputs,
    Restart,
    Setup,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.learner.state import new_if
from agentrl.policies.protocol import AnyPolicy
from agentrl.policies.scoring import join, split


class Rounds(struct.PyTreeNode):
    """Trained parameters and how far a round is.

    base: those before the first round. actor: those that collect, of the end of the last round.
    done: i32[], updates since the first round began.
    """

    base: chex.ArrayTree
    actor: chex.ArrayTree
    done: jax.Array


class Hooks(NamedTuple):
    """The hooks of `expert_iteration`, with what they are made of."""

    policy: AnyPolicy
    updates: int
    restart: bool

    def init(self, start: InitInputs) -> Rounds:
        """The first round, which the base collects."""
        base, actor = (jax.tree.map(jnp.copy, start.params) for _ in range(2))
        return Rounds(base, actor, jnp.zeros((), jnp.int32))

    def acting(self, rounds: Rounds, params: chex.ArrayTree) -> chex.ArrayTree:
        """The trained parameters that collect: the newest ones where a round begins."""
        begins = rounds.done % self.updates == 0
        return new_if(begins, split(params, self.policy.frozen)[0], rounds.actor)

    def before(self, rounds: Rounds, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """Who collects, and the base to learn from where a round begins."""
        del key
        actor = join(self.acting(rounds, params), split(params, self.policy.frozen)[1])
        due = Restart(rounds.done % self.updates == 0, rounds.base)
        return Inputs(params=actor, restart=due if self.restart else None)

    def after(self, rounds: Rounds, outcome: UpdateResult) -> tuple[Rounds, dict]:
        """The round after one more update."""
        actor = self.acting(rounds, outcome.before.params)
        return rounds.replace(actor=actor, done=rounds.done + 1), {}


def expert_iteration(setup: Setup, *, updates: int = 50, restart: bool = True) -> Component:
    """Rounds of so many updates: collected by the policy of the round before, learnt from the base.

    In front of a round the trained parameters are set back to the run's base, those at the first
    update after the warm start (or at `config.init_from`), and the optimizer begins anew, its
    schedule too. In the round the policy that the last one ended with collects (in the first, the
    base), while the new one learns. What other components carry stays: with
    `agentrl.methods.growing_batch` each round learns from the solved episodes of all rounds so far.

    Evaluations within a round are of the policy that is learning; let config.evaluation.every be a
    multiple of `updates` to see what rounds end with. Only trainable parameters are stored, twice.

    Args:
      updates: of a round, at least 1.
      restart: False: a round goes on from the last one's parameters and optimizer; it is collected
        by rounds all the same.

    Raises:
      ValueError: an environment in Python, or an option outside its range.

    References:
      Aksitov et al. (2023), ReST meets ReAct, https://arxiv.org/abs/2312.10003: each round is
      fine-tuned from the base model. Xin et al. (2025), BFS-Prover-V2,
      https://arxiv.org/abs/2509.06493: when the curve is flat all solved tasks are solved again by
      the newest policy, filtered, and learnt from the base checkpoint. Both from notes; no code.
      There a round collects first and learns then; here each update of it does both, and a round
      has its length, whatever the curve says.
    """
    check_range("config.components.expert_iteration.updates", updates, 1)
    required(setup, "expert_iteration", None, in_graph=True)
    hooks = Hooks(setup.policy, updates, restart)
    # A rejected update counts: it has collected, and restarted where it was due.
    return Component(
        init=hooks.init, restarts=True, before=hooks.before, after=hooks.after, counts_rejected=True
    )
