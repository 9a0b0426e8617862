"""ToolFlow-v1: the loop by hand, what each module sees, the expert's success in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched
from scipy.stats import binom

import envs

KEY = jax.random.key(0)


def course_of(env, params, state, course):
    """The states after each action, legal or an error, and the reward of each."""
    step, legal, states, rewards = fetched(env.step_env), fetched(env.legal), [], []
    for i, name in enumerate(course):
        action = np.int32(env.action_names.index(name))
        assert legal(state, params)[action], (i, name)
        _, state, reward, _, info = step(jax.random.fold_in(KEY, i), state, action, params)
        assert np.all(info["valid"])
        states.append(state)
        rewards.append(reward.tolist())
    return states, rewards


def first(env, params):
    """The question of topics 0 and 5, of values 1 and 4: of the tools map and mail."""
    state = env.initial(KEY, params)
    topic = np.int32([0, 5, -1])
    return state.replace(topic=topic, value=np.int32([1, 4, 0]))


def test_the_loop_by_hand():
    env, params = envs.make("ToolFlow-v1", right=1.0, general=0.0, budget=4)
    state = first(env, params)
    course = ["use map", "look up boss", "go on", "use map", "look up aunt", "go on"]
    course += ["use mail", "look up aunt", "stop", "say 4"]
    states, rewards = course_of(env, params, state, course)
    assert [int(s.stage) for s in states] == [1, 2, 0, 1, 2, 0, 1, 2, 3, 3]
    assert [int(s.result) for s in states[1::3]] == [0, -1, 1]  # map has no aunts
    found = [s.found.tolist()[:2] for s in states]
    # Memory is written after the verifier's turn.
    assert found[1] == [False, False] and found[2] == [True, False] and found[8] == [True, True]
    assert rewards == [[0.0] * 4] * 9 + [[1.0] * 4]
    assert fetched(env.is_success)(states[-1], params).all()
    # An answer without all facts is wrong, whatever it says, and so is another value with them.
    early = ["use map", "look up boss", "stop", "say 4"]
    assert course_of(env, params, state, early)[1][-1] == [0.0] * 4
    assert course_of(env, params, state, [*course[:-1], "say 1"])[1][-1] == [0.0] * 4
    # After the last call the verifier's word does not count.
    spent = course_of(env, params, state, course[:6] + course[3:6] * 2)[0][-1]
    assert int(spent.stage) == 3
    legal = fetched(env.legal)(states[2], params)
    assert [env.action_names[a] for a in np.flatnonzero(legal)] == [
        f"use {name}" for name in ("map", "mail", "code", "shop", "wiki")
    ]


def test_modules_see_their_own_part():
    env, params = envs.make("ToolFlow-v1", right=1.0)
    blind, _ = envs.make("ToolFlow-v1", memory=False)
    course = ["use map", "look up boss", "go on"]
    states, _ = course_of(env, params, first(env, params), course)
    planned, called, verified = states
    seen = {name: fetched(name.observe)(verified, params) for name in (env, blind)}
    before = fetched(blind.observe)(called, params)
    size = 4 + 3 * env.topics
    memory = slice(size, size + 3 + 3 * env.values)
    assert seen[env][0, memory].sum() == 2 and seen[blind][0, memory].sum() == 0
    np.testing.assert_array_equal(seen[env][1:], seen[blind][1:])
    # The result is the verifier's, and that of a planner without memory; both read memory alone
    # for what came earlier.
    later = slice(memory.stop + env.tools, -1)
    assert [row.sum() for row in seen[env][:, later]] == [0, 0, 2, 0]
    assert [row.sum() for row in seen[blind][:, later]] == [2, 0, 2, 0]
    assert before[2, memory].sum() == 0 and before[2, later].sum() == 2
    tools = fetched(env.observe)(planned, params)[:, memory.stop : later.start]
    assert [row.sum() for row in tools] == [0, 1, 0, 0]
    told = [envs.text.join(env.view.lexicon, row) for row in texts(env, verified, params)]
    assert told[0] == "boss 1, aunt, | 4 left"


def texts(env, state, params):
    text = fetched(env.describe)(state, params)
    return [row[:length] for row, length in zip(text.fragments, text.length, strict=True)]


@pytest.mark.parametrize("right", [0.8, 0.5])
def test_the_expert_answers_as_often_as_the_closed_form(right):
    env, params = envs.make("ToolFlow-v1", right=right)

    def one(key):
        def turn(state, key):
            _, state, *_ = env.step_env(key, state, env.expert(state, params), params)
            return state, None

        keys = jax.random.split(key, params.max_steps_in_episode)
        return jax.lax.scan(turn, env.initial(key, params), keys)[0].correct

    mean = fetched(lambda keys: jnp.mean(jax.vmap(one)(keys)))(jax.random.split(KEY, 4096))
    expected = np.mean([1 - binom.cdf(n - 1, env.budget, right) for n in (2, 3)])
    assert abs(mean - expected) < 4 * np.sqrt(expected * (1 - expected) / 4096)
