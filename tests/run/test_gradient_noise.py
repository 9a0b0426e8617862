"""Noise of early gradients, where it can be worked out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from in_process import launch

from agentrl.config.bind import bound
from agentrl.config.build import build
from agentrl.learner.credit import arrays_of
from agentrl.policies import Policy
from agentrl.run import gradient_noise, loop
from agentrl.streams import Rows


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


def test_estimators_that_are_asked_for_say_what_the_run_lacks():
    """Of the streams of one collection, all of which count."""
    experiment = build(tiny.groups_config(num_seeds=1))
    key = jax.random.key(0)
    params = experiment.policy.init(key)
    rollout = experiment.rollout
    asked = {
        name: bound("advantage", {"name": name, **options})
        for name, options in (("grpo", {}), ("gigpo", {"gamma": 0.9}), ("rae_by_turn", {}))
    }
    ways = gradient_noise.of_estimators(asked)

    @jax.jit
    def evaluated(key):
        _, streams, _, _ = rollout.collect(params, rollout.init(key), key)
        found = [ways[name](streams) for name in ("grpo", "gigpo")]
        with pytest.raises(
            ValueError, match="'rae_by_turn' reads role, task, baseline, which this"
        ):
            ways["rae_by_turn"](streams)
        return streams, asked["grpo"](arrays_of(streams)), found

    streams, alone, ((grpo, of), (gigpo, _)) = jax.device_get(evaluated(key))
    np.testing.assert_array_equal(grpo, alone)
    assert of.all() and grpo.shape == streams.mask.shape and (grpo != gigpo).any()


def test_the_command_measures_what_it_is_asked_for(tmp_path):
    workdir = tmp_path / "run"
    assert loop.run(tiny.groups_config(num_seeds=2, updates=2), workdir, command="test")
    words = ["launchers.gradient_noise", f"--workdir={workdir}", "--batches=2", "--turns=2"]
    asked = ["--estimator=grpo", "--estimator=gigpo;gamma=0.9;normalize=mean"]
    _, printed, error = launch([*words, *asked])
    assert not error and len(printed.splitlines()) == 3, error
    assert "grpo: noise" in printed and "gigpo;gamma=0.9;normalize=mean: noise" in printed
    for more, message in (
        ([], "and --estimator, or a run of a planner"),
        (["--estimator=gigpo;gamma"], "expected NAME[;key=value;...]"),
        (["--estimator=grp"], "did you mean 'grpo'"),
        (["--estimator=gae;gamma=1.0;lam=1.0"], "reads value, bootstrap, which this run does not"),
    ):
        assert message in launch([*words, *more])[2]
