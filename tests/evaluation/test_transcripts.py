"""Transcripts show what was read and written, with its numbers, and escape both."""

import functools
import re

import jax
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout
from agentrl.evaluation import transcripts
from agentrl.evaluation.credit_view import choose_group


@functools.cache
def batch(context):
    env, params = envs.make("FrozenLake-v1", size=3, slippery=True, max_steps_in_episode=3)
    policy = policies.transformer(env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16)
    contexts = rollout.contexts
    reading = contexts.whole() if context == "whole" else contexts.window(history=1)
    made = rollout.episodes(policy, env, params, reading, num_groups=2, group_size=3)
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


def test_of_each_task_a_group_is_shown():
    policy, streams, rows = batch("window")
    zeros, group = np.zeros(streams.mask.shape), np.asarray(streams.group)
    several = streams.replace(task=group)
    html = transcripts.section(policy.codec, several, rows, zeros, tasks=("Lake", "Pond <2>"))
    assert html.count("One group of 3 conversations") == 2
    first, second = html.split("<h4>Lake</h4>")[1].split("<h4>Pond &lt;2&gt;</h4>")
    for task, part in enumerate((first, second)):
        # What it shows is what there is of that task alone.
        chosen = np.flatnonzero(group == task)
        alone = jax.tree.map(lambda x, chosen=chosen: np.asarray(x)[chosen], streams)
        where = {int(n): i for i, n in enumerate(chosen)}
        mine = np.isin(np.asarray(rows.stream), chosen)
        own = jax.tree.map(lambda x, m=mine: np.asarray(x)[m], rows)
        own = own.replace(stream=np.array([where[int(n)] for n in own.stream]))
        only = transcripts.section(policy.codec, alone, own, zeros[chosen])
        board = 'class="read">'
        assert [x.split("</pre>")[0] for x in part.split(board)[1:]] == [
            x.split("</pre>")[0] for x in only.split(board)[1:]
        ]
    one = transcripts.section(policy.codec, several, rows, zeros, tasks=("Lake",))
    assert one.count("One group of") == 1 and "Lake" not in one


def test_of_a_match_every_seat_is_shown():
    policy, streams, rows = batch("window")
    seat = np.arange(6) % 2
    match = streams.replace(role=seat, group=seat, episode=np.arange(6) // 2)
    zeros = np.zeros(streams.mask.shape)
    html = transcripts.section(policy.codec, match, rows, zeros)
    chosen, _ = choose_group(match)
    assert f"One group of 3 conversations of seat {chosen} about" in html
    shown = re.findall(r"<h4>Match (\d) · seat (\d) · Return", html)
    assert len(shown) == 4 and [who for _, who in shown] == ["0", "1"] * 2
    assert shown[0][0] == shown[1][0] != shown[2][0] == shown[3][0]
    # Of a seat that somebody else had there is nothing to show.
    alone = match.replace(mask=np.asarray(streams.mask) & (seat == 0)[:, None], group=seat * 0)
    html = transcripts.section(policy.codec, alone, rows, zeros)
    assert {who for _, who in re.findall(r"Match (\d) · seat (\d)", html)} == {"0"}


def test_conversations_without_a_group_are_shown_together():
    policy, streams, rows = batch("window")
    alone = streams.replace(group=np.arange(6), reward=np.asarray(streams.reward).copy())
    first = np.flatnonzero(alone.mask[4])[0]
    alone.reward[4, first] = 7.0
    html = transcripts.section(policy.codec, alone, rows, np.zeros(streams.mask.shape), update=2)
    assert "One group of 6 conversations about a task of its own each, by the policy of" in html
    assert "<h4>Return 7" in html and html.count("<h4>Return") > 1
    # Nothing was compared: no turn is said to share an anchor with one of another conversation.
    shared = advantages.anchor_segments(streams.mask, alone.group, streams.anchor)
    mask = np.asarray(streams.mask)
    _, counts = np.unique(np.asarray(shared)[mask], return_counts=True)
    assert (counts.max() > 1) == ("data-anchor" in html)
