"""Exact exploitability: reference numbers, analytic equilibria, best responses, errors.

poker.npz: OpenSpiel 2.0.2.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from agentrl import selfplay
from agentrl.selfplay import games
from agentrl.selfplay import sequence_form as library
from agentrl.selfplay.games import sequence_form

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "data" / "poker.npz")
GAMES = {"KuhnPoker-v1": "kuhn_poker", "LeducPoker-v1": "leduc_poker"}
TABULAR = [
    ("KuhnPoker-v1", {}),
    ("KuhnPoker-v1", {"players": 3}),
    ("LeducPoker-v1", {}),
    ("TradeComm-v1", {}),
    ("Nim-v1", {"piles": (1, 2, 2)}),
    ("LiarsDice-v1", {"max_quantity": 1}),
]


class sf:  # noqa: N801
    """The functions under jit, as they run in training."""

    uniform = staticmethod(library.uniform)
    plan, behaviour, reach, action_values, returns, nash_conv = (
        staticmethod(jax.jit(getattr(library, name), static_argnums=0))
        for name in ("plan", "behaviour", "reach", "action_values", "returns", "nash_conv")
    )
    others = staticmethod(jax.jit(library.others))


def random_policy(form, seed, scale=3.0):
    logits = np.random.default_rng(seed).normal(size=form.legal.shape) * scale
    weights = np.where(form.legal, np.exp(logits), 0.0)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("name", GAMES)
def test_rows_are_those_of_openspiel(name):
    form, key = sequence_form(name), GAMES[name]
    assert selfplay.infostates(name) == tuple(VECTORS[f"{key}/infostate"].tolist())
    np.testing.assert_array_equal(form.legal, VECTORS[f"{key}/legal_mask"])
    np.testing.assert_array_equal(form.player, VECTORS[f"{key}/player"])


@pytest.mark.parametrize("name", GAMES)
def test_reference_values_and_nash_conv(name):
    key = GAMES[name]
    for i, policy in enumerate(VECTORS[f"{key}/policies"]):
        expected = VECTORS[f"{key}/nash_conv"][i]
        assert selfplay.nash_conv(name, policy) == pytest.approx(expected, abs=2e-7)
        assert selfplay.exploitability(name, policy) == pytest.approx(expected / 2, abs=1e-7)
        returns = selfplay.expected_returns(name, policy)
        np.testing.assert_allclose(returns, VECTORS[f"{key}/value"][i], atol=1e-7)
        gains = selfplay.best_response(name, policy).value - returns
        np.testing.assert_allclose(gains, VECTORS[f"{key}/player_improvements"][i], atol=2e-7)


@pytest.mark.parametrize(
    "key, name, options",
    [("kuhn3", "KuhnPoker-v1", {"players": 3}), ("trade_comm_2", "TradeComm-v1", {"num_items": 2})],
)
def test_three_players_and_common_interest(key, name, options):
    policy = VECTORS[f"{key}/policy"]
    assert selfplay.infostates(name, **options) == tuple(VECTORS[f"{key}/infostate"].tolist())
    nash_conv = selfplay.nash_conv(name, policy, **options)
    assert nash_conv == pytest.approx(float(VECTORS[f"{key}/nash_conv"]), abs=1e-12)
    returns = selfplay.expected_returns(name, policy, **options)
    np.testing.assert_allclose(returns, VECTORS[f"{key}/value"], atol=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_float32_in_the_graph_is_within_1e_6(name):
    form, key = sequence_form(name), GAMES[name]
    nash_conv = jax.jit(jax.vmap(lambda policy: sf.nash_conv(form, policy)))
    values = nash_conv(jnp.asarray(VECTORS[f"{key}/policies"]))
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, VECTORS[f"{key}/nash_conv"], atol=1e-6)


@pytest.mark.parametrize("name, expected", [("KuhnPoker-v1", 11 / 12), ("LeducPoker-v1", 4.747222)])
def test_uniform_policy(name, expected):
    uniform = sf.uniform(sequence_form(name))
    assert selfplay.nash_conv(name, uniform) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 1 / 3])
def test_equilibria_of_kuhn_poker(alpha):
    """Seat 0 bets a jack with chance alpha and a king with 3 alpha, calls a queen with alpha + 1/3;
    seat 1 bets a jack and calls a queen with chance 1/3."""
    bet = {"0": alpha, "0pb": 0, "1": 0, "1pb": alpha + 1 / 3, "2": 3 * alpha, "2pb": 1}
    bet |= {"0p": 1 / 3, "0b": 0, "1p": 0, "1b": 1 / 3, "2p": 1, "2b": 1}
    policy = np.array([[1 - bet[s], bet[s]] for s in selfplay.infostates("KuhnPoker-v1")])
    assert selfplay.nash_conv("KuhnPoker-v1", policy) == pytest.approx(0, abs=1e-15)
    returns = selfplay.expected_returns("KuhnPoker-v1", policy)
    np.testing.assert_allclose(returns, [-1 / 18, 1 / 18], atol=1e-15)


@pytest.mark.parametrize("name, value", [("KuhnPoker-v1", -1 / 18), ("LeducPoker-v1", -0.0856064)])
def test_value_and_equilibrium_by_linear_program(name, value):
    """Koller's program: seat 0's plan x against seat 1's values y, max y_root, F1' y <= A' x."""
    form = sequence_form(name)
    states, actions = form.legal.shape
    size = states * actions + 2
    game = np.zeros((size, size))
    np.add.at(game, tuple(form.sequences.T), form.payoff[:, 0])
    flows = np.zeros((states + 2, size))
    for row in range(states):
        flows[row, row * actions + np.flatnonzero(form.legal[row])] = 1
        flows[row, form.parent[row]] = -1
    flows[states:, -2:] = np.eye(2)
    used = np.append(form.legal.reshape(-1), [True, True])
    owner = np.append(form.player, [0, 1])
    column_owner = np.append(np.repeat(form.player, actions), [0, 1])
    x, y = used & (column_owner == 0), used & (column_owner == 1)
    f0, f1 = flows[owner == 0][:, x], flows[owner == 1][:, y]
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(x.sum()), -np.eye(len(f1))[-1]]),
        A_ub=np.hstack([-game[np.ix_(x, y)].T, f1.T]),
        b_ub=np.zeros(y.sum()),
        A_eq=np.hstack([f0, np.zeros((len(f0), len(f1)))]),
        b_eq=np.eye(len(f0))[-1],
        bounds=[(0, None)] * x.sum() + [(None, None)] * len(f1),
    )
    assert -result.fun == pytest.approx(value, abs=1e-7)
    plan = np.zeros(size)
    plan[x] = result.x[: x.sum()]
    policy = np.array(sf.behaviour(form, jnp.asarray(plan[:-2].reshape(states, actions))))
    answer = selfplay.best_response(name, policy)
    assert answer.value[1] == pytest.approx(-value, abs=1e-6)


@pytest.mark.parametrize("name, options", TABULAR)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.floats(0, 20))
def test_no_policy_earns_more_than_the_best_response(name, options, seed, scale):
    form = sequence_form(name, **options)
    policy = random_policy(form, seed)
    best = selfplay.best_response(name, policy, **options)
    for p in range(form.num_players):
        mine = (form.player == p)[:, None]

        def earns(other, p=p, mine=mine):
            deviation = np.where(mine, other, policy)
            return selfplay.expected_returns(name, deviation, **options)[p]

        assert earns(random_policy(form, seed + 1, scale)) <= best.value[p] + 1e-12
        assert earns(best.policy) == pytest.approx(best.value[p], abs=1e-12)


@pytest.mark.parametrize("name, options", TABULAR)
def test_best_response_values_in_a_second_way(name, options):
    """Policy iteration: improving every row by its counterfactual values ends at the same value."""
    form = sequence_form(name, **options)
    policy = random_policy(form, 0)
    best = selfplay.best_response(name, policy, **options)
    with jax.enable_x64(True):
        other = sf.others(sf.reach(form, sf.plan(form, jnp.asarray(policy))))
        answer = policy
        for _ in form.levels:
            q = np.where(form.legal, sf.action_values(form, jnp.asarray(answer), other), -np.inf)
            answer = np.eye(q.shape[1])[q.argmax(1)]
        for p in range(form.num_players):
            deviation = np.where((form.player == p)[:, None], answer, policy)
            value = selfplay.expected_returns(name, deviation, **options)[p]
            assert value == pytest.approx(best.value[p], abs=1e-12)


@pytest.mark.parametrize("name, options", TABULAR)
def test_plans_and_policies_are_the_same(name, options):
    form = sequence_form(name, **options)
    with jax.enable_x64(True):
        policy = jnp.asarray(random_policy(form, 1))
        np.testing.assert_allclose(sf.behaviour(form, sf.plan(form, policy)), policy, atol=1e-12)


def test_mixing_plans_is_mixing_before_the_game():
    form = sequence_form("LeducPoker-v1")
    with jax.enable_x64(True):
        a, b, against = (jnp.asarray(random_policy(form, seed)) for seed in range(3))
        mine = (form.player == 0)[:, None]
        mixed = sf.behaviour(form, 0.3 * sf.plan(form, a) + 0.7 * sf.plan(form, b))
        returns = [sf.returns(form, jnp.where(mine, p, against)) for p in (a, b, mixed)]
        np.testing.assert_allclose(returns[2], 0.3 * returns[0] + 0.7 * returns[1], atol=1e-12)


def test_gradient_of_returns():
    """Of player 0's return by its own policy: own reach times counterfactual values."""
    form = sequence_form("KuhnPoker-v1")
    with jax.enable_x64(True):
        policy = jnp.asarray(random_policy(form, 2))
        plan = sf.plan(form, policy)
        gradient = jax.jit(jax.grad(lambda p: sf.returns(form, p)[0]))(policy)
        q = sf.action_values(form, policy, sf.others(sf.reach(form, plan)))
        own = plan / policy
        mine = form.player == 0
        np.testing.assert_allclose(gradient[mine], (own * q)[mine], atol=1e-12)


def test_states_show_what_the_rows_say():
    form = sequence_form("KuhnPoker-v1")
    cards = form.states.cards[np.arange(12), form.player]
    assert [s[0] for s in form.infostates] == [str(c) for c in cards]


def test_positions_without_a_past_are_told_apart_by_what_the_player_did():
    """Two piles of 1 and 2: one object of pile 1 can be left after either of two first moves."""
    form = sequence_form("Nim-v1", piles=(1, 2))
    second = [f"1 2 > {move}" for move in ("0 > 0 1", "1 > 0 1", "1 > 1 0")]
    assert form.infostates == ("1 2", *second, "0 2", "1 1", "1 0")
    assert form.player.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert [len(rows) for rows in form.levels] == [4, 3] and len(form.sequences) == 5


@pytest.mark.parametrize("piles, first", [((1, 2), 1), ((2, 2), -1), ((1, 2, 3), -1)])
def test_nim_is_won_by_nim_sums(piles, first):
    """The expert in both seats is an equilibrium; its value is Bouton's."""
    env, params = envs.make("Nim-v1", piles=piles)
    form = sequence_form("Nim-v1", piles=piles)
    states = jax.vmap(env.at)(form.states)
    action = jax.jit(jax.vmap(env.expert, (0, None)))(states, params)
    policy = np.eye(form.legal.shape[1])[np.asarray(action)]
    assert selfplay.nash_conv("Nim-v1", policy, piles=piles) == 0
    returns = selfplay.expected_returns("Nim-v1", policy, piles=piles)
    assert returns.tolist() == [first, -first]


def test_liars_dice_with_one_die_each():
    """One face at a time, quantities up to 1: seat 0 bids, then each raises or calls. A bid of its
    own face is always true, so who calls it loses."""
    form = sequence_form("LiarsDice-v1", max_quantity=1)
    names = dict(zip(form.infostates, form.legal.tolist(), strict=True))
    assert names["3 against 1, 0 of 0"] == [True] * 6 + [False]
    honest = [p == 0 and ">" not in n for p, n in zip(form.player, form.infostates, strict=True)]
    policy = sf.uniform(form)
    for row in np.flatnonzero(honest):
        policy[row] = np.eye(7)[int(form.infostates[row][0]) - 1]
    for row in np.flatnonzero(form.player == 1):
        policy[row] = np.eye(7)[6]
    returns = selfplay.expected_returns("LiarsDice-v1", policy, max_quantity=1)
    np.testing.assert_allclose(returns, [1, -1], atol=1e-12)


def test_errors(monkeypatch):
    uniform = sf.uniform(sequence_form("KuhnPoker-v1"))
    with pytest.raises(ValueError, match="no tabular game 'Chess-v1'"):
        selfplay.infostates("Chess-v1")
    monkeypatch.setattr(games, "_MOST", 2000)
    with pytest.raises(ValueError, match="more than 2,000 histories"):
        selfplay.infostates("Nim-v1", piles=(5, 5, 5))
    with pytest.raises(ValueError, match="players=1; expected at least 2"):
        selfplay.infostates("KuhnPoker-v1", players=1)
    with pytest.raises(ValueError, match=r"shape \(11, 2\): expected \(12, 2\)"):
        selfplay.nash_conv("KuhnPoker-v1", uniform[:-1])
    with pytest.raises(ValueError, match=r"row 3 \('1pb'\).*sum to 1"):
        selfplay.nash_conv("KuhnPoker-v1", np.where(np.arange(12)[:, None] == 3, 0.7, uniform))
    with pytest.raises(ValueError, match="row 0.*sum to 1"):
        selfplay.nash_conv("KuhnPoker-v1", np.full((12, 2), np.nan))
    with pytest.raises(ValueError, match=r"row 0 .*the legal actions are \[1, 2\]"):
        selfplay.nash_conv("LeducPoker-v1", np.full((936, 3), 1 / 3))
