"""HAE of one reply: HiPER's own numbers, written as tokens, and what it reduces to.

`data/turn_credit.npz`: the arrays of HiPER's released estimator (JonP07/HiPER-agent 9d3c118),
executed on one episode.
"""

import functools
import pathlib

import jax
import numpy as np
import pytest

from agentrl import advantages, losses, rewards

HIPER = np.load(pathlib.Path(__file__).parents[1] / "data" / "turn_credit.npz")
RATES = {"gamma": 0.99, "lam": 0.95, "subgoal_lam": 0.95}
SWITCH, SUBGOAL, ACTION = range(3)
KEEPS, SWITCHES = (SWITCH, ACTION, ACTION), (SWITCH, SWITCH, SUBGOAL, SUBGOAL, ACTION, ACTION)
LENGTH = len(SWITCHES) + 1


def replies(forms, values, *, one_row=False, seed=0):
    """Rows in which turn t has decisions forms[t], where they begin values[:, t] (U, W, V), and
    behind that anything; an observation in front of each reply."""
    turns = len(forms)
    decision = np.full((turns, LENGTH), -1, np.int32)
    value = np.random.default_rng(seed).normal(size=decision.shape).astype(np.float32)
    for t, form in enumerate(forms):
        decision[t, 1 : 1 + len(form)] = form
        for kind in {*form} - {-1}:
            value[t, 1 + form.index(kind)] = values[kind, t]
    written = np.zeros(decision.shape, bool)
    for t, form in enumerate(forms):
        written[t, 1 : 1 + len(form)] = True
    turn = np.where(written, np.arange(turns)[:, None], -1).astype(np.int32)
    stream = np.zeros(turns, np.int32)
    if one_row:
        decision, value, written, turn = (
            x.reshape(1, -1) for x in (decision, value, written, turn)
        )
        stream = np.zeros(1, np.int32)
    return {
        "token_value": value,
        "loss_mask": written,
        "stream": stream,
        "turn": turn,
        "decision": decision,
    }


def episode(switch=None, reward=None, **changes):
    """The arrays of the recorded episode, or of one that switches elsewhere."""
    switch = HIPER["hiper_in_switch"] > 0 if switch is None else np.asarray(switch, bool)
    values = np.stack([HIPER[f"hiper_in_v_{name}"] for name in ("term", "high", "low")])
    forms = [SWITCHES if new else KEEPS for new in switch]
    arrays = {
        "reward": (HIPER["hiper_in_rewards"] if reward is None else reward)[None],
        "mask": np.ones((1, 5), bool),
        "terminated": HIPER["hiper_in_dones"][None] > 0,
        "bootstrap": np.zeros((1, 5)),
    }
    found = arrays | replies(forms, values, **changes)
    return {k: x.astype(np.float32) if x.dtype == float else x for k, x in found.items()}


def levels(advantage, arrays):
    """The advantage of each decision of each turn, [3, T], 0 where there is none; it is the same at
    all of its positions, and 0 at all others."""
    out = np.zeros((3, arrays["mask"].shape[1]))
    advantage = np.asarray(advantage)
    for kind in range(3):
        for t in range(out.shape[1]):
            here = (arrays["turn"] == t) & (arrays["decision"] == kind) & arrays["loss_mask"]
            if here.any():
                assert np.ptp(advantage[here]) == 0
                out[kind, t] = advantage[here][0]
    assert not advantage[(arrays["decision"] < 0) | ~arrays["loss_mask"]].any()
    return out


@functools.cache
def compiled(**rates):
    return jax.jit(functools.partial(advantages.hae_by_span, **rates))


def hae(arrays, **rates):
    return levels(compiled(**(rates or RATES))(**arrays), arrays)


@pytest.mark.parametrize("one_row", [False, True])
def test_reference_episode_as_tokens(one_row):
    arrays = episode(one_row=one_row)
    expected = [HIPER[f"hiper_adv_{name}"] for name in ("term", "high", "low")]
    np.testing.assert_allclose(hae(arrays), expected, atol=1e-6)
    # Values behind a decision's first position are not read.
    other = episode(one_row=one_row, seed=1)
    np.testing.assert_array_equal(hae(other), hae(arrays))


def test_targets_are_the_code_s_where_decisions_begin():
    arrays = episode()
    target = compiled(**RATES)(**arrays) + arrays["token_value"]
    start = np.diff(arrays["decision"], axis=1, prepend=-1) != 0
    start &= arrays["decision"] >= 0
    names = {SWITCH: "term", SUBGOAL: "high", ACTION: "low"}
    for kind, name in names.items():
        here = start & (arrays["decision"] == kind)
        there = np.flatnonzero(here.any(axis=1))
        np.testing.assert_allclose(target[here], HIPER[f"hiper_ret_{name}"][there], atol=1e-6)
    loss = losses.decision_value_loss(arrays["token_value"], target, start)
    assert not np.asarray(loss)[~start].any() and np.asarray(loss)[start].all()


def test_reference_levels_are_standardized_apart():
    arrays = episode()
    given = compiled(**RATES)(**arrays)
    names = ("mask", "loss_mask", "stream", "turn", "decision")
    new = advantages.standardized_by_decision(given, *(arrays[name] for name in names))
    _, high, low = levels(new, arrays)
    np.testing.assert_allclose(high, HIPER["hiper_norm_adv_high"], atol=1e-5)
    np.testing.assert_allclose(low, HIPER["hiper_norm_adv_low"], atol=1e-5)
    # A level that nobody has is left as it is.
    none = arrays | {"decision": np.where(arrays["decision"] == SUBGOAL, -1, arrays["decision"])}
    again = advantages.standardized_by_decision(given, *(none[name] for name in names))
    np.testing.assert_array_equal(levels(again, none)[ACTION], low.astype(np.float32))


def test_reference_penalty_of_keeping():
    kept = HIPER["hiper_in_switch"][None] == 0
    mask = np.ones((1, 5), bool)
    penalty = rewards.keep_penalty(mask, kept, coefficient=0.3, mode="normalized")
    reward = HIPER["hiper_in_rewards"] - np.asarray(penalty)[0]
    np.testing.assert_allclose(
        hae(episode(reward=reward))[ACTION], HIPER["hiper_keep_adv_low"], atol=1e-6
    )
    # 0.3 times three fifths, on three turns; fixed, 0.3 on each.
    np.testing.assert_allclose(penalty, np.where(kept, 0.06, 0), atol=1e-7)
    short = np.arange(5)[None] < 2
    fixed = rewards.keep_penalty(short, kept, coefficient=0.3)
    np.testing.assert_allclose(fixed, [[0, 0.3, 0, 0, 0]], atol=1e-7)


def test_one_subgoal_is_flat_gae_on_the_actions_value():
    v, r, ends = (HIPER[f"hiper_in_{name}"][None] for name in ("v_low", "rewards", "dones"))
    mask = np.ones((1, 5), bool)
    flat = advantages.gae(
        *(x.astype(np.float32) for x in (r, v)), mask, ends > 0, np.float32(0), gamma=0.99, lam=0.95
    )
    np.testing.assert_allclose(flat[0], HIPER["hiper_flat_gae"], atol=1e-6)
    for switch in ([1, 0, 0, 0, 0], [0, 0, 0, 0, 0]):
        # A first reply that names no subgoal begins the one segment all the same.
        found = hae(episode(switch=switch))
        np.testing.assert_allclose(found[ACTION], flat[0], atol=1e-6)
        assert not found[SUBGOAL][1:].any()


def test_a_subgoal_for_each_turn_is_one_step_ahead():
    r, v, w = (HIPER[f"hiper_in_{name}"] for name in ("rewards", "v_low", "v_high"))
    found = hae(episode(switch=np.ones(5)))
    after = np.append(w[1:], 0.0)
    np.testing.assert_allclose(found[ACTION], r + 0.99 * after - v, atol=1e-6)
    of_subgoals = advantages.gae(
        *(x[None].astype(np.float32) for x in (r, w)),
        np.ones((1, 5), bool),
        HIPER["hiper_in_dones"][None] > 0,
        np.float32(0),
        gamma=0.99,
        lam=0.95,
    )
    np.testing.assert_allclose(found[SUBGOAL], of_subgoals[0], atol=1e-6)


def test_a_cut_episode_ends_in_the_value_of_what_follows():
    """Both levels in the same one, before anything is written."""
    arrays = episode()
    arrays["terminated"] = np.zeros((1, 5), bool)
    arrays["bootstrap"] = np.full((1, 5), 0.8, np.float32)
    found = hae(arrays)
    np.testing.assert_allclose(found[ACTION], HIPER["hiper_trunc_adv_low"], atol=1e-6)
    # H of the last segment: 0.99^2 (1 + 0.99 * 0.8), less W.
    np.testing.assert_allclose(found[SUBGOAL, 2], 0.99**2 * (1 + 0.99 * 0.8) - 0.55, atol=1e-6)


def test_the_subgoal_of_a_turn_that_keeps_is_not_trained():
    plain = episode()
    arrays = jax.tree.map(np.copy, plain)
    # The second turn names a subgoal although it keeps: positions that decide nothing.
    row = (arrays["turn"] == 1).any(axis=1)
    form = (SWITCH, -1, -1, ACTION)
    arrays["decision"][row, 1 : 1 + len(form)] = form
    arrays["loss_mask"][row, 1 : 1 + len(form)] = True
    arrays["turn"][row, 1 : 1 + len(form)] = 1
    arrays["token_value"][row, 1], arrays["token_value"][row, 4] = 0.3, 0.4
    np.testing.assert_allclose(hae(arrays), hae(plain), atol=1e-6)
