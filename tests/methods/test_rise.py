"""RISE: weights of improved attempts, the best of several answers, a run."""

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.rise import attempt_weight, rise
from agentrl.methods.teaching import BestOf, Chances, classroom


def attempts(config, **options):
    config.objective.policy.weight = 0.0
    config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    config.components.rise = section(rise, **({"episodes": 8, "samples": 4} | options))
    config.objective.imitation = term(losses.weighted_imitation, source="rise", during="rl")
    return config


def config_of(kind, **options):
    if kind == "arrays":
        return attempts(lake(size=2), **options)
    config = talk_config(log_every=1, warm_start__updates=0)
    config.env.update(size=2, slippery=False)
    return attempts(config, **options)


def test_weights_of_the_worked_example():
    score = jnp.array([[0.0, 0, 1, 0, 1], [1, 1, 1, 1, 1], [2, 0, 0, 0, 0]])
    mask = jnp.array([[1] * 5, [1] * 5, [1, 0, 0, 0, 0]], bool)
    score = jnp.where(mask, score, jnp.nan)
    few, many = 0.670320, 1.822119
    expected = [[few, few, many, few, many], [1.0] * 5, [1.0, 0, 0, 0, 0]]
    np.testing.assert_allclose(attempt_weight(score, mask, 1.0), expected, atol=1e-5)
    sharper = attempt_weight(score, mask, 0.5)[0]
    np.testing.assert_allclose(sharper[:3], [0.449329, 0.449329, 3.320117], atol=1e-5)


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_the_best_of_many_is_better_than_the_first(kind):
    config = config_of(kind)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup = own_pieces.SETUPS.pop()
    params = experiment.policy.init(jax.random.key(1))
    keys, key = jax.random.split(jax.random.key(3), 32), jax.random.key(4)

    def mean(samples):
        room = classroom(setup, "rise", BestOf(samples), labels=True, scored=True)
        lesson = jax.jit(room.play)(params, keys, key, Chances())
        scores = np.asarray(lesson.score)[np.asarray(lesson.streams.mask)]
        return scores.mean(), lesson

    one, lesson = mean(1)
    many, other = mean(8)
    assert many > one
    # Answers are not played.
    np.testing.assert_array_equal(lesson.streams.mask, other.streams.mask)


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_it_learns_resumes_and_is_traced_once(kind, tmp_path):
    _, _, metrics = train_and_resume(config_of(kind), tmp_path)
    assert all(np.isfinite(told["loss/imitation"]) for told in metrics)
