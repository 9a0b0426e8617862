"""SimpleNegotiation: recorded games of TextArena and SPIRAL, the expert, offers in words."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from programs import fetched

import envs
from envs.simple_negotiation import rules
from envs.text import join, make_grammar, parse

KEY = jax.random.key(0)
FILES = {"textarena": "SimpleNegotiation-v0", "spiral": "SimpleNegotiation-v1"}
RECORDED = [(kind, n) for kind in FILES for n in range(len(recorded.games(kind, FILES[kind])))]
make = functools.cache(lambda kind: envs.make("SimpleNegotiation-v1", rules=kind))


@functools.cache
def programs(kind):
    """Of the rules: the step, the answer to an act, the number of an offer."""
    env, _ = make(kind)
    return (
        fetched(env.step_env),
        fetched(functools.partial(rules.respond, kind)),
        fetched(env.encode),
    )


reset_of = functools.cache(lambda kind: fetched(make(kind)[0].reset))
gains_of, opening = fetched(rules.gains), fetched(rules.opening)


def goods(text, kind):
    """Quantities of each resource in a list of them; zeros where it cannot be read."""
    names = [name.title() for name in rules.RESOURCES[kind]]
    if kind == "textarena":
        pairs = re.findall(r"(\d+)\s+([A-Za-z]+)", text)
    else:
        items = [item.strip() for item in re.split(r",\s*|\s+and\s+", text, flags=re.I)]
        pairs = [re.fullmatch(r"(\d+)\s+(.+)", item) for item in items if item]
        pairs = [pair.groups() for pair in pairs] if all(pairs) else []
    amounts = np.zeros(len(names), np.int32)
    for number, name in pairs:
        name = name.title() if name.title() in names else name.title().removesuffix("s")
        if name not in names or int(number) <= 0:
            return np.zeros(len(names), np.int32)
        amounts[names.index(name)] += int(number)
    return amounts


def act_of(reply, kind):
    """What a reply says, as TextArena and SPIRAL read it."""
    colon = ":?" if kind == "textarena" else ":"
    found = re.search(
        rf"\[Offer{colon}\s*(?:I\s+(?:give|offer)\s+)?([^\[\]]+?)\s*\.*\]", reply, re.I | re.S
    )
    give = ask = np.zeros(len(rules.RESOURCES[kind]), np.int32)
    if found:
        sides = re.split(r"\s*->\s*", re.sub(r"[.,!?]+$", "", " ".join(found[1].split())))
        if len(sides) == 2:
            give, ask = (goods(side, kind) for side in sides)
    said = [bool(re.search(word, reply, re.I)) for word in (r"\[accept\]", r"\[deny\]")]
    return rules.Act(*said, bool(found), give, ask)


def rows(table, kind):
    """Recorded quantities by resource, as rows."""
    names = [name.title() for name in rules.RESOURCES[kind]]
    return [r if isinstance(r, list) else [r.get(name, 0) for name in names] for r in table]


def check_market(market, told, kind):
    np.testing.assert_array_equal(market.stock, rows(told["resources"], kind))
    offer = told["current_offer"]
    assert int(market.proposer) == (offer["from_player"] if offer else -1)
    sides = [offer["offered_resources"], offer["requested_resources"]] if offer else [{}, {}]
    np.testing.assert_array_equal([market.give, market.ask], rows(sides, kind))


def changes_of(told):
    return told.get("inventory_change") or [row["change"] for row in told["inventory"]]


def begin(kind, game):
    """A state with the recorded goods and values."""
    env, params = make(kind)
    _, state = reset_of(kind)(KEY, params)
    first = game["initial_state"]
    stock = np.array(rows(first["resources"], kind), np.int32)
    values = np.array(first.get("values", rules.SPIRAL_VALUES), np.int32)
    return changed(state, start=stock, values=values, market=opening(stock))


def changed(state, **fields):
    """The state with other fields of the rules' state."""
    return state.replace(game=state.game.replace(**fields))


@pytest.mark.parametrize(("kind", "number"), RECORDED)
def test_recorded_games_by_the_rules(kind, number):
    """Every act, legal or not, of every form: goods, open offer, gains, errors, rewards."""
    game = recorded.games(kind, FILES[kind])[number]
    params, respond = make(kind)[1], programs(kind)[1]
    allowance = params.illegal_allowance
    state = begin(kind, game)
    market, errors, turn, lost = state.game.market, 0, 0, False
    for step in game["steps"]:
        assert step["player"] == turn % 2
        reply = recorded.wrapped(step["action"]) if kind == "textarena" else step["action"]
        seat, act = np.int32(turn % 2), act_of(reply, kind)
        market, wrong, _ = respond(market, seat, act, np.int32(allowance - errors))
        errors += int(wrong)
        lost = errors > allowance
        check_market(market, step["state"], kind)
        gains = gains_of(market, state.game.start, state.game.values)
        np.testing.assert_array_equal(gains, changes_of(step["state"]))
        assert step["done"] == (lost or turn + 1 == params.turns)
        if not wrong:
            turn, errors = turn + 1, 0
        if not step["done"] and kind == "textarena":
            assert (errors, turn) == (step["error_count"], step["turn"])
            assert turn % 2 == step["next_player"]
    reward = np.sign(gains - gains[::-1])
    if lost:
        reward = np.full(2, params.illegal_other_reward)
        reward[step["player"]] = params.illegal_reward
    assert reward.tolist() == (game.get("rewards") or game["spiral_rewards"])


@pytest.mark.parametrize(("kind", "number"), RECORDED)
def test_recorded_games_by_the_environment(kind, number):
    """The same through actions, to the end of each game."""
    game = recorded.games(kind, FILES[kind])[number]
    env, params = make(kind)
    step_env, _, encode = programs(kind)
    state, total = begin(kind, game), np.zeros(2)
    for step in game["steps"]:
        reply = recorded.wrapped(step["action"]) if kind == "textarena" else step["action"]
        act = act_of(reply, kind)
        readable = act.give.any() and act.ask.any()
        if act.offers and readable:
            action = int(encode(act.give, act.ask, act.accept))
            assert action >= 3
        elif act.offers:
            assert not act.accept
            action = -1
        else:
            action = 0 if act.accept else 1 if act.deny else 2
        assert int(env.mover(state, params)) == step["player"]
        _, state, reward, terminated, info = step_env(KEY, state, np.int32(action), params)
        total += reward
        check_market(state.game.market, step["state"], kind)
        assert bool(terminated) == step["done"]
    assert total.tolist() == (game.get("rewards") or game["spiral_rewards"])
    assert not (np.any(info["success"]) and int(info["offender"]) >= 0)


def act(accept=False, deny=False, give=None, ask=None):
    """An act over two resources."""
    offers = give is not None
    give, ask = (np.array(side if offers else (0, 0), np.int32) for side in (give, ask))
    return rules.Act(accept, deny, offers, give, ask)


def market(proposer=-1, give=(0, 0), ask=(0, 0), stock=((10, 10), (10, 10))):
    numbers = (np.array(x, np.int32) for x in (stock, proposer, give, ask))
    return rules.Market(*numbers)


def test_an_answer_and_an_offer_can_both_be_errors():
    respond = programs("textarena")[1]
    open_ = market(0, (1, 0), (0, 11))
    both = act(accept=True, give=(11, 0), ask=(0, 1))
    after, errors, did = respond(open_, 1, both, 1)
    assert int(errors) == 2 and int(did) == rules.NOTHING
    # Where the first is one too many, nothing is looked at any more.
    assert int(respond(open_, 1, both, 0).errors) == 1
    # A forgiven answer, and an offer that replaces the open one though the turn does not pass.
    after, errors, did = respond(open_, 1, both._replace(give=np.array([2, 0])), 1)
    assert int(errors) == 1 and int(did) == rules.OFFERED
    assert int(after.proposer) == 1 and after.give.tolist() == [2, 0]
    # A trade, then an offer of what has just been given away.
    after, errors, did = respond(market(0, (1, 0), (0, 4)), 1, act(True, False, (0, 7), (1, 0)), 1)
    assert int(errors) == 1 and int(did) == rules.ACCEPTED and int(after.proposer) == -1
    assert after.stock.tolist() == [[9, 14], [11, 6]]


def test_who_may_accept_and_what_closes_an_offer():
    open_ = market(0, (1, 0), (0, 2))
    textarena, spiral = programs("textarena")[1], programs("spiral")[1]
    # TextArena: a denial closes nothing; accepting one's own offer closes it, and nothing moves.
    assert int(textarena(open_, 1, act(deny=True), 1).market.proposer) == 0
    after, errors, _ = textarena(open_, 0, act(accept=True), 1)
    assert (int(errors), int(after.proposer)) == (0, -1)
    np.testing.assert_array_equal(after.stock, open_.stock)
    # SPIRAL: only a denial of the other closes; accepting one's own offer is an error.
    assert int(spiral(open_, 1, act(deny=True), 0).market.proposer) == -1
    assert int(spiral(open_, 0, act(deny=True), 0).market.proposer) == 0
    assert int(spiral(open_, 1, act(), 0).market.proposer) == 0
    assert int(spiral(open_, 0, act(accept=True), 0).errors) == 1
    assert int(spiral(open_, 1, act(accept=True), 0).market.stock[0, 1]) == 12
    # The proposer cannot deliver: closed without an error, even if the other cannot pay either.
    for asked in (2, 11):
        bare = market(0, (1, 0), (0, asked), stock=((0, 10), (10, 10)))
        after, errors, _ = spiral(bare, 1, act(accept=True), 0)
        assert (int(errors), int(after.proposer)) == (0, -1)
        np.testing.assert_array_equal(after.stock, bare.stock)
    short = market(0, (1, 0), (0, 11))
    after, errors, _ = spiral(short, 1, act(accept=True), 0)
    assert (int(errors), int(after.proposer)) == (1, 0)


def test_a_forgiven_error_on_the_last_turn_ends_the_game_on_the_balance():
    env, params = make("textarena")
    _, state = reset_of("textarena")(KEY, params)
    moved = state.game.market.stock + np.array([[1], [-1]], np.int32)
    state = changed(state, turn=np.int32(10), market=state.game.market._replace(stock=moved))
    _, after, reward, terminated, info = programs("textarena")[0](KEY, state, -1, params)
    assert bool(terminated) and reward.tolist() == [1, -1]
    assert int(info["offender"]) == -1 and info["success"].tolist() == [True, False]
    assert info["valid"].tolist() == [False, True]


def test_stocks_and_values_are_drawn_within_textarenas_ranges():
    env, params = make("textarena")
    state = fetched(jax.vmap(env.initial, (0, None)))(jax.random.split(KEY, 2000), params)
    stock, values = np.asarray(state.game.start), np.asarray(state.game.values)
    assert stock.min() == 5 and stock.max() == 25
    assert values.min((0, 1)).tolist() == [5, 8, 12, 20, 32]
    assert values.max((0, 1)).tolist() == [6, 12, 18, 30, 40]


@pytest.mark.parametrize("kind", FILES)
def test_actions_are_offers_and_back(kind):
    env, params = make(kind)
    encode, decode = programs(kind)[2], fetched(env.decode)
    for action in (*range(3, env.num_actions, 7), env.num_actions - 1):
        said = decode(action)
        given, asked, q, p = env.table[action - 3]
        assert (int(said.give[given]), int(said.ask[asked])) == (q, p)
        assert int(np.sum(said.give) + np.sum(said.ask)) == q + p
        assert int(encode(said.give, said.ask, False)) == action
    size = len(env.resources)
    give, ask = np.zeros((2, size), np.int32)
    give[0], ask[1:] = 31, 31
    for accept in (False, True):
        action = int(encode(give, ask, accept))
        said = decode(action)
        assert action >= env.num_actions and bool(said.accept) == accept
        np.testing.assert_array_equal([said.give, said.ask], [give, ask])
    assert int(encode(give + ask, ask, False)) == -1 and int(encode(give + 1, ask, False)) == -1


def test_each_sees_only_its_own_goods_and_values():
    env, params = make("textarena")
    _, state = reset_of("textarena")(KEY, params)
    start, market = state.game.start, state.game.market
    market = market._replace(proposer=np.int32(1), give=start[1], ask=start[0])
    state = changed(state, market=market)
    observe, describe = fetched(env.observe), fetched(lambda s, p: env.describe(s, p).fragments)
    for seat in range(2):
        mine = np.arange(2)[:, None] == seat
        hide = lambda rows, mine=mine: np.where(mine, rows, np.int32(1))  # noqa: E731
        hidden = changed(
            state,
            start=hide(state.game.start),
            values=hide(state.game.values),
            market=market._replace(stock=hide(market.stock)),
        )
        for look in (observe, describe):
            np.testing.assert_array_equal(look(state, params)[seat], look(hidden, params)[seat])
            assert np.any(look(state, params)[1 - seat] != look(hidden, params)[1 - seat])


def test_experts_trade_all_that_both_gain_from_where_values_are_public():
    """Eight and eight, then two and two: 100 each, the most there is, and a draw."""
    env, params = make("spiral")
    _, state = reset_of("spiral")(KEY, params)
    said, total, expert = [], np.zeros(2), fetched(env.expert)
    for _ in range(10):
        action = expert(state, params)
        said.append(env.action_names[int(action)])
        _, state, reward, *_ = programs("spiral")[0](KEY, state, action, params)
        total += reward
    assert said[:5] == [
        *("offer 8 wood for 8 gold", "accept", "offer 2 wood for 2 gold", "accept", "pass")
    ]
    gains = gains_of(state.game.market, state.game.start, state.game.values)
    assert gains.tolist() == [100, 100] and not total.any()


OFFERS = {
    "offer 2 wheat 1 ore for 1 wheat": ("2 wheat 1 ore", "1 wheat", False),
    "offer 2 wheat for 3 ore": ("2 wheat", "3 ore", False),
    "Offer 3 sheep, 2 ore -> 5 brick": ("3 sheep 2 ore", "5 brick", False),
    "offer 31 wood and 1 ore for 1 wheat and 1 brick": ("31 wood 1 ore", "1 wheat 1 brick", False),
    "offer 2 wheat 2 wheat for 3 ore and accept": ("4 wheat", "3 ore", True),
    "offer 1 wheat 1 wood 1 sheep for 1 ore accept": ("1 wheat 1 wood 1 sheep", "1 ore", True),
}
UNREADABLE = (
    "offer",
    "offer 2 wheat",
    "offer 2 wheat for",
    "offer for 2 wheat",
    "offer wheat for 2 ore",
    "offer 2 wheat for 32 ore",
    "offer 0 wheat for 2 ore",
    "offer 30 wheat 2 wheat for 2 ore",
    "offer 2 wheat for 1 ore for 1 wood",
    "offer 29 wheat for 1 wheat",
    "offer accept 2 wheat for 1 ore",
    "offer some wood for ore",
    "offer 1 wheat 1 wood 1 sheep for 1 brick 1 ore",
    "offer 1 wheat 1 wood for 1 brick 1 ore 1 sheep",
    "offer 1 wheat for 1 wood 1 sheep 1 brick 1 ore",
    "2 wheat for 1 ore",
)


def reader(kind):
    """Replies to numbers of actions."""
    env, params = make(kind)
    view = env.view

    @jax.jit
    def read(reply, length):
        slots = view.slots(None, params, 0)
        return parse(make_grammar("bare"), view, slots, reply, length).actions[0]

    return lambda said: int(
        read(np.frombuffer(said.encode().ljust(view.max_command_bytes), np.uint8), len(said))
    )


def test_offers_of_any_goods_are_understood():
    env, _ = make("textarena")
    read = reader("textarena")
    for said, (give, ask, accept) in OFFERS.items():
        act = env.decode(jnp.int32(read(said)))
        np.testing.assert_array_equal(act.give, goods(give, "textarena"))
        np.testing.assert_array_equal(act.ask, goods(ask, "textarena"))
        assert bool(act.accept) == accept and bool(act.offers)
    for said in UNREADABLE:
        assert read(said) == -1, said
    assert [read(said) for said in ("accept", "deny", "pass")] == [0, 1, 2]


def test_offers_in_words_with_two_resources():
    env, params = make("spiral")
    read, step = reader("spiral"), programs("spiral")[0]
    _, state = reset_of("spiral")(KEY, params)
    assert read("offer 2 wood for 3 gold") == env.action_names.index("offer 2 wood for 3 gold")
    for said in ("offer 4 wood for 7 gold", "offer 6 gold for 6 wood and accept"):
        # SPIRAL's seat 1 trades 7 gold for 4 wood and has 3 left: the second half is an error.
        _, state, _, terminated, info = step(KEY, state, jnp.int32(read(said)), params)
    assert bool(terminated) and int(info["offender"]) == 1
    assert state.game.market.stock.tolist() == [[6, 17], [14, 3]]


def test_what_is_said_of_a_negotiation():
    env, params = make("spiral")
    _, state = reset_of("spiral")(KEY, params)
    for name in ("offer 2 wood for 1 gold", "accept", "offer 8 gold for 3 wood"):
        action = jnp.int32(env.action_names.index(name))
        _, state, *_ = programs("spiral")[0](KEY, state, action, params)
    told = "left 7 offered\nwood 12 +2 at 15\ngold 9 -1 at 5\ntheirs 8 gold for 3 wood"
    assert join(env.view.lexicon, env.view.describe(state, params, 1)) == told
    _, state, *_ = programs("spiral")[0](KEY, state, jnp.int32(1), params)
    assert join(env.view.lexicon, env.view.describe(state, params, 0)) == (
        "left 6 denied\nwood 8 -2 at 5\ngold 11 +1 at 15"
    )
