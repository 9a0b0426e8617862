"""Characters-v1: who is right with what, and that a character is the same among others."""

import jax
import numpy as np
import pytest

import envs
from envs.text import join


def test_what_is_right_for_one_is_wrong_for_another():
    env, params = envs.make("Characters-v1")
    answers = env.answers
    assert answers.shape == (6, 10)
    # Four of ten words have one answer; to the others no two characters give the same one.
    assert (answers[:, :4] == answers[0, :4]).all()
    assert all(len(set(column)) == 6 for column in answers[:, 4:].T)
    _, state = env.reset(jax.random.key(3), params)
    state = state.replace(question=np.int32(7))
    _, after, reward, over, info = env.step_env(
        jax.random.key(0), state, np.full(6, answers[2, 7]), params
    )
    np.testing.assert_array_equal(reward, np.arange(6) == 2)
    np.testing.assert_array_equal(info["success"], np.arange(6) == 2)
    assert over and env.render(after, params).endswith("right: cook")


def test_a_character_is_the_same_among_others_and_alone_when_asked():
    six, params = envs.make("Characters-v1")
    names = (*six.names, "queen")
    seven, _ = envs.make("Characters-v1", names=names, asked=(6,), named=False)
    np.testing.assert_array_equal(seven.answers[:6], six.answers)
    _, state = seven.reset(jax.random.key(0), params)
    assert np.asarray(seven.acting(state, params)).tolist() == [False] * 6 + [True]
    said = [join(seven.view.lexicon, seven.view.describe(state, params, a)) for a in (0, 6)]
    # It is not said whose the question is.
    assert said[0] == said[1] and said[0].startswith("you: ")


@pytest.mark.parametrize(
    "options", [{"names": ("poet",)}, {"words": 99}, {"asked": (6,)}, {"common": 2.0}]
)
def test_characters_that_there_are_not(options):
    with pytest.raises(ValueError, match="expected"):
        envs.make("Characters-v1", **options)
