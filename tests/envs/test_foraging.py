"""Foraging: lbforaging's recorded episodes, its tasks, what is seen, the expert."""

import functools

import jax
import numpy as np
import pytest
import recorded
from programs import fetched

import envs
from envs.foraging import rules

# 25 episodes of lbforaging v3 on 8 x 8 with two players and two foods, half of them force-coop,
# recorded by running it. A step is (actions, rewards, done, players, foods) with the state after
# it; players and foods are (row, column, level).
EPISODES = recorded.episodes("lbforaging")
KEY = jax.random.key(0)


@functools.cache
def made(**options):
    env, params = envs.make("Foraging-v1", **options)
    return env, params, fetched(env.step_env)


@functools.cache
def asked(method, **options):
    """A method of the environment that `made` makes."""
    return fetched(getattr(made(**options)[0], method))


def state_of(players, foods, **options):
    """The state of given players and foods (row, column, level)."""
    options = {"players": len(players), "foods": len(foods), **options}
    env, params, _ = made(**options)
    row, col, levels = np.array(players, np.int32).T
    food_row, food_col, food_levels = np.array(foods, np.int32).T
    return asked("initial", **options)(KEY, params).replace(
        cells=row * np.int32(env.size) + col,
        levels=levels,
        food_cells=food_row * np.int32(env.size) + food_col,
        food_levels=food_levels,
        total=np.int32(food_levels.sum()),
    )


def shown(state, size=8):
    """(players, foods left) as in the recordings."""
    players = zip(state.cells.tolist(), state.levels.tolist(), strict=True)
    foods = zip(state.food_cells.tolist(), state.food_levels.tolist(), strict=True)
    players = [[*divmod(cell, size), level] for cell, level in players]
    return players, [[*divmod(cell, size), level] for cell, level in foods if level]


@pytest.mark.parametrize("number", range(len(EPISODES)))
def test_recorded_episodes(number):
    episode = EPISODES[number]
    env, params, step = made()
    state = state_of(episode["players"], episode["foods"])
    # Unseen is -1 there and 0 here; with full sight all else is lbforaging's array.
    expected = np.array(episode["observations"]).reshape(2, -1, 3) + [1, 1, 0]
    np.testing.assert_array_equal(asked("observe")(state, params), expected)
    for actions, rewards, done, players, foods in episode["steps"]:
        _, state, reward, terminated, _ = step(KEY, state, np.array(actions), params)
        assert shown(state) == (players, foods)
        np.testing.assert_allclose(reward, rewards, atol=1e-5)
        assert bool(terminated | asked("is_truncated")(state, params)) == done


def test_collisions():
    """Swapping is allowed; who stays keeps its cell; two who want one cell stay both."""
    move = fetched(functools.partial(rules.move, size=8))
    north, south, west, east = rules.NORTH, rules.SOUTH, rules.WEST, rules.EAST
    assert move(np.array([0, 1]), np.array([east, west])).tolist() == [1, 0]
    assert move(np.array([0, 1]), np.array([east, rules.NONE])).tolist() == [0, 1]
    assert move(np.array([0, 1]), np.array([east, rules.LOAD])).tolist() == [0, 1]
    assert move(np.array([0, 2]), np.array([east, west])).tolist() == [0, 2]
    assert move(np.array([0, 1]), np.array([east, south])).tolist() == [1, 9]
    # A third enters the cell of one whose move failed.
    assert move(np.array([0, 2, 8]), np.array([east, west, north])).tolist() == [0, 2, 0]


def test_shares_and_penalty():
    env, params, step = made()
    params = params.replace(penalty=0.25)
    # Levels 1 and 2 load a food of 3: (1 x 3 / 3, 2 x 3 / 3) over foods of 5 in sum.
    state = state_of([(2, 2, 1), (2, 4, 2)], [(2, 3, 3), (5, 5, 2)])
    load = np.array([rules.LOAD, rules.LOAD])
    _, after, reward, *_ = step(KEY, state, load, params)
    np.testing.assert_allclose(reward, [1 / 5, 2 / 5], rtol=1e-6)
    assert after.food_levels.tolist() == [0, 2]
    _, after, reward, *_ = step(KEY, state, np.array([rules.LOAD, rules.NONE]), params)
    np.testing.assert_allclose(reward, [-0.25, 0])
    assert after.food_levels.tolist() == [3, 2]
    shared, params, step = made(shared=True)
    _, _, reward, *_ = step(KEY, state, load, params)
    np.testing.assert_allclose(reward, [3 / 5, 3 / 5], rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"force_coop": True, "players": 4, "foods": 5}])
def test_tasks(options):
    env, params, _ = made(**options)
    states = fetched(jax.vmap(env.initial, (0, None)))(jax.random.split(KEY, 256), params)
    for i in range(256):
        players, foods = shown(jax.tree.map(lambda x, i=i: x[i], states))
        lowest = sum(sorted(level for *_, level in players)[:3])
        assert len({(row, col) for row, col, _ in players}) == env.players
        assert all(1 <= level <= 2 for *_, level in players)
        for number, (row, col, level) in enumerate(foods):
            assert 0 < row < 7 and 0 < col < 7 and [row, col] not in [p[:2] for p in players]
            assert level == lowest if env.force_coop else 1 <= level <= lowest
            for other in foods[:number]:
                down, right = abs(row - other[0]), abs(col - other[1])
                assert max(down, right) > 1 and (down + right > 2 or 1 in (down, right))
    # Two foods find their places nearly always, five mostly.
    assert (np.asarray(states.food_levels) > 0).mean() > 0.9


def test_what_is_out_of_sight_is_not_seen():
    env, params, _ = made(sight=2, players=3)
    near = [(2, 3, 3), (6, 6, 2)]
    state = state_of([(2, 2, 1), (4, 4, 2), (6, 2, 1)], near, sight=2)
    observe = asked("observe", sight=2, players=3)
    seen = observe(state, params)
    assert seen[0].tolist() == [[3, 4, 3], [0] * 3, [3, 3, 1], [5, 5, 2], [0] * 3]
    hidden = state.replace(
        cells=np.where(np.arange(3) == 2, np.int32(7 * 8 + 7), state.cells),
        levels=np.where(np.arange(3) == 2, np.int32(2), state.levels),
        food_levels=np.where(np.arange(2) == 1, np.int32(1), state.food_levels),
    )
    np.testing.assert_array_equal(observe(hidden, params)[0], seen[0])
    describe = fetched(env.view.describe)
    for agent, same in ((0, True), (2, False)):
        texts = [describe(s, params, agent) for s in (state, hidden)]
        assert np.array_equal(*texts) == same


@pytest.mark.parametrize(
    "options", [{}, {"force_coop": True}, {"players": 3, "foods": 3, "force_coop": True}]
)
def test_experts_eat_everything(options):
    env, params, _ = made(**options)

    def play(key):
        def step(state, key):
            action = env.expert(state, params)
            _, state, reward, _, info = env.step_env(key, state, action, params)
            return state, (reward, info["valid"])

        state, (rewards, valid) = jax.lax.scan(
            step, env.initial(key, params), jax.random.split(key, 50)
        )
        return rewards.sum(), valid.all(), env.is_success(state, params).all(), state.time

    total, valid, success, steps = fetched(jax.vmap(play))(jax.random.split(KEY, 256))
    assert valid.all() and success.mean() > 0.99 and np.all(total < 1 + 1e-5)
    np.testing.assert_allclose(total[success], 1, rtol=1e-5)
    assert steps.mean() < 25
