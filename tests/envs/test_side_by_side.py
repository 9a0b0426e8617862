"""Drafts side by side: episodes by hand, which draft is played, what is seen, and words."""

import functools

import jax
import numpy as np
import pytest
from programs import fetched

import envs
from envs.text import join

KEY = jax.random.key(0)
WRAPPER, TRANSCRIPT = "envs.wrappers.SideBySide", "envs.wrappers.OneTranscript"


@functools.cache
def called(env, method):
    """A method of an environment, compiled once."""
    return fetched(getattr(env, method))


def team(**options):
    """Drafts of a solver and a verifier, who are asked for the largest of 3, 5 and 1."""
    game = {"name": "CheckedSum-v1", "question": "largest", "terms": 3, "max_steps_in_episode": 40}
    env, params = envs.make(WRAPPER, base={"name": TRANSCRIPT, "base": game}, **options)
    state = env.reset(KEY, params)[1]
    inner = state.base.base.replace(terms=np.array([3, 5, 1], np.int32))
    return env, params, state.replace(base=state.base.replace(base=inner))


def walk(said, **options):
    """(env, params, states, (reward, legal, over) of each reply)."""
    env, params, state = team(**options)
    states, told = [state], []
    for word in said:
        action = np.int32(env.action_names.index(word) if word in env.action_names else -1)
        _, state, reward, over, info = called(env, "step_env")(KEY, states[-1], action, params)
        states.append(state)
        told.append((float(reward), bool(info["valid"]), bool(over)))
    return env, params, states, told


def drafts(env, params, state):
    return [(d.writer, d.text, d.went_on) for d in env.drafts_of(state, params)]


def test_the_commonest_of_the_drafts_is_played():
    """Twice a wrong answer; then a rejection by two of three; of three different ones the first."""
    said = ["say 3", "say 5", "say 3", "reject", "approve", "reject", "say 5", "say 2", "say 1"]
    env, params, states, told = walk(said)
    assert told == [(0.0, True, False)] * 8 + [(1.0, True, True)]
    assert [int(env.speaker(s, params)) for s in states[:-1]] == [0] * 3 + [1] * 3 + [0] * 3
    assert drafts(env, params, states[3]) == [
        ("draft 1", "say 3", True), ("draft 2", "say 5", False), ("draft 3", "say 3", False),
    ]  # fmt: skip
    shown = [i for i, s in enumerate(states) if env.drafts_of(s, params)]
    assert shown == [3, 6, 9] and drafts(env, params, states[9])[0] == ("draft 1", "say 5", True)
    assert int(states[3].base.base.answer) == 3 and int(states[9].base.base.answer) == 5
    assert bool(called(env, "is_success")(states[9], params))
    # What the episode's end says is known of what was played, and of nothing else.
    assert [d.right for d in env.drafts_of(states[3], params)] == [None] * 3
    assert [d.right for d in env.drafts_of(states[9], params)] == [True, None, None]


def test_ties_are_the_first_ones():
    env, _, _ = team(drafts=4)
    for written, first in (([4, 2, 2, 4], 0), ([4, 2, 2, 3], 1), ([1, 2, 3, 0], 0)):
        assert int(env.chosen(np.array(written))) == first
    env, _, _ = team(drafts=4, select="first")
    assert int(env.chosen(np.array([4, 2, 2, 2]))) == 0


def test_a_selector_takes_one():
    said = ["say 3", "take 1", "say 5", "zzz", "say 3", "say 4", "take 2"]
    said += ["approve", "reject", "reject", "take 1"]
    env, params, states, told = walk(said, select="selector")
    # No draft is taken before all are written, and none is written after them.
    legal = [True, False, True, False, True, False] + [True] * 5
    assert [x for _, x, _ in told] == legal
    assert [int(env.speaker(s, params)) for s in states[:-1]] == [0] * 5 + [2, 2] + [1] * 3 + [2]
    assert told[-1] == (1.0, True, True) and int(states[7].base.base.answer) == 5
    assert [i for i, s in enumerate(states) if env.drafts_of(s, params)] == [7, 11]
    assert drafts(env, params, states[7])[1] == ("draft 2", "say 5", True)
    # The limit counts every turn.
    assert [int(s.time) for s in states] == list(range(12))
    assert not bool(called(env, "is_truncated")(states[-1], params))


def test_what_is_seen():
    """Behind the team's own: drafts one-hot among nine actions, which are there, whose turn."""
    for options, seen in (
        ({}, [(), (), ()]),
        ({"sees": True}, [(), (3,), (3, 5)]),
        ({"select": "selector"}, [(), (), (), (3, 5, 3)]),
    ):
        env, params, states, _ = walk(["say 3", "say 5", "say 3"], **options)
        own = env.base.observation_shape[0]
        for state, answers in zip(states, seen, strict=False):
            told = called(env, "observe")(state, params)[own:]
            assert told.shape == (3 * 9 + 3 + 1,)
            places = np.argwhere(told[:27].reshape(3, 9)).tolist()
            assert places == [[i, n] for i, n in enumerate(answers)]
            there = len(answers) if env.sees else 0
            np.testing.assert_array_equal(told[27:30], np.arange(3) < there)
            assert told[30] == (len(answers) == 3)
            text = join(env.view.lexicon, called(env, "describe")(state, params).fragments)
            lines = text.split("\n")
            listed = [f"draft {i + 1}: say {n}" for i, n in enumerate(answers)]
            asked = ["take one"] if len(answers) == 3 else []
            assert lines == ["solve 3 + 5 + 1", *listed, *asked]


def test_anchors_tell_drafts_apart_where_the_future_does():
    for options, of, same in (
        ({}, "observation", True), ({}, "state", False), ({"sees": True}, "observation", False),
    ):  # fmt: skip
        env, params, states, _ = walk(["say 3"], **options)
        one, other = (np.asarray(env.fingerprint(s, params, of=of)) for s in states)
        assert np.array_equal(one, other) == same


def test_each_draft_may_have_a_role():
    base = {"name": "Coin-v1"}
    env, params = envs.make(WRAPPER, base=base, select="selector", apart=True, drafts=2)
    state, step = env.reset(KEY, params)[1], called(env, "step_env")
    roles = []
    for _ in range(4):
        roles.append(int(env.speaker(state, params)))
        state = step(KEY, state, env.expert(state, params), params)[1]
    assert env.speakers == 3 and roles == [0, 1, 2, 0]


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="drafts=0"):
        envs.make(WRAPPER, base={"name": "Coin-v1"}, drafts=0)
    with pytest.raises(ValueError, match="one of first, majority, selector"):
        envs.make(WRAPPER, base={"name": "Coin-v1"}, select="best")
    with pytest.raises(ValueError, match="observation is floats"):
        envs.make(WRAPPER, base={"name": "NumberLine-v1"})
    with pytest.raises(ValueError, match="has 2 roles already"):
        team(apart=True)
    with pytest.raises(ValueError, match="with one agent"):
        envs.make(WRAPPER, base={"name": "CheckedSum-v1"})
