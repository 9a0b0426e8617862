"""Video-v1: a video by hand, what looks show, what an answer pays."""

import jax
import numpy as np
import pytest

import envs
from envs.text import join

KEY = jax.random.key(0)


def start(**options):
    """Red at 2 to 7 with a 3 in frame 6, green at 34 to 39 with a 1 in frame 35; red is asked."""
    env, params = envs.make("Video-v1", scenes=2, **options)
    state = env.initial(KEY, params)
    return (
        env,
        params,
        state.replace(
            start=np.array([2, 34], np.int32),
            place=np.array([6, 35], np.int32),
            digit=np.array([3, 1], np.int32),
            asked=np.int32(0),
        ),
    )


def told(env, params, state):
    return join(env.view.lexicon, env.view.describe(state, params))


def take(env, params, state, name):
    action = np.int32(env.action_names.index(name))
    _, state, reward, over, info = env.step_env(KEY, state, action, params)
    return state, float(reward), bool(over), bool(info["success"])


def test_what_looks_show():
    env, params, state = start()
    assert told(env, params, state) == "which digit is red? all: 4 red, 36 green,"
    state, *rest = take(env, params, state, "look 0 to 7")
    assert rest == [0.0, False, False]
    close = " 2 red, 3 red, 4 red, 5 red, 6 red 3, 7 red,"
    assert told(env, params, state).endswith(f" last:{close}")
    state, *_ = take(env, params, state, "look 0 to 15")
    assert told(env, params, state).endswith(" last: 2 red, 4 red, 6 red 3,")
    state, *_ = take(env, params, state, "look 32 to 63")
    assert told(env, params, state).endswith(" last: 36 green,")


@pytest.mark.parametrize(
    ("commands", "paid", "success"),
    [
        (["answer 3"], 1.0, True),
        (["look 0 to 7", "answer 3"], 0.9, True),
        (["look 0 to 7", "look 0 to 7", "answer 3"], 0.8, True),
        (["look 0 to 7", "answer 1"], 0.0, False),
        (["look 0 to 7"] * 4, 0.0, False),
    ],
)
def test_what_an_answer_pays(commands, paid, success):
    env, params, state = start()
    for command in commands:
        state, reward, over, right = take(env, params, state, command)
        assert over == (command is commands[-1] and command.startswith("answer")) or right is False
    assert reward == pytest.approx(paid) and right == success and over
    # The last turn is an end by the rules, so nothing is bootstrapped behind it.
    assert bool(env.is_terminated(state, params))


@pytest.mark.parametrize("frames", [32, 64])
def test_digits_are_hidden_in_the_first_look_and_scenes_are_not(frames):
    env, params = envs.make("Video-v1", frames=frames)
    keys = jax.random.split(KEY, 64)
    states = jax.vmap(env.initial, in_axes=(0, None))(keys, params)
    first = np.asarray(env.frames_shown(np.int32(-1)))
    assert first.sum() == 16
    relevant = np.asarray(jax.vmap(env.relevant_frames, in_axes=(0, None))(states, params))
    assert (relevant.sum(axis=1) == 6).all()
    assert (relevant & first).any(axis=1).all()
    assert not first[np.asarray(states.place)].any()
    shown = np.asarray(env.frames_shown(np.arange(env.num_actions)))
    assert (shown[: len(env.looks)].sum(axis=1) == 8).all() and not shown[len(env.looks) :].any()
