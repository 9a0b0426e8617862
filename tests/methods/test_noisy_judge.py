"""A judge that errs: which rewards change, how often, and what stays true."""

import functools

import jax
import numpy as np
from by_hand import context
from experiments import lake

from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.noisy_judge import noisy_judge


def config_of():
    config = lake(size=2, max_steps_in_episode=4)
    config.rollout.update(num_groups=64, group_size=8)
    return config


@functools.cache
def first_batch():
    """What a first batch is before it is judged."""
    plain = build(config_of())
    return jax.jit(plain.batches)(jax.jit(plain.init)(0))["rollout"]


def judged(**options):
    """(streams as they were, streams as judged, metric) of a first batch."""
    before, config = first_batch(), config_of()
    config.components.noisy_judge = section(noisy_judge, **options)
    amend = build(config).components["noisy_judge"].amend
    given = context(key=jax.random.key(1))
    after, _, told = jax.jit(amend)(given, before.streams, before.rows)
    return jax.device_get((before.streams, after, told["judge_error"]))


def test_outcomes_are_turned_round_as_often_as_asked():
    before, after, error = judged(missed=0.3, invented=0.1, pays=2.0)
    old, new = (np.asarray(np.where(before.mask, s.reward, 0).sum(axis=1)) for s in (before, after))
    solved = np.asarray((before.success & before.mask).any(axis=1))
    np.testing.assert_array_equal(after.success, before.success)
    assert set(new[solved]) == {0.0, 1.0} and set(new[~solved]) == {0.0, 2.0}
    assert abs((new[solved] == 0).mean() - 0.3) < 0.15
    assert abs((new[~solved] == 2).mean() - 0.1) < 0.05
    np.testing.assert_allclose(error, [(old != new).sum(), len(old)])
    # An invented success pays in the last turn.
    paid = np.asarray(after.reward) == 2.0
    last = np.asarray(before.mask).sum(axis=1) - 1
    np.testing.assert_array_equal(np.argmax(paid, axis=1)[paid.any(axis=1)], last[paid.any(axis=1)])


def test_a_judge_without_errors_changes_nothing_and_one_that_always_errs_everything():
    before, after, error = judged()
    np.testing.assert_array_equal(after.reward, before.reward)
    assert error[0] == 0
    before, after, error = judged(missed=1.0, invented=1.0)
    assert error[0] == error[1]
