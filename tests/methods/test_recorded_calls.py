"""Calls of a program as rows: the worked example, what merging leaves, and learning from them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from steps import stepper
from tiny import talk_config

from agentrl import advantages, losses
from agentrl.config.build import build
from agentrl.learner.credit import Recipe, credit_of
from agentrl.learner.function import Function
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import optimizer
from agentrl.learner.update import Batch
from agentrl.methods.calls import (
    Call,
    Recorder,
    Session,
    make_sampler,
    merged,
    rows_of_calls,
)
from agentrl.streams import PerTurn

SIZES = {"calls": 3, "rows": 6, "row_tokens": 8}


def call(prompt, reply, role=0):
    return Call(tuple(prompt), tuple(reply), tuple(-0.1 * token for token in reply), role)


def example():
    """The second call continues the first, the third does not."""
    return [call([1, 2], [3, 4]), call([1, 2, 3, 4, 9, 9], [5]), call([1, 2, 7], [8])]


def test_calls_that_continue_share_a_row():
    assert merged(example()) == [[0, 1], [2]] and merged(example(), merge=False) == [[0], [1], [2]]
    # One token that differs, or another role, begins a row.
    other = [call([1, 2], [3, 4]), call([1, 2, 3, 6, 9], [5])]
    assert merged(other) == [[0], [1]]
    assert merged([example()[0], example()[1]._replace(role=1)]) == [[0], [1]]
    streams, rows = rows_of_calls([Session(example(), 2.0, 4)], **SIZES)
    np.testing.assert_array_equal(rows.tokens[0], [1, 2, 3, 4, 9, 9, 5, 0])
    np.testing.assert_array_equal(rows.loss_mask[0], [0, 0, 1, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(rows.turn[0], [0, 0, 0, 0, 1, 1, 1, -1])
    np.testing.assert_array_equal(rows.tokens[1], [1, 2, 7, 8, 0, 0, 0, 0])
    np.testing.assert_array_equal(rows.turn[1], [2, 2, 2, 2, -1, -1, -1, -1])
    np.testing.assert_allclose(rows.behaviour_logp[0], [0, 0, -0.3, -0.4, 0, 0, -0.5, 0])
    assert not rows.loss_mask[2:].any()
    np.testing.assert_array_equal(streams.reward, [[0, 0, 2]])
    np.testing.assert_array_equal(streams.terminated, [[0, 0, 1]])
    np.testing.assert_array_equal(streams.cost, [[2, 1, 1]])
    assert streams.group == 4


def test_weights_of_the_worked_example():
    """Rollout a has rows of 3 and 1 tokens and advantage 1, b one of 2 tokens and -1: thirds."""
    b = [call([6], [7, 8])]
    streams, rows = rows_of_calls([Session(example(), 1.0, 0), Session(b, 0.0, 0)], **SIZES)
    advantage = PerTurn(jnp.where(streams.mask, jnp.array([[1.0], [-1.0]]), 0.0))
    weight = advantages.per_rollout_mean(
        advantage, rows.loss_mask, rows.stream, rows.turn, streams.episode
    )
    np.testing.assert_allclose(weight[rows.loss_mask], [1 / 12] * 4 + [-1 / 6] * 2, rtol=1e-6)
    # However calls are merged, sessions keep their weight beside each other.
    _, split = rows_of_calls([Session(example(), 1.0, 0), Session(b, 0.0, 0)], **SIZES, merge=False)
    apart = advantages.per_rollout_mean(
        advantage, split.loss_mask, split.stream, split.turn, streams.episode
    )
    np.testing.assert_allclose(apart[split.loss_mask] * 4 / 3, weight[rows.loss_mask], rtol=1e-6)


def test_only_chosen_roles_are_trained_and_the_last_of_them_is_rewarded():
    calls = [example()[0], call([1], [2], role=1)]
    streams, rows = rows_of_calls([Session(calls, 1.0, 0)], **SIZES, roles={0})
    np.testing.assert_array_equal(streams.mask, [[True, False, False]])
    np.testing.assert_array_equal(streams.reward, [[1, 0, 0]])
    assert rows.loss_mask.sum() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "raise rows=1"),
        ({"calls": 2}, "raise calls=2"),
        ({"row_tokens": 6}, "7 tokens"),
    ],
)
def test_nothing_is_cut(change, message):
    with pytest.raises(ValueError, match=message):
        rows_of_calls([Session(example(), 1.0, 0)], **SIZES | change)


@functools.cache
def tiny():
    policy = build(talk_config(warm_start__updates=0)).policy
    return policy, policy.init(jax.random.key(0)), make_sampler(policy, length=12, max_new_tokens=3)


WANTED = 5


def program(model):
    """A router that nobody trains, a writer, and its second try behind the first."""
    model([7, 8], role=1)
    first = model([4, 6])
    second = model([4, 6, *first, 9])
    return float(second[0] == WANTED) + 0.5 * float(first[0] == WANTED)


def collected(params, key, groups=4, size=8):
    _, _, sample = tiny()
    sessions = []
    for number in range(groups * size):
        recorder = Recorder(functools.partial(sample, params), jax.random.fold_in(key, number))
        reward = program(recorder)
        sessions.append(Session(recorder.calls, reward, number // size))
    sizes = {"calls": 3, "rows": 2 * groups * size, "row_tokens": 12}
    return rows_of_calls(sessions, **sizes, roles={0})


def test_a_programs_calls_are_scored_as_sampled_and_the_program_gets_better():
    policy, params, _ = tiny()
    streams, rows = collected(params, jax.random.key(1))
    logp = jnp.where(rows.loss_mask, policy.score(params, rows, rows.loss_mask).logp, 0)
    np.testing.assert_allclose(logp, rows.behaviour_logp, atol=1e-5)
    recipe = Recipe(Function(advantages.grpo, {}))
    transform = optimizer(100, learning_rate=0.02)
    terms = {"policy": Term(Function(losses.clipped_surrogate, {}))}
    update = stepper(policy, transform, terms)

    @jax.jit
    def learn(params, opt_state, streams, rows, key):
        batches = {"rollout": Batch(streams, rows, credit_of(recipe, streams, rows, {}), {})}
        return update(params, opt_state, batches, key)[:2]

    opt_state, returns = transform.init(params), []
    for step in range(30):
        streams, rows = collected(params, jax.random.key(2 + step))
        returns.append(float(streams.reward.sum() / streams.mask.shape[0]))
        params, opt_state = learn(params, opt_state, streams, rows, jax.random.key(step))
    assert np.mean(returns[-3:]) > np.mean(returns[:3]) + 0.5


def test_a_prompt_without_room_and_a_policy_that_cuts_are_refused():
    policy, params, sample = tiny()
    with pytest.raises(ValueError, match="do not fit in length=12"):
        sample(params, np.arange(1, 11), jax.random.key(0))
    with pytest.raises(ValueError, match="cuts tokens"):
        make_sampler(policy._replace(constrained=True), length=12, max_new_tokens=3)
