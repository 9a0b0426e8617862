"""The growing batch: solved episodes are kept over rounds, others never; turns by likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.growing_batch import growing_batch, likelihood_window, solved_turns
from agentrl.methods.trees import trees
from agentrl.streams import Streams


def config_of(kind, **options):
    config = lake(size=2)
    if kind == "words":
        config = talk_config(log_every=1, warm_start__updates=0, policy__constrained=True)
        config.env.update(size=2, slippery=False)
    config.objective.policy.weight = 0.0
    config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    config.components.growing_batch = section(growing_batch, **({"size": 64, "rows": 16} | options))
    config.objective.own = term(losses.behaviour_cloning, source="growing_batch", during="rl")
    return config


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_solved_episodes_stay(kind, tmp_path):
    config = config_of(kind)
    experiment, states, metrics = train_and_resume(config, tmp_path)
    counts = [told["growing_batch/rows"] for told in metrics]
    assert counts == sorted(counts) and 0 < counts[0] < counts[-1]
    batch = jax.jit(experiment.batches)(states[0])["rollout"]
    solved = np.asarray(batch.streams.success & batch.streams.mask).any(axis=1)
    rows = np.asarray(batch.rows.loss_mask).any(axis=1)
    assert 0 < solved.sum() < len(solved)
    assert counts[0] == min(64, (rows & solved[np.asarray(batch.rows.stream)]).sum())
    component = build(config_of(kind, rounds=1)).components["growing_batch"]
    ring = states[-1].carry["growing_batch"]
    recent = component.source.make(context(ring, key=jax.random.key(0)), {})[1]
    known = {x.tobytes() for x in np.asarray(ring.rows.tokens)[np.asarray(ring.since) == 3]}
    there = np.asarray(recent.loss_mask).any(axis=1)
    assert all(x.tobytes() in known for x in np.asarray(recent.tokens)[there])


# Quantile q of n sorted numbers is at place q (n - 1), between neighbours by a straight line. Here
# n = 5: q = 0.1 is at 0.4, -3 + 0.4 (-2 + 3) = -2.6; q = 0.9 at 3.6, -0.5 + 0.6 (0.4) = -0.26.
SCORE = np.array([[-3.0, -0.1, -1.0], [-0.5, -2.0, 7.0]], np.float32)
TURNS = np.array([[True, True, True], [True, True, False]])


@pytest.mark.parametrize(
    ("low", "high", "kept"),
    [
        (0.1, 0.9, [-2.0, -1.0, -0.5]),
        (0.0, 0.9, [-3.0, -2.0, -1.0, -0.5]),
        (0.25, 0.5, [-2.0, -1.0]),  # bounds at places 1 and 2 are inside
        (0.0, 1.0, [-3.0, -2.0, -1.0, -0.5, -0.1]),
    ],
)
def test_the_window_of_five_turns(low, high, kept):
    found = np.asarray(likelihood_window(SCORE, TURNS, low=low, high=high))
    assert sorted(SCORE[found]) == [np.float32(x) for x in kept]
    assert not found[1, 2]


def test_the_window_compares_the_solved_turns_alone_and_ranks_them():
    rng = np.random.default_rng(0)
    score, turns = rng.normal(size=(6, 7)).astype(np.float32), rng.random((6, 7)) < 0.6
    found = np.asarray(likelihood_window(score, turns, low=0.2, high=0.7))
    noise = np.where(turns, score, rng.normal(size=score.shape) * 100)
    np.testing.assert_array_equal(likelihood_window(noise, turns, low=0.2, high=0.7), found)
    ordered, places = np.sort(score[turns]), np.arange(turns.sum()) / (turns.sum() - 1)
    np.testing.assert_array_equal(np.sort(score[found]), ordered[(places >= 0.2) & (places <= 0.7)])
    same = np.zeros_like(score)
    np.testing.assert_array_equal(likelihood_window(same, turns, low=0.2, high=0.7), turns)
    nothing = np.zeros_like(turns)
    np.testing.assert_array_equal(likelihood_window(score, nothing, low=0.2, high=0.7), nothing)


def test_turns_of_a_tree_on_the_way_to_a_solved_end_count_once():
    """Stream 0 goes a b c and fails; 1 leaves it behind a: a d, solved; 2 leaves 1 behind a d: a d
    e, solved; 3 is a tree of its own that fails."""
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]], bool)
    prefix = np.array([[0, 0, 0], [0, 1, -1], [0, 1, 2], [3, -1, -1]], np.int32)
    success = np.zeros((4, 3), bool)
    success[1, 1] = success[2, 2] = True
    streams = Streams(reward=jnp.zeros((4, 3)), mask=mask, success=success, prefix=prefix)
    # a is learnt from in stream 0, though that one failed; d in 1; e in 2.
    once = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    np.testing.assert_array_equal(solved_turns(streams), np.array(once, bool))
    # Without stream 2, which is too long, e is on no way to a solved end.
    short = [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(solved_turns(streams, longest=2), np.array(short, bool))
    plain = [[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]]
    np.testing.assert_array_equal(solved_turns(streams.replace(prefix=None)), np.array(plain, bool))


def test_what_the_window_keeps_of_trees_is_what_is_stored():
    config = config_of("words", low=0.2, high=0.9)
    config.rollout = section(trees, num_groups=8, group_size=4, rule="best_first")
    experiment = build(config)
    component = experiment.components["growing_batch"]
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    streams, rows = jax.device_get((batch.streams, batch.rows))
    outcome = UpdateResult(before=state, streams=streams, rows=rows)
    ring, told = component.after(state.carry["growing_batch"], outcome)
    solved = np.asarray(solved_turns(streams))
    logp = {}
    for r, n in enumerate(rows.stream):
        for t in np.flatnonzero(solved[n]):
            at = rows.loss_mask[r] & (rows.turn[r] == t)
            if at.any():
                logp[r, t] = rows.behaviour_logp[r, at].sum() / at.sum()
    low, high = np.quantile(list(logp.values()), [0.2, 0.9])
    kept = {key for key, value in logp.items() if low - 1e-6 <= value <= high + 1e-6}
    assert 0 < len(kept) < len(logp)
    np.testing.assert_array_equal(told["growing_batch/kept"], [len(kept), len(logp)])
    stored = np.asarray(ring.rows.loss_mask)[np.asarray(ring.since) >= 0]
    ids = sorted({r for r, _ in kept})
    for mask, r in zip(stored, ids, strict=True):
        turns = [t for other, t in kept if other == r]
        np.testing.assert_array_equal(mask, rows.loss_mask[r] & np.isin(rows.turn[r], turns))
