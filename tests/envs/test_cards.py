"""The gym-cards games against exact calculation, and Blackjack against recorded episodes."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

from envs.blackjack import rules as blackjack
from envs.blackjack.env import BlackjackState
from envs.number_line.env import NumberLineState
from envs.points import formula
from envs.points import rules as points

BLACKJACK = [e for e in recorded.episodes("gym_cards") if e["env"] == "Blackjack"]


@pytest.mark.parametrize("episode", BLACKJACK, ids=lambda episode: str(episode["seed"]))
def test_recorded_blackjack(episode):
    """The rules with the recorded cards; every hand is told, and the command given is read."""
    env, params, _, step = playing.functions("Blackjack-v1")
    words = {"name": "Blackjack-v1", "wording": "faithful"}
    tell, read = playing.teller(**words), playing.reader(**words)

    def values(info, who):
        return [card[0] for card in info[f"{who} Card"]]

    def hand(info):
        player, shown = values(info, "Player"), values(info, "Dealer")[0]
        state = jnp.int32(sum(player)), jnp.bool_(1 in player), jnp.int32(shown), jnp.int32(0)
        return BlackjackState(jnp.int32(0), *state)

    def said(info):
        player, shown = values(info, "Player"), values(info, "Dealer")[0]
        soft = 1 in player and sum(player) <= 11
        card, end = "A" if shown == 1 else shown, ", with a usable ace." if soft else "."
        return f"Dealer's card: {card}. Player's points: {sum(player) + 10 * soft}{end}"

    info, state = episode["info0"], hand(episode["info0"])
    assert tell(state) == said(info)
    for told in episode["steps"]:
        # The cards to come are not recorded in our terms: this step is from the hand alone.
        command = ["stand", "hit"][told["a"]] if told["a"] >= 0 else "hm"
        _, after, _, _, taken = step(hand(info), read(command, hand(info)))
        assert bool(taken["valid"]) == (told["a"] >= 0)
        assert (int(after.dealer) > 0) == (told["a"] == 0)
        info = told["info"]
        assert tell(hand(info)) == said(info)
        player, dealer = values(info, "Player"), values(info, "Dealer")
        # Cards that would not be drawn must not matter: an ace is tried for them.
        card = player[-1] if told["a"] == 1 else 1
        final = blackjack.play_dealer(jnp.array([*dealer, *[1] * 12])[:12])
        state, reward = env.resolve(state, jnp.int32(told["a"]), jnp.int32(card), final)
        assert float(reward) == told["reward"]
        assert bool(env.is_terminated(state, params)) == told["terminated"]
        assert bool(env.is_success(state, params)) == info["won"]
        assert int(state.total) == sum(player) and bool(state.ace) == (1 in player)
        if told["a"] == 0:
            assert int(state.dealer) == int(blackjack.play_dealer(jnp.array(dealer)))


# The point games.


def expert_outcomes(name, cards):
    """(success, return, steps) of the expert on each deal, cards u8[n, deals]."""
    env, params, *_ = playing.functions(name)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=-1, out_axes=-1)
    def begin(cards):
        return env.initial(jax.random.key(0), params).replace(cards=cards)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=-1, out_axes=-1)
    def step(state):
        action = env.expert(state, params)
        _, after, reward, _, info = env.step_env(playing.KEY, state, action, params)
        return after, reward, info["valid"]

    state, total = begin(jnp.asarray(cards, jnp.uint8)), 0.0
    for _ in range(13):
        state, reward, valid = step(state)
        assert bool(valid.all())
        total += reward
    return np.asarray(state.won), np.asarray(total), np.asarray(state.time)


def ez_deals():
    """Probability of each ordered deal, from the stated rule."""
    chances = {}
    for rank in range(2, 14):
        first = min(rank, 10)
        seconds = [12 - first] if 12 % first else [12 - first, 12 // first]
        for second in seconds:
            for deal in ((first, second), (second, first)):
                chances[deal] = chances.get(deal, 0) + 1 / 12 / len(seconds) / 2
    return chances


def test_expert_wins_every_ez_deal_in_four_steps():
    success, reward, steps = expert_outcomes("EZPoints-v1", np.array(list(ez_deals())).T)
    assert success.all() and np.all(reward == 10) and np.all(steps == 4)


def test_expert_wins_every_solvable_deal_of_24():
    deals = np.array(list(itertools.combinations_with_replacement(range(1, 11), 4))).T
    turned = deals[[2, 0, 3, 1]]
    success, reward, steps = expert_outcomes("Points24-v1", np.concatenate([deals, turned], 1))
    assert deals.shape == (4, 715) and success[:715].sum() == 566
    np.testing.assert_array_equal(success[:715], success[715:])
    np.testing.assert_array_equal(reward, 10.0 * success)
    assert np.all(steps[~success] == 1) and np.all(steps[success] >= 8)


def assert_frequencies(drawn, chances):
    """Relative frequencies of the rows of `drawn` within 4.5 standard errors."""
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    seen = {tuple(map(int, row)): count for row, count in zip(rows, counts, strict=True)}
    assert set(seen) <= set(chances)
    for deal, chance in chances.items():
        error = np.sqrt(len(drawn) * chance * (1 - chance))
        assert abs(seen.get(deal, 0) - len(drawn) * chance) < 4.5 * error + 1, deal


def test_deals_of_ez_points():
    chances = ez_deals()
    assert all(a + b == 12 or a * b == 12 for a, b in chances)
    keys = jax.random.split(jax.random.key(1), 20000)
    assert_frequencies(np.asarray(jax.jit(jax.vmap(points.deal_ez))(keys)), chances)


def test_deals_of_24():
    keys = jax.random.split(jax.random.key(2), 20000)
    cards = np.asarray(jax.jit(jax.vmap(lambda key: points.deal_24(key, False)))(keys))
    assert_frequencies(cards.reshape(-1, 1), {(v,): (1, 4)[v == 10] / 13 for v in range(1, 11)})
    solvable = points.solutions()[tuple(cards.T.astype(int) - 1)].any(-1)
    share = len(points.solvable_deals()) / 13**4
    assert abs(share - 0.7309) < 1e-4
    assert abs(solvable.mean() - share) < 4 * np.sqrt(share * (1 - share) / len(cards))
    chosen = np.asarray(jax.jit(jax.vmap(lambda key: points.deal_24(key, True)))(keys))
    assert points.solutions()[tuple(chosen.T.astype(int) - 1)].any(-1).all()
    # Given that there is a formula, deals are as likely as without the condition.
    for value in (1, 10):
        rate = (cards[solvable] == value).mean()
        assert abs((chosen == value).mean() - rate) < 0.012


def points_state(env, params, cards, text):
    """A state with these cards and this formula; its numbers are of one digit."""
    tokens = [formula.SYMBOLS.get(part) or int(part) for part in text]
    state = playing.programs(env)[0](playing.KEY, params)
    return state.replace(
        cards=np.array(cards, np.uint8),
        formula=np.pad(np.array(tokens, np.uint8), (0, env.capacity - len(tokens))),
        length=np.int32(len(tokens)),
    )


def test_numbers_are_legal_while_their_cards_are_unused():
    env, params, *_ = playing.functions("Points24-v1")
    state = points_state(env, params, [8, 3, 8, 10], "8*")
    legal = np.flatnonzero(np.asarray(playing.method(env, "legal")(state, params))[:10]) + 1
    np.testing.assert_array_equal(legal, [3, 8, 10])
    state = points_state(env, params, [8, 3, 8, 10], "8*8/3")
    np.testing.assert_array_equal(
        np.flatnonzero(np.asarray(playing.method(env, "legal")(state, params))[:10]) + 1, [10]
    )


@pytest.mark.parametrize("name, text", [("EZPoints-v1", "+++5+7"), ("Points24-v1", "+" * 21)])
def test_a_full_formula_truncates_at_the_next_token(name, text):
    env, params, _, step = playing.functions(name)
    state = points_state(env, params, [5, 7, 1, 1][: env.num_cards], text)
    for action in (0, env.num_actions - 1):
        assert not bool(env.is_truncated(state, params))
        _, after, reward, terminated, _ = step(state, action)
        assert bool(env.is_truncated(after, params)) and not bool(terminated)
        assert float(reward) == 0.0
        np.testing.assert_array_equal(after.formula, state.formula)
    # What stands for an unreadable reply takes time only.
    _, after, *_ = step(state, -1)
    assert not bool(env.is_truncated(after, params))


def test_expert_gives_up_off_its_path():
    env, params, *_ = playing.functions("Points24-v1")
    for text, name in (("", "8"), ("8/", "("), ("8/(3-8/3)", "="), ("3*", "=")):
        state = points_state(env, params, [3, 8, 3, 8], text)
        assert env.action_names[int(playing.method(env, "expert")(state, params))] == name


def test_expert_of_ez_points_joins_any_beginning_of_a_solution():
    env, params, *_ = playing.functions("EZPoints-v1")
    for text, name in (("", "3"), ("4", "*"), ("4*", "3"), ("4*3", "="), ("4+", "="), ("+", "=")):
        state = points_state(env, params, [3, 4], text)
        assert env.action_names[int(playing.method(env, "expert")(state, params))] == name
    state = points_state(env, params, [2, 6], "6*")
    assert env.action_names[int(playing.method(env, "expert")(state, params))] == "2"


# NumberLine.


@pytest.mark.parametrize("length", [1, 5, 9])
def test_number_line_starts_and_expert(length):
    env, params, _, step = playing.functions("NumberLine-v1", length=length)
    states = playing.starts(env, params, 8000, seed=3)
    pairs = [(p, t) for p in range(length + 1) for t in range(length + 1) if p != t]
    drawn = np.stack([states.position, states.target], 1)
    assert_frequencies(drawn, dict.fromkeys(pairs, 1 / len(pairs)))
    for position, target in pairs[:6]:
        state = NumberLineState(jnp.int32(0), jnp.int32(position), jnp.int32(target))
        total = 0.0
        for _ in range(abs(position - target)):
            action = playing.method(env, "expert")(state, params)
            _, state, reward, terminated, _ = step(state, action)
            total += float(reward)
        assert bool(terminated) and total == 1.0


def test_number_line_ends_hold_the_agent_back():
    env, params, _, step = playing.functions("NumberLine-v1")
    state = NumberLineState(jnp.int32(0), jnp.int32(0), jnp.int32(3))
    _, state, reward, *_ = step(state, 0)
    assert int(state.position) == 0 and float(reward) == -1.0


# Blackjack.


def test_dealer_never_needs_more_cards_than_stated():
    @functools.cache
    def most(total, ace):
        value = total + 10 if ace and total <= 11 else total
        return 0 if value >= 17 else 1 + max(most(total + c, ace or c == 1) for c in range(1, 11))

    assert most(0, False) == blackjack.DEALER_CARDS


def test_dealer_chances_are_those_of_playing_the_cards():
    shown_key, card_key, direct_key = jax.random.split(jax.random.key(4), 3)
    n = 40000
    shown = jax.random.randint(shown_key, (n, 1), 1, 11)
    rest = blackjack.card(jax.random.uniform(card_key, (n, blackjack.DEALER_CARDS - 1)))
    played_out = jax.jit(jax.vmap(blackjack.play_dealer))(jnp.concatenate([shown, rest], 1))
    direct = jax.vmap(blackjack.draw_dealer)(jax.random.uniform(direct_key, (n,)), shown[:, 0])
    chances = blackjack.dealer_chances()
    np.testing.assert_allclose(chances.sum(1), 1.0, atol=1e-12)
    expected = {
        (card, total): chances[card - 1, total - 17] / 10
        for card in range(1, 11)
        for total in range(17, 23)
    }
    for final in (played_out, direct):
        assert_frequencies(np.stack([shown[:, 0], np.minimum(final, 22)], 1), expected)


def test_cards_come_from_the_deck():
    cards = blackjack.card(jax.random.uniform(jax.random.key(5), (30000,)))
    assert_frequencies(
        np.asarray(cards)[:, None], {(v,): blackjack.DECK[v - 1] for v in range(1, 11)}
    )


def test_expert_wins_as_often_as_calculated():
    env, params, *_ = playing.functions("Blackjack-v1")

    @jax.jit
    @jax.vmap
    def play(key):
        reset_key, key = jax.random.split(key)
        _, state = env.reset_env(reset_key, params)

        def step(state, key):
            _, state, reward, *_ = env.step_env(key, state, env.expert(state, params), params)
            return state, reward

        return jax.lax.scan(step, state, jax.random.split(key, 12))[1].sum()

    n, rate = 40000, blackjack.optimum().win_rate
    wins = np.asarray(play(jax.random.split(jax.random.key(6), n)))
    assert set(np.unique(wins)) == {0.0, 1.0}
    assert abs(rate - 0.4316) < 1e-4
    assert abs(wins.mean() - rate) < 3 * np.sqrt(rate * (1 - rate) / n)


def test_optimal_play_stands_and_hits_where_it_must():
    hit = blackjack.optimum().hit
    assert not hit[18:, 0].any() and hit[2:12, 0].all()
    # Hard 16 against a six: the dealer is likely to bust. Soft 17 (7 with an ace): nothing to lose.
    assert not hit[16, 0, 5] and hit[7, 1].all()
