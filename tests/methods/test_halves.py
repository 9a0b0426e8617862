"""Pairs of the better and the worse half of a group."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.methods.halves import halves_of

SCORES = np.array([[3, 1, 2, 0, 9], [1, 1, 0, 1, 9], [1, 1, 1, 1, 9], [5, 4, 3, 9, 9]], np.float32)
# The last member of each group is absent, of the last group two.
PRESENT = SCORES < 9


def drawn(number):
    return jax.vmap(lambda key: halves_of(jnp.asarray(SCORES), PRESENT, key, 2))(
        jax.random.split(jax.random.key(0), number)
    )


def test_halves_by_hand():
    better, worse, gap = (np.asarray(x) for x in drawn(200))
    pairs = [
        {
            tuple(sorted(zip(b, w, strict=True)))
            for b, w in zip(better[:, g], worse[:, g], strict=True)
        }
        for g in range(4)
    ]
    # Members 0 and 2 are better than 1 and 3, each of whom either of them may meet.
    assert pairs[0] == {((0, 1), (2, 3)), ((0, 3), (2, 1))}
    assert set(np.unique(gap[:, 0])) == {1.0, 2.0, 3.0}
    # Three right and one wrong: one pair of a right and the wrong one, the other of equals.
    assert (np.sort(gap[:, 1], axis=1) == [0, 1]).all()
    assert {w for w, g in zip(worse[:, 1].ravel(), gap[:, 1].ravel(), strict=True) if g} == {2}
    # Nothing to learn from equals; with three members one pair, of the best and the worst.
    assert (gap[:, 2] == 0).all()
    assert (gap[:, 3] == [2, -1]).all()
    assert (better[:, 3, 0] == 0).all() and (worse[:, 3, 0] == 2).all()


def test_everybody_is_in_at_most_one_pair():
    better, worse, _ = (np.asarray(x) for x in drawn(50))
    for g in range(3):
        members = np.sort(np.concatenate([better[:, g], worse[:, g]], axis=1), axis=1)
        assert (members == np.arange(4)).all()
