"""Which episodes are accepted, and which rows are then imitated."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages

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
