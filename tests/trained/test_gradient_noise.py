"""Noise of early gradients, where it can be worked out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from in_process import launch

from agentrl import advantages
from agentrl.config import env_section
from agentrl.config.bind import bound
from agentrl.config.build import build
from agentrl.learner.credit import arrays_of
from agentrl.policies import Policy
from agentrl.run import loop, restored
from agentrl.streams import Rows
from agentrl.trained import estimator_gradients, gradient_noise


def test_noise_and_signal_by_hand():
    # Mean (2, 0); squared distances 1, 1, 4, 4: noise 10 / 3, signal 4 - 10 / 12.
    gradients = jnp.array([[1.0, 0], [3, 0], [2, 2], [2, -2]])
    noise, signal = gradient_noise.noise_and_signal(gradients, jnp.ones(4, bool))
    np.testing.assert_allclose([noise, signal], [10 / 3, 4 - 10 / 12], rtol=1e-6)
    # What is left out may be anything.
    more = jnp.concatenate([gradients, jnp.full((3, 2), jnp.nan)])
    again = gradient_noise.noise_and_signal(more, jnp.arange(7) < 4)
    np.testing.assert_allclose(again, [noise, signal], rtol=1e-6)


def test_each_episode_has_its_own_gradient():
    """Logits that are the parameters: the gradient of log pi(a) is one-hot(a) - pi."""

    def unroll(params, memory, observation, start, role):
        shape = (*start.shape, 3)
        return jnp.broadcast_to(params, shape), jnp.zeros(start.shape)

    policy = Policy(None, lambda batch: None, None, unroll, False)
    params = np.array([0.0, 1.0, 0.5], np.float32)
    action = np.array([[0, 2], [1, 1]], np.int32)  # [T, B]
    weight = np.array([[2.0, -1.0], [0.0, 0.5]], np.float32)  # of the streams 0, 1 in turn
    rows = Rows(
        tokens=action.reshape(4, 1),
        loss_mask=np.ones((4, 1), bool),
        stream=np.tile(np.arange(2, dtype=np.int32), 2),
        turn=np.repeat(np.arange(2, dtype=np.int32), 2)[:, None],
        behaviour_logp=np.zeros((4, 1), np.float32),
    )
    of_rows = weight.reshape(4, 1)
    gradients = jax.jit(
        functools.partial(gradient_noise.episode_gradients, policy, most=2),
        static_argnames="streams",
    )
    found = gradients(params, rows, of_rows, streams=3)
    slope = np.eye(3)[action] - np.exp(params) / np.exp(params).sum()
    expected = (slope * weight[..., None]).sum(axis=0)
    np.testing.assert_allclose(found, [*expected, [0, 0, 0]], atol=1e-6)
    # Rows in any order.
    order = np.array([2, 0, 3, 1])
    rows, of_rows = jax.tree.map(lambda x: x[order], (rows, of_rows))
    found = gradients(params, rows, of_rows, streams=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def sums_of(each):
    """Gradients [B, D], one after the other."""
    start = estimator_gradients.none_yet(each.shape[-1])
    sums, _ = jax.lax.scan(lambda sums, g: (estimator_gradients.added(sums, g), None), start, each)
    return sums


def clarity_of(each, first):
    return estimator_gradients.clarity(sums_of(each), sums_of(first))


def test_clarity_by_hand():
    # Mean (2, 0); squared distances 1, 1, 5, 5. Even ones (2, 1), odd ones (2, -1).
    each = np.array([[1.0, 0], [3, 0], [3, 2], [1, -2]], np.float32)
    other = np.array([[0.0, 1], [0, 3], [0, 1], [0, 3]], np.float32)
    found = clarity_of(each, other)
    # (2, 1) (0, 3) and (2, -1) (0, 1): their mean is 1.
    np.testing.assert_allclose(found, [12 / 3, 4 - 12 / 12, 1.0], rtol=1e-6)
    own = clarity_of(each, each)
    np.testing.assert_allclose(own.along, 3.0, rtol=1e-6)  # (2, 1) (2, -1)


def test_means_of_collections_have_a_product_without_their_noise():
    """Two estimators on the same collections: the same noise, and means at right angles."""
    noise = np.random.default_rng(0).normal(size=(4000, 16, 8)).astype(np.float32)
    means = np.eye(8, dtype=np.float32)[:2]
    first, second = means[:, None, None] + noise
    clarity = jax.jit(jax.vmap(clarity_of))
    crossed, own = clarity(second, first), clarity(first, first)
    # The plain product of two means over 16 would be 8 / 16.
    assert abs(crossed.along.mean()) < 0.02
    np.testing.assert_allclose(own.along.mean(), 1.0, atol=0.02)
    np.testing.assert_allclose(own.signal.mean(), 1.0, atol=0.02)
    np.testing.assert_allclose(own.noise.mean(), 8.0, rtol=0.02)


def test_the_noise_of_gradients_that_hardly_differ_is_kept():
    """Where the mean is ten thousand times as long as what differs, and their number is odd."""
    each = (100.0 + 0.01 * np.random.default_rng(0).normal(size=(9, 64))).astype(np.float32)
    exact = np.sum(np.square(each - each.mean(axis=0, dtype=np.float64))) / 8
    np.testing.assert_allclose(clarity_of(each, each).noise, exact, rtol=0.02)


def test_the_gradient_is_that_of_the_surrogate_at_the_behaviour_policy():
    """One collection at a time: the gradient of the mean over streams of ratio A, early turns."""
    config = tiny.groups_config(num_seeds=1)
    config.learner.normalize_advantage = "batch"
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    run = restored.Run(config, experiment, 0, jax.tree.map(lambda x: x[None], state))
    asked = {
        "rloo": bound("advantage", {"name": "rloo"}),
        "a": bound("advantage", {"name": "grpo"}),
    }
    found = estimator_gradients.measure(run, asked, 2, 2)
    assert list(found) == ["rloo", "a"]  # in the order that they are asked for, the first first

    @jax.jit
    def by_hand(key):
        begin, key = jax.random.split(key)
        rollout, policy, params = experiment.rollout, experiment.policy, state.params
        _, streams, rows, _ = rollout.collect(params, rollout.init(begin), key)
        advantage = advantages.whiten(asked["rloo"](arrays_of(streams)), streams.mask)

        def surrogate(params):
            ratio = jnp.exp(policy.score(params, rows).logp - rows.behaviour_logp)
            early = rows.loss_mask & (rows.turn < 2)
            value = ratio * advantage[rows.stream[:, None], jnp.maximum(rows.turn, 0)]
            return jnp.sum(jnp.where(early, value, 0.0)) / streams.mask.shape[0]

        grads = jax.grad(surrogate)(params)
        return jnp.concatenate([x.reshape(-1) for x in jax.tree.leaves(grads)])

    each = jnp.stack([by_hand(key) for key in jax.random.split(jax.random.key(0), 2)])
    expected = clarity_of(each, each)
    own = jax.tree.map(lambda x: x[0], found["rloo"])
    np.testing.assert_allclose(own, expected, rtol=2e-3, atol=1e-6)


def test_passes_that_are_cut_have_the_same_gradient():
    """In words, whose rows are shorter than their bound: one compiled length, and three."""
    found = {}
    for lengths in (1, 3):
        config = tiny.talk_config(num_seeds=1, warm_start__updates=0, learner__lengths=lengths)
        config.learner.microbatch = 4
        experiment = build(config)
        state = jax.tree.map(lambda x: x[None], jax.jit(experiment.init)(0))
        run = restored.Run(config, experiment, 0, state)
        found[lengths] = estimator_gradients.measure(
            run, {"rloo": bound("advantage", {"name": "rloo"})}, 8, 2
        )
    np.testing.assert_allclose(found[1]["rloo"], found[3]["rloo"], rtol=1e-3)
    assert np.all(np.asarray(found[1]["rloo"].noise) > 0)


def test_an_estimator_says_what_the_run_lacks():
    experiment = build(tiny.groups_config(num_seeds=1))
    params, rollout = experiment.policy.init(jax.random.key(0)), experiment.rollout
    begun = rollout.init(jax.random.key(0))
    _, streams, _, _ = jax.eval_shape(rollout.collect, params, begun, jax.random.key(0))
    asked = bound("advantage", {"name": "rae_by_turn"})
    with pytest.raises(ValueError, match="'it' reads role, task, baseline, which this"):
        estimator_gradients.advantage_of("it", asked, streams)


@pytest.mark.long
def test_the_command_measures_what_it_is_asked_for(tmp_path):
    workdir = tmp_path / "run"
    assert loop.run(tiny.groups_config(num_seeds=2, updates=2), workdir, command="test")
    words = ["launchers.gradient_noise", f"--workdir={workdir}", "--batches=2", "--turns=2"]
    asked = ["--estimator=grpo", "--estimator=gigpo;gamma=0.9;normalize=mean"]
    _, printed, error = launch([*words, *asked])
    assert not error and len(printed.splitlines()) == 3, error
    assert "grpo: noise" in printed and "gigpo;gamma=0.9;normalize=mean: noise" in printed
    for more, message in (
        ([], "expected --estimator, or a run of a planner"),
        (["--estimator=gigpo;gamma"], "expected NAME[;key=value;...]"),
        (["--estimator=grp"], "did you mean 'grpo'"),
        (["--estimator=gae;gamma=1.0;lam=1.0"], "reads value, bootstrap, which this run does not"),
    ):
        assert message in launch([*words, *more])[2]


@pytest.mark.long
def test_without_a_signal_there_is_no_ratio(tmp_path):
    """Nobody gets a coin in one step: all returns are equal."""
    config = tiny.groups_config(num_seeds=1, updates=2)
    config.env = env_section("Coin-v1", max_steps_in_episode=1)
    assert loop.run(config, tmp_path / "run", command="test")
    words = ["launchers.gradient_noise", f"--workdir={tmp_path / 'run'}", "--batches=2"]
    _, printed, error = launch([*words, "--estimator=rloo"])
    assert not error and "signal 0 ratio unknown cosine unknown" in printed, error
