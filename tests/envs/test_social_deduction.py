"""Social deduction: kills, meetings, votes, ends, rewards, and what each player may know."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs
from envs.social_deduction import rules
from envs.text import join

KEY = jax.random.key(0)
RED, BLUE, GREEN, PINK, WHITE = range(5)
look, bodies = fetched(rules.look), fetched(rules.bodies)
speaker_of, suspicion = fetched(rules.speaker), fetched(rules.suspicion)


@functools.cache
def made(**options):
    env, params = envs.make("SocialDeduction-v1", **options)
    return env, params, fetched(env.step_env)


@functools.cache
def asked(method):
    """A method of the game that `made` makes."""
    return fetched(getattr(made()[0], method))


def world_of(rooms, **changes):
    """A game in which red is the imposter and can kill, with one step of work each in room 4."""
    state = asked("initial")(KEY, made()[1])
    imposter = np.arange(5) == RED
    todo = np.where(imposter[:, None], 0, np.array([0, 0, 0, 1])).astype(np.int8)
    world = state.world.replace(
        imposter=imposter,
        room=np.array(rooms, np.int8) - np.int8(1),
        todo=todo,
        cooldown=np.zeros(5, np.int8),
        company=np.zeros((5, 5, 5), bool),
    )
    return state.replace(world=look(world.replace(**changes)))


def act(state, **actions):
    """Steps with the named actions, `red="kill blue"`, and the rest waiting."""
    env, params, step = made()
    seats = ("red", "blue", "green", "pink", "white")
    names = env.action_names
    action = [names.index(actions.get(seat, "wait").replace("_", " ")) for seat in seats]
    _, state, reward, terminated, info = step(KEY, state, np.array(action, np.int32), params)
    assert info["valid"].all()
    return state, np.asarray(reward, float).round(4).tolist(), bool(terminated)


def meeting(state, *messages):
    """Goes through a discussion: messages by speaker, each said twice."""
    seats = ("red", "blue", "green", "pink", "white")
    messages = dict(messages)
    for _ in range(2 * int(state.world.alive.sum())):
        speaker = seats[int(np.argmax(speaker_of(state.world)))]
        state, *_ = act(state, **{speaker: messages.get(speaker, "wait")})
    assert int(state.world.phase) == rules.VOTE
    return state


def test_a_kill_reaches_who_leaves_and_those_there_see_it():
    state = world_of([1, 1, 1, 2, 3])
    state, reward, _ = act(state, red="kill blue", blue="south", green="east", pink="west")
    world = state.world
    assert world.alive.tolist() == [True, False, True, True, True]
    assert world.body.tolist() == [-1, 0, -1, -1, -1]
    assert world.killing[:, RED].tolist() == [False, False, True, False, False]
    # Pink came in at the same time: it finds the body and knows nothing of the kill.
    assert bodies(world)[PINK, BLUE] and not bodies(world)[WHITE].any()
    assert suspicion(world)[:, RED].tolist()[2:] == [3, 0, 0]
    assert reward == [0.2, 0, 0, 0, 0] and int(world.cooldown[RED]) == 2
    env, params, _ = made()
    assert not np.asarray(asked("legal_actions")(state, params))[RED, 7:12].any()


def test_alone_with_the_victim():
    env, params, _ = made()
    # White leaves red and blue in room 1; pink and green were never there.
    state = world_of([1, 1, 2, 2, 1])
    state, *_ = act(state, white="south")
    state, *_ = act(state, red="kill blue")
    assert suspicion(state.world)[WHITE].tolist() == [0, 0, 0, 0, 0]
    state, *_ = act(state, white="north", red="east")
    assert suspicion(state.world)[WHITE].tolist() == [2, 0, 0, 0, 0]
    state, reward, _ = act(state, white="report")
    assert reward == [0, 0, 0, 0, 0.2] and int(state.world.phase) == rules.TALK
    # The expert says so and is believed: out with red.
    for _ in range(8):
        state = step_expert(state)
    assert int(state.world.phase) == rules.VOTE
    votes = asked("expert")(state, params)
    assert env.action_names[votes[WHITE]] == "vote red"


def step_expert(state):
    env, params, step = made()
    return step(KEY, state, asked("expert")(state, params), params)[1]


def test_meetings():
    env, params, _ = made()
    state = world_of([1, 1, 1, 2, 3])
    state, *_ = act(state, red="kill blue")
    state, *_ = act(state, green="report")
    world = state.world
    assert world.gone.tolist() == [False, True, False, False, False]
    assert (world.body == -1).all() and sorted(world.place.tolist()) == [0, 1, 2, 3, 4]
    spoken = []
    for _ in range(8):
        acting = asked("acting")(state, params)
        assert acting.sum() == 1
        spoken.append(int(acting.argmax()))
        assert np.asarray(asked("legal_actions")(state, params))[acting].sum() == 1 + 3 * 3
        name = ("red", "blue", "green", "pink", "white")[spoken[-1]]
        said = {"green": "saw red", "red": "suspect green"}.get(name, "wait")
        state, *_ = act(state, **{name: said})
    assert spoken[:4] == spoken[4:] == np.argsort(world.place)[:4].tolist()
    assert sorted(spoken[:4]) == [RED, GREEN, PINK, WHITE]
    # saw red is 1 + 0 * 5 + 0, suspect green 1 + 1 * 5 + 2.
    assert state.world.said.tolist() == [[8, 0, 1, 0, 0]] * 2
    view = env.view
    said = join(view.lexicon, fetched(view.describe)(state, params, PINK))
    assert "green: saw red" in said and "red: suspect green" in said and "dead blue" in said
    assert asked("acting")(state, params).tolist() == [True, False, True, True, True]
    state, reward, over = act(state, green="vote red", pink="vote red", red="vote green")
    # Two for red, one for green, one for nobody: red is out, the crew wins, dead blue too. Green
    # and pink get 0.2 for the vote, and the living 0.2 for the task that is left to them.
    assert over and int(state.world.winner) == rules.CREW
    assert state.world.tally.tolist() == [2, 0, 1, 0, 0, 1]
    np.testing.assert_allclose(reward, [0, 1, 1.4, 1.4, 1.2], atol=1e-4)


def test_ties_and_votes_for_nobody():
    for votes in (
        {"green": "vote red", "red": "vote green"},
        {"green": "vote red"},
        {"green": "vote red", "pink": "vote red"},
    ):
        state, *_ = act(world_of([1, 1, 1, 2, 3]), red="kill blue")
        state, *_ = act(state, green="report")
        state = meeting(state)
        state, _, over = act(state, **votes)
        assert not over and int(state.world.alive.sum()) == 4
        assert int(state.world.phase) == rules.PLAY and (state.world.room == 0).all()
        assert int(state.world.cooldown[RED]) == 2


def test_a_crewmate_voted_out_speaks_against_nobody():
    state, *_ = act(world_of([1, 1, 1, 2, 3]), red="kill blue")
    state, *_ = act(state, pink="west")
    state, *_ = act(state, pink="report")
    state = meeting(state)
    state, _, over = act(state, red="vote green", pink="vote green", white="vote green")
    assert not over and not state.world.alive[GREEN] and state.world.gone[GREEN]
    assert suspicion(state.world)[WHITE].tolist() == [0, 0, 0, 0, 0]


def test_ends():
    # As many imposters as crew.
    alive = np.array([True, True, True, False, False])
    state = world_of([1, 1, 2, 1, 1], alive=alive, gone=~alive)
    state, reward, over = act(state, red="kill blue")
    assert over and int(state.world.winner) == rules.IMPOSTERS
    np.testing.assert_allclose(reward, [1.2, 0, 0, 0, 0], atol=1e-4)
    # All work of the living done; the last steps of work come before the kill.
    todo = np.zeros((5, 4), np.int8)
    todo[BLUE, 0], todo[WHITE, 3] = 1, 2
    gone = np.arange(5) == WHITE
    state = world_of([1, 1, 2, 2, 1], todo=todo, alive=~gone, gone=gone)
    state, reward, over = act(state, blue="task")
    assert over and int(state.world.winner) == rules.CREW
    np.testing.assert_allclose(reward, [0, 1.2, 1, 1, 1], atol=1e-4)


def test_a_task_of_two_steps_pays_once_and_where_it_is_finished():
    todo = np.zeros((5, 4), np.int8)
    todo[BLUE] = [2, 4, 0, 0]
    state = world_of([3, 1, 3, 3, 3], todo=todo)
    paid = []
    for action in ("task", "east", "task", "west", "task", "east", "task", "task"):
        state, reward, over = act(state, blue=action)
        paid.append(reward[BLUE])
    assert paid == [0, 0, 0, 0, pytest.approx(0.2), 0, pytest.approx(0.2), 0] and not over


def test_roles_and_tasks_are_drawn_by_seat():
    env, params, _ = made(players=7, imposters=2, rows=2, cols=3)
    draw = fetched(jax.vmap(env.initial, (0, None)))
    worlds = draw(jax.random.split(KEY, 512), params).world
    imposter, todo = worlds.imposter, worlds.todo
    assert (imposter.sum(axis=1) == 2).all()
    np.testing.assert_allclose(imposter.mean(axis=0), 2 / 7, atol=0.07)
    assert (todo.sum(axis=2) == np.where(imposter, 0, 8)).all()
    np.testing.assert_allclose(todo[~imposter].mean(axis=0), 8 / 6, atol=0.1)
    assert (np.asarray(worlds.room) == 1).all()


def played_states():
    env, params, _ = made()

    def play(key):
        def step(state, key):
            act_key, step_key = jax.random.split(key)
            legal = env.legal_actions(state, params)
            action = jax.random.categorical(act_key, jnp.where(legal, 0.0, -jnp.inf))
            best = env.expert(state, params)
            action = jnp.where(jax.random.bernoulli(key, 0.5, (5,)), best, action)
            return env.step_env(step_key, state, action, params)[1], state

        return jax.lax.scan(step, env.initial(key, params), jax.random.split(key, 40))[1]

    states = fetched(jax.vmap(play))(jax.random.split(KEY, 64))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)


def test_players_know_what_they_may_and_nothing_more():
    env, params, _ = made()
    states = played_states()

    @jax.jit
    @jax.vmap
    def changed(key, state, agent):
        """The same for this agent, and all else shuffled: roles, work, rooms and bodies unseen."""
        world = state.world
        keys = jax.random.split(key, 5)
        mine = jnp.arange(5) == agent
        crew = ~jnp.any(world.imposter & mine)
        other = jax.random.permutation(keys[0], 5)
        # Any other seat may be the imposter for all that a crewmate knows.
        hidden = jnp.argmax(jnp.where(mine, -1, other)) == jnp.arange(5)
        imposter = jnp.where(crew, hidden, world.imposter)
        todo = jax.random.randint(keys[1], world.todo.shape, 0, 5).astype(jnp.int8)
        near = jnp.any(rules.together(world) & mine[:, None], axis=0) | mine
        here = jnp.sum(jnp.where(mine, world.room, 0))
        away = (here + jax.random.randint(keys[2], (5,), 1, 4)) % 4
        mine_row = mine[:, None]
        noise = jax.random.bernoulli(keys[3], 0.5, (5, 5))
        body = jnp.where((world.body >= 0) & (world.body != here), away, world.body)
        meeting = world.phase != rules.PLAY
        return state.replace(
            world=world.replace(
                imposter=imposter,
                todo=jnp.where(mine_row, world.todo, todo),
                room=jnp.where(near | meeting, world.room, away).astype(jnp.int8),
                body=body.astype(jnp.int8),
                alive=jnp.where(near | world.gone | meeting, world.alive, True),
                cooldown=jnp.where(mine, world.cooldown, 7).astype(jnp.int8),
                killing=jnp.where(mine_row, world.killing, noise),
                company=jnp.where(mine[:, None, None], world.company, noise[None]),
            )
        )

    observe = jax.jit(jax.vmap(lambda s, a: env.observe_as(s, a, params)))
    describe = jax.jit(jax.vmap(lambda s, a: env.view.describe(s, params, a)))
    number = states.time.shape[0]
    keys = jax.random.split(KEY, number)
    for agent in range(5):
        seat = np.full(number, agent)
        others = changed(keys, states, seat)
        np.testing.assert_array_equal(observe(states, seat), observe(others, seat))
        np.testing.assert_array_equal(describe(states, seat), describe(others, seat))


def test_belief_questions():
    env, params, _ = made()
    state, *_ = act(world_of([1, 1, 1, 2, 3]), red="kill blue")
    question = asked("belief_question")
    told, _ = question(state, params)
    assert not told.any()
    state, *_ = act(state, green="report")
    told, answer = question(state, params)
    assert told.tolist() == [False, False, True, True, True] and int(answer) == RED


def test_experts_of_each_side_do_better():
    env, params, _ = made()

    def play(key, by_expert):
        def step(state, key):
            act_key, step_key = jax.random.split(key)
            legal = env.legal_actions(state, params)
            action = jax.random.categorical(act_key, jnp.where(legal, 0.0, -jnp.inf))
            expert = by_expert[state.world.imposter.astype(jnp.int32)]
            action = jnp.where(expert, env.expert(state, params), action)
            _, state, _, _, info = env.step_env(step_key, state, action, params)
            return state, info["valid"]

        state, valid = jax.lax.scan(step, env.initial(key, params), jax.random.split(key, 100))
        return state.world.winner == rules.CREW, valid.all()

    run = fetched(jax.vmap(play, (0, None)))
    rate = {}
    for sides in ((0, 0), (0, 1), (1, 0), (1, 1)):
        wins, valid = run(jax.random.split(KEY, 512), np.array(sides, bool))
        assert valid.all()
        rate[sides] = float(wins.mean())
    assert rate[0, 1] < rate[0, 0] < rate[1, 1] < rate[1, 0]
    assert 0.55 < rate[1, 1] < 0.75
