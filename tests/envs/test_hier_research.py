"""HierResearch-v1: evidence with and without the refiner, F1 by hand and in closed form; tools."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of
from programs import fetched

import envs
from agentrl.methods.tools_used import tools_used
from agentrl.streams import Rows, Streams

KEY = jax.random.key(0)


def played(env, params, topics, course):
    """The states after each action of a question of these topics, and the rewards."""
    step, legal = fetched(env.step_env), fetched(env.legal)
    state = env.initial(KEY, params)
    topic = np.int32([*topics, *[-1] * (env.facts[1] - len(topics))])
    state = state.replace(question=state.question.replace(topic=topic))
    states, rewards = [], []
    for i, name in enumerate(course):
        action = np.int32(env.action_names.index(name))
        assert legal(state, params)[action], (i, name)
        _, state, reward, _, info = step(jax.random.fold_in(KEY, i), state, action, params)
        assert np.all(info["valid"])
        states.append(state)
        rewards.append(float(reward[0]))
    return states, rewards


@pytest.mark.parametrize("refined", [True, False])
def test_evidence_that_does_not_support_the_question(refined):
    """Topic 0 is in the first local source, topic 3 in the second of the web."""
    env, params = envs.make("HierResearch-v1", refined=refined, right=1.0, lures=1.0)
    course = ["ask local", "open local 2", "report local"]
    states, _ = played(env, params, (0, 3), course)
    assert [int(fetched(env.mover)(s, params)) for s in states] == [1, 1, 0]
    assert bool(states[1].holds) and bool(states[1].lured) and not np.any(states[2].question.found)
    seen = fetched(env.observe)(states[2], params)[0]
    last = env.facts[1] * (env.topics + 1)
    assert seen[last - env.facts[1]] == (not refined)
    assert seen[last : last + 3].tolist() == ([0, 0, 1] if refined else [0, 1, 0])
    # The planner goes on to the next fact, or asks again for this one; F1 of what it lists.
    rest = ["ask web", "open web 2", "report web"] if not refined else course
    rest = [*rest, "answer"] if not refined else ["ask local", "open local 1", "report local"]
    rest = [*course, *rest, *(["answer"] if refined else [])]
    states, rewards = played(env, params, (0, 3), rest)
    # Of 2 facts, 1 true is listed: 2 / (1 + 2); or 1 true and 1 false: 2 / (2 + 2).
    np.testing.assert_allclose(rewards[-1], 2 / 3 if refined else 0.5, rtol=1e-6)
    assert not bool(states[-1].question.correct)
    # What is true replaces what only looks like it.
    both = played(env, params, (0,), ["ask local", "open local 2", "open local 1"])[0][-1]
    assert bool(both.holds) and not bool(both.lured)


def expected(right, lures, refined, facts, calls):
    """(chance of all facts, mean F1) of the expert: a call opens twice what is opened once in vain,
    and reports."""
    blank = (1 - right) * (1 - lures)
    true, false = right * (1 + blank), (1 - right) * lures * (1 + blank)
    if refined:
        true, false = true, 0.0

    @functools.cache
    def after(found, claimed, left):
        if found + claimed == facts or not left:
            f1 = 2 * found / (found + claimed + facts)
            return np.array([found == facts, f1])
        return (
            true * after(found + 1, claimed, left - 1)
            + false * after(found, claimed + 1, left - 1)
            + (1 - true - false) * after(found, claimed, left - 1)
        )

    return after(0, 0, calls)


@pytest.mark.parametrize("refined", [True, False])
def test_the_expert_is_as_good_as_the_closed_form(refined):
    env, params = envs.make("HierResearch-v1", refined=refined, right=0.6, lures=0.5, facts=(2, 2))

    def one(key):
        def turn(state, key):
            _, state, reward, *_ = env.step_env(key, state, env.expert(state, params), params)
            return state, reward[0]

        keys = jax.random.split(key, params.max_steps_in_episode)
        state, rewards = jax.lax.scan(turn, env.initial(key, params), keys)
        return jnp.stack([state.question.correct * 1.0, jnp.sum(rewards)])

    values = fetched(jax.vmap(one))(jax.random.split(KEY, 4096))
    error = values.std(axis=0) / 64
    assert np.all(abs(values.mean(axis=0) - expected(0.6, 0.5, refined, 2, 6)) < 4 * error)


@pytest.mark.parametrize("name", ["Research-v1", "HierResearch-v1", "SoloResearch-v1"])
def test_the_tools_that_turns_used(name):
    """A planner asks both and answers; an agent opens a source twice and another one, and reports;
    and one whose last turn is padding."""
    env, params = envs.make(name)
    names = env.action_names
    solo = env.num_agents == 1
    opens = ["open local 1", "open local 1", "open local 3", "report local"]
    if name == "Research-v1":
        opens = ["open 1", "open 1", "open 3", "report"]
    courses = [["ask web", "ask both", "answer"], opens, [opens[0], opens[2]]]
    if solo:
        courses = [["open local 1", "open web 2", "answer"], [*opens[:3], "answer"], opens[1:3]]
    actions = np.zeros((3, 4), np.int32)
    mask = np.zeros((3, 4), bool)
    for i, course in enumerate(courses):
        actions[i, : len(course)] = [names.index(action) for action in course]
        mask[i, : len(course)] = True
    actions[2, 2], mask[2, 1] = names.index(opens[2]), False
    streams = Streams(
        reward=jnp.zeros((3, 4)),
        mask=jnp.asarray(mask),
        role=jnp.array([0, 0, 0] if solo else [0, 1, 1]),
    )
    rows = Rows(
        tokens=actions.reshape(-1, 1), loss_mask=mask.reshape(-1, 1),
        stream=np.repeat(np.arange(3), 4), turn=np.tile(np.arange(4), 3)[:, None],
        behaviour_logp=np.zeros((12, 1)),
    )  # fmt: skip
    notes, told = tools_used(setup_of(env, params)).annotate(context(), streams, rows)
    used = np.any(notes["tools_used"].values, axis=1)
    listed = notes["tools_listed"].values.max(axis=1).tolist()
    count = used.sum(axis=1).tolist()
    assert listed == ([6, 6, 6] if solo else [2, 3, 3])
    assert count == [2, 2, 1]
    share = sum(c / n for c, n in zip(count, listed, strict=True))
    np.testing.assert_allclose(told["tools/share"], [share, 3], rtol=1e-6)
    sources = used if solo else used[:, 2:]
    assert np.flatnonzero(sources[1]).tolist() == [0, 2]
