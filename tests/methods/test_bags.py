"""Reward models on labels of whole trajectories: worked numbers, reductions, padding, learning."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiments import lake, train_and_resume

from agentrl import rewards
from agentrl.config import section
from agentrl.methods.bags import BagModel, Bags, bag_error, increments, outcome_shares
from agentrl.methods.progress import correlation, fitted, progress

KINDS = ("instance", "embedding", "recurrent", "csc")


def pushed(press, value):
    """A hidden switch, turned by each press, and the value while it is on: rewards [N, T]."""
    return (np.cumsum(press, axis=-1) % 2) * value


def dialled(move, value):
    """The running sum of the moves, plus the value: rewards [N, T]."""
    return np.cumsum(move, axis=-1) + value


def test_worked_oracles():
    told = pushed(np.array([0, 1, 0, 0, 1, 0]), np.array([0.5, 0.2, 0.9, 0.4, 0.7, 0.3]))
    np.testing.assert_allclose(told, [0, 0.2, 0.9, 0.4, 0, 0])
    assert told.sum() == 1.5
    told = dialled(np.array([0.3, 0, -0.5, 0.2]), np.array([0.1, -0.2, 0.4, 0]))
    np.testing.assert_allclose(told, [0.4, 0.1, 0.2, 0], atol=1e-9)


def test_increments_add_up_to_the_last_value():
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], bool)
    value = np.float32([[2, 3, 9, 7, 9], [9, 5, 4, 9, 9], [9, 9, 9, 9, 9]])
    value = np.where(mask, value, np.nan)
    found = increments(jnp.asarray(value), jnp.asarray(mask))
    # The first is the value itself: 2, 3 - 2, 7 - 3.
    np.testing.assert_array_equal(found, [[2, 1, 0, 4, 0], [0, 5, -1, 0, 0], [0] * 5])
    slopes = jax.grad(lambda x: jnp.sum(increments(x, mask)))(jnp.asarray(value))
    np.testing.assert_array_equal(slopes, [[0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0] * 5])


def test_all_returns_are_drawn_equally_often():
    label = jnp.float32([0, 0, 0, 10, 4, 99])
    present = jnp.array([1, 1, 1, 1, 1, 0], bool)
    share = outcome_shares(label, present)
    # Three parts of the range have a bag: 0 to 1 three of them.
    np.testing.assert_allclose(share, [1 / 9, 1 / 9, 1 / 9, 1 / 3, 1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(outcome_shares(label, present, bins=1), [0.2] * 5 + [0], rtol=1e-6)
    same = outcome_shares(jnp.ones(3), jnp.ones(3, bool))
    np.testing.assert_allclose(same, [1 / 3] * 3, rtol=1e-6)
    assert not outcome_shares(label, jnp.zeros(6, bool)).any()


def model(kind, seed=0, turns=6, features=3):
    network = BagModel(kind, hidden=8, memory=2)
    one = jnp.zeros((1, turns, features))
    return network, network.init(jax.random.key(seed), one, jnp.ones((1, turns), bool))


@pytest.mark.parametrize("kind", KINDS)
def test_turns_that_nobody_acted_in_are_as_if_they_were_not_there(kind):
    network, params = model(kind)
    seen = jax.random.normal(jax.random.key(1), (2, 6, 3))
    mask = np.array([[1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
    told = network.apply(params, seen, mask)
    assert not np.asarray(told)[~mask].any()
    other = network.apply(params, jnp.where(mask[..., None], seen, 1e9), mask)
    np.testing.assert_array_equal(told, other)
    # The bag without the gap.
    alone = network.apply(params, seen[:1, [0, 1, 3]], np.ones((1, 3), bool))
    np.testing.assert_allclose(told[0, [0, 1, 3]], alone[0], rtol=1e-5, atol=1e-6)


def test_bags_of_one_instance_are_plain_regression():
    network, params = model("instance", turns=1)
    seen, label = jax.random.normal(jax.random.key(1), (5, 1, 3)), jnp.arange(5.0)
    bags = Bags(seen, jnp.ones((5, 1), bool), label)
    layers = params["params"]
    x = seen[:, 0]
    for name in ("Dense_0", "Dense_1"):
        x = jax.nn.relu(x @ layers[name]["kernel"] + layers[name]["bias"])
    told = (x @ layers["Dense_2"]["kernel"] + layers["Dense_2"]["bias"])[:, 0]
    np.testing.assert_allclose(
        bag_error(params, network, bags), jnp.mean((told - label) ** 2), rtol=1e-5
    )


def test_with_one_instance_the_embedding_model_is_the_recurrent_one():
    network, params = model("recurrent", turns=1)
    seen, mask = jax.random.normal(jax.random.key(1), (5, 1, 3)), np.ones((5, 1), bool)
    other = BagModel("embedding", hidden=8, memory=2)
    np.testing.assert_array_equal(
        network.apply(params, seen, mask), other.apply(params, seen, mask)
    )


def test_memory_alone_tells_whether_a_switch_was_pushed():
    rng = np.random.default_rng(0)
    press, value = rng.random((576, 8)) < 0.2, rng.random((576, 8))
    reward = jnp.float32(pushed(press, value))
    seen = jnp.float32(np.stack([press, value], axis=-1))
    mask = jnp.ones(press.shape, bool)
    bags = Bags(seen, mask, jnp.sum(reward, axis=1))
    shown, held = (jax.tree.map(lambda x, part=part: x[part], bags) for part in (
        slice(512), slice(512, None)
    ))  # fmt: skip
    adam, error, alike = optax.adam(1e-2), {}, {}
    for kind in ("instance", "csc"):
        network = BagModel(kind, hidden=16, memory=8)
        fit = jax.jit(
            lambda bags, network=network: fitted(
                network, adam, bags, jax.random.key(0), jax.random.key(1), steps=1200, batch=64,
                fits=2,
            )
        )  # fmt: skip
        params = fit(shown).params
        error[kind] = float(bag_error(params, network, held))
        told = network.apply(params, held.features, held.mask)
        alike[kind] = float(correlation(told, reward[512:], held.mask))
    assert error["csc"] < 0.3 * error["instance"]
    assert alike["csc"] > 0.9 > alike["instance"]


def test_correlation_reads_acted_turns_alone():
    one, other = jnp.float32([[1, 2, jnp.nan], [3, 9, 9]]), jnp.float32([[2, 4, 7], [6, 1, 1]])
    mask = jnp.array([[1, 1, 0], [1, 0, 0]], bool)
    np.testing.assert_allclose(correlation(one, other, mask), 1.0, rtol=1e-6)
    np.testing.assert_allclose(correlation(one, -other, mask), -1.0, rtol=1e-6)
    assert correlation(jnp.ones((2, 3)), other, mask) == 0


def test_a_model_that_is_fitted_beforehand_stays_and_resumes(tmp_path):
    config = lake(size=2, max_steps_in_episode=4)
    config.components.progress = section(
        progress, kind="csc", reads="observation", hidden=8, explore=4, fit=100, steps=0, batch=16,
        learning_rate=1e-2,
    )  # fmt: skip
    config.reward.progress = section(rewards.progress_reward, beta=0.0)
    _, states, metrics = train_and_resume(config, tmp_path)
    first, last = states[0].carry["progress"], states[-1].carry["progress"]
    jax.tree.map(np.testing.assert_array_equal, first.params, last.params)
    # Unfitted it would be the mean of the squared returns, and more.
    assert metrics[0]["progress_error"] < 0.25
