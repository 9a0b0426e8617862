"""Research-v1: calls by hand, the expert's success, calls in streams; and the same alone."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs
from agentrl import policies, rollout

KEY = jax.random.key(0)
LOCAL, WEB, BOTH, ANSWER = range(4)


@functools.cache
def called(env, method):
    """A method of an environment, compiled once."""
    return fetched(getattr(env, method))


def question(env, params, *topics):
    """A first state with these topics."""
    state = called(env, "initial")(KEY, params)
    topic = np.array((*topics, *[-1] * (env.facts[1] - len(topics))), np.int32)
    return state.replace(question=state.question.replace(topic=topic))


def played(env, params, state, actions):
    """The states after each action, and the reward of each."""
    states, rewards = [], []
    for i, name in enumerate(actions):
        action = env.action_names.index(name)
        assert bool(called(env, "legal")(state, params)[action]), (i, name)
        key = jax.random.fold_in(KEY, i)
        _, state, reward, _, info = called(env, "step_env")(key, state, np.int32(action), params)
        assert np.all(info["valid"])
        states.append(state)
        rewards.append(float(np.max(reward)))
    return states, rewards


SURE = {"right": 1.0, "answers": (1.0, 0.0, 0.0)}


def test_calls_by_hand():
    env, params = envs.make("Research-v1", **SURE, call_price=0.25, open_price=0.125)
    # Topic 0 is in the first local source, topic 3 in the second web source.
    state = question(env, params, 0, 3)
    course = ["ask local", "open 1", "report", "ask both", "open 2", "open 1", "report"]
    course += ["open 2", "report", "answer"]
    states, rewards = played(env, params, state, course)
    movers = [0] + [int(called(env, "mover")(s, params)) for s in states]
    assert movers == [0, 1, 1, 0, 2, 2, 2, 3, 3, 0, 0]
    found = [np.asarray(s.question.found)[:2].tolist() for s in states]
    assert found[1] == [False, False] and found[2] == [True, False]
    assert found[6] == [True, False]  # the local worker cannot have it
    assert found[8] == [True, True]
    assert rewards == [-0.25, -0.125, 0, -0.5, -0.125, -0.125, 0, -0.125, 0, 1]
    assert bool(states[-1].question.correct) and np.all(
        called(env, "is_success")(states[-1], params)
    )


def test_a_worker_that_does_not_report_has_failed():
    env, params = envs.make("Research-v1", **SURE, patience=2)
    state = question(env, params, 0)
    states, _ = played(env, params, state, ["ask local", "open 1", "open 1", "answer"])
    assert [int(s.worker) for s in states] == [1, 1, 0, 0]
    assert not np.any(states[-1].question.found) and not bool(states[-1].question.correct)


def test_calls_end():
    env, params = envs.make("Research-v1", calls=2)
    state = question(env, params, 0, 3)
    assert called(env, "legal")(state, params)[:4].all()
    state = played(env, params, state, ["ask web", "report"])[0][-1]
    assert called(env, "legal")(state, params)[:4].tolist() == [True, True, False, True]
    state = played(env, params, state, ["ask web", "report"])[0][-1]
    assert called(env, "legal")(state, params)[:4].tolist() == [False, False, False, True]


def test_roles_see_their_own_part():
    env, params = envs.make("Research-v1")
    state = question(env, params, 0, 3)
    state = played(env, params, state, ["ask web", "open 1"])[0][-1]
    seen = called(env, "observe")(state, params)
    split = env.facts[1] * (env.topics + 1) + 4
    assert seen[0, :split].any() and not seen[0, split:].any()
    assert seen[1, split:].any() and not seen[1, :split].any()
    assert not seen[2:].any()


def expert_success(env, params, count=4096):
    """Share of questions that the expert answers rightly, and its standard error."""

    @jax.jit
    def play(keys):
        def one(key):
            def turn(state, key):
                _, state, *_ = env.step_env(key, state, env.expert(state, params), params)
                return state, None

            keys = jax.random.split(key, params.max_steps_in_episode)
            state, _ = jax.lax.scan(turn, env.initial(key, params), keys)
            return jnp.any(env.is_success(state, params))

        return jax.vmap(one)(keys)

    right = np.asarray(play(jax.random.split(KEY, count)))
    return right.mean(), np.sqrt(right.mean() * (1 - right.mean()) / count)


def chance_of(found, facts, calls):
    """Chance of a right answer where each of the calls finds a fact with chance `found`."""
    answers, total = (0.95, 0.3, 0.15), 0.0
    for outcome in itertools.product((0, 1), repeat=calls):
        missing = max(0, facts - sum(outcome))
        weight = np.prod([found if hit else 1 - found for hit in outcome])
        total += weight * answers[min(missing, 2)]
    return total


@pytest.mark.parametrize("right, calls", [(0.8, 6), (0.3, 4)])
def test_the_expert_answers_as_often_as_the_closed_form(right, calls):
    env, params = envs.make("Research-v1", right=right, calls=calls, facts=(2, 2))
    # A worker opens its source twice and reports.
    expected = chance_of(1 - (1 - right) ** 2, 2, calls)
    mean, error = expert_success(env, params)
    assert abs(mean - expected) < 4 * error
    solo, solo_params = envs.make(
        "SoloResearch-v1", right=right, max_steps_in_episode=calls + 1, facts=(2, 2)
    )
    mean, error = expert_success(solo, solo_params)
    # Cut before it answers where the facts take all turns.
    done = sum(
        np.prod([right if hit else 1 - right for hit in outcome])
        for outcome in itertools.product((0, 1), repeat=calls)
        if sum(outcome) >= 2
    )
    assert abs(mean - 0.95 * done) < 4 * error


def collected(env, params):
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    made = rollout.episodes(policy, env, params, num_groups=4, group_size=4, mask_illegal=True)
    return made, fetched(lambda key: made.collect(policy.init(key), made.init(key), key)[1])(KEY)


def test_every_call_is_a_stream_of_the_turn_that_called_it():
    env, params = envs.make("Research-v1", calls=4)
    made, streams = collected(env, params)
    assert (made.agents, made.roles) == (5, 2)
    assert {"parent", "call_turn", "role"} <= made.provides
    assert streams.role.tolist() == [0, 1, 1, 1, 1] * 16
    called = 0
    for i in range(len(streams.mask)):
        root, turns = i - i % 5, np.flatnonzero(streams.mask[i])
        if i == root:
            assert streams.parent[i] == streams.call_turn[i] == -1
            continue
        assert streams.parent[i] == root
        if not len(turns):
            assert streams.call_turn[i] == -1
            continue
        called += 1
        # Between the call and the worker's turns there are other workers' only.
        call = streams.call_turn[i]
        assert streams.mask[root, call] and call < turns[0]
        assert not streams.mask[root, call + 1 : turns[-1] + 1].any()
        assert (np.diff(turns) == 1).all() and len(turns) <= env.patience
    assert called > 20
    # Two workers of one call have the same turn of the planner.
    both = [tuple(streams.call_turn[r : r + 5]) for r in range(0, len(streams.mask), 5)]
    assert any(len({c for c in calls if c >= 0}) < sum(c >= 0 for c in calls) for calls in both)


def test_a_worker_of_a_worker_has_its_turn():
    parent = np.array([-1, 0, 1, 0])
    mask = np.array([[1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0], [0] * 6], bool)
    assert fetched(rollout.pack.call_turns)(parent, mask).tolist() == [-1, 0, 1, -1]


def test_a_plan_by_hand():
    """The executor opens what the plan names, then sources in their order, then all anew."""
    env, params = envs.make("GuidedResearch-v1", **SURE, budget=4, open_price=0.125)
    # Topic 3 is in the second web source, topic 1 in the first; the plan is wrong about the second.
    state = question(env, params, 3, 1)
    course = ["plan web 2", "plan nothing", "open web 2", "open local 1", "open web 1", "answer"]
    states, rewards = played(env, params, state, course)
    assert [int(called(env, "mover")(s, params)) for s in states] == [0, 1, 1, 1, 1, 1]
    experts = [int(called(env, "expert")(s, params)) for s in (state, *states[1:5])]
    names = [env.action_names[a] for a in experts]
    assert names == ["plan web 2", "open web 2", "open local 1", "open local 2", "answer"]
    assert rewards == [0, 0, -0.125, -0.125, -0.125, 1] and not np.any(states[3].opened[1:])
    used = states[1].replace(openings=np.int32(4))
    legal = called(env, "legal")(used, params)
    assert [env.action_names[a] for a in np.flatnonzero(legal)] == ["answer"]
