"""The KL to a reference in the reward: of tokens in words, of turns in words and over arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl import advantages, losses, rewards
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.passes import log_probs
from agentrl.methods.critic_first import critic_first
from agentrl.methods.reference_penalty import reference_penalty
from agentrl.methods.reward_scaling import reward_scaling
from agentrl.methods.token_values import token_values

BETA = 0.5


def words(**options):
    """PPO over tokens, with all parts of PPO-max."""
    config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0)
    config.policy.critic = "shared"
    config.rollout.update(num_groups=2, group_size=2)
    config.advantage = section(advantages.token_gae, gamma=1.0, lam=1.0, at_limit="end")
    config.components.token_values = section(token_values)
    config.components.reference_penalty = section(reference_penalty, coefficient=BETA, **options)
    config.components.reward_scaling = section(reward_scaling)
    config.components.critic_first = section(critic_first, updates=1)
    config.reward.scaled_reward = {}
    config.objective.value = term(losses.clipped_token_value_loss, weight=0.5, clip=0.2)
    config.objective.imitation = term(
        losses.behaviour_cloning, weight=0.1, source="expert", during="rl"
    )
    config.expert.update(episodes=4, held_out=False)
    config.learner.minibatches = 1
    return config


def away(state, scale):
    """The state with parameters that are not the reference any more."""
    return state.replace(params=jax.tree.map(lambda x: x * scale, state.params))


@pytest.fixture(scope="module")
def batch():
    """(experiment, state, what it learns from), the policy being away from its reference."""
    experiment = build(words())
    state = away(jax.jit(experiment.init)(jnp.int32(0)), 1.2)
    return experiment, state, jax.jit(experiment.batches)(state)["rollout"]


def test_a_token_pays_for_its_log_ratio_and_those_before_it_for_it(batch):
    experiment, state, found = batch
    rows, streams = found.rows, found.streams
    written = np.asarray(rows.loss_mask)
    of_reference = log_probs(experiment.policy, state.carry["reference_penalty"], rows, None, 1)
    expected = np.where(written, BETA * (np.asarray(rows.behaviour_logp) - of_reference), 0)
    penalty = np.asarray(found.notes["token_penalty"].values)
    np.testing.assert_allclose(penalty, expected, atol=1e-5)
    assert np.abs(penalty).max() > 0.01
    # Without discounts an advantage is what is still to come, less the value: rewards from this
    # turn on, scaled, and the penalties from this token on.
    value = np.where(written, found.notes["token_value"].values, 0)
    scale = np.asarray(found.notes["reward_scale"].values)
    reward = np.where(streams.mask, streams.reward * scale, 0)
    paid = np.cumsum(reward[:, ::-1], axis=1)[:, ::-1]
    at = np.asarray(rows.stream)[:, None], np.maximum(np.asarray(rows.turn), 0)
    owed = np.cumsum(penalty[:, ::-1], axis=1)[:, ::-1]
    expected = np.where(written, paid[at] - owed - value, 0)
    np.testing.assert_allclose(found.credit.advantage.values, expected, atol=1e-4)
    np.testing.assert_allclose(found.credit.target.values, expected + value, atol=1e-4)


def test_at_the_reference_nothing_is_paid_and_training_leaves_it():
    config = words()
    config.log_every = config.updates = 3
    experiment = build(config)
    state = jax.jit(experiment.init)(jnp.int32(0))
    first = jax.jit(experiment.batches)(state)["rollout"]
    np.testing.assert_allclose(first.notes["token_penalty"].values, 0, atol=1e-5)
    new, metrics = jax.jit(tiny.train_of(experiment))(state)
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(metrics))
    assert tiny.mean(metrics, "policy_waits") == pytest.approx(1 / 3)
    assert tiny.mean(metrics, "loss/imitation") > 0
    # The reference stays where training began.
    for old, now in zip(
        jax.tree.leaves(state.carry["reference_penalty"]),
        jax.tree.leaves(new.carry["reference_penalty"]),
        strict=True,
    ):
        np.testing.assert_array_equal(old, now)


def of_turns(config):
    config.components.reference_penalty = section(reference_penalty, coefficient=BETA, per="turn")
    config.reward.reference_penalty = section(rewards.reference_penalty)
    config.advantage = section(advantages.grpo, normalize="mean")
    return build(config)


@pytest.mark.parametrize("make", [tiny.talk_config, tiny.groups_config])
def test_a_turn_pays_for_all_its_tokens(make):
    """In words, and over arrays, where a turn is one action."""
    changes = {"warm_start__updates": 0} if make is tiny.talk_config else {}
    experiment = of_turns(make(objective__kl__weight=0.0, **changes))
    state = away(jax.jit(experiment.init)(jnp.int32(0)), 1.2)
    found = jax.jit(experiment.batches)(state)["rollout"]
    rows, streams = found.rows, found.streams
    of_reference = log_probs(experiment.policy, state.carry["reference_penalty"], rows, None, 1)
    ratio = np.where(rows.loss_mask, np.asarray(rows.behaviour_logp) - of_reference, 0)
    expected = np.zeros(streams.mask.shape)
    np.add.at(
        expected,
        (np.asarray(rows.stream)[:, None] + 0 * ratio.astype(int), np.maximum(rows.turn, 0)),
        BETA * ratio,
    )
    np.testing.assert_allclose(found.notes["turn_penalty"].values, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.001


def test_a_penalty_that_nothing_reads_or_that_cannot_be_is_refused():
    config = words(per="turn")
    with pytest.raises(ValueError, match="reference_penalty is not used by anything"):
        build(config)
    config = tiny.groups_config()
    config.components.reference_penalty = section(reference_penalty)
    with pytest.raises(ValueError, match="'reference_penalty' needs a language policy"):
        build(config)
