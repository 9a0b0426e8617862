"""LiarsDice: hidden dice, legal bids, chances, the expert."""

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs
from envs.liars_dice import rules

ENV, PARAMS = envs.make("LiarsDice-v1", dice=3)
STEP, RESET, LEGAL = fetched(ENV.step_env), fetched(ENV.reset), fetched(ENV.legal)
KEY = jax.random.key(0)
EXPERT = fetched(ENV.expert)
CALL = ENV.num_actions - 1


def bid(quantity, face):
    """Number of an action; -1 where there is none."""
    name = f"bid {quantity} {face}"
    return ENV.action_names.index(name) if name in ENV.action_names else -1


def changed(state, **fields):
    """The state with other fields of the rules' state."""
    return state.replace(game=state.game.replace(**fields))


def with_dice(state, hands):
    """The state with these dice."""
    dice = np.array([[*hand, *[0] * (ENV.dice - len(hand))] for hand in hands], np.uint8)
    return changed(state, dice=dice)


@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_the_others_dice_stay_hidden(wording):
    env = dataclasses.replace(ENV, wording=wording)
    _, state = fetched(env.reset)(KEY, PARAMS)
    _, state, *_ = STEP(KEY, state, np.int32(bid(1, 3)), PARAMS)
    one, other = (with_dice(state, hands) for hands in (((4, 2), (1, 3, 3)), ((4, 2), (6, 6, 5))))
    observe, expert = fetched(env.observe), fetched(env.expert)
    for seen, same in (
        (observe, False),
        (fetched(env.legal_actions), True),
        (fetched(env.fingerprint), False),
        (fetched(lambda state, params: env.describe(state, params).fragments), False),
    ):
        first, second = seen(one, PARAMS), seen(other, PARAMS)
        np.testing.assert_array_equal(first[0], second[0])
        assert same or np.any(first[1] != second[1])
    mine = {"seat": np.int32(0)}
    chex.assert_trees_all_equal(*(expert(changed(state, **mine), PARAMS) for state in (one, other)))
    np.testing.assert_array_equal(
        observe(one, PARAMS), [[0, 1, 0, 1, 0, 0, 3, 1, 3, 1], [1, 0, 2, 0, 0, 0, 2, 1, 3, 2]]
    )


def test_order_of_dice_is_not_seen_in_arrays():
    _, state = RESET(KEY, PARAMS)
    one, other = (with_dice(state, ((1, 5, 2), hand)) for hand in ((1, 3, 6), (6, 3, 1)))
    observe = fetched(ENV.observe)
    chex.assert_trees_all_equal(observe(one, PARAMS), observe(other, PARAMS))


def test_bids_neither_fall_nor_stay():
    _, state = RESET(KEY, PARAMS)
    assert LEGAL(state, PARAMS).tolist() == [True] * 36 + [False]
    state = changed(state, quantity=np.int32(2), face=np.int32(4))
    legal = {ENV.action_names[i] for i in np.flatnonzero(LEGAL(state, PARAMS))}
    pairs = {(q, f) for q in range(2, 7) for f in range(4, 7)} - {(2, 4)}
    assert legal == {f"bid {q} {f}" for q, f in pairs} | {"call"}
    state = changed(state, quantity=np.int32(6), face=np.int32(6))
    assert np.flatnonzero(LEGAL(state, PARAMS)).tolist() == [CALL]


def test_dice_are_fair_and_as_many_as_are_left():
    keys = jax.random.split(KEY, 20_000)

    def called(key):
        """The dice after a call that costs seat 1 its second die."""
        dice = jnp.array([[1] * 7, [1, 1, *[0] * 5]], jnp.uint8)
        at = rules.initial(dice, 14).replace(quantity=jnp.int32(1), face=jnp.int32(1))
        return rules.play(at.replace(seat=jnp.int32(1)), 84, rules.throw(key, 7)).dice

    dice = fetched(jax.vmap(called))(keys)
    assert np.all(dice[:, 1, 1:] == 0) and np.all(dice[:, 0] > 0) and np.all(dice[:, 1, 0] > 0)
    for hand in (dice[:, 0].reshape(-1), dice[:, 1, 0]):
        share = np.bincount(hand, minlength=7)[1:] / len(hand)
        assert np.all(np.abs(share - 1 / 6) < 0.01)


def test_likelihoods_are_binomial():
    own = np.array([2, 2, 0, 5, 0], np.uint8)
    chance = fetched(rules.likelihoods, static_argnums=2)(own, np.int32(4), 10)
    for quantity in range(1, 11):
        for face in range(1, 7):
            missing = max(quantity - [0, 2, 0, 0, 1, 0][face - 1], 0)
            ways = [math.comb(4, k) * 5 ** (4 - k) / 6**4 for k in range(missing, 5)]
            np.testing.assert_allclose(chance[quantity - 1, face - 1], sum(ways), atol=1e-6)


@pytest.mark.parametrize(
    ("own", "others", "standing", "action"),
    [
        ((4, 4, 6), 3, (0, 0), bid(1, 4)),  # certain, and the lowest of those
        ((4, 4, 6), 3, (1, 5), bid(1, 6)),
        ((4, 4, 6), 3, (2, 3), bid(2, 4)),
        ((4, 4, 6), 1, (4, 4), CALL),  # cannot hold
        ((1, 2), 1, (2, 3), CALL),
        ((6,), 1, (1, 6), bid(2, 6)),  # a call is lost for sure
    ],
)
def test_the_expert_goes_by_the_chances(own, others, standing, action):
    _, state = RESET(KEY, PARAMS)
    state = with_dice(state, (own, (1,) * others))
    quantity, face = map(np.int32, standing)
    assert int(EXPERT(changed(state, quantity=quantity, face=face), PARAMS)) == action


def test_quantities_may_be_bounded_otherwise():
    env, _ = envs.make("LiarsDice-v1", dice=3, max_quantity=8)
    assert env.num_actions == 49 and env.action_names[-2:] == ("bid 8 6", "call")
