"""Delegation-v1: calls at the same time, calls of calls, lost ones; the expert's closed form."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
from programs import fetched

from agentrl import policies, rollout
from agentrl.streams import main_streams
from envs.delegation.env import DONE, LOST, WAITS, WORKS
from envs.research.rules import FAILED, FOUND

NAME, KEY = "Delegation-v1", jax.random.key(0)
SURE = {"right": 1.0, "answers": (1.0, 0.0, 0.0)}


def question(env, params, *topics):
    """A first state with these topics."""
    state = fetched(env.initial)(KEY, params)
    topic = np.array((*topics, *[-1] * (env.facts[1] - len(topics))), np.int32)
    return state.replace(question=state.question.replace(topic=topic))


def played(env, params, state, course):
    """(states, rewards) of a course: of each step the commands of those that act, by agent."""
    step, acting, legal = map(fetched, (env.step_env, env.acting, env.legal_actions))
    states, rewards = [], []
    for turn, commands in enumerate(course):
        assert np.flatnonzero(acting(state, params)).tolist() == sorted(commands), turn
        action = np.zeros(env.num_agents, np.int32)
        for agent, command in commands.items():
            action[agent] = env.action_names.index(command)
            assert legal(state, params)[agent, action[agent]], (turn, agent, command)
        _, state, reward, _, info = step(jax.random.fold_in(KEY, turn), state, action, params)
        assert info["valid"].all() and np.all(reward == reward[0])
        states.append(state)
        rewards.append(float(reward[0]))
    return states, rewards


def test_two_calls_of_a_turn_work_in_the_same_steps():
    env, params = playing.make(
        NAME, **SURE, calls=3, call_price=0.25, open_price=0.125, step_price=0.0625
    )
    # Topic 0 is in the first local source, topic 3 in the second web source.
    course = [
        {0: "ask local web"},
        {1: "open 1", 2: "open 1"},
        {1: "report", 2: "open 2"},
        {2: "report"},
        {0: "answer"},
    ]
    states, rewards = played(env, params, question(env, params, 0, 3), course)
    assert rewards == [-0.5625, -0.3125, -0.1875, -0.0625, 0.9375]
    assert states[2].question.found[:2].tolist() == [True, False]
    assert states[3].question.found[:2].tolist() == [True, True]
    assert fetched(env.is_success)(states[-1], params).all()


def test_in_turn_the_first_call_is_answered_first():
    env, params = playing.make(NAME, **SURE, calls=3, at_once=False)
    course = [
        {0: "ask web web"},
        {1: "pass"},
        {4: "open 1"},
        {4: "report"},
        {1: "report"},
        {2: "open 2"},
        {2: "report"},
        {0: "answer"},
    ]
    states, rewards = played(env, params, question(env, params, 0, 3), course)
    assert states[-1].question.found[:2].all() and sum(rewards) == 1.0


def test_who_is_called_may_call_once_as_deep_as_it_goes():
    env, params = playing.make(NAME, **SURE, calls=3, depth=2)
    legal = fetched(env.legal_actions)
    start = question(env, params, 0)
    course = [{0: "ask web"}, {1: "pass"}]
    states, _ = played(env, params, start, course)
    state = states[-1]
    assert state.status[[1, 4]].tolist() == [WAITS, WORKS] and state.kind[[1, 4]].tolist() == [1, 0]
    assert not legal(state, params)[4, -1]  # as deep as it goes
    states, _ = played(env, params, state, [{4: "open 1"}, {4: "report"}])
    state = states[-1]
    assert state.status[[1, 4]].tolist() == [WORKS, DONE]
    assert state.holds[1] and state.result[1] == FOUND and not state.question.found[0]
    assert not legal(state, params)[1, -1]  # once
    states, _ = played(env, params, state, [{1: "report"}, {0: "answer"}])
    assert states[-1].question.found[0] and states[-1].question.correct
    # A helper that fails: its caller goes on, and fails as well.
    course += [{4: "open 2"}, {4: "open 2"}, {4: "open 2"}, {1: "open 1"}, {1: "report"}]
    state = played(env, params, start, course)[0][-1]
    assert state.last[0] == FAILED and fetched(env.acting)(state, params)[0]
    # Who has one turn left cannot wait for another one.
    late = [{0: "ask web"}, {1: "open 1"}, {1: "open 1"}]
    assert not legal(played(env, params, start, late)[0][-1], params)[1, -1]


def test_one_call_that_is_left_is_the_first_ones():
    env, params = playing.make(NAME, **SURE, calls=3)
    course = [{0: "ask web web"}, {1: "pass", 2: "pass"}]
    state = played(env, params, question(env, params, 0, 2), course)[0][-1]
    assert state.status[[1, 2, 4, 5]].tolist() == [WAITS, WORKS, WORKS, 0] and state.turn[2] == 1
    assert not fetched(env.legal_actions)(state, params)[2, -1]


def test_a_lost_call_is_told_and_counts():
    env, params = playing.make(NAME, **SURE, calls=3, lost=1.0)
    start = question(env, params, 0, 3)
    state = played(env, params, start, [{0: "ask local web"}])[0][-1]
    assert state.last[:2].tolist() == [LOST, LOST] and state.status[1:3].tolist() == [DONE, DONE]
    legal = fetched(env.legal_actions)(state, params)
    assert legal[0].tolist()[:7] == [True, True, False, False, False, False, True]
    safe = params.replace(lost=0.0)
    state = played(env, safe, start, [{0: "ask web"}])[0][-1]
    state = played(env, params, state, [{1: "pass"}])[0][-1]
    assert state.status[[1, 4]].tolist() == [WORKS, DONE] and state.result[1] == LOST


@pytest.mark.parametrize(("right", "lost"), [(0.8, 0.0), (0.5, 0.3)])
def test_the_expert_answers_as_often_as_the_closed_form(right, lost):
    """Within four standard errors; and calls at the same time take fewer steps."""
    calls, taken = 4, {}
    chance = (1 - lost) * (1 - (1 - right) ** 2)  # a worker opens its source twice
    expected = 0.0
    for outcome in itertools.product((0, 1), repeat=calls):
        weight = np.prod([chance if hit else 1 - chance for hit in outcome])
        expected += weight * (0.95, 0.3, 0.15)[max(0, 2 - sum(outcome))]
    for at_once in (True, False):
        env, params = playing.make(
            NAME, right=right, lost=lost, calls=calls, facts=(2, 2), at_once=at_once
        )
        act = lambda key, state, env=env, params=params: env.expert(state, params)  # noqa: E731

        @jax.jit
        def run(keys, env=env, params=params, act=act):
            def one(key):
                def turn(state, key):
                    _, state, *_ = env.step_env(key, state, act(key, state), params)
                    return state, None

                keys = jax.random.split(key, params.max_steps_in_episode)
                state, _ = jax.lax.scan(turn, env.initial(key, params), keys)
                return jnp.any(env.is_success(state, params)), state.time

            return jax.vmap(one)(keys)

        success, time = map(np.asarray, run(jax.random.split(KEY, 4096)))
        error = np.sqrt(success.mean() * (1 - success.mean()) / 4096)
        assert abs(success.mean() - expected) < 4 * error
        taken[at_once] = time.mean()
    assert taken[True] + 1 < taken[False]


def test_each_call_is_a_stream_of_its_own_with_its_caller():
    env, params = playing.make(NAME, calls=3)
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    made = rollout.episodes(policy, env, params, num_groups=16, group_size=2, mask_illegal=True)
    streams = fetched(lambda key: made.collect(policy.init(key), made.init(key), key)[1])(KEY)
    parent = streams.parent.reshape(-1, env.num_agents) % env.num_agents
    assert np.all(parent[:, 4:] == [1, 2, 3]) and np.all(parent[:, 1:4] == 0)
    head = np.asarray(main_streams(streams.parent)).reshape(-1, env.num_agents)
    assert np.all(head == env.num_agents * np.arange(len(head))[:, None])
    # Some worker was called by another one, in the turn in which that one passed on.
    called = np.flatnonzero(streams.mask.any(axis=1) & (np.arange(len(head) * 7) % 7 > 3))
    assert len(called)
    turn = streams.call_turn[called]
    assert streams.mask[streams.parent[called], turn].all()
    assert not streams.mask[called[:, None], np.arange(turn.max() + 1)][
        np.arange(turn.max() + 1) <= turn[:, None]
    ].any()
