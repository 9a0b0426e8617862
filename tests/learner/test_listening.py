"""Listening in the update: who teaches what, by how much, and what is said of wrong configs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny
from steps import stepper

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.learner.credit import Credit, Recipe, credit_of
from agentrl.learner.function import Function
from agentrl.learner.objective import Term
from agentrl.learner.update import Batch
from agentrl.streams import PerTurn, Rows, Streams

ROWS, ACTIONS, ANSWERS = 12, 3, 4
POLICY = policies.mlp((5,), None, ACTIONS, hidden=(6,), critic="none", answers=ANSWERS)
PARAMS = jax.jit(POLICY.init)(jax.random.key(0))
ANSWERED = POLICY.answers


def batch(seed=0):
    """Rows of one turn: 0 to 5 acted, 4 to 9 are asked, 10 and 11 are padding."""
    rng = np.random.default_rng(seed)
    number = np.arange(ROWS)
    acted, asked = (number < 6)[:, None], ((number >= 4) & (number < 10))[:, None]
    rows = Rows(
        tokens=rng.integers(0, ACTIONS, (ROWS, 1)),
        loss_mask=acted,
        stream=number,
        turn=np.zeros((ROWS, 1), np.int32),
        behaviour_logp=np.full((ROWS, 1), -np.log(ACTIONS), np.float32),
        observation=rng.normal(size=(ROWS, 1, 5)).astype(np.float32),
        asked=asked,
        answer=rng.integers(0, ANSWERS, (ROWS, 1)),
    )
    streams = Streams(reward=np.zeros((ROWS, 1), np.float32), mask=acted)
    advantage = np.where(acted, rng.normal(size=(ROWS, 1)), 0).astype(np.float32)
    return (
        streams,
        jax.tree.map(jnp.asarray, rows),
        Credit(PerTurn(advantage), np.ones(ROWS, bool), None, {}),
    )


@functools.cache
def updater(weight, microbatch=None):
    transform = optax.sgd(1.0)
    terms = {"policy": Term(Function(losses.reinforce, {}))}
    if weight:
        terms["listening"] = Term(Function(losses.listening_loss, {}), weight=weight)
    update = stepper(POLICY, transform, terms, microbatch=microbatch)

    def updated(params, batch):
        batches = {"rollout": Batch(*batch, notes={})}
        opt_state, key = transform.init(params), jax.random.key(1)
        return update(params, opt_state, batches, key)

    return jax.jit(updated)


def gradient(weight, given, microbatch=None):
    """What a step of rate 1 takes off the parameters, and the metrics."""
    after, _, metrics, finite = updater(weight, microbatch)(PARAMS, given)
    assert finite
    return jax.tree.map(lambda a, b: np.asarray(a - b), PARAMS, after), metrics


def leaves_close(ours, theirs, **bounds):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, **bounds), ours, theirs)


def test_the_loss_is_added_to_the_policys():
    given = streams, rows, credit = batch()
    alone, _ = gradient(0.0, given)
    ours, metrics = gradient(0.5, given)

    def listening(params):
        logits = ANSWERED(params, rows)[:, 0]
        error = optax.softmax_cross_entropy_with_integer_labels(logits, rows.answer[:, 0])
        return jnp.sum(jnp.where(rows.asked[:, 0], error, 0)) / 6

    error, slope = jax.jit(jax.value_and_grad(listening))(PARAMS)
    leaves_close(ours, jax.tree.map(lambda a, b: a + 0.5 * b, alone, slope))
    np.testing.assert_allclose(metrics["loss/listening"], [6 * error, 6], rtol=1e-5)
    right = np.argmax(ANSWERED(PARAMS, rows)[:, 0], -1) == rows.answer[:, 0]
    assert metrics["belief_accuracy"].tolist() == [np.sum(right[4:10]), 6]
    # Answers come from what actions are chosen from, which is how listening helps to act.
    for module in (slope["answers"], slope["_Mlp_0"]["Dense_0"]):
        assert np.abs(module["kernel"]).max() > 0
    assert np.abs(slope["Dense_0"]["kernel"]).max() == 0


def test_without_a_coefficient_beliefs_change_nothing():
    streams, rows, credit = batch()
    ours, metrics = gradient(0.0, (streams, rows, credit))
    assert "loss/listening" not in metrics
    theirs, _ = gradient(0.0, (streams, rows.replace(asked=None, answer=None), credit))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert np.abs(ours["answers"]["kernel"]).max() == 0


def test_only_who_is_asked_teaches():
    streams, rows, credit = batch()
    ours, _ = gradient(0.5, (streams, rows, credit))
    other = rows.replace(answer=jnp.where(rows.asked, rows.answer, (rows.answer + 1) % ANSWERS))
    theirs, _ = gradient(0.5, (streams, other, credit))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    # Nor does padding, whatever stands there.
    seen = jnp.where((rows.asked | rows.loss_mask)[..., None], rows.observation, 1e3)
    theirs, _ = gradient(0.5, (streams, rows.replace(observation=seen), credit))
    leaves_close(ours, theirs)


def test_in_parts_as_in_one():
    """Rows that are asked and have not acted are not left out."""
    given = batch()
    leaves_close(gradient(0.5, given)[0], gradient(0.5, given, microbatch=3)[0])


def test_speaking_is_a_reward_of_the_turn():
    speaking = Function(rewards.persuasion_reward, {"coefficient": 2.0})
    recipe = Recipe(Function(advantages.rloo, {}), {"speaking": speaking})
    # Two streams of a group: returns 1 + 2 (0.25) and 0 - 2 (0.5), of which the mask hides 9.
    streams = Streams(
        reward=jnp.array([[0.0, 1.0], [0.0, 0.0]]),
        mask=jnp.array([[True, True], [True, False]]),
        group=jnp.zeros(2, jnp.int32),
        persuasion=jnp.array([[0.25, 0.0], [-0.5, 9.0]]),
    )
    np.testing.assert_allclose(
        credit_of(recipe, streams, None, {}).advantage.values, [[2.5, 2.5], [-2.5, 0.0]]
    )


def social_config():
    config = tiny.matches_config()
    config.env = env_section("SocialDeduction-v1", players=4, max_steps_in_episode=8)
    config.policy = section(policies.mlp, hidden=(8,), critic="none", answers=4)
    config.rollout = section(
        rollout.episodes, num_groups=8, listeners="all", group_size=1, mask_illegal=True
    )
    config.pool.update(capacity=0, every=10)
    config.reward.persuasion_reward = section(rewards.persuasion_reward)
    config.objective.listening = term(losses.listening_loss, weight=0.3)
    return config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective__listening__weight": 0.0}, "answers=4 is not trained: add"),
        (
            {"policy__answers": 0, "rollout__listeners": "none", "reward": {}},
            "config.objective.listening .*reads 'answer_logits'.*config.policy.answers",
        ),
        (
            {"rollout__listeners": "none"},
            "config.reward.persuasion_reward needs 'persuasion'.*rollout.listeners",
        ),
        ({"reward": {}}, "config.rollout.listeners is not used by anything: set config.reward"),
        ({"evaluation__side": "cr"}, "side='cr' with SocialDeduction, whose sides are crew"),
        ({"evaluation__opponent": "exprt"}, "there is no player 'exprt'"),
    ],
)
def test_errors(changes, message):
    config = tiny.changed(social_config(), changes)
    with pytest.raises(ValueError, match=message):
        build(config)
