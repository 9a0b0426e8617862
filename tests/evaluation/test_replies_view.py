"""The page of replies before and after counts what two rollouts with the same keys said."""

import functools
import re

import jax
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.evaluation import replies_view
from agentrl.evaluation.transcripts import find_turn, on_host
from agentrl.policies.codec import decode


@functools.cache
def batches():
    """A lake's conversations by three policies, the same keys."""
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=4)
    policy = policies.transformer(
        env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16, constrained=True
    )
    made = rollout.episodes(
        policy, env, params, rollout.contexts.window(history=0), num_groups=8, group_size=2
    )
    collect = jax.jit(made.collect)
    found = []
    for seed in range(2):
        weights = policy.init(jax.random.key(seed))
        # Of sharp logits each policy has its own favourite replies.
        weights = jax.tree.map(lambda x: 3.0 * x, weights)
        _, streams, rows, _ = collect(weights, made.init(None), jax.random.key(1))
        found.append((streams, rows))
    return policy.codec, *found


def cells(html, name):
    """The numbers of the row of a table with that name."""
    row = re.search(rf'<th scope="row">{name}</th>(.*?)</tr>', html)
    return [float(x) for x in re.findall(r"<td[^>]*>([^<]+)</td>", row[1])]


def test_numbers_are_those_of_the_two_batches():
    codec, before, after = batches()
    html = replies_view.section(codec, before, after, update=7)
    assert "The same 16 conversations" in html and "of update 7" in html
    for column, (streams, rows) in enumerate((before, after)):
        mask = np.asarray(streams.mask)
        solved = (np.asarray(streams.success) & mask).any(axis=1)
        logp = np.asarray(rows.behaviour_logp)[np.asarray(rows.loss_mask)]
        expected = {
            "success": solved.mean(),
            "return": np.where(mask, streams.reward, 0).sum(axis=1).mean(),
            "replies of a conversation": mask.sum(axis=1).mean(),
            "tokens of a reply": np.asarray(rows.loss_mask).sum() / mask.sum(),
            "illegal actions": (~np.asarray(streams.valid) & mask).sum() / mask.sum(),
            "geometric mean of a token's probability": np.exp(logp.mean()),
        }
        for name, value in expected.items():
            name = name.replace("'", "&#x27;")
            np.testing.assert_allclose(cells(html, name)[column], value, rtol=1e-2, err_msg=name)


def test_shares_of_replies_add_up_to_one():
    codec, before, after = batches()
    html = replies_view.section(codec, before, after, update=1)
    frequent = html.split("The most frequent replies")[1].split("</table>")[0]
    shares = np.array(re.findall(r'<td class="n"[^>]*>([\d.]+)</td>', frequent), float)
    shares = shares.reshape(-1, 2)
    # The lake has four replies, all of which are shown.
    assert len(shares) <= 4
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=3e-3)
    assert (np.diff(shares.max(axis=1)) <= 0).all()


def test_ways_are_counted_and_only_what_differs_is_shown():
    codec, before, after = batches()
    html = replies_view.section(codec, before, after, update=1)
    counts = [int(x) for x in re.findall(r": (\d+) of 16</h4>", html)]
    solved = [(np.asarray(s.success) & np.asarray(s.mask)).any(axis=1) for s, _ in (before, after)]
    ways = ((False, True), (True, False), (True, True), (False, False))
    assert counts == [int(((solved[0] == a) & (solved[1] == b)).sum()) for a, b in ways]
    assert sum(counts) == 16 and "turn (conversation" in html
    same = replies_view.section(codec, before, before, update=1)
    assert "turn (conversation" not in same
    row = r'data-label="before">([^<]+)</td><td class="n" data-label="after">([^<]+)<'
    numbers = re.findall(row, same)
    assert len(numbers) > 7 and all(a == b for a, b in numbers)


def test_replies_are_those_at_their_turns():
    codec, (streams, rows), _ = batches()
    streams, rows = on_host(streams), on_host(rows)
    found = replies_view._replies(codec, replies_view.Said(streams, rows), np.arange(16))
    for stream, replies in found.items():
        for t, reply in zip(np.flatnonzero(streams.mask[stream]), replies, strict=True):
            row, _, written = find_turn(rows, stream, t)
            assert reply == decode(codec, rows.tokens[row][written]).strip()


def test_batches_of_other_sizes_are_refused():
    codec, before, after = batches()
    fewer = jax.tree.map(lambda x: x[:8], after[0])
    with pytest.raises(ValueError, match="16 streams before and 8 after"):
        replies_view.section(codec, before, (fewer, after[1]), update=1)
