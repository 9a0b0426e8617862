"""Scores that the learner asks of every policy, and the split into trained and frozen
parameters."""

from typing import NamedTuple

import chex
import jax

from agentrl.losses.categorical import categorical_entropy, categorical_log_prob


class Adapters(NamedTuple):
    """The low-rank adapters of a policy.

    entries: of params, trained or not. roles: how many have an adapter of their own; 1: one for
    all, or none. trained: as roles, of those that are trained.
    """

    entries: tuple[str, ...] = ()
    roles: int = 1
    trained: int = 1


class Scored(NamedTuple):
    """Scores of rows [R, L] under given parameters.

    logp: f32[R, L], log-probability of the token under the sampling distribution.
    entropy: f32[R, L], entropy of that distribution.
    value: f32[R, L], the critic's value of the observation of the token's turn; 0 without critic.
    """

    logp: jax.Array
    entropy: jax.Array
    value: jax.Array


def score_logits(logits: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities of tokens [R, L], and entropies of their distributions [R, L, V]."""
    return categorical_log_prob(logits, tokens), categorical_entropy(logits)


def split(params: chex.ArrayTree, frozen: tuple[str, ...]) -> tuple[chex.ArrayTree, dict]:
    """Partitions parameters into (trained, frozen); `join` merges them.

    frozen: entries of params (a dict then) that are not trained.
    """
    if not frozen:
        return params, {}
    trained = {name: value for name, value in params.items() if name not in frozen}
    return trained, {name: value for name, value in params.items() if name in frozen}


def join(trained: chex.ArrayTree, frozen: dict) -> chex.ArrayTree:
    """All parameters, from the two parts that `split` returns."""
    return {**trained, **frozen} if frozen else trained
