"""Rules as modules: what holds of every game in the form of `envs.rules_game`, on random play."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.kuhn_poker import rules as kuhn_poker
from envs.rules_game import RulesGame
from envs.trade_comm import rules as trade_comm

KEY = jax.random.key(0)
SMALL = {
    "ConnectFour-v1": {"rows": 4, "columns": 4},
    "KuhnPoker-v1": {"rounds": 2},
    "LiarsDice-v1": {"dice": 2},
    "Nim-v1": {"piles": (1, 2, 3)},
    "PigDice-v1": {"target": 15, "turn_limit": 12},
}
# The rules of a negotiation are of acts, not of numbered actions.
MADE = {name: envs.make(name)[0] for name in envs.registered() if name != "SimpleNegotiation-v1"}
GAMES = [name for name, env in MADE.items() if isinstance(env, RulesGame)]
MOST = 40


@functools.cache
def played(name):
    """(module, states [64, T + 1], actions, terminal, legal of random play in the rules alone."""
    env, params = envs.make(name, **SMALL.get(name, {}))
    rules = env.game

    def play(key):
        first, key = jax.random.split(key)
        state = env.initial(first, params).game

        def turn(state, key):
            legal, over = rules.legal(state), rules.terminal(state)
            chosen, drawn = jax.random.split(key)
            action = jax.random.categorical(chosen, jnp.where(legal | over, 0.0, -jnp.inf))
            after = rules.play(state, action, *env.chance(drawn, params))
            after = jax.tree.map(lambda a, b: jnp.where(over, a, b), state, after)
            seen = (rules.player(state), legal, over, rules.returns(state), action)
            return after, (state, *seen)

        return jax.lax.scan(turn, state, jax.random.split(key, MOST))[1]

    return env, jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(KEY, 64)))


@pytest.mark.parametrize("name", GAMES)
def test_the_seat_that_acts_has_an_action_until_the_end(name):
    env, (_, player, legal, over, returns, _) = played(name)
    assert legal.shape[2] == env.num_actions and returns.shape[2] == env.num_agents
    assert legal[~over].any(axis=-1).all() and over.any(axis=1).all()
    assert set(np.unique(player[~over])) == set(range(env.num_agents))
    assert over.dtype == bool and not (over[:, :-1] & ~over[:, 1:]).any()


@pytest.mark.parametrize("name", GAMES)
def test_what_one_seat_wins_the_other_loses(name):
    _, (_, _, _, over, returns, _) = played(name)
    assert returns.any() and np.issubdtype(returns.dtype, np.integer)
    np.testing.assert_array_equal(returns.sum(axis=-1), 0)
    if name != "KuhnPoker-v1":  # hands are paid one by one
        assert not returns[~over].any()


@pytest.mark.parametrize("name", GAMES)
def test_what_a_seat_knows_says_what_it_may_do(name):
    """And in games of perfect information both know the same."""
    env, (state, player, legal, over, _, _) = played(name)
    may = {}
    for b, t in np.argwhere(~over)[::17]:
        here = jax.tree.map(lambda x, b=b, t=t: x[b, t], state)
        seat = int(player[b, t])
        knows = env.game.information_state(here, seat)
        assert np.array_equal(may.setdefault((seat, knows), legal[b, t]), legal[b, t])
        if env.perfect_information:
            assert knows == env.game.information_state(here, 1 - seat)


@pytest.mark.parametrize("rules, options", [(kuhn_poker, {"players": 3}), (trade_comm, {})])
def test_nobody_knows_the_others_part_of_a_deal(rules, options):
    deals = jax.device_get(rules.deals(**options))
    hidden = deals.cards if rules is kuhn_poker else deals.items
    for seat in range(hidden.shape[1]):
        known = {}
        for i in range(len(hidden)):
            one = jax.tree.map(lambda x, i=i: x[i], deals)
            known.setdefault(rules.information_state(one, seat), set()).add(hidden[i, seat])
        assert all(len(own) == 1 for own in known.values())
        assert len(known) == len(np.unique(hidden[:, seat]))
