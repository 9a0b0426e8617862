"""RISE: weights of improved attempts, the best of several answers, rows in words, a run."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses, rollout
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.evaluation.transcripts import find_turn
from agentrl.learner.component import Context
from agentrl.methods.rise import attempt_weight, rise
from agentrl.methods.teaching import BestOf, Chances, classroom
from agentrl.policies.codec import decode


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


def sums():
    """A sum of two numbers with three answers, in words."""
    config = talk_config(log_every=1, warm_start__updates=0)
    question = env_section("DictSum-v1", turns=1, pairs=2, span=2, limit=2, recall=0)
    config.env = env_section("envs.wrappers.Attempts", base=question, attempts=3)
    config.context = section(rollout.contexts.window, history=0)
    # An untrained policy hardly ever names a number.
    config.policy.constrained = True
    return config


def test_in_words_each_attempt_is_a_row_with_a_better_answer():
    """Rows, rewards and weights of one update's source, read as text."""
    config = attempts(sums(), samples=12)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup = own_pieces.SETUPS.pop()
    component = rise(setup, episodes=8, samples=12, temperature=0.5)

    @jax.jit
    def made(params, key):
        context = Context(setup, (), params, key)
        streams, rows = component.source.make(context, {})
        return streams, rows, component.annotate(context, streams, rows)["imitation_weight"].values

    streams, rows, weight = jax.device_get(
        made(experiment.policy.init(jax.random.key(1)), jax.random.key(2))
    )
    codec, right, later = experiment.policy.codec, 0, 0
    for n, t in np.argwhere(streams.mask):
        row, read, written = find_turn(rows, n, t)
        text = decode(codec, rows.tokens[row][read])
        said = decode(codec, rows.tokens[row][written]).strip()
        values = dict(re.findall(r"(\w+)=(-?\d+)", text))
        total = sum(int(values[name]) for name in re.findall(r"\+(\w+)", text))
        score = float(said == str(total))
        assert streams.reward[n, t] == score
        right, later = right + score, later + text.count("not")
        # What was wrong before stands in the prompt, once per attempt that named a number.
        assert text.count("not") <= t
        rewards = [float(x) for x in streams.reward[n][streams.mask[n]]]
        mean = sum(rewards) / len(rewards)
        assert math.isclose(weight[n, t], math.exp((score - mean) / 0.5), rel_tol=2e-5)
    assert not weight[~streams.mask].any()
    assert later and right > 0.5 * streams.mask.sum()
