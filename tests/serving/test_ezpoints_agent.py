"""The program that plays EZPoints is told, and judged, as EZPoints-v1 does it."""

import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("openai")

import envs  # noqa: E402
from agentrl.policies.chat import instructions  # noqa: E402
from configs._shared import ezpoints_agent as program  # noqa: E402
from envs.text import make_grammar  # noqa: E402


class Client:
    """Replies with given texts, and keeps what it is sent."""

    def __init__(self, replies):
        self.replies, self.sent = iter(replies), []
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, *, messages, **_):
        self.sent.append([dict(message) for message in messages])
        message = types.SimpleNamespace(content=next(self.replies))
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


def played(monkeypatch, seed, replies):
    client = Client(replies)
    monkeypatch.setattr(program.openai, "OpenAI", lambda **_: client)
    return program.agent(program.Server("", "m"), seed), client.sent


def described(env, params, state):
    fragments = np.asarray(env.describe(state, params).fragments).ravel()
    return "".join(env.view.lexicon[i] for i in fragments)


def test_rules_texts_and_rewards_are_those_of_the_environment(monkeypatch):
    env, params = envs.make("EZPoints-v1", wording="faithful")
    assert program.RULES == f"{env.view.rules} {instructions(make_grammar('bare'))}"
    names = list(env.action_names)
    rng = np.random.default_rng(0)
    for seed in range(6):
        cards = program.deal(seed)
        sign = "+" if sum(cards) == 12 else "*"
        solution = [str(cards[0]), sign, str(cards[1]), "="]
        random = [names[i] for i in rng.integers(0, 13, 8)]
        for replies in (solution, random, ["nonsense", *solution], ["="]):
            reward, sent = played(monkeypatch, seed, [*replies, *["+"] * 8])
            _, state = env.reset_env(jax.random.key(seed), params)
            state = state.replace(cards=jnp.array(cards, jnp.uint8))
            for messages, reply in zip(sent, [*replies, *["+"] * 8], strict=False):
                if int(state.length) <= env.capacity:  # beyond, the environment has truncated
                    assert messages[-1]["content"] == described(env, params, state)
                if reply in names and env.legal(state, params)[names.index(reply)]:
                    action = jnp.int32(names.index(reply))
                    state, _ = env.transition(jax.random.key(0), state, action, params)
            assert reward == float(state.won)


def test_deals_are_those_of_the_environment():
    env, params = envs.make("EZPoints-v1")
    keys = jax.random.split(jax.random.key(0), 4000)
    dealt = np.asarray(jax.vmap(lambda key: env.reset_env(key, params)[1].cards)(keys))
    theirs = {tuple(map(int, cards)) for cards in dealt}
    ours = [tuple(program.deal(seed)) for seed in range(4000)]
    assert set(ours) == theirs
    for pair in itertools.islice(sorted(theirs), 4):
        share = (dealt == pair).all(axis=1).mean()
        assert abs(ours.count(pair) / 4000 - share) < 4 * np.sqrt(2 * share / 4000)
