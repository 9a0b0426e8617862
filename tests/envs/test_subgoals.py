"""Subgoals in the agent's own replies, against the environment without them."""

import functools

import chex
import jax
import numpy as np
import playing
import pytest
from programs import fetched

import envs
from envs.text import join

KEY = jax.random.key(0)
NAME = "envs.wrappers.Subgoals"
DOORS = {"name": "KeyDoor-v1", "rooms": 2, "keys": 2, "width": 3}
LEFT, RIGHT, TAKE, OPEN = range(4)
KEEP, RED, GREEN, DOOR = range(4)


@functools.cache
def made(base="KeyDoor-v1"):
    return envs.make(NAME, base=DOORS if base == "KeyDoor-v1" else {"name": base})


@functools.cache
def called(method):
    return fetched(getattr(made()[0], method))


def walk(state, choices, params=None):
    """(what each (choice, action) gave: legal, subgoal after it; the last state)."""
    env, own = made()
    told = []
    for choice, action in choices:
        number = np.int32(choice * 4 + action)
        legal = bool(called("is_legal")(state, number, params or own))
        _, state, _, _, info = called("step_env")(KEY, state, number, params or own)
        assert legal == bool(info["valid"])
        told.append((legal, int(state.subgoal)))
    return told, state


def test_a_reply_sets_or_keeps_a_subgoal_and_acts():
    env, params = made()
    state = called("initial")(KEY, params)
    told, after = walk(state, [(KEEP, RIGHT), (DOOR, RIGHT), (RED, RIGHT), (KEEP, RIGHT)])
    # There is nothing to keep at first, and with empty hands the door is no subgoal.
    assert told == [(False, -1), (False, -1), (True, 0), (True, 0)]
    assert int(after.base.chain.cell) == 2 and int(after.time) == 4
    # Where the action is not legal, the subgoal is not set either.
    told, after = walk(after, [(GREEN, RIGHT), (GREEN, LEFT)])
    assert told == [(False, 0), (True, 1)] and int(after.base.chain.cell) == 1
    seen = called("observe")(after, params)
    np.testing.assert_array_equal(seen[-3:], [0, 1, 0])
    np.testing.assert_array_equal(seen[:-3], fetched(env.base.observe)(after.base, params.base))


def test_legal_actions_are_those_of_the_environment_under_each_choice():
    env, params = made()
    for seed in range(4):
        state = playing.starts(env, params, 1, seed)
        state = jax.tree.map(lambda x: x[0], state)
        for subgoal in (-1, 2):
            state = state.replace(subgoal=np.int32(subgoal))
            legal = called("legal")(state, params)
            acts = fetched(env.base.legal)(state.base, params.base)
            free = ~np.asarray(fetched(env.base.reached)(state.base, params.base))
            np.testing.assert_array_equal(legal, np.outer([subgoal >= 0, *free], acts).reshape(-1))
            one = [bool(called("is_legal")(state, np.int32(i), params)) for i in range(-1, 17)]
            assert one == [False, *legal, False]


@pytest.mark.parametrize("base", ["KeyDoor-v1", "Household-v1"])
def test_the_expert_switches_when_its_subgoal_is_reached(base):
    env, params = made(base)
    reached = playing.method(env, "reached")
    told = playing.episodes(env, params, 4, 40 if base == "Household-v1" else 9)
    assert told.info["success"].any(axis=1).all() and (told.info["valid"] | told.over).all()
    switches = 0
    for episode, step in zip(*np.nonzero(~told.over), strict=True):
        state = jax.tree.map(lambda x, at=(episode, step): x[at], told.state)
        choice = int(told.action[episode, step]) // env.base.num_actions
        held = int(state.subgoal)
        again = held < 0 or bool(reached(state, params)[held])
        switches += choice > 0
        if base == "KeyDoor-v1":
            assert (choice > 0) == again
        # Household's may go back to an earlier one.
        assert choice > 0 or not again
        assert choice == 0 or not reached(state, params)[choice - 1]
    if base == "KeyDoor-v1":
        # A key and the door, in each of two rooms.
        assert switches == 4 * 4


def test_nothing_but_what_is_seen_depends_on_the_subgoal():
    env, params = made()
    told = playing.episodes(env, params, 8, 8, functools.partial(playing.at_random, env, params))
    step = fetched(env.base.step_env)
    for episode in range(4):
        for at in range(8):
            state, after = (
                jax.tree.map(lambda x, i=(episode, at): x[i], x) for x in (told.state, told.after)
            )
            own = np.int32(told.action[episode, at] % 4)
            _, base, reward, *_ = step(KEY, state.base, own, params.base)
            chex.assert_trees_all_equal(after.base, base)
            assert reward == told.reward[episode, at]
    state = called("initial")(KEY, params)
    for of in ("observation", "state"):
        fingerprint = playing.method(env, "fingerprint", of=of)
        pair = [np.asarray(fingerprint(state.replace(subgoal=i), params)) for i in (0, 1)]
        assert not np.array_equal(*pair)


def test_in_words_the_parts_of_a_reply_have_tags():
    env, params = made()
    state = called("initial")(KEY, params)
    plain = join(env.view.lexicon, fetched(env.base.describe)(state.base, params.base).fragments)
    read = lambda s: join(env.view.lexicon, called("describe")(s, params).fragments)  # noqa: E731
    assert read(state) == plain
    assert read(state.replace(subgoal=np.int32(2))) == f"subgoal: door\n{plain}"
    texts = playing.assert_commands_are_understood(NAME)
    assert texts[1] == "<switch>keep</switch>right"
    assert texts[4] == "<switch>switch</switch><subgoal>red key</subgoal>left"
    assert env.action_names[1] == "keep: right" and env.action_names[4] == "red key: left"
    assert "subgoal: none" in env.render(state, params)


@pytest.mark.parametrize("base", ["Coin-v1", "Shop-v1"])
def test_an_environment_without_subgoals_is_refused(base):
    with pytest.raises(ValueError, match="expected an environment with subgoals"):
        envs.make(NAME, base={"name": base})
