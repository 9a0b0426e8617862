"""Volleyball on two levels: with scripted skills it is the game by decisions."""

import dataclasses

import jax
import numpy as np
import pytest
from programs import fetched

import envs
from envs.game import bin_centre, bin_index
from envs.volleyball import flight, rules, skills

MATCHES, SECONDS = 16, 3.0


def played(env, params, length):
    """(match, returns) of the expert after `length` steps, and what was seen on the way."""

    def play(key):
        def step(state, _):
            seen = env.observe(state, params)
            acting = env.acting(state, params)
            _, state, reward, _, _ = env.step_env(key, state, env.expert(state, params), params)
            return state, (seen, acting, reward)

        state, told = jax.lax.scan(step, env.initial(key, params), length=length)
        return state.match, told

    keys = jax.random.split(jax.random.key(0), MATCHES)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))


@pytest.fixture(scope="module")
def both():
    """Of the game by decisions and of that on two levels, from starts at which some are lost."""
    options = {"max_seconds": SECONDS, "noise": 0.8}
    base, params = envs.make("PlanarVolleyball-v1", **options)
    env, levels = envs.make("PlannedVolleyball-v1", residual=0.3, **options)
    return played(base, params, 10), played(env, levels, 165)


def test_scripted_levels_play_the_game_by_decisions(both):
    (match, (seen, acting, reward)), (other, (views, turns, paid)) = both
    assert match.lost.any() and match.ticks.max() == SECONDS / rules.STEP_SECONDS
    for field in ("ticks", "hits", "lost", "touched", "served"):
        np.testing.assert_array_equal(getattr(match, field), getattr(other, field))
    np.testing.assert_allclose(other.ball.position, match.ball.position, atol=1e-3)
    # Team by team: a planner and its drone are paid alike, and as there.
    np.testing.assert_array_equal(paid.sum(axis=1)[:, ::2], reward.sum(axis=1))
    np.testing.assert_array_equal(paid[..., ::2], paid[..., 1::2])
    # Planners decide as often, at what is seen there; drones act at every control step.
    np.testing.assert_array_equal(turns[..., 0].sum(axis=1), acting[..., 0].sum(axis=1))
    np.testing.assert_array_equal(turns[..., 1].sum(axis=1), match.ticks)
    assert not (turns[..., 0] & turns[..., 1]).any()
    np.testing.assert_array_equal(turns[..., ::2], turns[..., :1].repeat(2, axis=-1))
    for i in range(MATCHES):
        here, there = views[i, turns[i, :, 0]], seen[i, acting[i, :, 0]]
        np.testing.assert_allclose(here[:, ::2, 3:], there, atol=1e-3)


def test_observations_say_who_and_which_skill(both):
    views = both[1][1][0]
    planners, drones = views[..., ::2, :], views[..., 1::2, :]
    assert (planners[..., 0] == 1).all() and not planners[..., 1:3].any()
    assert not drones[..., 0].any() and (drones[..., 1:3].sum(axis=-1) == 1).all()
    # Both skills are used, and never both teams' hits at once: the ball comes down on one side.
    hits = drones[..., 2] == 1
    assert hits.any() and (~hits).any() and not hits.all(axis=-1).any()
    assert not drones[..., 3 + 19 :].any()


def test_numbers_are_parts_of_the_interval():
    for count in (1, 4, 72):
        numbers = np.arange(count)
        np.testing.assert_array_equal(bin_index(bin_centre(numbers, count), count), numbers)
    np.testing.assert_array_equal(
        bin_index(np.float32([-9, -1, -0.51, 0, 1, 9]), 4), [0, 0, 0, 2, 3, 3]
    )
    even = bin_index(np.linspace(-1, 1, 40, endpoint=False, dtype=np.float32) + 1e-3, 4)
    np.testing.assert_array_equal(np.bincount(even), 10)


@pytest.mark.parametrize(
    "teams, agents, features", [("plane", 4, 29), ("1v1", 4, 43), ("3v3", 8, 103)]
)
def test_agents_and_their_levels(teams, agents, features):
    env, _ = envs.make("PlannedVolleyball-v1", teams=teams)
    each = agents // 2
    assert (env.num_agents, env.observation_shape) == (agents, (features,))
    assert env.callers == (-1, *[0] * (each - 1), -1, *[each] * (each - 1))
    assert env.sides_of_seats == (0,) * each + (1,) * each
    assert env.layout["choices"] == {"plane": (4,), "1v1": (4,), "3v3": (6, 3, 4)}[teams]


def test_sides_are_alike():
    """The same match from the other side brings the other team's observations and rewards."""
    env, params = envs.make("PlannedVolleyball-v1")
    state = fetched(env.initial)(jax.random.key(3), params)
    state = state.replace(planning=np.zeros((), bool), choice=np.int32([1, 3]))
    other = state.replace(match=fetched(rules.swapped)(state.match), choice=state.choice[::-1])
    action = np.random.default_rng(1).uniform(-1, 1, (4, 2)).astype(np.float32)
    step = fetched(env.step_env)
    one = step(jax.random.key(0), state, action, params)
    two = step(jax.random.key(0), other, np.roll(action, 2, axis=0), params)
    np.testing.assert_allclose(np.roll(one[0], 2, axis=0), two[0], atol=1e-5)
    np.testing.assert_array_equal(np.roll(one[2], 2), two[2])


def test_a_residual_of_0_is_the_scripted_skill():
    env, params = envs.make("VolleyballSkill-v1", teams="plane", residual=0.2)
    plain = dataclasses.replace(env, residual=0.0)
    _, state = env.reset(jax.random.key(0), params)
    key = jax.random.key(1)
    command = fetched(plain.expert)(state, params)
    assert not fetched(env.expert)(state, params).any()
    added = np.float32([0.5, -3.0])  # clipped before it is added
    ours = jax.jit(env.step_env)(key, state, added, params)
    theirs = jax.jit(plain.step_env)(
        key, state, command + np.float32(0.2) * np.clip(added, -1, 1), params
    )
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-6)
    with pytest.raises(ValueError, match="more than 0 with actions='rates' only"):
        dataclasses.replace(env, actions="rotors")


def test_matches_hand_over_what_the_skill_meets_there():
    env, params = envs.make("VolleyballSkill-v1", teams="plane", starts="matches")
    keys = jax.random.split(jax.random.key(0), 32)
    state, fits = jax.jit(jax.vmap(env._of_match))(keys)
    # The others are matches that are over, whose starts are drawn as usual.
    assert 0.5 < fits.mean() <= 1
    state = jax.tree.map(lambda x: np.asarray(x)[np.asarray(fits)], state)
    assert state.sight.free.all() and state.order.hit.all()
    assert (fetched(jax.vmap(flight.in_use))(state.sight, state.order) == 1).all()
    # Serves and returns, at rest and on the way.
    height = state.sight.ball.position[1]
    assert height.min() < 2 < height.max()
    assert len(np.unique(np.round(state.order.target[0], 3))) > 1


def test_names_of_hcsp_are_orders():
    for name, (_, entry) in skills.NAMED.items():
        kind = "goto" if entry.target is None else "hit"
        env, _ = envs.make("VolleyballSkill-v1", teams="3v3", skill=kind, only=name)
        assert {s.place for s in env._known} >= {entry.place} or name == "goto"
    env, params = envs.make("VolleyballSkill-v1", teams="3v3", skill="hit", only="hcsp")
    assert env.kinds == ("serve", "receive", "pass", "set", "attack")
    rests = dataclasses.replace(env, skill="goto")
    assert set(env.kinds) | set(rests.kinds) == set(skills.NAMED)
    keys = jax.random.split(jax.random.key(0), 32)
    state = fetched(jax.vmap(env.initial, in_axes=(0, None)))(keys, params)
    kinds = fetched(env.kind_of)(state, params)
    assert set(kinds) == set(range(len(env.kinds)))
    for height, kind in zip(state.order.height, kinds, strict=True):
        assert height == np.float32(skills.NAMED[env.kinds[kind]][1].height)
    with pytest.raises(ValueError, match="only='set' with starts='matches'"):
        envs.make("VolleyballSkill-v1", teams="3v3", only="set", starts="matches")
