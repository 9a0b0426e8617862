import functools
import re

import jax
import numpy as np
import pytest

import envs
from agentrl import advantages, policies
from agentrl.evaluation import credit_cards, credit_view
from agentrl.rollout import episodes


@functools.cache
def collected():
    """Four groups of six episodes of an untrained policy: (env, params, streams, rows, states)."""
    env, params = envs.make("FrozenLake-v1", size=3, max_steps_in_episode=8)
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    rollout = episodes(policy, env, params, num_groups=4, group_size=6)
    given = (policy.init(jax.random.key(0)), None, jax.random.key(3))
    _, streams, rows, _ = jax.jit(rollout.collect)(*given)
    states = jax.jit(rollout.states)(*given)
    return env, params, *jax.tree.map(np.asarray, (streams, rows, states))


def estimates(streams):
    given = (streams.reward, streams.mask, streams.group)
    return {
        "GRPO": np.asarray(advantages.grpo(*given)),
        "GiGPO": np.asarray(advantages.gigpo(*given, streams.anchor)),
    }


@functools.cache
def made():
    env, params, streams, rows, states = collected()
    return credit_view.view(
        env, params, streams, rows, states, estimates(streams), update=7
    ), streams


def test_per_turn_takes_rows_of_a_turn_and_rows_of_a_stream():
    _, _, streams, rows, _ = collected()
    shape = streams.mask.shape
    actions = credit_view.per_turn(rows.tokens, rows, shape)
    for r in range(rows.tokens.shape[0]):
        assert actions[rows.stream[r], rows.turn[r, 0]] == rows.tokens[r, 0]
    # As a policy with memory has them: one row a stream. Positions of no turn are passed over.
    turn = np.tile(np.arange(shape[1] + 1), (shape[0], 1))
    turn[:, -1] = -1
    tokens = np.concatenate([actions, np.full((shape[0], 1), 99)], axis=1)
    long = rows.replace(stream=np.arange(shape[0]), turn=turn)
    np.testing.assert_array_equal(credit_view.per_turn(tokens, long, shape), actions)


def test_states_are_those_that_were_acted_from():
    env, params, streams, rows, states = collected()
    turns, episodes = streams.mask.shape[1], streams.mask.shape[0]
    assert states.time.shape == (turns + 1, episodes)
    for i in (5, 0, 13, 23):
        for t in np.flatnonzero(streams.mask[i]):
            state = jax.tree.map(lambda x, t=t, i=i: x[t, i], states)
            marks = env.fingerprint(state, params)[0]
            np.testing.assert_array_equal(marks, streams.anchor[i, t])


def test_games_are_shown_turn_by_turn():
    """Every seat of a match is a stream: boards are those that its moves were made on."""
    env, params = envs.make("TicTacToe-v1")
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    rollout = episodes(policy, env, params, num_groups=2, group_size=3, mask_illegal=True)
    given = (policy.init(jax.random.key(0)), None, jax.random.key(3))
    _, streams, rows, _ = jax.tree.map(np.asarray, jax.jit(rollout.collect)(*given))
    states = jax.jit(rollout.states)(*given)
    credit = {"return": np.where(streams.mask, streams.reward, 0.0)}
    view = credit_view.view(env, params, streams, rows, states, credit)
    shown = credit_view.choose_episodes(streams, credit_view.choose_group(streams)[0])
    for episode, i in zip(view.episodes, shown, strict=True):
        marks = [sum(c in "XO" for c in turn.board) for turn in episode.turns]
        np.testing.assert_array_equal(marks, np.flatnonzero(streams.mask[i]))


def test_the_group_with_the_largest_spread_and_its_best_and_worst():
    _, _, streams, _, _ = collected()
    returns = np.where(streams.mask, streams.reward, 0).sum(1)
    spreads = [returns[streams.group == g].std() for g in range(4)]
    group, spread = credit_view.choose_group(streams)
    assert spread == pytest.approx(max(spreads)) and spread > 0
    assert group == int(np.argmax(spreads))
    shown = credit_view.choose_episodes(streams, group, 4)
    members = np.flatnonzero(streams.group == group)
    assert set(shown) <= set(members) and len(set(shown)) == 4
    assert returns[shown[0]] == returns[members].max()
    assert returns[shown[-1]] == returns[members].min()
    assert list(returns[shown]) == sorted(returns[shown], reverse=True)


def test_courses_that_are_alike_are_shown_once():
    _, _, streams, _, _ = collected()
    twice = np.array([0, 1, 2, 0, 1, 2])
    repeated = jax.tree.map(lambda x: x[twice], streams).replace(group=np.zeros(6, int))
    shown = credit_view.choose_episodes(repeated, 0, 6)
    alone = jax.tree.map(lambda x: x[:3], streams).replace(group=np.zeros(3, int))
    assert shown == credit_view.choose_episodes(alone, 0, 6)


def test_view_holds_what_the_estimators_give():
    view, streams = made()
    given = estimates(streams)
    shown = credit_view.choose_episodes(streams, credit_view.choose_group(streams)[0])
    for episode, i in zip(view.episodes, shown, strict=True):
        turns = np.flatnonzero(streams.mask[i])
        assert len(episode.turns) == len(turns)
        assert episode.episode_return == pytest.approx(streams.reward[i][streams.mask[i]].sum())
        for turn, t in zip(episode.turns, turns, strict=True):
            assert turn.credit == {label: float(values[i, t]) for label, values in given.items()}
            assert turn.reward == streams.reward[i, t]
            assert 0 < turn.probability <= 1
        assert (episode.end == "success") == streams.success[i].any()
        assert (episode.end == "out of time") == streams.truncated[i].any()


def test_anchor_letters_are_the_anchor_groups():
    view, streams = made()
    group, _ = credit_view.choose_group(streams)
    shown = credit_view.choose_episodes(streams, group)
    inside = streams.mask & (streams.group == group)[:, None]
    everyone = [tuple(a) for a in streams.anchor[inside]]
    letter_of = {}
    for episode, i in zip(view.episodes, shown, strict=True):
        for turn, t in zip(episode.turns, np.flatnonzero(streams.mask[i]), strict=True):
            anchor = tuple(streams.anchor[i, t])
            assert turn.anchor_size == everyone.count(anchor)
            assert (turn.anchor == "") == (turn.anchor_size == 1)
            if turn.anchor:
                assert letter_of.setdefault(anchor, turn.anchor) == turn.anchor
    assert len(set(letter_of.values())) == len(letter_of) > 1


def test_letters_go_on_after_z():
    names = list(credit_view.letters(range(54)).values())
    assert (
        names[:2] == ["A", "B"] and names[25:28] == ["Z", "AA", "AB"] and names[52:] == ["BA", "BB"]
    )


def test_html_shows_the_advantages_of_the_estimators():
    view, streams = made()
    html = credit_cards.section(view)
    printed = re.findall(r'title="(GRPO|GiGPO) ([+-][\d.]+)"', html)
    expected = [
        (label, f"{value:+.6f}")
        for episode in view.episodes
        for turn in episode.turns
        for label, value in turn.credit.items()
    ]
    assert printed == expected and len(printed) > 8
    given = estimates(streams)
    shown = credit_view.choose_episodes(streams, credit_view.choose_group(streams)[0])
    flat = [
        values[i, t]
        for i in shown
        for t in np.flatnonzero(streams.mask[i])
        for values in given.values()
    ]
    np.testing.assert_allclose([float(v) for _, v in printed], flat, atol=1e-6)


def test_html_draws_the_lake_and_its_last_state():
    view, _ = made()
    html = credit_cards.section(view)
    boards = sum(len(episode.turns) + 1 for episode in view.episodes)
    assert html.count('class="board"') == boards
    assert "hole" in html and "update 7" in html


def hand_made(*boards, returns=(1.0, 0.0)):
    turns = [
        credit_view.Turn(board, "east", 0.5, 0.0, False, {"GRPO": -0.25}, "A", 2)
        for board in boards[:-1]
    ]
    episode = credit_view.Episode(tuple(turns), "success", boards[-1], 1.0)
    return credit_view.CreditView("Coin", 1, 2, returns, (episode,), 0.25)


def test_text_environments_are_shown_as_text():
    rooms = ["> hall: east\n  loft: west", "  hall: east\n> loft: west"]
    html = credit_cards.section(hand_made(*rooms))
    assert html.count("<mark>&gt; loft: west</mark>") == 1 and '<svg class="board"' not in html
    assert "invalid" in html and "returns 1, 0." in html


def test_equal_returns_are_pointed_out():
    assert "All returns are equal" in credit_cards.section(hand_made("", "", returns=(1.0, 1.0)))
    assert "All returns are equal" not in credit_cards.section(hand_made("", ""))


class Blind(type(envs.make("FrozenLake-v1")[0])):
    """A lake that does not draw itself."""

    def render(self, state, params):
        raise NotImplementedError


def test_environments_that_do_not_draw_are_shown_without_pictures():
    _, params, streams, rows, key = collected()
    view = credit_view.view(Blind(size=3), params, streams, rows, key, estimates(streams))
    assert 'class="board"' not in credit_cards.section(view)


def test_long_episodes_fold():
    turn = credit_view.Turn("", "left", 0.5, 0.0, True, {"GRPO": 0.1}, "", 1)
    long = credit_view.Episode((turn,) * 40, "failure", "", 0.0)
    view = credit_view.CreditView("Long", 1, 2, (0.0, 1.0), (long,), 0.1)
    html = credit_cards.section(view)
    assert html.count('class="turn"') == 40
    assert f"{40 - credit_cards.SHOWN_TURNS} more turns" in html
