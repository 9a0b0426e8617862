"""Trading desk: scripted days, class balance, the interval test, portfolios by hand."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.trading_desk import rules

functions = functools.partial(playing.functions, "TradingDesk-v1")
teller = functools.partial(playing.teller, "TradingDesk-v1")
BUY, SELL, HOLD = 6, 7, 8


def scripted(**options):
    """Regime 0, weights 2 0 0 1 0 0, signals 1 -1 0 -1 1 0: score 1, HOLD is right."""
    env, params, reset, step = functions(**options)
    state = reset(jax.random.key(0))
    state = state.replace(
        regimes=jnp.zeros_like(state.regimes),
        signals=jnp.broadcast_to(jnp.array([1, -1, 0, -1, 1, 0], jnp.int8), (env.days, 6)),
        scores=jnp.ones_like(state.scores),
        noise=jnp.zeros_like(state.noise),
    )
    return env, params, state, step


def gained(state, step, actions):
    """(last state, sum of rewards, whether the episode ended, last info)."""
    total, done, info = 0.0, False, None
    for action in actions:
        _, state, reward, done, info = step(state, action)
        total += float(reward)
    return state, total, bool(done), info


@pytest.mark.parametrize(
    ("actions", "reward", "success"),
    [
        ((0, 3, HOLD), 0.90, True),
        ((0, BUY), -0.55, False),
        ((0, 1, 2, 3, 4, 5, HOLD), 0.70, True),
        ((HOLD,), 1.00, True),
        ((0, 0, HOLD), 0.85, True),
    ],
    ids=str,
)
def test_scripted_days(actions, reward, success):
    _, _, state, step = scripted()
    _, total, done, info = gained(state, step, actions)
    assert done and bool(info["success"]) == success
    np.testing.assert_allclose(total, reward, rtol=1e-5)


def test_the_opposite_decision_costs_more():
    _, _, state, step = scripted()
    state = state.replace(scores=jnp.array([3], jnp.int8))
    assert [float(step(state, action)[2]) for action in (BUY, HOLD, SELL)] == [1.0, -0.5, -1.0]


def test_expert_asks_until_no_signal_can_change_the_decision():
    env, params, state, step = scripted()
    actions = []
    while not bool(env.is_terminated(state, params)):
        actions.append(int(env.expert(state, params)))
        _, state, *_ = step(state, actions[-1])
    # After the first query the score is between 1 and 3.
    assert actions == [0, 3, HOLD]


def test_interval_test_is_the_truth_over_all_signals():
    for regime, weights in enumerate(rules.WEIGHTS):
        signals = rules.tables(rules.WEIGHTS).signals.astype(int)
        decisions = np.asarray(rules.decision(signals @ np.array(weights)))
        for number in np.random.default_rng(regime).integers(len(signals), size=12):
            for asked in itertools.product((False, True), repeat=6):
                same = np.all((signals == signals[number]) | ~np.array(asked), axis=1)
                possible = set(decisions[same])
                unsure, tool, choice = rules.next_query(
                    np.array(weights), signals[number], np.array(asked)
                )
                assert bool(unsure) == (len(possible) > 1)
                assert not bool(unsure) or not asked[int(tool)]
                assert bool(unsure) or {int(choice)} == possible


def test_expert_is_always_right():
    env, params, *_ = functions()
    history = playing.episodes(env, params, 512, 8)
    assert history.info["success"][:, -1].all()
    queries = history.last.time - 1
    assert queries.min() >= 1 and queries.max() <= 4
    np.testing.assert_allclose(history.reward.sum(axis=1), 1 - 0.05 * queries, rtol=1e-5)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_class_balance(share):
    env, params, *_ = functions(hold_share=share)
    state = playing.starts(env, params, 4096)
    right = np.asarray(rules.decision(state.scores[:, 0].astype(int)))
    # Four deviations of 4096 draws: 4 * sqrt(0.16 / 4096) = 0.025.
    for choice, wanted in ((0, share), (1, (1 - share) / 2), (-1, (1 - share) / 2)):
        assert abs((right == choice).mean() - wanted) < 0.025
    weights = np.array(env.weights)[state.regimes[:, 0]]
    np.testing.assert_array_equal((weights * state.signals[:, 0]).sum(axis=1), state.scores[:, 0])


def test_unreliable_tools():
    env, params, *_ = functions(reliability=0.7)
    state = playing.starts(env, params, 4096)
    weights = np.array(env.weights)[state.regimes[:, 0]]
    wrong = (weights * state.signals[:, 0]).sum(axis=1) != state.scores[:, 0]
    assert 0.2 < wrong.mean() < 0.8


def test_observation_words_and_drawing():
    env, params, state, step = scripted()
    observation, state, *_ = step(state, 0)
    np.testing.assert_array_equal(observation[:3], [1, 0, 0])
    np.testing.assert_array_equal(observation[3:6], [0, 0, 1])
    assert float(observation[6:].sum()) == 0
    _, state, *_ = step(state, 4)
    _, state, *_ = step(state, 1)
    assert teller()(state) == "g0 rsi+ trend- news+ ?"
    assert teller(show_regime=False)(state) == "rsi+ trend- news+ ?"
    assert teller(wording="faithful")(state) == (
        "Regime: high rates. RSI: oversold (+). Trend: down (-). News tone: positive (+). "
        "Your decision?"
    )
    assert env.render(state, params) == "day 1 high rates | rsi+ trend- news+ | z 1"


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("days", [1, 3])
def test_commands_and_bounds(wording, days):
    options = {"wording": wording, "days": days}
    texts = playing.assert_commands_are_understood("TradingDesk-v1", **options)
    assert texts[0] == "ask rsi" and texts[-3:] == ["buy", "sell", "hold"]
    _, _, reset, step = functions(**options)
    tell, state = teller(**options), reset(jax.random.key(1))
    for action in (7, 0, 1, 2, 3, 4, 5):
        _, state, *_ = step(state, action)
        tell(state)


def test_portfolio_by_hand():
    env, params, state, step = scripted(days=3)
    state = state.replace(scores=jnp.array([4, -2, -2], jnp.int8))
    # Buy: 2 - 0.1; keep the position: -1; ask, then sell: 1 - 0.1 - 0.05.
    rewards = []
    for action in (BUY, HOLD, 0, SELL):
        observation, state, reward, done, info = step(state, action)
        rewards.append(float(reward))
    np.testing.assert_allclose(rewards, [1.9, -1.0, -0.05, 0.9], rtol=1e-5)
    assert bool(done) and bool(info["success"])
    np.testing.assert_allclose(state.profit, [1.9, -1.0, 0.9], rtol=1e-5)
    np.testing.assert_array_equal(observation[-3:], [1, 0, 0])


def test_queries_are_of_the_day():
    env, params, state, step = scripted(days=2)
    state, *_ = gained(state, step, (0, HOLD))
    assert not bool(state.asked.any()) and bool(env.legal(state, params)[0])


def best_return(weights, share, queries, cost, told=()):
    """The most that at most so many queries are worth, by enumeration of all signals, after the
    answers {tool: signal} told."""
    signals = rules.tables(rules.WEIGHTS).signals.astype(int)
    right = np.asarray(rules.decision(signals @ np.array(weights)))
    chance = {rules.HOLD: share, rules.BUY: (1 - share) / 2, rules.SELL: (1 - share) / 2}
    weight = np.array([chance[d] / (right == d).sum() for d in right])
    weight = weight * np.all([signals[:, tool] == one for tool, one in told], axis=0)
    paid = [
        np.where(right == d, 1.0, np.where((right == -d) & (d != 0), -1.0, -0.5)) @ weight
        for d in (rules.BUY, rules.HOLD, rules.SELL)
    ]
    asked = {tool for tool, _ in told}
    for tool in np.flatnonzero(weights) if queries else ():
        if tool not in asked:
            after = [(*told, (tool, one)) for one in (-1, 0, 1)]
            each = sum(best_return(weights, share, queries - 1, cost, one) for one in after)
            paid.append(each - cost * weight.sum())
    return max(paid)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.8, (0.7, 0.7, 0.810, 0.884)), (0.5, (0.25, 0.548, 0.696, 0.882))]
)
def test_what_queries_are_worth(share, expected):
    """With HOLD on 80 % of the days one query is worth nothing, even free: BUY has at most 5/13
    after it. Two or three are worth 0.11 and 0.18 together."""
    for queries, value in enumerate(expected):
        found = [best_return(weights, share, queries, 0.05) for weights in rules.WEIGHTS]
        assert np.mean(found) == pytest.approx(value, abs=0.001)
    assert best_return(rules.WEIGHTS[0], 0.8, 1, 0.0) == pytest.approx(0.7)
