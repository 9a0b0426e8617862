"""ToolCalls-v1: episodes by hand, and what its words say."""

import jax
import numpy as np
import pytest

import envs
from agentrl.actors.text_source import foreseen_commands
from envs.text import join

KEY = jax.random.key(0)


def start(**options):
    """(env, params, a state in which weather oslo, hotel lima and taxi rome are wanted)."""
    env, params = envs.make("ToolCalls-v1", **options)
    wanted = [env.action_names.index(n) for n in ("weather oslo", "hotel lima", "taxi rome")]
    return env, params, env.initial(KEY, params).replace(wanted=np.array(wanted, np.int32))


@pytest.mark.parametrize(
    ("commands", "reward", "success"),
    [
        (["taxi rome", "weather oslo", "hotel lima"], 1.0, True),  # any order
        (["taxi rome", "taxi rome", "weather oslo"], 4 / 6, False),  # repeated: one hit of three
        (["taxi rome", "taxi oslo"], 2 / 5, False),
        (["taxi rome", "weather oslo", "hotel lima", "map oslo"], 6 / 7, False),
        ([], 0.0, False),
    ],
)
def test_the_answer_pays_the_f1_of_the_calls(commands, reward, success):
    env, params, state = start()
    for command in [*commands, "answer"]:
        action = np.int32(env.action_names.index(command))
        _, state, paid, over, info = env.step_env(KEY, state, action, params)
        assert bool(over) == (command == "answer") and (over or float(paid) == 0)
    assert float(paid) == pytest.approx(reward) and bool(info["success"]) == success


@pytest.mark.parametrize(("last", "reward"), [("taxi rome", 1.0), ("taxi oslo", 0.25 * 4 / 6)])
def test_calls_that_are_not_exact_are_paid_in_part(last, reward):
    env, params, state = start(partial=0.25)
    for command in ["weather oslo", "hotel lima", last, "answer"]:
        action = np.int32(env.action_names.index(command))
        _, state, paid, *_ = env.step_env(KEY, state, action, params)
    assert float(paid) == pytest.approx(reward)


def test_without_an_answer_nothing_is_paid():
    env, params, state = start(limit=4)
    for _ in range(4):
        _, state, paid, over, _ = env.step_env(KEY, state, np.int32(0), params)
        assert float(paid) == 0 and not over
    assert env.is_truncated(state, params)


def test_observation_counts_calls():
    env, params, state = start()
    for _ in range(2):
        seen, state, *_ = env.step_env(KEY, state, np.int32(5), params)
    seen = np.asarray(seen).reshape(2, env.size)
    assert np.flatnonzero(seen[0]).tolist() == np.asarray(state.wanted).tolist()
    assert seen[1, 5] == 2 and seen[1].sum() == 2


def test_words():
    env, params, state = start()

    def told(state):
        return join(env.view.lexicon, env.view.describe(state, params))

    assert told(state) == "wanted weather oslo, hotel lima, taxi rome"
    for action in (9, 9):
        _, state, *_ = env.step_env(KEY, state, np.int32(action), params)
    assert told(state).endswith(" made taxi rome, taxi rome")


@pytest.mark.parametrize(
    ("most", "made", "said"),
    [
        (2, 0, "weather oslo||hotel lima"),
        (2, 2, "taxi rome||answer"),
        (5, 0, "weather oslo||hotel lima||taxi rome||answer"),
    ],
)
def test_the_expert_writes_several_calls_in_a_reply(most, made, said):
    env, params, state = start()
    for _ in range(made):
        _, state, *_ = env.step_env(KEY, state, env.expert(state, params), params)
    assert join(env.view.lexicon, np.asarray(foreseen_commands(env, state, params, most))) == said
