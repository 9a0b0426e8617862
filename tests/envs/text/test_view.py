"""One conformance test of text views, run over every registered environment that has wordings.

Of an environment of your own: OWN_ENV=my_module.MyHouse python -m pytest tests/envs/text/test_view.py
"""  # noqa: E501

import functools
import importlib
import os

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

import envs
from envs.text import View, join, make_grammar, pack, parse

STEPS = 24
# Episodes of random and of expert play.
EPISODES = 8
# States whose commands are written out and parsed.
SPELLED = 6

OWN = os.environ.get("OWN_ENV")
OURS = pytest.mark.skipif(OWN is not None, reason="OWN_ENV names an environment of yours")
NAMES = (OWN,) if OWN else (*envs.registered(), *playing.WRAPPED, *playing.OWN)
WITH_TEXT = {name: playing.make(name)[0] for name in NAMES}
# Games have a view for each agent: tests/envs/test_games.py.
WITH_TEXT = {n: e for n, e in WITH_TEXT.items() if e.wordings is not None and e.num_agents == 1}
WORDINGS = {
    name: tuple(importlib.import_module(env.wordings).WORDINGS) for name, env in WITH_TEXT.items()
}
CASES = [(name, wording) for name, wordings in WORDINGS.items() for wording in wordings]
# The environments whose text says what their arrays say: options of play, and of what is seen.
EQUIVALENT = [
    ("Blackjack-v1", (), ()),
    ("Coin-v1", (), ()),
    ("Coin-v1", (), (("show_name", False), ("show_last_move", False))),
    ("Coin-v1", (("quest_length", 1), ("distractors", 0)), ()),
    ("EZPoints-v1", (), ()),
    ("FrozenLake-v1", (), ()),
    ("FunctionGym-v1", (), ()),
    ("FunctionGym-v1", (("memory", 0),), ()),
    ("Maze-v1", (), ()),
    *(("Maze-v1", (), (("sight", sight),)) for sight in ("position", "goal", "walls")),
    ("NumberLine-v1", (("length", 12),), ()),
    ("Points24-v1", (), ()),
    ("Screens-v1", (), ()),
    ("Screens-v1", (("split", "graphs"),), ()),
    ("Sokoban-v1", (), ()),
    ("ToolProgram-v1", (), ()),
    ("ToolProgram-v1", (("notes", False),), ()),
    ("TwentyQuestions-v1", (), ()),
    ("TwentyQuestions-v1", (("redraw", True),), ()),
    ("Wordle-v1", (), ()),
]


def make(name, wording, options=()):
    return playing.make(name, wording=wording, **dict(options))


def worded(name, options=()):
    """{wording: environment}: one program serves all wordings of an environment."""
    return {wording: make(name, wording, options)[0] for wording in WORDINGS[name]}


@functools.cache
def played(name, options=()):
    """(states, whether over) of random play and, without options, of the expert's."""
    env, params = playing.make(name, **dict(options))
    expert = functools.partial(playing.expert, env, params)
    at_random = functools.partial(playing.at_random, env, params)

    def episode(key, by_expert):
        # Drawn here and played at once: one program compiles faster than two.
        key, reset_key = jax.random.split(key)
        _, first = env.reset_env(reset_key, params)

        def policy(key, state):
            action = at_random(key, state)
            return action if options else jnp.where(by_expert, expert(key, state), action)

        history = playing.episode(env, params, first, key, STEPS, policy)
        return history.state, history.over

    keys = jax.random.split(jax.random.key(0), 2 * EPISODES)
    history = jax.jit(jax.vmap(episode))(keys, np.arange(2 * EPISODES) < EPISODES)
    return jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), history)


@functools.cache
def described(name, played_with=(), seen_with=()):
    """Of played states: {wording: texts}, and observations."""
    worlds = worded(name, played_with + seen_with)
    env, params = playing.make(name, **dict(played_with + seen_with))

    def of_state(state):
        texts = {wording: env.describe(state, params) for wording, env in worlds.items()}
        return texts, env.observe(state, params)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(of_state))(played(name, played_with)[0]))


@functools.cache
def one_by_one(name):
    """{wording: (fragments before packing, packed)} of played states, not in a batch."""
    worlds, (_, params) = worded(name), playing.make(name)

    def of_state(state):
        raw = {wording: env.view.describe(state, params) for wording, env in worlds.items()}
        return {w: (raw[w], pack(raw[w], worlds[w].view.max_fragments)) for w in worlds}

    run = jax.jit(lambda states: jax.lax.map(of_state, states))
    return jax.tree.map(np.asarray, run(played(name)[0]))


def joined(env, text):
    return [join(env.view.lexicon, row) for row in text.fragments[:, 0]]


@pytest.mark.parametrize("name, wording", CASES)
def test_observations_are_within_bounds(name, wording):
    env, _ = make(name, wording)
    view = env.view
    assert isinstance(view, View) and isinstance(view.rules, str) and view.rules
    raw, _ = one_by_one(name)[wording]
    text = described(name)[0][wording]
    assert np.issubdtype(raw.dtype, np.integer)
    raw = raw.reshape(len(raw), -1)
    assert raw.min() >= 0 and raw.max() < len(view.lexicon)
    count = (raw != 0).sum(axis=1)
    sizes = np.array([len(fragment.encode()) for fragment in view.lexicon])
    assert count.min() > 0 and count.max() <= view.max_fragments
    assert sizes[raw].sum(axis=1).max() <= view.max_bytes
    chex.assert_shape(text.fragments, (len(raw), env.num_agents, view.max_fragments))
    assert text.fragments.dtype == np.int32 and text.length.dtype == np.int32
    np.testing.assert_array_equal(text.length[:, 0], count)
    for row, packed, length in zip(raw, text.fragments[:, 0], count, strict=True):
        np.testing.assert_array_equal(packed[:length], row[row != 0])
        assert not packed[length:].any()


@pytest.mark.parametrize("name, wording", CASES)
def test_describing_one_state_is_describing_a_batch(name, wording):
    _, single = one_by_one(name)[wording]
    text = described(name)[0][wording]
    chex.assert_trees_all_equal(single, jax.tree.map(lambda x: x[:, 0], text))


@pytest.mark.parametrize("name, wording", CASES)
def test_equal_environments_share_a_view(name, wording):
    assert make(name, wording)[0].view is playing.fresh(name, wording=wording)[0].view


def existing(view, slots):
    """bool[num_actions]: the objects that the command names exist; in the order of the actions."""
    there = []
    for form in view.templates:
        rows = np.ones(1, bool)
        for part in form.parts:
            if isinstance(part, str):
                values = np.any(np.asarray(slots[part]) != 0, axis=1)
                rows = (rows[:, None] & values[None]).reshape(-1)
        there.append(rows)
    return np.concatenate(there)


@functools.cache
def commands(name):
    """Over some states in which something can still be done: (states, legal actions), and
    {wording: (slots, fragments of the commands)}.
    """
    worlds, (env, params) = worded(name), playing.make(name)
    states, over = played(name)
    chosen = np.flatnonzero(~over)
    chosen = chosen[np.linspace(0, len(chosen) - 1, SPELLED).astype(int)]
    states = jax.tree.map(lambda x: x[chosen], states)

    def written(env, state):
        slots = {name: jnp.asarray(v) for name, v in env.view.slots(state, params).items()}
        return slots, env.commands(state, params)

    def of_state(state):
        told = {wording: written(env, state) for wording, env in worlds.items()}
        return env.legal_actions(state, params)[0], told

    return states, *jax.tree.map(np.asarray, jax.jit(jax.vmap(of_state))(states))


@functools.cache
def parsed(name):
    """{wording: what the commands of the legal actions are parsed to}, [SPELLED, num_actions]."""
    worlds, (_, params) = worded(name), playing.make(name)
    states, legal, told = commands(name)
    replies, grammar = {}, make_grammar("bare")
    for wording, env in worlds.items():
        _, fragments = told[wording]
        data = np.zeros((*legal.shape, env.view.max_command_bytes), np.uint8)
        lengths = np.zeros(legal.shape, np.int32)
        for i, action in np.argwhere(legal):
            command = join(env.view.lexicon, fragments[i, action]).encode()
            data[i, action, : len(command)] = np.frombuffer(command, np.uint8)
            lengths[i, action] = len(command)
        replies[wording] = data, lengths

    def read(env, state, data, lengths):
        reply = functools.partial(parse, grammar, env.view, env.view.slots(state, params))
        return jax.vmap(reply)(data, lengths)

    def of_state(state, replies):
        return {wording: read(env, state, *replies[wording]) for wording, env in worlds.items()}

    return jax.jit(jax.vmap(of_state))(states, replies)


@pytest.mark.parametrize("name, wording", CASES)
def test_commands_are_numbered_distinct_and_within_bounds(name, wording):
    env, _ = make(name, wording)
    _, legal, told = commands(name)
    slots, fragments = told[wording]
    assert fragments.shape[1] == env.num_actions
    for i in range(SPELLED):
        there = existing(env.view, {name: values[i] for name, values in slots.items()})
        assert len(there) == env.num_actions
        assert not np.any(legal[i] & ~there), "a legal command names what does not exist"
        written = [join(env.view.lexicon, fragments[i, a]) for a in np.flatnonzero(there)]
        assert max(len(command.encode()) for command in written) <= env.view.max_command_bytes
        assert len({command.lower() for command in written}) == len(written)
        assert all(command == command.strip() for command in written)


@pytest.mark.parametrize("name, wording", CASES)
def test_commands_are_parsed_to_their_actions(name, wording):
    _, legal, _ = commands(name)
    found = parsed(name)[wording]
    wanted = np.where(legal, np.arange(legal.shape[1]), -1)
    np.testing.assert_array_equal(found.actions[..., 0], wanted)
    np.testing.assert_array_equal(found.known, legal)


@OURS
@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("name, played_with, seen_with", EQUIVALENT, ids=str)
def test_texts_tell_apart_what_arrays_tell_apart(name, played_with, seen_with, wording):
    env, _ = make(name, wording, played_with + seen_with)
    texts, seen = described(name, played_with, seen_with)
    _, over = played(name, played_with)
    said = np.array(joined(env, texts[wording]))[~over]
    _, seen = np.unique(seen.reshape(len(seen), -1)[~over], axis=0, return_inverse=True)
    assert len(set(zip(seen, said, strict=True))) == len(set(seen)) == len(set(said))


@OURS
@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("sight, numbers", [("walls", 0), ("goal", 2), ("position", 4)])
def test_a_maze_seen_in_part_keeps_places_to_itself(wording, sight, numbers):
    env, _ = make("Maze-v1", wording, (("sight", sight),))
    text = described("Maze-v1", (), (("sight", sight),))[0][wording]
    # A 9 x 9 maze: one digit a number.
    counts = {sum(map(str.isdigit, said)) for said in joined(env, text)}
    assert counts - {0} == ({numbers} if numbers else set())


@pytest.mark.parametrize("count, size", [(1, 1), (5, 8), (32, 20), (33, 33), (300, 300)])
def test_pack_keeps_order_and_drops_nothing(count, size):
    rng = np.random.default_rng(count)
    # Ids as large as any lexicon's, absent with any probability from 0 to 1.
    ids = rng.integers(1, 1 << 20, (16, count))
    ids = np.where(rng.random((16, count)) < np.linspace(0, 1, 16)[:, None], 0, ids)
    text = jax.jit(jax.vmap(functools.partial(pack, size=size)))(ids)
    for row, fragments, length in zip(ids, text.fragments, text.length, strict=True):
        there = row[row != 0][:size]
        assert int(length) == len(there)
        np.testing.assert_array_equal(fragments, np.pad(there, (0, size - len(there))))
