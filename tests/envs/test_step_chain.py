"""StepChain-v1: who works which steps, what it costs in words, and what is worth it."""

import jax
import numpy as np
import playing
import pytest

import envs
from envs.text import join, make_grammar, parse

KEY = jax.random.key(0)


def played(*commands, error_rate=1.0):
    """[(what was read, legal, reward, over)] of easy easy hard easy, and the environment."""
    base = {"name": "StepChain-v1", "steps": 4, "hard": 1, "words": 3, "error_rate": error_rate}
    env, params = envs.make("envs.wrappers.OneTranscript", base=base)
    state, told, step = env.initial(KEY, params), [], playing.programs(env)[2]
    state = state.replace(base=state.base.replace(hard=np.arange(4) == 2))
    for command in commands:
        read = join(env.view.lexicon, env.view.describe(state, params))
        action = np.int32(env.action_names.index(command))
        _, state, reward, over, info = step(KEY, state, action, params)
        told.append((read, bool(info["valid"]), float(reward), bool(over)))
    return told, env


BRIEFLY = ("think 0", "rethink 2", "think 1", "answer 1")


@pytest.mark.parametrize(
    ("commands", "paid"),
    [
        (BRIEFLY, 1.0),
        (("think 4", "answer 0"), 1.0),
        (("think 0", "answer 4"), 0.0),  # the hard step went wrong
        (("think 2", "answer 0"), 0.0),  # steps are left
    ],
)
def test_hard_steps_are_worth_their_words(commands, paid):
    told, _ = played(*commands)
    assert [turn[1] for turn in told] == [True] * len(commands)
    assert [turn[2:] for turn in told] == [(0.0, False)] * (len(commands) - 1) + [(paid, True)]


def test_the_floor_is_given_back_only_after_a_step_and_before_the_last():
    told, env = played("think 3", "rethink 1", "think 0", "answer 1")
    assert [turn[1] for turn in told] == [True, False, False, True]
    assert "rethink 0" not in env.action_names and "rethink 4" not in env.action_names


def test_words():
    told, env = played(*BRIEFLY)
    assert [turn[0] for turn in told] == [
        "long easy easy hard easy", "short easy easy hard easy", "long hard easy", "short easy",
    ]  # fmt: skip
    grammar = make_grammar("bare")
    read = jax.jit(lambda said, count: parse(grammar, env.view, {}, said, count).actions[0])
    for text, command in [
        ("think so since which so since which", "think 2"),
        ("brief step step rethink", "rethink 2"),
        ("brief answer", "answer 0"),
    ]:
        said = np.frombuffer(text.encode().ljust(64), np.uint8)
        assert int(read(said, np.int32(len(text)))) == env.action_names.index(command)
    parts = {
        name: len(t.parts) for name, t in zip(env.action_names, env.view.templates, strict=True)
    }
    assert parts["think 4"] == 1 + 4 * 3 and parts["answer 4"] == 2 + 4
