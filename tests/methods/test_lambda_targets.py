"""Critic targets with a lambda of their own: plain loops, ends, and the loss that reads them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of

import envs
from agentrl import losses
from agentrl.methods.lambda_targets import lambda_targets
from agentrl.streams import PerTurn, Streams

RNG = np.random.default_rng(3)
# Streams of 5, 3, 4 and 1 turns: terminal, cut by a limit, still running, terminal at once.
LENGTHS = (5, 3, 4, 1)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
REWARD, VALUE, BOOTSTRAP = RNG.normal(size=(3, 4, 5)).astype(np.float32)
TERMINATED = np.zeros((4, 5), bool)
TERMINATED[0, 4] = TERMINATED[3, 0] = True
TRUNCATED = np.zeros((4, 5), bool)
TRUNCATED[1, 2] = True


def streams_of(poison=0.0):
    def padded(values):
        return jnp.where(MASK, values, poison)

    return Streams(
        reward=padded(REWARD),
        mask=jnp.asarray(MASK),
        value=padded(VALUE),
        # What follows a turn within an episode is the next turn's value.
        bootstrap=padded(np.where(_last(), BOOTSTRAP, np.roll(VALUE, -1, axis=1))),
        terminated=jnp.asarray(TERMINATED),
        truncated=jnp.asarray(TRUNCATED),
    )


def _last():
    return np.arange(5) == np.array(LENGTHS)[:, None] - 1


def by_loop(gamma, lam):
    """G_t = r_t + gamma ((1 - lam) V_{t+1} + lam G_{t+1}), from the last turn back."""
    target = np.zeros((4, 5))
    for i, length in enumerate(LENGTHS):
        end = 0.0 if TERMINATED[i, length - 1] else BOOTSTRAP[i, length - 1]
        target[i, length - 1] = REWARD[i, length - 1] + gamma * end
        for t in reversed(range(length - 1)):
            mixed = (1 - lam) * VALUE[i, t + 1] + lam * target[i, t + 1]
            target[i, t] = REWARD[i, t] + gamma * mixed
    return target


def targets(poison=0.0, **options):
    component = lambda_targets(setup_of(*envs.make("FrozenLake-v1"), critic="separate"), **options)
    return component.annotate(context(), streams_of(poison), None)["critic_target"]


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_targets_are_lambda_returns(gamma, lam):
    found = targets(gamma=gamma, lam=lam)
    assert isinstance(found, PerTurn)
    np.testing.assert_allclose(found.values, by_loop(gamma, lam), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("poison", [np.nan, 1e9])
def test_padding_changes_nothing(poison):
    np.testing.assert_array_equal(targets(poison, lam=0.5).values, targets(lam=0.5).values)


def test_by_default_targets_do_not_depend_on_the_critic():
    """lambda 1 without a discount: returns, plus what follows a limit."""
    expected = by_loop(1.0, 1.0)
    np.testing.assert_allclose(expected[0, 0], REWARD[0].sum(), rtol=1e-5)
    np.testing.assert_allclose(targets().values, expected, rtol=2e-5, atol=2e-6)


def test_the_loss_pulls_values_to_the_target_and_not_the_target():
    value, target = jnp.asarray(VALUE), jnp.asarray(by_loop(1.0, 1.0), jnp.float32)

    def total(value, target):
        return jnp.sum(losses.decoupled_value_loss(value, target, jnp.asarray(MASK)))

    to_value, to_target = jax.grad(total, argnums=(0, 1))(value, target)
    np.testing.assert_allclose(to_value, np.where(MASK, value - target, 0.0), rtol=1e-6)
    assert not to_target.any()


@pytest.mark.parametrize("options", [{"gamma": 1.1}, {"lam": -0.1}])
def test_rates_are_checked(options):
    (name, value), *_ = options.items()
    with pytest.raises(ValueError, match=rf"lambda_targets\.{name}.*{value}"):
        targets(**options)
