"""Volleyball: symmetry of sides, faults by hand, events, skills, layouts, what experts achieve."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs
from envs.volleyball import planar, quadrotor, rules, skills
from envs.volleyball.ball import Ball

KEY = jax.random.key(0)
PLANE = ("PlanarVolleyball-v1", {})
THREE = ("Volleyball-v1", {"teams": "3v3"})


@functools.cache
def made(name, **options):
    env, params = envs.make(name, **options)
    return env, params, fetched(env.step_env)


@functools.cache
def asked(method, name, **options):
    """A method of the environment that `made` makes."""
    return fetched(getattr(made(name, **options)[0], method))


@functools.cache
def ticker(kind):
    """A control step of a match under commands by rates, compiled once."""
    body = planar if kind == "plane" else quadrotor
    return fetched(lambda m, c: rules.tick(m, c, skills.GAMES[kind].court, body))


def match_of(kind, serving=0, ball=(0.0, 5.0), speed=(0.0, 0.0), **changes):
    """A match in the plane: drones at home, the ball where it is said, x first."""
    params = made(PLANE[0])[1].replace(noise=0.0)
    match = asked("serve", PLANE[0])(KEY, np.int32(serving), params)
    flat = Ball(tuple(map(np.float32, ball)), tuple(map(np.float32, speed)))
    return match._replace(ball=flat, **changes)


def hover(match, body):
    """The command that keeps a level drone where it is."""
    weight = 2 * 9.81 * quadrotor.MASS / (body.ROTORS * body.ROTOR_THRUST) - 1
    zero = np.zeros(match.touched.shape, np.float32)
    return (zero + np.float32(weight), *[zero] * (len(body.COMMANDS) - 1))


def stepped(match, count=1):
    for _ in range(count):
        match = ticker("plane")(match, hover(match, planar))
    return match


@pytest.mark.parametrize("kind", ["plane", "3v3"])
def test_changing_sides_changes_nothing_but_the_names(kind):
    """Bit for bit: positions, touches and losses of 100 random control steps of 32 matches."""
    name, options = PLANE if kind == "plane" else THREE
    env, params, _ = made(name, **options)
    keys = jax.random.split(KEY, 32)
    draw = fetched(jax.vmap(lambda key: env.initial(key, params).match, out_axes=-1))
    start = draw(keys)
    shape = (100, *start.touched.shape)
    parts = len(env.body.COMMANDS)
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, (shape[0], parts, *shape[1:]))
    level = np.array(hover(start, env.body))
    commands = np.float32(level + noise * (np.arange(parts) > 0)[:, None, None])

    @fetched
    def play(match, commands):
        def step(match, command):
            match = env.tick(match, tuple(command))
            return match, (match.lost, match.hit, match.ball)

        return jax.lax.scan(step, match, commands)

    last, (lost, hit, _) = play(start, commands)
    half = shape[1] // 2
    swapped = fetched(rules.swapped)
    other, (other_lost, other_hit, _) = play(swapped(start), np.roll(commands, half, axis=2))
    np.testing.assert_array_equal(other_lost, lost[:, ::-1])
    np.testing.assert_array_equal(other_hit, np.roll(hit, half, axis=1))
    for one, two in zip(jax.tree.leaves(swapped(last)), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(one, two)
    # And something happens in them.
    assert lost[-1].any(axis=0).mean() > 0.5 and hit.any()
    reward = fetched(lambda before, after: env.reward(before, after, params=params))
    np.testing.assert_array_equal(reward(swapped(start), other), reward(start, last)[::-1])


def test_a_touch_and_a_second_one():
    """The ball falls onto drone 0 at (1.6, 0.8): a touch; again in the same possession: a loss."""
    match = match_of("plane", ball=(1.6, 1.0), speed=(0.0, -5.0))
    first = stepped(match)
    assert first.hit.tolist() == [True, False] and not first.lost.any()
    assert int(first.hits) == 1 and bool(first.served) and first.touched.tolist() == [True, False]
    assert float(first.ball.velocity[1]) > 3.5 and bool(first.event)
    # Within three steps it would be the same touch.
    down = first.ball._replace(position=match.ball.position, velocity=match.ball.velocity)
    soon = stepped(first._replace(ball=down))
    assert not soon.hit.any() and not soon.lost.any() and float(soon.ball.velocity[1]) > 3.5
    later = first._replace(ball=down, rest=first.rest + 5)
    assert stepped(later).lost.tolist() == [True, False]
    # A new possession after crossing the net: the touches are forgotten.
    crossing = first._replace(
        ball=Ball((np.float32(0.05), np.float32(2.0)), (np.float32(-5.0), np.float32(0.0)))
    )
    crossed = stepped(crossing)
    assert bool(crossed.crossed) and not crossed.touched.any() and bool(crossed.event)


@pytest.mark.parametrize(
    ("ball", "speed", "last", "lost"),
    [
        ((2.0, 0.31), (0.0, -5.0), 0, [True, False]),  # in the own court
        ((-2.0, 0.31), (0.0, -5.0), 0, [False, True]),  # in the others' court
        ((-3.4, 0.31), (0.0, -5.0), 0, [True, False]),  # out behind it
        ((-3.4, 0.31), (0.0, -5.0), 1, [False, True]),  # out, touched by themselves
        ((0.25, 1.2), (-1.0, 0.0), 0, [True, False]),  # into the net
        ((0.25, 1.2), (-1.0, 0.0), 1, [False, True]),
        ((0.25, 1.7), (-1.0, 0.0), 0, [False, False]),  # over it
        ((1.6, 0.72), (0.0, 2.0), 0, [True, False]),  # against a drone from below
    ],
)
def test_faults(ball, speed, last, lost):
    match = match_of("plane", ball=ball, speed=speed)._replace(last=np.int32(last))
    assert stepped(match).lost.tolist() == lost


@pytest.mark.parametrize(
    ("place", "lost"), [((1.8, 0.25), True), ((0.15, 1.0), True), ((0.3, 1.0), False)]
)
def test_drones_lose_on_the_ground_and_at_the_net(place, lost):
    """Place of team 1's drone in its own frame; team 0 stays at home."""
    match = match_of("plane")
    moved = tuple(
        np.stack([home[0], np.float32(x)])
        for home, x in zip(match.drones.position, place, strict=True)
    )
    match = match._replace(drones=match.drones._replace(position=moved))
    assert stepped(match).lost.tolist() == [False, lost]


def test_actions_stand_for_choices():
    counts = skills.GAMES["3v3"].counts
    env, _, _ = made(*THREE[:1], **THREE[1])
    assert counts == (6, 3, 4) and env.num_actions == 72
    numbers = np.arange(72)
    choices = np.asarray(skills.choices_of(numbers, counts))
    np.testing.assert_array_equal(skills.action_of(choices, counts), numbers)
    assert env.action_names[71] == "hover / hover / hover"
    first, second, third = choices[:, 41]
    names = [role[c].name for role, c in zip(env.game.roles, (first, second, third), strict=True)]
    assert env.action_names[41] == " / ".join(names)
    assert len(skills.NAMED) == 11


def test_orders_are_looked_up_and_a_pending_serve_is_served():
    env, params, _ = made(*THREE[:1], **THREE[1])
    match = asked("serve", *THREE[:1], **THREE[1])(KEY, np.int32(1), params)
    choice = env.choices(np.array([41, 1 * 12 + 1 * 4 + 2]))
    orders = fetched(env.orders)
    assert choice.tolist() == [3, 1, 1, 1, 1, 2]
    order = orders(match, choice)
    # Team 1's first drone serves to the centre; all others do as they are told.
    assert order.hit.tolist() == [True, True, True, True, True, True]
    target = np.stack(order.target, axis=1)
    np.testing.assert_allclose(target[0], skills.SETTER)
    np.testing.assert_allclose(target[2], env.game.roles[2][1].target)
    np.testing.assert_allclose(target[3], env.game.serves[1].target)
    np.testing.assert_allclose(target[5], env.game.roles[2][2].target)
    served = orders(match._replace(served=np.array(True)), choice)
    assert served.hit.tolist() == [True, True, True, False, True, True]
    np.testing.assert_allclose(np.stack(served.place, 1)[3], env.game.roles[0][1].place)


def test_observations_are_the_teams_own():
    """Both teams see the same when the sides are changed; 100 numbers as in HCSP."""
    env, params, _ = made(*THREE[:1], **THREE[1])
    match = asked("serve", *THREE[:1], **THREE[1])(KEY, np.int32(0), params)
    other_match = fetched(rules.swapped)(match)
    features = fetched(env.features)
    seen, other = (features(m) for m in (match, other_match))
    assert seen.shape == (100, 2)
    np.testing.assert_array_equal(seen[:, ::-1], other)
    for actions in ("rates", "rotors"):
        flat = envs.make("Volleyball-v1", teams="3v3", actions=actions)[0]
        features = fetched(flat.features)
        seen, other = (features(m) for m in (match, other_match))
        assert seen.shape == (*flat.observation_shape, 6)
        np.testing.assert_array_equal(np.roll(seen, 3, axis=1), other)


def test_matches_with_the_batch_behind_are_those_of_vmap():
    env, params, step = made("PlanarVolleyball-v1", actions="rates")
    keys = jax.random.split(KEY, 8)
    states = fetched(jax.vmap(env.initial, (0, None)))(keys, params)
    last = jax.tree.map(lambda x: np.moveaxis(x, 0, -1), states.match)
    command = np.random.default_rng(0).uniform(-1, 1, (8, 2, 2)).astype(np.float32)
    batched = fetched(jax.vmap(env.step_env, (0, 0, 0, None)))(keys, states, command, params)
    match = fetched(env.tick)(last, tuple(np.moveaxis(command, 0, -1).swapaxes(0, 1)))
    for one, two in zip(jax.tree.leaves(batched[1].match), jax.tree.leaves(match), strict=True):
        np.testing.assert_allclose(one, np.moveaxis(two, -1, 0), atol=1e-5)
    np.testing.assert_allclose(
        batched[0], np.moveaxis(fetched(env.features)(match), -1, 0).swapaxes(1, 2), atol=1e-5
    )


def test_a_step_of_decisions_ends_at_the_event():
    env, params, step = made("PlanarVolleyball-v1")
    initial, expert = (asked(method, "PlanarVolleyball-v1") for method in ("initial", "expert"))
    state = initial(KEY, params)
    server = int(state.match.last)
    _, state, reward, _, info = step(KEY, state, expert(state, params), params)
    assert info["hit"].tolist() == [server == 0, server == 1] and not reward.any()
    assert 0.2 < float(info["seconds"]) < 1.0 and int(state.time) == 1
    _, state, _, _, info = step(KEY, state, expert(state, params), params)
    assert bool(info["crossed"]) and not info["hit"].any()
    # Nothing happens while the ball is high: decisions have a longest time.
    params = params.replace(longest_decision=5)
    _, state, _, _, info = step(KEY, state, expert(state, params), params)
    assert float(info["seconds"]) == pytest.approx(0.1) and not info["crossed"]
    # And matches, which are draws then.
    params = params.replace(max_seconds=float(state.match.ticks + 2) * 0.02)
    _, state, reward, terminated, info = step(KEY, state, expert(state, params), params)
    assert float(info["seconds"]) == pytest.approx(0.04)
    assert bool(fetched(env.is_truncated)(state, params)) and not terminated and not reward.any()


@functools.cache
def rallies(others, name="PlanarVolleyball-v1"):
    """64 matches of the scripted planner in seat 0 against it or who stays at home."""
    env, params, _ = made(name)

    def play(key):
        def step(state, _):
            action = env.expert(state, params)
            action = jnp.where(jnp.array([False, others == "home"]), 0, action)
            _, state, reward, _, _ = env.step_env(key, state, action, params)
            return state, reward

        state, reward = jax.lax.scan(step, env.initial(key, params), length=40)
        return state.match, jnp.sum(reward, axis=0)

    return fetched(jax.vmap(play))(jax.random.split(KEY, 64))


def test_scripted_players_keep_the_ball_up():
    match, _ = rallies("planner")
    assert float(match.hits.mean()) > 5


@pytest.mark.parametrize("name", ["PlanarVolleyball-v1", "Volleyball-v1"])
def test_scripted_planner_beats_who_stays_at_home(name):
    """All its serves, and those that it receives."""
    _, reward = rallies("home", name)
    won = np.asarray(reward[:, 0] > 0)
    assert won.mean() > 0.95


def test_a_match_hands_over_to_a_skill():
    """The receiver's start after a serve: its own drone and order, the ball in its frame."""
    env, params, step = made("PlanarVolleyball-v1")
    initial, expert = (asked(method, "PlanarVolleyball-v1") for method in ("initial", "expert"))
    state = initial(KEY, params)
    _, state, *_ = step(KEY, state, expert(state, params), params)
    receiver = 1 - int(state.match.last)
    order = fetched(env.orders)(state.match, np.array([2, 2]))
    drill, drill_params = envs.make("VolleyballSkill-v1", teams="plane")
    handed = fetched(drill.handed_over, static_argnums=2)(state.match, order, receiver)
    sign = 1 if receiver == 0 else -1
    assert float(handed.sight.ball.position[0]) == sign * float(state.match.ball.position[0])
    assert float(handed.sight.ball.velocity[0]) > 0 and bool(handed.order.hit)
    drawn = fetched(drill.initial)(KEY, drill_params)
    for one, two in zip(jax.tree.leaves(handed), jax.tree.leaves(drawn), strict=True):
        assert (one.shape, one.dtype) == (two.shape, two.dtype)
    assert jax.eval_shape(drill.observe, handed, drill_params).shape == drill.observation_shape


def test_scripted_skills_in_the_plane():
    """Going to a place succeeds; what is struck at all goes where it should."""
    for skill in ("goto", "hit"):
        drill, params = envs.make("VolleyballSkill-v1", teams="plane", skill=skill)

        def play(key, drill=drill, params=params):
            def step(state, _):
                _, state, *_ = drill.step_env(key, state, drill.expert(state, params), params)
                return state, None

            state, _ = jax.lax.scan(step, drill.initial(key, params), length=200)
            return drill.is_success(state, params), state.struck

        won, struck = jax.jit(jax.vmap(play))(jax.random.split(KEY, 64))
        assert float(won.mean()) > 0.95 if skill == "goto" else won.sum() > 0.9 * struck.sum() > 40
