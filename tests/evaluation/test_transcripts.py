"""Transcripts show what was read and written, with its numbers, and escape both."""

import functools

import jax
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.evaluation import transcripts


@functools.cache
def batch(context):
    env, params = envs.make("FrozenLake-v1", size=3, slippery=True, max_steps_in_episode=3)
    policy = policies.transformer(env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16)
    history = None if context == "whole" else 1
    made = rollout.conversation(
        policy, env, params, num_groups=2, group_size=3, context=context, history=history
    )
    weights = policy.init(jax.random.key(0))
    _, streams, rows, _ = jax.jit(made.collect)(weights, made.init(None), jax.random.key(1))
    return policy, streams, rows


@pytest.mark.parametrize("context", ["whole", "window"])
def test_every_token_and_every_observation_is_there(context):
    policy, streams, rows = batch(context)
    advantage = np.where(np.asarray(streams.mask), 0.5, 0.0)
    html = transcripts.section(policy.codec, streams, rows, advantage, update=4, episodes=6)
    shown = html.count('class="turn"')
    assert shown > 0 and "update 4" in html
    assert html.count("advantage +0.50") == html.count('class="cell token')
    assert html.count('class="read"') == shown
    for line in html.split('class="read">')[1:]:
        board = line.split("</pre>")[0]
        assert len(board.split("\n")) == 3 and board.count("P") + board.count("X") <= 1


def test_whole_and_window_show_the_same_of_the_first_turn():
    texts = []
    for context in ("whole", "window"):
        policy, streams, rows = batch(context)
        html = transcripts.section(policy.codec, streams, rows, np.zeros(streams.mask.shape))
        texts.append(html.split('class="read">')[1].split("</pre>")[0])
    assert texts[0] == texts[1]
