"""One conformance test for games, run over every registered one.

Of a game of your own, which need not have a drawing or an expert, or of JaxMARL's:

    OWN_ENV=my_module.MyGame python -m pytest tests/envs/test_games.py
    OWN_ENV=jaxmarl:MPE_simple_tag_v3 python -m pytest tests/envs/test_games.py
"""

import dataclasses
import functools
import importlib
import json
import os

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.game import Game, TurnGame
from envs.text import join, make_grammar, parse

STEPS, EPISODES, SEED = 128, 64, 7
make = functools.cache(envs.make)
OWN = os.environ.get("OWN_ENV")
NAMES = tuple(n for n in ([OWN] if OWN else envs.registered()) if make(n)[0].num_agents > 1)
TURNS = tuple(name for name in NAMES if isinstance(make(name)[0], TurnGame))
WORDED = tuple(
    (name, wording)
    for name in NAMES
    if make(name)[0].wordings is not None
    for wording in importlib.import_module(make(name)[0].wordings).WORDINGS
)


def defines(name, method):
    """Whether the game has an optional method; ours have all."""
    env, _ = make(name)
    return name != OWN or getattr(type(env), method) is not getattr(envs.Environment, method)


@functools.cache
def program(name):
    """All that is asked of one state, of (key, state, action, params): one program, not several."""
    env, _ = make(name)

    def asked(key, state, action, params):
        # The key with which `step` steps: both have the same step, which is compiled once.
        step_key, _ = jax.random.split(key)
        return {
            "step_env": env.step_env(step_key, state, action, params),
            "step": env.step(key, state, action, params),
            "observation": env.observe(state, params),
            "acting": env.acting(state, params),
            "legal": env.legal_actions(state, params),
            "anchors": [env.fingerprint(state, params, of=of) for of in ("observation", "state")],
        }

    return jax.jit(asked)


def step_of(name):
    """As `step_env`."""
    return lambda *args: program(name)(*args)["step_env"]


def look(name, state, params):
    """What is known of a state: who acts, legal actions, what is seen, anchors."""
    known = program(name)(jax.random.key(0), state, moves(make(name)[0], 0), params)
    return jax.tree.map(np.asarray, {key: known[key] for key in known if "step" not in key})


def moves(env, number):
    """Actions of all agents by number, of each or the same; continuous ones differ with it."""
    number = np.broadcast_to(np.asarray(number, np.int32), env.num_agents)
    if not env.continuous:
        return number
    return np.sin(number[:, None] + np.arange(env.num_actions), dtype=np.float32)


@functools.cache
def player(name):
    """(reset, history) of games of two policies: seats by the expert or at random."""
    env, params = make(name)

    def play(key, by_expert, params):
        reset_key, key = jax.random.split(key)
        seen, first = env.reset(reset_key, params)

        def step(state, key):
            act_key, step_key = jax.random.split(key)
            legal = env.legal_actions(state, params)
            shape = (env.num_agents, *env.action_shape)
            if env.continuous:
                action = jax.random.uniform(act_key, shape, minval=-1.0)
            else:
                logits = jnp.where(legal | ~jnp.any(legal, -1, keepdims=True), 0.0, -jnp.inf)
                action = jax.random.categorical(act_key, logits)
            if defines(name, "expert"):
                best = jnp.broadcast_to(env.expert(state, params), shape)
                expert = by_expert.reshape(-1, *[1] * len(env.action_shape))
                action = jnp.where(expert, best, action)
            over = env.is_terminated(state, params) | env.is_truncated(state, params)
            acting = env.acting(state, params)
            out = env.step_env(step_key, state, action, params)
            return out[1], (state, acting, legal, over, *out)

        # Two steps beyond the limit, if it is short: what has ended stays.
        steps = min(STEPS, env.default_params.max_steps_in_episode + 2)
        return (seen, first), jax.lax.scan(step, first, jax.random.split(key, steps))[1]

    return jax.jit(jax.vmap(play, in_axes=(0, 0, None)))


def play(name, by_expert=()):
    """(what all resets give, history) of legal play, some seats by the expert."""
    env, params = make(name)
    seats = np.zeros((EPISODES, env.num_agents), bool)
    seats[:, list(by_expert)] = True
    keys = jax.random.split(jax.random.key(SEED), EPISODES)
    return jax.tree.map(np.asarray, player(name)(keys, seats, params))


play_once = functools.cache(play)


def played(name, by_expert=()):
    """(state, acting, legal, over, observation, after, reward, terminated, info) of legal play."""
    return play_once(name, by_expert)[1]


def start(name):
    """(observation, state) of a reset."""
    return jax.tree.map(lambda x: jnp.asarray(x[0]), play_once(name, ())[0])


def test_there_are_games():
    assert all(isinstance(make(name)[0], Game) for name in NAMES) and NAMES


@pytest.mark.parametrize("name", NAMES)
def test_shapes_dtypes_and_ranges(name):
    env, params = make(name)
    seats = env.num_agents
    obs, state = start(name)
    chex.assert_shape(obs, (seats, *env.observation_shape))
    assert obs.dtype == env.observation_dtype
    for anchor in look(name, state, params)["anchors"]:
        chex.assert_shape(anchor, (seats, 2))
    before, acting, legal, over, seen, _, reward, terminated, info = played(name)
    assert acting.shape[2:] == (seats,) and legal.shape[2:] == (seats, env.num_actions)
    chex.assert_tree_all_finite((seen, reward))
    assert reward.dtype == np.float32 and reward.shape[2:] == (seats,)
    assert terminated.shape == reward.shape[:2]
    if env.num_codes is not None:
        assert int(seen.max()) < env.num_codes
    assert info["valid"].all() and info["success"].shape[2:] == (seats,)
    assert not np.any(info["success"] & ~terminated[..., None])
    assert (info["offender"] == -1).all()
    # Who acts has something to do; nobody acts once it is over.
    assert np.all(legal.any(-1) | ~acting) and not acting[over].any()
    assert np.all(acting.any(-1) | over)
    if name in TURNS:
        assert np.all(acting.sum(-1) <= 1) and not legal[~acting & ~over[..., None]].any()
    assert len(env.action_names) == env.num_actions
    if defines(name, "render"):
        assert isinstance(env.render(state, params), str)
    # Games come to an end.
    assert (over[:, -1] | terminated[:, -1]).mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_options_read_back_from_json_make_the_same_game(name):
    env, _ = make(name)
    if ":" in name:
        assert envs.make(name)[0] == env
        return
    options = envs.options_of(env)
    again, _ = envs.make(name, **json.loads(json.dumps(options)))
    assert again == env and hash(again) == hash(env)


@pytest.mark.parametrize("name", NAMES)
def test_games_that_are_over_absorb(name):
    before, _, _, over, _, after, reward, *_ = played(name)
    assert np.all(reward[over] == 0)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(old[over], new[over])
    state = jax.tree.map(lambda x: x[0, 0], before)
    env, params = make(name)
    action = moves(env, 0)
    _, again, *_ = step_of(name)(jax.random.key(1), state, action, params)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, again)


@pytest.mark.parametrize("name", TURNS)
def test_illegal_moves_are_forgiven_as_often_as_stated_then_lose(name):
    env, params = make(name)
    params = params.replace(illegal_allowance=1, illegal_reward=-1.5, illegal_other_reward=0.5)
    for action in (-1, 1000):
        _, first = start(name)
        seat = int(env.mover(first, params))
        _, state, reward, terminated, info = step_of(name)(
            jax.random.key(1), first, moves(env, action), params
        )
        assert not reward.any() and not terminated and int(info["offender"]) == -1
        assert [bool(v) for v in info["valid"]] == [s != seat for s in range(env.num_agents)]
        # Nothing but the counters has changed: the same agent moves again.
        chex.assert_trees_all_equal(
            state.replace(time=first.time, errors=first.errors),
            env.rejected(first, params),
        )
        _, last, reward, terminated, info = step_of(name)(
            jax.random.key(1), state, moves(env, action), params
        )
        assert bool(terminated) and int(info["offender"]) == seat and not info["success"].any()
        np.testing.assert_array_equal(
            reward, [-1.5 if s == seat else 0.5 for s in range(env.num_agents)]
        )
        _, again, reward, *_ = step_of(name)(jax.random.key(1), last, moves(env, 0), params)
        assert not reward.any()
        chex.assert_trees_all_equal(again, last)


@pytest.mark.parametrize("name", TURNS)
def test_a_legal_move_clears_the_count(name):
    env, params = make(name)
    params = params.replace(illegal_allowance=1)
    _, first = start(name)
    _, state, *_ = step_of(name)(jax.random.key(1), first, moves(env, -1), params)
    assert int(state.errors) == 1
    legal = int(look(name, state, params)["legal"][int(env.mover(state, params))].argmax())
    _, state, *_ = step_of(name)(jax.random.key(1), state, moves(env, legal), params)
    assert int(state.errors) == 0


@pytest.mark.parametrize("name", NAMES)
def test_idle_agents_actions_are_not_read(name):
    env, params = make(name)
    _, state = start(name)
    known = look(name, state, params)
    acting, legal = known["acting"], known["legal"]
    action = np.where(acting, legal.argmax(-1), 0).astype(np.int32)
    poisoned = np.where(acting, action, 10_000).astype(np.int32)
    step = step_of(name)
    one, other = (step(jax.random.key(1), state, moves(env, a), params) for a in (action, poisoned))
    chex.assert_trees_all_equal(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_game(name):
    chex.assert_trees_all_equal(play(name), play_once(name, ()))


@pytest.mark.parametrize("name", NAMES)
def test_traced_once(name):
    env, params = make(name)
    step, (_, state), known = program(name), start(name), []
    for i in range(3):
        action = moves(env, i % env.num_actions)
        _, state, *_ = step(jax.random.key(i), state, action, params)["step_env"]
        known.append(step._cache_size())
    assert known[0] == known[-1]


@pytest.mark.parametrize("name", NAMES)
def test_step_resets_as_gymnax_does(name):
    env, params = make(name)
    params = params.replace(max_steps_in_episode=2)
    _, state = start(name)
    for i in range(6):
        action = moves(env, look(name, state, params)["legal"].argmax(-1))
        out = program(name)(jax.random.key(i), state, action, params)
        first, state, _, terminated, truncated, info = out["step"]
        if bool(terminated | truncated):
            assert int(state.time) == 0
            chex.assert_trees_all_equal(first, look(name, state, params)["observation"])
            chex.assert_shape(info["final_observation"], (env.num_agents, *env.observation_shape))
            return
    pytest.fail("no game ended at its limit")


@pytest.mark.parametrize("name", NAMES)
def test_an_expert_beats_random_players_from_every_seat(name):
    """Or, where all play together, experts beat a random team."""
    if not defines(name, "expert"):
        pytest.skip(f"{name} has no expert")
    env, _ = make(name)
    mean = lambda by: played(name, by)[6].sum(axis=1).mean(axis=0)  # noqa: E731
    at_random = mean(())
    together = mean(tuple(range(env.num_agents)))
    if not np.allclose(at_random.sum(), 0, atol=1e-5) or not np.allclose(together.sum(), 0, 1e-5):
        assert together.sum() > at_random.sum()
        return
    teams = np.array(env.sides_of_seats)
    for team in np.unique(teams):
        seats = np.flatnonzero(teams == team)
        assert (mean(tuple(seats))[seats] > at_random[seats]).all()


@pytest.mark.parametrize("name", [name for name in NAMES if make(name)[0].one_team])
def test_one_team_wins_together_and_its_sides_are_its_roles(name):
    env, params = make(name)
    assert env.cooperative and env.sides_of_seats == (0,) * env.num_agents
    *_, terminated, info = played(name)
    assert (info["success"] == info["success"][..., :1]).all() and terminated.any()
    if len(env.sides) == env.num_roles:
        np.testing.assert_array_equal(env.side_of(start(name)[1], params), env.roles_of_seats)
        assert set(env.roles_of_seats) == set(range(len(env.sides)))


@pytest.mark.parametrize(("name", "wording"), WORDED)
def test_words_say_what_they_may_and_commands_are_understood(name, wording):
    env, params = make(name)
    env = dataclasses.replace(env, wording=wording)
    view = env.view
    states, acting, legal, over, *_ = played(name)
    picked = [(e, t) for e in range(4) for t in range(0, over.shape[1], 7) if not over[e, t]]
    agents, bare = np.arange(env.num_agents, dtype=np.int32), make_grammar("bare")

    @jax.jit
    def write(state):
        described = jax.vmap(view.describe, (None, None, 0))(state, params, agents)
        return described, env.commands(state, params)

    @jax.jit
    def read(state, agent, reply, length):
        return parse(bare, view, view.slots(state, params, agent), reply, length).actions[0]

    for e, t in picked:
        state = jax.tree.map(lambda x, e=e, t=t: x[e, t], states)
        described, texts = map(np.asarray, write(state))
        for agent in agents:
            fragments = described[agent].reshape(-1)
            assert np.count_nonzero(fragments) <= view.max_fragments
            if view.whole:
                assert fragments.all() and fragments.size == view.max_fragments
            said = join(view.lexicon, fragments)
            assert 0 < len(said.encode()) <= view.max_bytes
            if not acting[e, t, agent]:
                continue
            for action in np.flatnonzero(legal[e, t, agent])[:12]:
                command = join(view.lexicon, texts[agent, action]).encode()
                assert 0 < len(command) <= view.max_command_bytes
                reply = np.frombuffer(command.ljust(view.max_command_bytes), np.uint8)
                assert int(read(state, agent, reply, len(command))) == action, command


OPEN = tuple(name for name in TURNS if make(name)[0].perfect_information)


@pytest.mark.parametrize("name", OPEN)
def test_games_without_secrets_show_all_that_the_future_depends_on(name):
    """With legal play, who moves and what all see give the state away."""
    env, params = make(name)
    before, _, _, over, *_ = played(name)
    running = jax.tree.map(lambda x: x[~over][:4000], before)

    @jax.jit
    @jax.vmap
    def told(state):
        mark = env.fingerprint(state, params, of="state")[0]
        return env.observe(state, params), env.mover(state, params), mark

    seen, mover, mark = told(running)
    state_of = {}
    for o, m, f in zip(np.asarray(seen), np.asarray(mover), np.asarray(mark), strict=True):
        assert state_of.setdefault((o.tobytes(), int(m)), tuple(f)) == tuple(f)
    assert len(state_of) > 20


@pytest.mark.parametrize("name", [name for name in OPEN if make(name)[0].deterministic])
def test_games_without_chance_do_not_depend_on_the_key(name):
    env, params = make(name)
    starts = jax.jit(jax.vmap(env.initial, (0, None)))(
        jax.random.split(jax.random.key(5), 16), params
    )
    for leaf in jax.tree.leaves(starts):
        np.testing.assert_array_equal(leaf, np.repeat(leaf[:1], 16, axis=0))
    before, _, legal, over, _, after, *_ = played(name)
    action = jnp.asarray(legal[~over].any(axis=1).argmax(axis=-1), jnp.int32)[:512]
    state = jax.tree.map(lambda x: x[~over][:512], before)

    @jax.jit
    def following(key):
        keys = jax.random.split(key, len(action))
        return jax.vmap(env.step_env, (0, 0, 0, None))(keys, state, action, params)[1]

    chex.assert_trees_all_equal(following(jax.random.key(0)), following(jax.random.key(1)))
