"""Belief questions in words: their rows, and what is believed, by hand."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies
from agentrl.policies.codec import tokens_of
from agentrl.rollout.bound_text import bind_text
from agentrl.rollout.questions import Asked, Questions
from agentrl.streams import ACTION, OBSERVATION, Rows

# Two steps of one match of two agents; a question of two tokens, answers 21 and (22, 23).
ASKED = np.array([[[True, False]], [[True, True]]])
PROMPT = np.array([[[[5, 6, 0], [0, 0, 0]]], [[[7, 0, 0], [8, 9, 10]]]])
LENGTH = np.array([[[2, 0]], [[1, 3]]])
TOLD = Asked(ASKED, PROMPT, LENGTH, np.array([[0], [1]]))
LIKE = Rows(np.zeros((1, 7), int), np.zeros((1, 7), bool), np.zeros(1, int), None, None)


class Halves:
    """A policy that gives each token the probability 1 / token."""

    def score(self, params, rows, needed):
        return types.SimpleNamespace(logp=-jnp.log(jnp.maximum(rows.tokens, 1)))


def questions(most):
    answers = np.array([[21, -1], [22, 23]])
    return Questions(Halves(), None, (0, 1), np.array([11, 12]), answers, most)


def test_rows_hold_the_prompt_the_question_and_the_true_answer():
    rows, place = questions(4).rows(TOLD, np.ones((1, 2), bool), LIKE)
    np.testing.assert_array_equal(place, [[0, 2, 3, 1]])
    expected = [
        [5, 6, 11, 12, 21, 0, 0],
        [7, 11, 12, 22, 23, 0, 0],
        [8, 9, 10, 11, 12, 22, 23],
        [0] * 7,
    ]
    np.testing.assert_array_equal(rows.tokens, expected)
    np.testing.assert_array_equal(rows.asked, np.array(expected) > 20)
    np.testing.assert_array_equal(rows.answer, np.where(np.array(expected) > 20, expected, 0))
    np.testing.assert_array_equal(rows.stream, [0, 0, 1, 1])
    assert not rows.loss_mask.any()
    assert rows.span[0].tolist() == [OBSERVATION] * 4 + [ACTION, -1, -1]


def test_beliefs_are_probabilities_of_whole_answers():
    asking = questions(2)
    rows, place = asking.rows(TOLD, np.ones((1, 2), bool), LIKE)
    asked, belief = asking.beliefs(None, rows, place, TOLD)
    # The third question is one too many.
    np.testing.assert_array_equal(asked, [[[True, False]], [[True, False]]])
    np.testing.assert_allclose(belief, [[[1 / 21, 0]], [[1 / (22 * 23), 0]]], rtol=1e-6)
    rows, _ = asking.rows(TOLD, np.array([[False, True]]), LIKE)
    assert rows.asked.any(axis=1).tolist() == [True, False]


def test_what_cannot_be_asked_is_refused():
    from agentrl.actors.contexts import window

    def bound(name="SocialDeduction-v1", words=(), reply=None, **options):
        env, params = envs.make(name)
        policy = policies.transformer(env.view, width=8, layers=1, heads=1, kv_heads=1, words=words)
        context = window(max_new_tokens=reply)
        return bind_text(policy, env, params, context, 3, questions=4, **options), policy

    names = ("imposter", "red", "blue", "green", "pink", "white")
    found, policy = bound(words=names, question="imposter")
    assert tokens_of(policy.codec, "red") == tuple(found.questions.answers[0])
    with pytest.raises(ValueError, match=r"config\.policy\.words"):
        bound(question="imposter")
    with pytest.raises(ValueError, match=r"max_new_tokens=2"):
        bound(words=names, question="imposter", reply=1)
    with pytest.raises(ValueError, match=r"asks for no beliefs"):
        bound("TicTacToe-v1", words=("who",), question="who")
    with pytest.raises(ValueError, match=r"set config\.rollout\.question"):
        bound(listeners="all")
