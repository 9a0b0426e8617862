"""Counterfactual regret minimisation on the sequence form.

For each player in order, against the others' current policies:

  R(I, a) += q(I, a) - sum_b pi(b | I) q(I, b),
  pi(a | I) = max(R(I, a), 0) / sum_b max(R(I, b), 0),

uniform where no regret is positive; q as in `sequence_form.action_values`. The policies before each
update are averaged as realisation plans with equal weights; the average converges to an equilibrium
of a two-player zero-sum game.

Zinkevich et al. (2007), Regret minimization in games with incomplete information. OpenSpiel's
`CFRSolver` (alternating updates, no discounting) gives the same policies; executed.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.games import sequence_form
from agentrl.selfplay.sequence_form import SequenceForm


class State(NamedTuple):
    """Summed regrets [I, A]; summed realisation plans [I, A]."""

    regret: jax.Array
    plans: jax.Array


def matched(form: SequenceForm, regret: jax.Array) -> jax.Array:
    """Policy [I, A] proportional to positive regrets; uniform if there are none."""
    return sf.behaviour(form, jnp.where(form.legal, jnp.maximum(regret, 0), 0))


def initial(form: SequenceForm, dtype=jnp.float32) -> State:
    """The state before the first iteration: no regrets, no plans, zeros [I, A]."""
    return State(jnp.zeros(form.legal.shape, dtype), jnp.zeros(form.legal.shape, dtype))


def update(form: SequenceForm, state: State) -> State:
    """One iteration: every player once, in order."""
    regret, plans = state
    for player in range(form.num_players):
        policy = matched(form, regret)
        plan = sf.plan(form, policy)
        q = sf.action_values(form, policy, sf.others(sf.reach(form, plan)))
        mine = (form.player == player)[:, None]
        value = jnp.sum(policy * q, axis=1, keepdims=True)
        regret = regret + jnp.where(mine & form.legal, q - value, 0)
        plans = plans + jnp.where(mine, plan, 0)
    return State(regret, plans)


@functools.partial(jax.jit, static_argnums=0)
def run(form: SequenceForm, state: State, iterations: jax.Array) -> State:
    """A number i32[] of iterations in one program."""
    return jax.lax.fori_loop(0, iterations, lambda _, s: update(form, s), state)


def average_policy(name: str, iterations: int, **options: int) -> np.ndarray:
    """The average policy f64[I, A] after `iterations` in a tabular game by name."""
    if iterations < 1:
        raise ValueError(f"iterations={iterations}: expected at least 1")
    form = sequence_form(name, **options)
    with jax.enable_x64(True):
        state = run(form, initial(form, jnp.float64), iterations)
        return np.asarray(sf.behaviour(form, state.plans))
