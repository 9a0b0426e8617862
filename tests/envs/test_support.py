"""Support-v1 by hand: moods, asking, and what the distance pays."""

import jax
import numpy as np
import playing

from envs.support.env import ASK

KEY = jax.random.key(0)


def told(actions, need=1, **options):
    """(states, rewards) of these actions, from a distance of 6."""
    env, params, reset, _ = playing.functions("Support-v1")
    state = reset(KEY).replace(distance=np.int32(6), need=np.int32(need))
    params, states, rewards, step = params.replace(**options), [], [], playing.programs(env)[2]
    for action in actions:
        _, state, reward, *_ = step(KEY, state, np.int32(action), params)
        states.append(state)
        rewards.append(float(reward))
    return states, rewards


def test_the_reply_that_is_needed_helps():
    states, rewards = told([1], upset=0.0)
    assert rewards == [2.0] and int(states[-1].distance) == 4 and not bool(states[-1].known)
    states, rewards = told([0], upset=0.0)
    assert rewards == [0.0] and int(states[-1].distance) == 6


def test_asking_tells_the_mood_until_the_next_reply():
    states, rewards = told([ASK, ASK, 1], upset=0.0)
    assert rewards == [0.0, 0.0, 2.0]
    assert [bool(state.known) for state in states] == [True, True, False]
    assert [int(state.need) for state in states[:2]] == [1, 1]


def test_what_upsets_the_user_costs():
    states, rewards = told([1], upset=1.0)
    assert int(states[-1].distance) > 4 and rewards == [6.0 - int(states[-1].distance)]


def test_the_return_is_the_way_that_was_gone():
    env, params = playing.make("Support-v1")
    played = playing.episodes(env, params, 256, 10)
    first = np.asarray(played.state.distance)[:, 0]
    np.testing.assert_array_equal(first - played.last.distance, played.reward.sum(1))
    solved = np.mean(played.last.distance == 0)
    assert 0.5 < solved < 1.0, solved
