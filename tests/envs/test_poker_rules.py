"""Kuhn poker, Leduc poker and Trade Comm: hands by hand, and rules that hold on every hand."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.kuhn_poker import rules as kuhn
from envs.leduc_poker import rules as leduc
from envs.trade_comm import rules as trade_comm

P, B = kuhn.PASS, kuhn.BET
F, C, R = leduc.FOLD, leduc.CALL, leduc.RAISE


@functools.cache
def jitted(function):
    return jax.jit(function)


def play(rules, state, actions):
    """The state after the actions, each of which must be legal."""
    for action in actions:
        assert not jitted(rules.terminal)(state)
        assert jitted(rules.legal)(state)[action]
        state = jitted(rules.play)(state, action)
    return state


@pytest.mark.parametrize(
    "cards, actions, returns",
    [
        ((2, 0), [P, P], [1, -1]),
        ((0, 2), [P, P], [-1, 1]),
        ((0, 2), [B, P], [1, -1]),
        ((2, 0), [P, B, P], [-1, 1]),
        ((1, 0), [B, B], [2, -2]),
        ((1, 2), [P, B, B], [-2, 2]),
        # Three players: the bettor and the third seat show, the first gave up.
        ((3, 1, 2), [P, B, B, P], [-1, -2, 3]),
        ((3, 1, 2), [P, P, P], [2, -1, -1]),
        ((0, 1, 2), [B, P, P], [2, -1, -1]),
        ((0, 3, 2), [P, P, B, B, B], [-2, 4, -2]),
    ],
)
def test_kuhn_hands(cards, actions, returns):
    state = play(kuhn, kuhn.initial(np.array(cards)), actions)
    assert kuhn.terminal(state)
    np.testing.assert_array_equal(kuhn.returns(state), returns)
    assert not kuhn.legal(state).any()


def test_kuhn_seats_act_in_turn():
    state, seats = kuhn.initial(np.array([0, 3, 2])), []
    for action in [P, P, B, B, B]:
        seats.append(int(kuhn.player(state)))
        state = kuhn.play(state, action)
    assert seats == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    "cards, actions, returns",
    [
        # Antes only; a pair beats a higher rank; equal ranks split.
        ((0, 4, 2), [C, C, C, C], [-1, 1]),
        ((2, 4, 3), [C, C, C, C], [1, -1]),
        ((2, 3, 5), [R, C, R, C], [0, 0]),
        # Raises are 2, then 4: 1 + 2 + 2 + 4 + 4.
        ((5, 0, 2), [R, R, C, R, R, C], [13, -13]),
        ((0, 5, 2), [C, R, R, C, C, R, R, C], [-13, 13]),
        # Who folds loses what it has paid.
        ((0, 5, 2), [R, F], [1, -1]),
        ((0, 5, 2), [R, R, F], [-3, 3]),
        ((0, 5, 2), [C, R, C, C, R, F], [-3, 3]),
    ],
)
def test_leduc_hands(cards, actions, returns):
    state = play(leduc, leduc.initial(np.array(cards)), actions)
    assert leduc.terminal(state)
    np.testing.assert_array_equal(leduc.returns(state), returns)
    assert not leduc.legal(state).any()


@pytest.mark.parametrize(
    "actions, legal",
    [
        ([], [False, True, True]),
        ([C], [False, True, True]),
        ([R], [True, True, True]),
        ([R, R], [True, True, False]),
        ([C, R, R], [True, True, False]),
        ([R, R, C], [False, True, True]),
        ([C, C, R, R], [True, True, False]),
    ],
)
def test_leduc_legal_actions(actions, legal):
    state = play(leduc, leduc.initial(np.array([0, 1, 2])), actions)
    np.testing.assert_array_equal(leduc.legal(state), legal)


def test_leduc_seat_0_opens_both_rounds():
    state = play(leduc, leduc.initial(np.array([0, 1, 2])), [C, R, C])
    assert state.round == 1 and leduc.player(state) == 0


@pytest.mark.parametrize("a, b", list(itertools.product(range(4), repeat=2)))
def test_trade_comm_pays_for_fitting_offers_that_can_be_kept(a, b):
    for items in itertools.product(range(2), repeat=2):
        state = trade_comm.initial(np.array(items), 2)
        for action in (0, 1, 2 + a, 2 + b):
            assert trade_comm.legal(state)[action]
            state = trade_comm.play(state, action)
        fits = (a // 2, b // 2) == items and (a % 2, b % 2) == items[::-1]
        np.testing.assert_array_equal(trade_comm.returns(state), [fits, fits])


@pytest.mark.parametrize(
    "rules, deck, num_cards, longest",
    [(kuhn, 3, 2, 3), (kuhn, 4, 3, 5), (kuhn, 5, 4, 7), (leduc, 6, 3, 8)],
)
def test_random_hands_end_and_are_zero_sum(rules, deck, num_cards, longest):
    @jax.jit
    @functools.partial(jax.vmap, in_axes=0)
    def run(key):
        deal, *keys = jax.random.split(key, longest + 1)
        state = rules.initial(jax.random.permutation(deal, deck)[:num_cards])

        def turn(state, key):
            logits = jnp.where(rules.legal(state), 0.0, -jnp.inf)
            after = rules.play(state, jax.random.categorical(key, logits))
            over = rules.terminal(state)
            early = over | jnp.all(rules.returns(state) == 0)
            return jax.tree.map(lambda a, b: jnp.where(over, a, b), state, after), early

        state, early = jax.lax.scan(turn, state, jnp.stack(keys))
        return rules.terminal(state), rules.returns(state), early

    over, returns, early = run(jax.random.split(jax.random.key(0), 500))
    assert over.all() and early.all()
    np.testing.assert_array_equal(returns.sum(1), 0)
    assert returns.dtype == jnp.int32
