"""HAE against its reference arrays, plain loops, and the estimators that it reduces to.

`data/turn_credit.npz`: the arrays of HiPER's released estimator (JonP07/HiPER-agent 9d3c118),
executed on one episode.
"""

import pathlib

import chex
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import advantages

HIPER = np.load(pathlib.Path(__file__).parents[1] / "data" / "turn_credit.npz")
RATES = {"gamma": 0.99, "lam": 0.95, "subgoal_lam": 0.95}


def recorded(**changes):
    names = {"reward": "rewards", "value": "v_low", "subgoal_value": "v_high"}
    arrays = {ours: HIPER[f"hiper_in_{theirs}"][None] for ours, theirs in names.items()}
    arrays["switch_value"] = HIPER["hiper_in_v_term"][None]
    for ours, theirs in {"switch": "switch", "terminated": "dones"}.items():
        arrays[ours] = HIPER[f"hiper_in_{theirs}"][None] > 0
    arrays |= {"mask": np.ones((1, 5), bool), "bootstrap": 0.0, "subgoal_bootstrap": 0.0}
    return jax.tree.map(
        lambda x: np.asarray(x, bool if x.dtype == bool else np.float32),
        {name: np.asarray(value) for name, value in (arrays | changes).items()},
    )


def test_reference_episode():
    out = advantages.hae(**recorded(), **RATES)
    for ours, theirs in {"action": "low", "subgoal": "high", "switch": "term"}.items():
        expected = HIPER[f"hiper_adv_{theirs}"]
        np.testing.assert_allclose(getattr(out, ours)[0], expected, atol=1e-6)
    begins = HIPER["hiper_in_switch"] > 0
    target = out.subgoal[0] + HIPER["hiper_in_v_high"]
    np.testing.assert_allclose(np.where(begins, target, 0), HIPER["hiper_ret_high"], atol=1e-6)


def test_reference_bootstraps_a_cut_episode_with_values_at_hand():
    v, w = HIPER["hiper_in_v_low"], HIPER["hiper_in_v_high"]
    cut = recorded(terminated=np.zeros((1, 5), bool), bootstrap=v[-1:], subgoal_bootstrap=w[2:3])
    out = advantages.hae(**cut, **RATES)
    np.testing.assert_allclose(out.action[0], HIPER["hiper_trunc_adv_low"], atol=1e-6)
    np.testing.assert_allclose(out.subgoal[0], HIPER["hiper_trunc_adv_high"], atol=1e-6)


def test_reference_penalty_of_keeping():
    # "Normalized": 0.3 times the share of turns that keep, divided among them.
    keeps = HIPER["hiper_in_switch"] == 0
    reward = HIPER["hiper_in_rewards"] - 0.3 * keeps.mean() * keeps / keeps.sum()
    out = advantages.hae(**recorded(reward=reward[None]), **RATES)
    np.testing.assert_allclose(out.action[0], HIPER["hiper_keep_adv_low"], atol=1e-6)


def plain(reward, value, subgoal_value, mask, switch, terminated, truncated, tails, rates):
    """Float64 loops over the segments of each episode of each stream."""
    gamma, lam, subgoal_lam = rates
    action, subgoal, outcome = np.zeros((3, *reward.shape))
    for n in range(len(reward)):
        segments, fresh = [], True
        for t in np.flatnonzero(mask[n]):
            if fresh or switch[n, t]:
                segments.append([])
            segments[-1].append(t)
            fresh = terminated[n, t] or truncated[n, t]
        later = None
        for turns in reversed(segments):
            last = turns[-1]
            over = terminated[n, last]
            if over or truncated[n, last]:
                later = None
            tail = 0.0 if over else tails[0][n, last]
            rest = 0.0 if over else tails[1][n, last]
            if later is not None:
                tail = rest = subgoal_value[n, later]
            trace = 0.0
            for t in reversed(turns):
                after = tail if t == last else value[n, turns[turns.index(t) + 1]]
                trace = reward[n, t] + gamma * after - value[n, t] + gamma * lam * trace
                action[n, t] = trace
                rest = outcome[n, t] = reward[n, t] + gamma * rest
            b = turns[0]
            beyond = 0.0 if later is None else subgoal[n, later]
            subgoal[n, b] = rest - subgoal_value[n, b] + gamma ** len(turns) * subgoal_lam * beyond
            later = b
    return action, subgoal, outcome


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([(1.0, 1.0, 0.95), (0.9, 0.7, 0.5)]))
def test_equals_plain_loops_and_never_reads_what_is_masked(seed, rates):
    rng = np.random.default_rng(seed)
    shape = (4, 9)
    reward, value, subgoal_value, *tails = rng.normal(size=(5, *shape)).astype(np.float32)
    chances = np.array([0.8, 0.4, 0.1, 0.1])[:, None, None]
    mask, switch, terminated, truncated = rng.random((4, *shape)) < chances
    truncated &= ~terminated
    expected = plain(
        reward, value, subgoal_value, mask, switch, terminated, truncated, tails, rates
    )
    floats = [np.where(mask, x, np.nan) for x in (reward, value, subgoal_value, *tails)]
    flags = [np.where(mask, x, rng.random(shape) < 0.5) for x in (switch, terminated, truncated)]
    out = advantages.hae(
        *floats[:3],
        mask,
        *flags[:2],
        *floats[3:],
        **dict(zip(("gamma", "lam", "subgoal_lam"), rates, strict=True)),
        switch_value=np.where(mask, 0.25, np.nan).astype(np.float32),
        truncated=flags[2],
    )
    np.testing.assert_allclose(out.action, expected[0], atol=1e-5)
    np.testing.assert_allclose(out.subgoal, expected[1], atol=1e-5)
    np.testing.assert_allclose(out.switch, np.where(mask, expected[2] - 0.25, 0), atol=1e-5)


@pytest.mark.parametrize("always", [False, True])
def test_without_switches_and_with_nothing_else(always):
    rng = np.random.default_rng(3)
    shape = (5, 8)
    reward, value, subgoal_value, tail = rng.normal(size=(4, *shape)).astype(np.float32)
    mask = rng.random(shape) < 0.8
    terminated = rng.random(shape) < 0.1
    out = advantages.hae(
        reward, value, subgoal_value, mask, np.full(shape, always), terminated, tail, tail, **RATES
    )
    flat = {"gamma": RATES["gamma"], "lam": RATES["lam"]}
    if not always:
        expected = advantages.gae(reward, value, mask, terminated, tail, **flat)
        np.testing.assert_allclose(out.action, expected, atol=1e-6)
    else:
        expected = advantages.gae(reward, subgoal_value, mask, terminated, tail, **flat)
        np.testing.assert_allclose(out.subgoal, expected, atol=1e-6)


def test_a_turn_of_no_time_discounts_nothing_and_one_of_two_twice():
    arrays, rates = recorded(), RATES | {"gamma": 0.81, "lam": 1.0}
    twice = advantages.hae(**arrays, duration=np.full((1, 5), 2.0), **rates | {"gamma": 0.9})
    chex.assert_trees_all_close(twice, advantages.hae(**arrays, **rates), atol=1e-6)
    still = advantages.hae(**arrays, duration=np.zeros((1, 5)), **rates)
    chex.assert_trees_all_close(still, advantages.hae(**arrays, **rates | {"gamma": 1.0}))
