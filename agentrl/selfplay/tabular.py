"""Exact exploitability of policies in tabular games, by name, on the host.

A policy is a table [I, A]: one row for each of `infostates(name)`, one column per action. All
computations are in float64 (`sequence_form.nash_conv` in float32, in the graph, is within 1e-6 on
Leduc poker); rows are first divided by their sums, so that float32 tables lose no accuracy.

NashConv = sum_p [max_pi' u_p(pi', pi_-p) - u_p(pi)], exploitability = NashConv / N (Lanctot et al.
2017, https://arxiv.org/abs/1711.00832; conventions and numbers of OpenSpiel).
"""

import functools

import jax
import numpy as np

from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.sequence_form import BestResponses, SequenceForm


def _form(name: str, **options: int) -> SequenceForm:
    from agentrl.selfplay import games  # the rules of the games, when one is asked for

    return games.sequence_form(name, **options)


def infostates(name: str, **options: int) -> tuple[str, ...]:
    """Information states of all players as OpenSpiel's strings, in the order of policies' rows."""
    return _form(name, **options).infostates


def checked(form: SequenceForm, policy: np.ndarray) -> np.ndarray:
    """The policy as f64[I, A] with rows that sum to 1; ValueError if it is invalid."""
    policy = np.asarray(policy, np.float64)
    if policy.shape != form.legal.shape:
        raise ValueError(
            f"policy of shape {policy.shape}: expected {form.legal.shape}, one row for each of "
            "infostates(name) and one column per action"
        )
    total = policy.sum(1, keepdims=True)
    if not (np.all(policy >= 0) and np.all(np.abs(total - 1) < 1e-3)):
        row = int(np.argmax(np.any(~(policy >= 0), 1) | ~(np.abs(total[:, 0] - 1) < 1e-3)))
        raise ValueError(
            f"policy row {row} ({form.infostates[row]!r}) is {policy[row]}: expected probabilities "
            "that sum to 1"
        )
    if np.any(policy[~form.legal] > 0):
        row = int(np.argmax(np.any((policy > 0) & ~form.legal, 1)))
        raise ValueError(
            f"policy row {row} ({form.infostates[row]!r}) is {policy[row]}; the legal actions are "
            f"{np.flatnonzero(form.legal[row]).tolist()}; mask the policy and renormalise"
        )
    return policy / total


@functools.partial(jax.jit, static_argnums=0)
def _evaluate(form: SequenceForm, policy: jax.Array) -> tuple[BestResponses, jax.Array]:
    other = sf.others(sf.reach(form, sf.plan(form, policy)))
    return sf.best_responses(form, other), sf.returns(form, policy)


def _evaluated(name: str, policy: np.ndarray, options: dict) -> tuple[BestResponses, np.ndarray]:
    form = _form(name, **options)
    with jax.enable_x64(True):
        return jax.device_get(_evaluate(form, checked(form, policy)))


def expected_returns(name: str, policy: np.ndarray, **options: int) -> np.ndarray:
    """Expected return of each player when all play the policy, f64[N]."""
    return _evaluated(name, policy, options)[1]


def best_response(name: str, policy: np.ndarray, **options: int) -> BestResponses:
    """Each player's best response to the others' part of the policy, and its return.

    Returns: policy f64[I, A], in whose rows of player p is p's best response (the lowest action
    among equally good ones), and value f64[N].
    """
    return _evaluated(name, policy, options)[0]


def nash_conv(name: str, policy: np.ndarray, **options: int) -> float:
    """NashConv: sum over players of the gain of a unilateral best response."""
    best, returns = _evaluated(name, policy, options)
    return float(np.sum(best.value - returns))


def exploitability(name: str, policy: np.ndarray, **options: int) -> float:
    """NashConv per player: 0 at a Nash equilibrium."""
    return nash_conv(name, policy, **options) / _form(name, **options).num_players
