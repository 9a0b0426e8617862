"""Suite `conversation`: the parts make up the whole, and the peer plays the same game."""

import random

import jax
import numpy as np
import pytest

import envs
from agentrl import policies
from agentrl.policies.codec import decode
from launchers.benchmarks import conversation, timing, torch_loop

TINY = timing.Plan(rounds=2, sample_seconds=0.0)


@pytest.mark.long
def test_shares_make_up_the_whole():
    result = conversation.run(TINY, with_peers=False, groups=8, members=1, sizes=conversation.SMALL)
    row, several = result["rows"]
    assert several["program"] == f"agentrl, {jax.device_count()} devices" and several["rate"] > 0
    assert row["work"] == 8 * 10 and 1 <= row["mean_turns"] <= 10
    parts = {share["part"]: share["milliseconds"] for share in result["shares"]}
    assert list(parts) == ["generation", "environment", "credit", "update"]
    np.testing.assert_allclose(sum(parts.values()), 1e3 * row["median_seconds"])
    assert "environment" in conversation.report(result)


def test_the_python_lake_is_the_same_game():
    lake = torch_loop.Lake(3, 4)
    text = lake.look()
    assert text.startswith("P") and text.endswith("G") and len(text.split("\n")) == 4
    env, _ = envs.make("FrozenLake-v1")
    codec = policies.transformer(env.view, **conversation.SMALL).codec
    glyphs = {decode(codec, [i]) for i in range(codec.vocab_size)}
    assert set(text) <= glyphs and set(env.action_names) <= glyphs
    lake.cells = [["_"] * 4 for _ in range(3)] + [["_", "_", "_", "G"]]
    rng, seen, gained = random.Random(0), set(), 0.0
    while not lake.ended:
        gained += lake.step(rng.choice((1, 2)), rng)
        seen.add(lake.at)
    assert gained == 1 and lake.at == (3, 3) and len(seen) > 6


@pytest.mark.long
def test_the_torch_loop_runs():
    pytest.importorskip("torch")
    result = conversation.run(TINY, with_peers=True, groups=8, members=2, sizes=conversation.SMALL)
    ours, *_, theirs = result["rows"]
    assert theirs["program"] == conversation.PEER and ours["ratio_to_peer"] > 0
    assert 1 <= theirs["mean_turns"] <= 10
