"""Kuhn and Leduc poker: recorded games, what is hidden, the experts, the deals."""

import functools
import itertools

import jax
import numpy as np
import pytest
import recorded
from programs import fetched

import envs
from envs.text import join

KEY = jax.random.key(0)


@functools.cache
def compiled(env, method="step_env"):
    return fetched(getattr(env, method))


def replay(game, rounds, reward, **params_of):
    """(total rewards, last state, env, params) of a recorded game, its states compared."""
    env, params = envs.make(
        "KuhnPoker-v1", rounds=rounds, opener=1, pot_grows=False, reward=reward, **params_of
    )
    _, state = compiled(env, "reset")(KEY, params)
    cards = np.array(state.game.cards)
    for seen in [game["initial_state"], *(step["state"] for step in game["steps"])]:
        if seen["round"] <= rounds:
            cards[seen["round"] - 1] = seen["cards"]
    state = state.replace(game=state.game.replace(cards=cards))
    step_of, total, legal = compiled(env), np.zeros(2), game["initial_state"]["legal"]
    for step in game["steps"]:
        assert int(env.mover(state, params)) == step["player"]
        action = recorded.kuhn_poker(env, step["action"], "fold" in legal)
        if "parser_actions" in step and step["action"] not in step["parser_actions"]:
            action = -1
        _, state, reward_now, terminated, _ = step_of(KEY, state, np.int32(action), params)
        total += reward_now
        assert bool(terminated) == step["done"]
        now = step["state"]
        if not step["done"]:
            if "next_player" in step:
                assert int(env.mover(state, params)) == step["next_player"]
                assert int(state.errors) == step["error_count"]
                assert int(state.game.round) == now["round"] - 1
                # What a hand's antes have taken is not in our count.
                np.testing.assert_array_equal(np.asarray(state.game.chips), np.add(now["chips"], 1))
            legal = now["legal"] if isinstance(now["legal"], list) else ["check", "bet"]
    return total, state, env, params


@pytest.mark.parametrize(("env_id", "rounds"), [("KuhnPoker-v0", 3), ("KuhnPoker-v0-short", 5)])
def test_textarenas_games(env_id, rounds):
    for game in recorded.games("textarena", env_id):
        total, state, *_ = replay(game, rounds, "most_chips")
        assert total.tolist() == game["rewards"]
        lost_by_error = any(told["invalid_move"] for told in game["game_info"].values())
        assert (int(state.offender) >= 0) == lost_by_error


def test_spirals_games():
    fewer = 0
    for game in recorded.games("spiral", "KuhnPoker-v1"):
        total, state, env, params = replay(
            game,
            5,
            "last_round",
            illegal_allowance=0,
            illegal_reward=-1.5,
            illegal_other_reward=0.5,
        )
        assert total.tolist() == game["spiral_rewards"]
        if int(state.offender) < 0:
            winner = int(np.argmax(total))
            assert compiled(env, "is_success")(state, params)[winner]
            fewer += int(state.game.chips[winner]) < int(state.game.chips[1 - winner])
    # The winner of the last hand wins the game, whatever went before.
    assert fewer > 0


@pytest.mark.parametrize("name", ["KuhnPoker-v1", "LeducPoker-v1"])
def test_nobody_sees_the_others_card(name):
    env, params = envs.make(name)
    _, state = compiled(env, "reset")(KEY, params)
    observe, describe = compiled(env, "observe"), fetched(env.view.describe)
    for cards in itertools.permutations(range(3)):
        if name == "KuhnPoker-v1":
            game = state.game.replace(cards=np.array([cards[:2]], np.int32))
        else:
            game = state.game._replace(cards=2 * np.array(cards, np.int32))
        changed = state.replace(game=game)
        for agent in range(2):
            seen = observe(changed, params)[agent]
            assert seen[:3].argmax() == cards[agent]
            # The rest of what is seen before the first action does not depend on the deal.
            np.testing.assert_array_equal(seen[3:], observe(state, params)[agent, 3:])
            said = join(env.view.lexicon, describe(changed, params, agent))
            assert said == "JQK"[cards[agent]]


def test_kuhn_pays_what_is_bet():
    env, params = envs.make("KuhnPoker-v1")
    _, state = compiled(env, "reset")(KEY, params)
    state = state.replace(game=state.game.replace(cards=np.array([[0, 2]], np.int32)))
    for actions, chips in (
        ((0, 0), [-1, 1]),
        ((0, 1, 0), [-1, 1]),
        ((0, 1, 1), [-2, 2]),
        ((1, 0), [1, -1]),
        ((1, 1), [-2, 2]),
    ):
        now, total = state, np.zeros(2)
        for action in actions:
            _, now, reward, terminated, _ = compiled(env)(KEY, now, np.int32(action), params)
            total += reward
        assert bool(terminated) and total.tolist() == chips


def test_leduc_deals():
    for deal, pairs in (("cards", 1 / 5), ("ranks", 6 / 24)):
        env, params = envs.make("LeducPoker-v1", deal=deal)
        keys = jax.random.split(KEY, 4000)
        cards = fetched(jax.vmap(env.initial, (0, None)))(keys, params).game.cards
        assert all(len(set(row)) == 3 for row in cards.tolist())
        same = (cards[:, 0] // 2 == cards[:, 1] // 2).mean()
        assert abs(same - pairs) < 4 * np.sqrt(pairs * (1 - pairs) / len(cards))


@pytest.mark.parametrize("players", [2, 3, 5])
def test_kuhn_deals_are_all_deals(players):
    env, _ = envs.make("KuhnPoker-v1", players=players)
    deals = list(itertools.permutations(range(players + 1), players))
    cards = np.asarray(env._dealt(jax.numpy.arange(len(deals))))
    assert sorted(map(tuple, cards.tolist())) == sorted(deals)


def played_out(cards, bets):
    """Seats that act and what each has won, in plain Python, of a hand in which the seats whose
    turn comes bet (or call) as `bets` says, one after the other."""
    players, acted, stakes, first = len(cards), [], [1] * len(cards), None
    for turn, bet in enumerate(bets):
        seat = turn % players
        acted.append(seat)
        stakes[seat] += bet
        first = turn if bet and first is None else first
        if turn + 1 == players + (first or 0):
            break
    into = [seat for seat in range(players) if stakes[seat] > 1] or range(players)
    best = max(into, key=lambda seat: cards[seat])
    return acted, [sum(stakes) * (seat == best) - stakes[seat] for seat in range(players)]


@pytest.mark.parametrize("players", [3, 5])
def test_kuhn_of_more_players_by_hand(players):
    env, params = envs.make("KuhnPoker-v1", players=players, rounds=2)
    _, state = compiled(env, "reset")(KEY, params)
    rng = np.random.default_rng(players)
    for _ in range(20):
        cards = np.stack([rng.permutation(players + 1)[:players] for _ in range(2)])
        now = state.replace(game=state.game.replace(cards=cards.astype(np.int32)))
        opened, total = 0, np.zeros(players)
        while opened < 2:
            # The second hand is opened by the next seat.
            dealt, bets = np.roll(cards[opened], -opened), rng.integers(0, 2, 2 * players - 1)
            seats, won = played_out(dealt.tolist(), bets.tolist())
            for seat, bet in zip(seats, bets, strict=False):
                assert int(env.mover(now, params)) == (seat + opened) % players
                seen = compiled(env, "observe")(now, params)
                for agent in range(players):
                    behind = (agent - opened) % players
                    assert seen[agent, : players + 1].argmax() == cards[opened, agent]
                    order = seen[agent, 5 * players - 1 : -2]
                    np.testing.assert_array_equal(order, np.arange(players - 1) == behind)
                _, now, reward, *_ = compiled(env)(KEY, now, np.int32(bet), params)
                total += reward
            total -= np.roll(won, opened)
            opened += 1
        np.testing.assert_array_equal(total, 0)
        np.testing.assert_array_equal(now.game.round, 2)


def test_kuhn_of_more_players_refuses_what_is_of_two():
    for options in ({"players": 1}, {"players": 6}, {"players": 3, "pot_grows": False}):
        with pytest.raises(ValueError, match=f"players={options['players']}"):
            envs.make("KuhnPoker-v1", **options)
    assert envs.make("KuhnPoker-v1", players=5)[0].ranks == "89TJQK"
