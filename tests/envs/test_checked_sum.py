"""CheckedSum-v1: who is asked when, and what it is worth; in words and in a rollout's streams."""

import jax
import jax.numpy as jnp
import numpy as np

import envs
from agentrl import advantages, policies, rollout
from envs.checked_sum.env import SOLVER, VERIFIER
from envs.text import join

APPROVE, REJECT = 7, 8


def played(actions):
    """[(mover, rewards, terminated)] of 3 + 5 modulo 7, and the last state."""
    env, params = envs.make("CheckedSum-v1")
    _, state = env.reset(jax.random.key(0), params)
    state = state.replace(terms=jnp.array([3, 5]))
    told = []
    for action in actions:
        seat = int(env.mover(state, params))
        joint = jnp.full(2, action)
        _, state, reward, over, _ = env.step_env(jax.random.key(1), state, joint, params)
        told.append((seat, reward.tolist(), bool(over)))
    return told, state, env, params


def test_an_approved_answer_ends():
    told, *_ = played([1, APPROVE])
    assert told == [(0, [0, 0], False), (1, [1, 1], True)]
    told, *_ = played([2, APPROVE])
    assert told[-1] == (1, [0, 0], True)


def test_a_rejected_answer_is_given_again_and_not_checked():
    told, *_ = played([2, REJECT, 1])
    assert told == [(0, [0, 0], False), (1, [0, 0], False), (0, [1, 1], True)]
    # A right one that was rejected, and then a wrong one.
    assert played([1, REJECT, 4])[0][-1] == (0, [0, 0], True)


def test_an_agent_that_does_not_say_its_own_is_asked_again():
    told, state, *_ = played([APPROVE, 1, 3, REJECT])
    assert [seat for seat, *_ in told] == [0, 0, 1, 1] and int(state.tries) == 1


def test_words():
    _, state, env, params = played([2, REJECT])
    said = [join(env.view.lexicon, env.view.describe(state, params, a)) for a in range(2)]
    assert said == ["solve 3 + 5 not 2", "check 3 + 5 is 2"]


def test_a_call_that_was_not_made_is_in_no_stream_and_in_no_mean():
    """Rows are calls: an episode has one check, and a second answer where that rejected."""
    env, params = envs.make("CheckedSum-v1")
    made = policies.mlp(
        env.observation_shape, env.num_codes, env.num_actions, hidden=(8,), critic="none"
    )
    options = {"num_groups": 4, "group_size": 8, "mask_illegal": True}
    matches = rollout.episodes(made, env, params, **options)
    weights = made.init(jax.random.key(1))
    _, streams, rows, _ = jax.jit(matches.collect)(weights, None, jax.random.key(0))
    mask, role = np.asarray(streams.mask), np.asarray(streams.role)
    calls = mask.sum(axis=1)
    assert (calls[role == VERIFIER] == 1).all()
    again = calls[role == SOLVER] == 2
    assert 0 < again.sum() < 32 and (calls[role == SOLVER][~again] == 1).all()
    assert int(rows.loss_mask.sum()) == mask.sum() == 64 + again.sum()
    # Each call counts once in its agent's mean and deviation, two of an episode twice.
    found = np.asarray(jax.jit(advantages.dr_mas)(streams.reward, mask, streams.group, role))
    returns = np.where(mask, np.asarray(streams.reward), 0).sum(axis=1, keepdims=True)
    for group in np.unique(streams.group):
        for agent in (SOLVER, VERIFIER):
            own = mask & (np.asarray(streams.group) == group)[:, None] & (role == agent)[:, None]
            scores = np.broadcast_to(returns, mask.shape)[own]
            expected = (scores - scores.mean()) / (scores.std(ddof=1) + 1e-6)
            np.testing.assert_allclose(found[own], expected, atol=1e-4)
