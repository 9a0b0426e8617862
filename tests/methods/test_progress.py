"""SPA: the worked example, and progress in words; what is learnt over arrays: test_together.py."""

import jax
import jax.numpy as jnp
import numpy as np
from experiments import train
from tiny import talk_config

from agentrl import rewards
from agentrl.config import section
from agentrl.methods.bags import TextFeatures, progress_error
from agentrl.methods.progress import progress
from agentrl.policies import decoder


def test_worked_example():
    mask = np.array([[1, 1, 1, 1, 0]], bool)
    parts = np.float32([[0.1, 0.35, 0.05, 0.4, np.nan]])
    valid = np.array([[1, 1, 0, 1, 1]], bool)
    reward = np.full((1, 5), np.nan, np.float32)
    ours = rewards.progress_reward(mask, reward, parts, valid)
    np.testing.assert_allclose(ours, [[0.6, 0.85, 0.05, 0.9, 0]], atol=1e-6)
    # The sum is 0.9 where the outcome is 1.
    error = progress_error(jnp.asarray(parts), jnp.ones(1), jnp.asarray(mask))
    np.testing.assert_allclose(error, 0.01, rtol=1e-5)


def test_in_words_it_is_on_the_model_as_it_was():
    config = talk_config(log_every=1, warm_start__updates=0, objective__kl__weight=0.0)
    config.learner.minibatches = 1
    options = {"hidden": 8, "explore": 2, "fit": 50, "steps": 2, "batch": 16}
    config.components.progress = section(progress, learning_rate=1e-2, **options)
    config.reward.progress = section(rewards.progress_reward)
    experiment, states, metrics = train(config, 1)
    before, after = (state.carry["progress"] for state in states)
    jax.tree.map(np.testing.assert_array_equal, before.reader, states[0].params)
    jax.tree.map(np.testing.assert_array_equal, before.reader, after.reader)
    assert np.isfinite(list(metrics[0].values())).all()

    # The last layer at the end of each reply, with rows whole or in parts.
    params, policy = states[0].params, experiment.policy
    _, streams, rows, _ = jax.jit(experiment.rollout.collect)(
        params, states[0].rollout, jax.random.key(1)
    )
    read = jax.jit(
        lambda count: TextFeatures(policy, count).of_turns(params, streams, rows),
        static_argnums=0,
    )
    state = np.asarray(decoder.hidden(params, policy.config, rows.tokens))
    expected = np.zeros((*streams.mask.shape, policy.config.width), np.float32)
    for number, position in zip(*np.nonzero(np.asarray(rows.loss_mask)), strict=True):
        # Later positions of a turn take the place of earlier ones.
        turn = rows.stream[number], rows.turn[number, position]
        expected[turn] = state[number, position]
    assert expected.any()
    np.testing.assert_allclose(read(None), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(read(8), expected, rtol=1e-4, atol=1e-5)
