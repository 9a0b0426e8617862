"""Wrappers: a budget of turns, by hand and against the environment without it."""

import functools
import json

import chex
import jax
import numpy as np
import playing
import pytest
from programs import fetched

import envs
from agentrl.config import env_section
from agentrl.config.environments import environments
from envs.text import join

KEY = jax.random.key(0)
BUDGET = "envs.wrappers.TurnBudget"
COIN = {"name": "Coin-v1", "show_name": False}
NORTH, TAKE, EXTEND = 0, 4, 5


@functools.cache
def called(env, method):
    """A method of an environment, compiled once."""
    return fetched(getattr(env, method))


def walk(actions, **options):
    """What each action gave: rewards, legality, and whether the episode was cut then."""
    env, params = envs.make(BUDGET, **({"base": COIN} | options))
    state = env.reset(KEY, params)[1]
    step, cut = called(env, "step_env"), called(env, "is_truncated")
    told = []
    for action in actions:
        seen, state, reward, terminated, info = step(KEY, state, np.int32(action), params)
        assert not bool(terminated)
        told.append((float(reward), bool(info["valid"]), bool(cut(state, params))))
    return env, params, state, seen, told


def read(env, state, params):
    """What the agent reads in a state."""
    return join(env.view.lexicon, called(env, "describe")(state, params).fragments)


def test_an_episode_is_cut_after_its_turns():
    env, params, state, seen, told = walk([TAKE] * 4, turns=3)
    # No coin where the episode starts; what comes after the end changes nothing.
    assert told == [(0.0, False, False)] * 2 + [(0.0, False, True)] * 2
    assert int(state.time) == 3 and float(seen[-1]) == 0.0
    # At most the environment's own limit.
    assert walk([TAKE] * 12, turns=99)[-1][-2:] == [(0.0, False, False), (0.0, False, True)]


def test_an_extension_takes_a_turn_and_grants_more():
    _, _, state, _, told = walk(
        [TAKE, EXTEND, TAKE, TAKE, TAKE, TAKE], turns=3, extension=3, extension_price=0.25
    )
    assert told == [
        *((0.0, False, False), (-0.25, True, False), (0.0, False, False)),
        *((0.0, False, False), (0.0, False, False), (0.0, False, True)),
    ]
    assert int(state.limit) == 6 and int(state.base.time) == 5


def test_extensions_end_at_the_environments_limit():
    base = COIN | {"max_steps_in_episode": 6, "illegal_reward": -0.5}
    env, params, state, _, told = walk([EXTEND, EXTEND, EXTEND], base=base, turns=2, extension=2)
    assert told == [(0.0, True, False), (0.0, True, False), (-0.5, False, False)]
    assert not bool(fetched(env.legal)(state, params)[EXTEND])
    assert int(fetched(env.remaining)(state, params)) == 3


def test_the_agent_reads_how_many_turns_are_left():
    env, params, state, seen, _ = walk([TAKE], turns=4, extension=2)
    assert float(seen[-1]) == np.float32(3 / 12)
    plain = read(env.base, state.base, params.base)
    assert read(env, state, params) == f"3 turns left\n{plain}"
    assert "grants 2" in env.view.rules and env.view.rules.startswith(env.base.view.rules)
    # Anchors do not tell turns apart.
    chex.assert_trees_all_equal(
        fetched(env.fingerprint)(state, params),
        fetched(env.base.fingerprint)(state.base, params.base),
    )


@pytest.mark.parametrize("name", ["Coin-v1", "Wordle-v1", "Sokoban-v1"])
def test_a_budget_of_the_limit_is_no_wrapper(name):
    """Without reminder and extension: the same episodes, and the same text."""
    limit = int(envs.make(name)[1].max_steps_in_episode)
    options = {"base": {"name": name}, "turns": limit, "remind": False}
    pairs = [envs.make(name), envs.make(BUDGET, **options)]
    plain, wrapped = (
        playing.episodes(env, params, 4, 12, functools.partial(playing.at_random, env, params))
        for env, params in pairs
    )
    for field in ("action", "over", "seen", "reward", "terminated", "info"):
        chex.assert_trees_all_equal(getattr(plain, field), getattr(wrapped, field))
    (env, params), (around, outer) = pairs
    state = around.reset(KEY, outer)[1]
    assert read(around, state, outer) == read(env, state.base, params)


def test_an_extension_stands_between_commands_and_free_text():
    shop, _ = envs.make("Shop-v1")
    env, params = envs.make(BUDGET, base={"name": "Shop-v1"}, turns=4, extension=2)
    state = env.reset(KEY, params)[1]
    words = np.full(env.view.query.max_words, -1, np.int32)
    words[0] = 0
    plain, shifted = (int(view.query.action(words)) for view in (shop.view, env.view))
    assert plain >= shop.num_actions and shifted == plain + 1
    step = jax.jit(env.step_env)
    _, after, _, _, info = step(KEY, state, np.int32(shifted), params)
    _, base, *_ = jax.jit(shop.step_env)(KEY, state.base, np.int32(plain), params.base)
    assert bool(info["valid"]) and int(after.limit) == 4
    chex.assert_trees_all_equal(after.base, base)
    assert int(step(KEY, state, np.int32(shop.num_actions), params)[1].limit) == 6


def test_single_steps_start_on_the_experts_way():
    env, params = envs.make("envs.wrappers.SingleStep", base={"name": "Coin-v1"}, depth=4)
    coin = env.base
    states = playing.starts(env, params, 64)
    # Along a chain of four rooms, with no dead end entered and the coin not taken.
    room, taken = np.asarray(states.base.room), np.asarray(states.base.coin) < 0
    assert set(room.tolist()) == {0, 1, 2, 3} and not taken.any()
    assert np.array_equal(np.asarray(states.base.time), room)
    # With noise, into dead ends as well.
    noisy = playing.starts(env, params.replace(noise=0.9), 64)
    assert np.asarray(noisy.base.room).max() > 3
    state = jax.tree.map(lambda x: x[0], states)
    best = int(fetched(coin.expert)(state.base, params.base))
    legal = np.flatnonzero(fetched(coin.legal)(state.base, params.base))
    step, cut = fetched(env.step_env), fetched(env.is_truncated)
    for action in range(5):
        _, after, reward, terminated, info = step(KEY, state, np.int32(action), params)
        expected = (float(action == best), action in legal, action in legal, action == best)
        told = float(reward), bool(terminated), bool(info["valid"]), bool(info["success"])
        assert told == expected and bool(cut(after, params))
    assert params.max_steps_in_episode == 1
    assert read(env, state, params) == read(coin, state.base, params.base)


def test_wrappers_nest_and_come_back_from_a_config():
    inner = env_section(BUDGET, base=env_section("Coin-v1", quest_length=3), turns=5)
    section = env_section(BUDGET, base=inner, remind=False, turns=7)
    again = json.loads(section.to_json())
    ((env, params),) = environments(again).values()
    assert env == environments(section)[BUDGET][0] and hash(env)
    assert env.base.base.quest_length == 3 and env.name == "TurnBudget(TurnBudget(Coin))"
    assert (params.turns, params.base.turns, params.max_steps_in_episode) == (7, 5, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "base=None: expected the environment that it wraps"),
        ({"base": {"name": "KuhnPoker-v1"}}, "one agent and discrete actions"),
        ({"base": {"name": "CartPole-v1"}}, "an environment of this package"),
        ({"base": {"name": "Coin-v1", "quest": 3}}, "no option 'quest'"),
        ({"base": COIN, "turn": 3}, r"no option 'turn' \(did you mean 'turns'"),
        ({"base": COIN, "extension": -1}, "extension=-1: expected 0"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        envs.make(BUDGET, **options)


def test_a_clock_changes_what_is_seen_and_nothing_else():
    env, params = envs.make("envs.wrappers.Clock", base=COIN, minutes=12)
    state = env.reset(KEY, params)[1]
    step, expert = fetched(env.step_env), fetched(env.expert)
    observe, observe_plain = fetched(env.observe), fetched(env.base.observe)
    told, clocks = [], []
    for i in range(12):
        action = expert(state, params)
        plain = observe_plain(state.base, params.base)
        seen = observe(state, params)
        np.testing.assert_array_equal(seen[:-1], plain)
        assert float(seen[-1]) == np.float32(int(state.clock) / 12)
        expected = f"{read(env.base, state.base, params.base)}\nIt is {int(state.clock)} past."
        assert read(env, state, params) == expected
        clocks.append(int(state.clock))
        _, state, reward, terminated, _ = step(jax.random.fold_in(KEY, i), state, action, params)
        told.append((float(reward), bool(terminated)))
        if terminated:
            break
    assert told[-1] == (1.0, True) and len(set(clocks)) > 1
    other = state.replace(clock=(state.clock + 1) % 12)
    for of, same in (("observation", False), ("state", True)):
        fingerprint = playing.method(env, "fingerprint", of=of)
        pair = [np.asarray(fingerprint(s, params)) for s in (state, other)]
        assert np.array_equal(*pair) == same
    with pytest.raises(ValueError, match="minutes=0"):
        envs.make("envs.wrappers.Clock", base=COIN, minutes=0)


def test_nothing_counts_before_it_is_submitted():
    base = {"name": "NumberLine-v1", "length": 3}
    env, params = envs.make("envs.wrappers.Submission", base=base)
    down, up, submit = 0, 1, 2
    assert env.action_names == ("-", "+", "submit")
    step, start = called(env, "step_env"), called(env, "initial")(KEY, params)

    def walk(actions):
        state = start.replace(base=start.base.replace(position=np.int32(1), target=np.int32(2)))
        told = []
        for action in actions:
            _, state, reward, terminated, info = step(KEY, state, np.int32(action), params)
            told.append((float(reward), bool(terminated), bool(info["success"])))
        return state, told

    # NumberLine pays -1 for the wrong way and 1 for the target; here only `submit` pays.
    state, told = walk([down, up, up])
    assert told == [(0.0, False, False)] * 3 and int(state.base.position) == 2
    # At the target the walk is over, and the episode is not.
    state, told = walk([up, down, submit])
    assert told == [(0.0, False, False)] * 2 + [(1.0, True, True)]
    assert walk([submit, up])[1] == [(0.0, True, False)] * 2
    state, _ = walk([up] * 6)
    assert bool(called(env, "is_truncated")(state, params))
    assert int(called(env, "expert")(walk([up])[0], params)) == submit
    assert int(called(env, "expert")(walk([down])[0], params)) == up


def test_a_team_on_one_transcript_plays_as_the_team():
    """Turn by turn the game's own, whoever speaks; text and observation are the speaker's."""
    team = {"name": "CheckedSum-v1", "terms": 3}
    env, params = envs.make("envs.wrappers.OneTranscript", base=team)
    game, inner = envs.make(**team)
    _, state = env.reset(KEY, params)
    alone = game.reset(KEY, inner)[1]
    alone = alone.replace(terms=state.base.terms)
    right = int(game.solution(alone))
    for action, speaker in [((right + 1) % 7, 0), (8, 1), (right, 0)]:
        assert int(env.speaker(state, params)) == int(env.member(state, params)) == speaker
        seen = called(env, "observe")(state, params)
        np.testing.assert_array_equal(seen[-2:], np.arange(2) == speaker)
        np.testing.assert_array_equal(seen[:-2], game.observe_as(alone, speaker, inner))
        theirs = game.describe(alone, inner).fragments[speaker]
        assert read(env, state, params) == join(game.view.lexicon, theirs)
        joint = np.full(2, action)
        _, alone, reward, terminated, info = called(game, "step_env")(KEY, alone, joint, inner)
        _, state, *told = called(env, "step_env")(KEY, state, np.int32(action), params)
        assert float(told[0]) == float(reward[speaker]) and bool(told[1]) == bool(terminated)
        assert bool(told[2]["success"]) == bool(info["success"][speaker])
    assert bool(terminated) and float(reward[0]) == 1.0


@pytest.mark.parametrize("base", ["Coin-v1", "KuhnPoker-v1", "Foraging-v1"])
def test_one_transcript_is_of_a_team_that_speaks_in_turn(base):
    with pytest.raises(ValueError, match="expected a game in turns whose agents are one team"):
        envs.make("envs.wrappers.OneTranscript", base={"name": base})


def test_a_question_is_answered_several_times():
    question = {"name": "DictSum-v1", "turns": 1, "pairs": 2, "span": 2, "limit": 2, "recall": 0}
    env, params = envs.make("envs.wrappers.Attempts", base=question, attempts=3)
    start = called(env, "initial")(KEY, params)
    step, observe = called(env, "step_env"), called(env, "observe")
    right = int(called(env, "expert")(start, params))
    first, other = [action for action in range(5) if action != right][:2]

    def walk(actions):
        state, told = start, []
        for action in actions:
            _, state, reward, terminated, info = step(KEY, state, np.int32(action), params)
            told.append((float(reward), bool(terminated), bool(info["success"])))
        return state, told

    state, told = walk([first, right, other])
    assert told == [(0.0, False, False), (1.0, True, True), (0.0, True, True)]
    # A wrong answer leaves the question as it is, and stays in sight; an illegal one does not.
    state, told = walk([other, -1])
    assert told == [(0.0, False, False)] * 2
    chex.assert_trees_all_equal(state.base, start.base)
    seen = observe(state, params)
    np.testing.assert_array_equal(seen[:-5], observe(start, params)[:-5])
    np.testing.assert_array_equal(seen[-5:], np.arange(5) == other)
    plain = read(env.base, start.base, params.base)
    assert read(env, start, params) == plain
    both, told = walk([other, first, first])
    assert told == [(0.0, False, False)] * 2 + [(0.0, True, False)]
    names = [env.action_names[action] for action in (other, first, first)]
    assert read(env, both, params) == plain + "".join(f"\nnot {name}" for name in names)
    # Anchors tell the sets of wrong answers apart, and nothing else.
    for of in ("observation", "state"):
        anchor = playing.method(env, "fingerprint", of=of)
        one, two = (anchor(walk(a)[0], params) for a in ([first, other], [other, first]))
        assert np.array_equal(one, two) and not np.array_equal(one, anchor(start, params))
    for base, message in (
        ({"name": "Coin-v1"}, "an environment of one turn"),
        (question | {"turns": 2, "limit": 4}, "an environment of one turn"),
    ):
        with pytest.raises(ValueError, match=message):
            envs.make("envs.wrappers.Attempts", base=base)
    with pytest.raises(ValueError, match="attempts=0"):
        envs.make("envs.wrappers.Attempts", base=question, attempts=0)
