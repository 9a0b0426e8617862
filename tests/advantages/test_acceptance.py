"""Which episodes are accepted, and which rows are then imitated."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from steps import stepper

from agentrl import advantages, losses
from agentrl.learner.credit import Recipe, credit_of
from agentrl.learner.function import Function
from agentrl.learner.objective import Term
from agentrl.learner.update import Batch
from agentrl.streams import Rows, Streams

# Solved; not solved; an illegal turn; in a circle; five turns.
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1] * 5], bool)
SUCCESS = np.zeros((5, 5), bool)
SUCCESS[[0, 2, 3, 4], [2, 1, 3, 4]] = True
PLACES = np.array([[1, 2, 3, 0, 0], [1, 2, 3, 4, 5], [1, 2, 0, 0, 0], [1, 2, 1, 3, 0], range(5)])
ANCHOR = np.stack([PLACES, PLACES], axis=-1).astype(np.uint32)
VALID = np.ones((5, 5), bool)
VALID[2, 0] = False


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [1, 0, 1, 0, 1]),
        ({"valid": VALID}, [1, 0, 0, 0, 1]),
        ({"valid": VALID, "longest": 4}, [1, 0, 0, 0, 0]),
        ({"valid": VALID, "revisits": 1}, [1, 0, 0, 1, 1]),
    ],
)
def test_by_hand(options, kept):
    keep = advantages.accepted(
        jnp.asarray(MASK), jnp.asarray(SUCCESS), jnp.asarray(ANCHOR), **options
    )
    assert keep.tolist() == [bool(k) for k in kept]


class Words:
    """A policy of one number per word."""

    frozen, outputs = (), {}

    @staticmethod
    def score(params, rows, needed=None):
        logp = -jax.nn.softplus(params[rows.tokens])
        return logp, jnp.square(logp), logp

    @staticmethod
    def shared_positions(length):
        return 0

    @staticmethod
    def step_counts(trained):
        return {}


def test_rows_that_are_not_accepted_change_nothing():
    """As in configs/words/web_dancer.py:rejection: a filter, and imitation of the own rows."""
    recipe = Recipe(
        Function(advantages.grpo, {}), before={"accepted": Function(advantages.accepted, {})}
    )
    terms = {"imitation": Term(Function(losses.behaviour_cloning, {}), source="rollout")}
    sgd, before = optax.sgd(1.0), jnp.linspace(-1.0, 1.0, 7)
    update = stepper(Words, sgd, terms)
    streams = Streams(
        reward=jnp.asarray(SUCCESS * 1.0), mask=jnp.asarray(MASK), success=jnp.asarray(SUCCESS),
        anchor=jnp.asarray(ANCHOR), valid=jnp.asarray(VALID), group=jnp.zeros(5, jnp.int32),
    )  # fmt: skip

    @jax.jit
    def after(tokens, logp):
        turn = jnp.where(MASK, jnp.arange(5), -1)
        rows = Rows(tokens, jnp.asarray(MASK), jnp.arange(5), turn, logp)
        batch = Batch(streams, rows, credit_of(recipe, streams, rows, {}), {})
        params, *_ = update(before, sgd.init(before), {"rollout": batch}, jax.random.key(0), 0.0)
        return params

    tokens = np.random.default_rng(0).integers(0, 7, (5, 5))
    accepted = np.array([1, 0, 0, 0, 1], bool)[:, None]
    clean = after(tokens, jnp.full((5, 5), -0.7))
    poisoned = after(
        np.where(accepted, tokens, 6 - tokens), jnp.where(accepted, jnp.full((5, 5), -0.7), jnp.nan)
    )
    np.testing.assert_array_equal(clean, poisoned)
    # By hand: the mean over the accepted episodes' tokens of the gradient of softplus.
    step = np.zeros(7)
    for stream in (0, 4):
        for word in tokens[stream][MASK[stream]]:
            step[word] += 1 / (1 + np.exp(-float(before[word]))) / 8
    np.testing.assert_allclose(before - clean, step, atol=1e-6)
    others = after(np.where(accepted, 6 - tokens, tokens), jnp.full((5, 5), -0.7))
    assert np.abs(np.asarray(others - clean)).max() > 0.01
