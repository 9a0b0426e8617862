"""Travel: an episode by hand, trips that do not exist, the expert, and the tools' confirmation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs

ENV, PARAMS = envs.make("Travel-v1")
HAND_IN = ENV.num_actions - 1


def task(offered, budget):
    """A task with these offers, for example {"flight": [2, 3], ...} by number from 1."""
    there = np.zeros((3, 4), bool)
    for d, name in enumerate(("flight", "hotel", "sight")):
        there[d, np.array(offered[name]) - 1] = True
    state = ENV.initial(jax.random.key(0), PARAMS)
    return state.replace(offered=jnp.asarray(there), budget=jnp.int32(budget))


def played(state, *commands, params=PARAMS):
    """(last state, total reward, success) of commands, with a key per step."""
    total, success = 0.0, False
    for t, command in enumerate(commands):
        action = ENV.action_names.index(command)
        _, state, reward, _, info = ENV.step_env(jax.random.key(t), state, action, params)
        total, success = total + float(reward), bool(info["success"])
    return state, total, success


# Prices and hours of world 0: flight 5@2 4@0 3@1 2@3, hotel 3@3 5@0 5@2 3@1, sight 5@2 1@1 2@0 3@3.
OFFERS = {"flight": [2, 3], "hotel": [1, 4], "sight": [2, 4]}
SEARCHES = ("search flight", "search hotel", "search sight")


def test_prices_and_hours_of_the_world_are_as_the_tests_say():
    np.testing.assert_array_equal(ENV.prices, [[5, 4, 3, 2], [3, 5, 5, 3], [5, 1, 2, 3]])
    np.testing.assert_array_equal(ENV.hours, [[2, 0, 1, 3], [3, 0, 2, 1], [2, 1, 0, 3]])


def test_a_trip_by_hand():
    """Flight 3 at 1, hotel 4 at 1, sight 2 at 1 for 3 + 3 + 1: within a budget of 7, not of 6."""
    trip = (*SEARCHES, "book flight 3", "book hotel 4", "book sight 2", "hand in")
    state, reward, success = played(task(OFFERS, 7), *trip)
    assert (reward, success) == (1.0, True)
    np.testing.assert_array_equal(state.listed, [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])
    assert ENV.render(state, PARAMS).splitlines()[1] == "flight: 1-5@2 2+4@0 [3+3@1] 4-2@3"
    assert played(task(OFFERS, 6), *trip)[1:] == (0.0, False)


def test_a_hotel_before_the_flight_is_not_in_order():
    trip = (*SEARCHES, "book flight 3", "book hotel 2", "book sight 2", "hand in")
    assert played(task(OFFERS | {"hotel": [2]}, 15), *trip)[1:] == (0.0, False)


def test_an_incomplete_trip_is_not_right_and_a_later_booking_counts():
    assert played(task(OFFERS, 15), "book flight 3", "hand in")[1:] == (0.0, False)
    trip = (*SEARCHES, "book flight 3", "book hotel 4", "book sight 3", "book sight 2", "hand in")
    assert played(task(OFFERS, 7), *trip)[1:] == (1.0, True)


def test_a_trip_that_does_not_exist_is_paid_and_is_no_success():
    """The check of the trip cannot see which offers exist, nor whether anybody searched."""
    trip = ("book flight 3", "book hotel 4", "book sight 2", "hand in")
    assert played(task(OFFERS, 7), *trip)[1:] == (1.0, False)
    missing = (*SEARCHES, "book flight 3", "book hotel 3", "book sight 1", "hand in")
    assert played(task(OFFERS, 15), *missing)[1:] == (1.0, False)


@pytest.mark.parametrize("domains, options", [(1, 2), (3, 4), (4, 3)])
def test_the_expert_always_succeeds_without_noise(domains, options):
    env, params = envs.make("Travel-v1", domains=domains, options=options)

    def episode(key):
        def step(state, step_key):
            action = env.expert(state, params)
            _, state, reward, _, info = env.step_env(step_key, state, action, params)
            return state, (reward, info["success"])

        first = env.initial(key, params)
        state, (reward, success) = jax.lax.scan(step, first, jax.random.split(key, 2 * domains + 1))
        return state.handed_in, reward.sum(), success[-1], env.kind_of(first, params)

    done, reward, success, kind = jax.jit(jax.vmap(episode))(
        jax.random.split(jax.random.key(1), 500)
    )
    assert done.all() and success.all() and (reward == 1).all()
    assert 0.05 < float(np.mean(kind == 0)) < 0.95


def checked(state, *turns, params=PARAMS, key=0):
    """Claims and confirmations of turns of one or two commands each; a turn of padding behind."""
    number = [[ENV.action_names.index(c) for c in turn.split(" || ")] for turn in turns]
    rows = [[*row, -1][:2] for row in number] + [[-1, -1]]
    claims, confirmed = ENV.checked(jax.random.key(key), state, jnp.int32(rows), params)
    return claims.tolist()[:-1], confirmed.tolist()[:-1], bool(claims[-1] | confirmed[-1])


def test_the_tools_confirm_what_was_searched_before_and_exists():
    state = task(OFFERS, 15)
    claims, confirmed, padding = checked(
        state, "search flight", "book flight 3", "book hotel 4", "search hotel", "book sight 1"
    )
    assert claims == [False, True, True, False, True]
    # Hotels were searched too late, sights never.
    assert confirmed == [False, True, False, False, False] and not padding


def test_the_last_booking_of_a_domain_is_the_claim():
    state = task(OFFERS, 15)
    turns = ("search flight", "book flight 1", "book flight 2 || book flight 3")
    assert checked(state, *turns)[:2] == ([False, False, True], [False, False, True])
    turns = ("search flight || book flight 3", "search hotel || book hotel 3")
    assert checked(state, *turns)[:2] == ([True, True], [True, False])


def test_noise_turns_answers_and_the_checkers_search_is_its_own():
    params = PARAMS.replace(noise=1.0)
    state, _, _ = played(task(OFFERS, 15), "search flight", params=params)
    np.testing.assert_array_equal(state.listed[0], [1, 0, 0, 1])
    half = PARAMS.replace(noise=0.5)
    turns = ("search flight", "book flight 3")
    found = {checked(state, *turns, params=half, key=k)[1][1] for k in range(20)}
    assert found == {True, False}


def test_budgets_end_at_the_price_of_all_trips():
    params = PARAMS.replace(slack=100)
    states = jax.vmap(lambda key: ENV.initial(key, params))(jax.random.split(jax.random.key(0), 99))
    assert int(states.budget.max()) == ENV.highest == 15
    for options in ({"domains": 5}, {"options": 7}, {"options": 1}):
        with pytest.raises(ValueError, match="expected 1 to 4 and 2 to 6"):
            envs.make("Travel-v1", **options)
