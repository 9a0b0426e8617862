"""Hanabi: recorded games of OpenSpiel, what each may see, the expert, the words."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from programs import fetched

import envs
from envs.hanabi import env as hanabi
from envs.hanabi import rules
from envs.text import join

KEY = jax.random.key(0)
# The file says by which programs it was made.
EPISODES = recorded.episodes("hanabi")
SETTINGS = {
    "mini": {},
    "simple": dict(hanabi.SIMPLE),
    "three": {"colours": 3, "ranks": 3, "hand": 5, "hints": 8},
    "full": dict(hanabi.FULL),
}
make = functools.cache(lambda setting: envs.make("Hanabi-v1", **SETTINGS[setting]))


@functools.cache
def programs(setting):
    """Of a setting: step, legal, expert, observe."""
    env, params = make(setting)
    return (
        fetched(lambda state, action: env.step_env(KEY, state, action, params)),
        fetched(lambda state: env.legal(state, params)),
        fetched(lambda state: env.expert(state, params)),
        fetched(lambda state: env.observe(state, params)),
    )


@functools.cache
def dealer(setting):
    """A game of a deck."""
    return fetched(make(setting)[0].dealt)


chances = fetched(rules.chances)


def begin(episode):
    """The recorded deck, dealt."""
    env, params = make(episode["game"])
    return env, params, dealer(episode["game"])(np.array(episode["deck"], np.int8))


def printed(text):
    """OpenSpiel's text as `render` writes it; who knows a card by name is left out."""
    head, hands = text.split("Hands:\n")
    hands, tail = hands.split("\nDeck size: ")
    told = dict(line.split(":") for line in head.strip().split("\n"))
    deck, gone = tail.split("\nDiscards:")
    order = {card: i for i, card in enumerate(f"{c}{r}" for c in hanabi.COLOURS for r in "12345")}
    rows = [
        " ".join(f"{line[:2]}|{line.split('|')[-1]}" for line in hand.split("\n") if "||" in line)
        for hand in hands.split("-----")
    ]
    tokens = f"lives{told['Life tokens']} hints{told['Info tokens']} deck {deck}"
    discards = " ".join(["discards", *sorted(gone.split(), key=order.get)])
    return "\n".join([f"{tokens} stacks {told['Fireworks'].strip()}", discards, *rows])


@pytest.mark.parametrize("number", range(len(EPISODES)))
def test_recorded_games(number):
    episode = EPISODES[number]
    env, params, state = begin(episode)
    step, legal, *_ = programs(episode["game"])
    total, terminated = 0, False
    for told in episode["steps"]:
        assert not terminated and int(env.mover(state, params)) == told["player"]
        assert env.render(state, params) == printed(told["state"])
        assert np.flatnonzero(legal(state)).tolist() == told["legal"]
        _, state, reward, terminated, info = step(state, np.int32(told["action"]))
        assert reward.tolist() == [told["reward"]] * 2
        total += float(reward[0])
    assert bool(terminated) and env.render(state, params) == printed(episode["final"])
    assert [total] * 2 == episode["returns"]
    perfect = total == env.colours * env.ranks
    assert info["success"].tolist() == [perfect] * 2


def test_recorded_games_end_in_all_ways():
    """Without lives, without turns, complete."""
    finals = [(e["game"], e["final"], e["returns"][0]) for e in EPISODES]
    assert any("Life tokens: 0" in final for _, final, _ in finals)
    assert any("Deck size: 0" in final and 0 < points < 4 for _, final, points in finals)
    assert any(game == "mini" and points == 4 for game, _, points in finals)


def test_cards_are_as_many_as_stated():
    assert [len(make(setting)[0].cards) for setting in SETTINGS] == [8, 12, 18, 50]
    env, params = envs.make("Hanabi-v1", ranks=3, copies=[4, 1, 1])
    state = fetched(env.initial)(KEY, params)
    assert np.bincount(state.table.deck).tolist() == [4, 1, 1] * 2
    for wrong in ({"copies": (3, 1, 1)}, {"hand": 4}, {"colours": 6}, {"lives": 0}):
        with pytest.raises(ValueError, match="expected"):
            envs.make("Hanabi-v1", **wrong)


def test_the_last_life_takes_the_points_unless_they_are_kept():
    env, params = make("mini")
    # R1 is played; Y2, R2 and Y2 in front of it do not fit.
    deck, step = np.array([0, 3, 0, 3, 3, 1, 2, 2], np.int8), fetched(env.step_env)
    for keeps, points in ((False, 0), (True, 1)):
        state, rewards = dealer("mini")(deck), []
        for action in (3, 3, 3, 3):
            out = step(KEY, state, np.int32(action), params.replace(keeps_points=keeps))
            state = out[1]
            rewards.append(float(out[2][1]))
        assert bool(out[3]) and int(state.table.lives) == 0
        assert sum(rewards) == points and rewards[:3] == [1, 0, 0]


def test_the_last_card_of_a_stack_gives_back_a_hint():
    env, params = make("mini")
    state = dealer("mini")(np.array([0, 1, 0, 2, 2, 2, 3, 0], np.int8))
    step = programs("mini")[0]
    hints = []
    # Seat 0 hints a colour, seat 1 a rank; then R1, a hint, R2.
    for action in (7, 8, 3, 8, 3):
        assert bool(programs("mini")[1](state)[action])
        _, state, *_ = step(state, np.int32(action))
        hints.append(int(state.table.hints))
    assert hints == [2, 1, 1, 0, 1] and state.table.stacks.tolist() == [2, 0]


def hide(env, state, agent, key):
    """Another hand of the agent's and another deck, of the cards that it does not see."""
    table = state.table
    hands, deck, drawn = (np.array(x) for x in (table.hands, table.deck, table.drawn))
    own = hands[agent]
    pool = np.concatenate([own[own >= 0], deck[drawn:]])
    pool = np.random.default_rng(key).permutation(pool)
    number = np.count_nonzero(own >= 0)
    hands[agent, :number], deck[drawn:] = pool[:number], pool[number:]
    return state.replace(table=table._replace(hands=hands, deck=deck))


@pytest.mark.parametrize("setting", ["mini", "full"])
def test_nobody_sees_its_own_hand_nor_the_deck(setting):
    env, params = make(setting)
    step, legal, expert, observe = programs(setting)
    describe = fetched(lambda state: env.describe(state, params).fragments)
    state = fetched(env.initial)(jax.random.key(1), params)
    differed = 0
    for turn in range(6):
        for agent in range(2):
            other = hide(env, state, agent, turn)
            chex.assert_trees_all_equal(observe(state)[agent], observe(other)[agent])
            chex.assert_trees_all_equal(describe(state)[agent], describe(other)[agent])
            differed += np.any(observe(state)[1 - agent] != observe(other)[1 - agent])
            if agent == int(state.seat):
                assert int(expert(state)) == int(expert(other))
                chex.assert_trees_all_equal(legal(state), legal(other))
        _, state, *_ = step(state, expert(state))
    assert differed > 6


def test_chances_count_what_is_seen():
    env, _ = make("mini")
    # Seat 0: R1 R1 R2, seat 1: Y1 Y1 Y2. Unseen for seat 0: R1 three times, R2, Y1.
    state = dealer("mini")(np.array([0, 0, 1, 2, 2, 3, 0, 2], np.int8))
    move = fetched(rules.move)
    copies = env.copies_of_each
    np.testing.assert_array_equal(chances(state.table, 0, copies), [[3, 1, 1, 0]] * 3)
    told = move(state.table, 1, 6, 3).table  # seat 1 hints red
    np.testing.assert_array_equal(chances(told, 0, copies), [[3, 1, 0, 0]] * 3)
    told = move(told, 1, 9, 3).table  # and rank 2: the third card
    np.testing.assert_array_equal(
        chances(told, 0, copies), [[3, 0, 0, 0], [3, 0, 0, 0], [0, 1, 0, 0]]
    )


def test_what_can_never_be_played():
    env, _ = make("three")
    table = dealer("three")(np.array(env.cards, np.int8)).table
    gone = np.zeros(9, np.int32)
    gone[4] = 2  # both Y2: Y3 is lost, Y1 is not
    table = table._replace(stacks=np.int32([2, 0, 0]), discards=gone)
    lost = fetched(rules.useless)(table, env.copies_of_each)
    assert np.flatnonzero(lost).tolist() == [0, 1, 5]
    assert np.flatnonzero(fetched(rules.playable)(table)).tolist() == [2, 3, 6]


@pytest.mark.parametrize(("setting", "least"), [("mini", 2.9), ("simple", 3.2), ("full", 17)])
def test_experts_reach_their_points(setting, least):
    env, params = make(setting)

    def play(key):
        def step(state, _):
            action = env.expert(state, params)
            legal = env.legal(state, params)[action] | env.is_terminated(state, params)
            _, state, reward, *_ = env.step_env(key, state, action, params)
            return state, (reward[0], legal)

        state, (rewards, legal) = jax.lax.scan(step, env.initial(key, params), length=100)
        return jnp.sum(rewards), jnp.all(legal), env.is_terminated(state, params)

    points, legal, over = jax.jit(jax.vmap(play))(jax.random.split(KEY, 200))
    assert legal.all() and over.all() and points.mean() > least


def test_the_faithful_wording_is_marshals():
    """But for the order of the discards."""

    def ordered(text):
        lines = text.split("\n")
        lines[3:4] = sorted(lines[3:4][0].rstrip(".").split()) if len(lines) > 3 else []
        return lines

    shown = 0
    for episode in EPISODES:
        env, params, state = begin(episode)
        env = dataclasses.replace(env, wording="faithful")
        describe = fetched(env.view.describe)
        for told in episode["steps"]:
            if "text" in told:
                said = join(env.view.lexicon, describe(state, params, told["player"]))
                assert ordered(said) == ordered(told["text"])
                shown += 1
            _, state, *_ = programs(episode["game"])[0](state, np.int32(told["action"]))
        assert join(env.view.lexicon, describe(state, params, 0)) == "The game is over."
    assert shown > 60


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_texts_keep_within_their_limits(setting, wording):
    _, params = make(setting)
    env = dataclasses.replace(make(setting)[0], wording=wording)
    describe = fetched(jax.vmap(env.view.describe, in_axes=(None, None, 0)))
    for episode in EPISODES:
        if episode["game"] != setting:
            continue
        state = begin(episode)[2]
        for told in episode["steps"]:
            for fragments in describe(state, params, np.arange(2)):
                assert np.count_nonzero(fragments) <= env.view.max_fragments
                assert len(join(env.view.lexicon, fragments)) <= env.view.max_bytes
            _, state, *_ = programs(setting)[0](state, np.int32(told["action"]))


def test_what_is_said():
    env, params = make("mini")
    # Seat 0: R1 Y2 R2, seat 1: Y1 R1 Y1; drawn: Y1 R1.
    state = dealer("mini")(np.array([0, 3, 1, 2, 0, 2, 2, 0], np.int8))
    describe = fetched(env.view.describe)
    said = lambda agent: join(env.view.lexicon, describe(state, params, agent))  # noqa: E731
    assert said(0) == (
        "lives 3 hints 3 deck 2\nstacks R0 Y0\nyou RY12 RY12 RY12\nother Y1RY12 R1RY12 Y1RY12"
    ).replace("1RY", "1 RY")
    for name in ("hint Y", "play 1", "discard 1"):
        _, state, *_ = programs("mini")[0](state, np.int32(env.action_names.index(name)))
    assert said(0) == (
        "lives 3 hints 3 deck 0 turns 2\nstacks R0 Y1\ndiscards R1\nyou RY12 RY12 RY12\n"
        "other R1 R12 Y1 Y12 Y1 RY12\nlast discard 1 R1"
    )
    assert said(1) == (
        "lives 3 hints 3 deck 0 turns 2\nstacks R0 Y1\ndiscards R1\nyou R12 Y12 RY12\n"
        "other Y2 RY12 R2 RY12 R1 RY12\nlast discard 1 R1"
    )
    _, state, *_ = programs("mini")[0](state, np.int32(env.action_names.index("play 1")))
    assert said(0).endswith("other Y1 Y12 Y1 RY12\nlast play 1 R1 right")
