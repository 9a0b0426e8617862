"""The faithful grammar: recorded replies of TextArena's games, and its rules as oracles in Python.

Each oracle is the rule of the game's parser over the reply as a string, and gives the action as
`envs` numbers it, -1 for none. `tests/envs/test_replays.py` plays the recorded games by them, so an
oracle that reads a recorded reply otherwise than TextArena did fails there.
"""

import functools
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded
from hypothesis import example, given, settings
from hypothesis import strategies as st

import envs
from agentrl.policies import codec as codecs
from envs.simple_negotiation import offers
from envs.text import GRAMMARS, make_grammar, parse, reading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from test_simple_negotiation import begin, check_market  # noqa: E402

SIZE = 112
KEY = jax.random.key(0)
FAITHFUL = make_grammar("faithful")
OPTIONS = {"LiarsDice-v1": {"dice": 3}}
# Our environment, the recorded one, and the number of its replies.
RECORDED = [
    ("TicTacToe-v1", "TicTacToe-v0", 159),
    ("ConnectFour-v1", "ConnectFour-v0", 384),
    ("Nim-v1", "Nim-v0", 115),
    ("LiarsDice-v1", "LiarsDice-v0-small", 225),
    ("PigDice-v1", "PigDice-v0-short", 455),
    ("KuhnPoker-v1", "KuhnPoker-v0", 138),
    ("KuhnPoker-v1", "KuhnPoker-v0-short", 200),
]
NAMES = tuple(recorded.RULES)


@functools.cache
def world(name, wording="compact"):
    """(env, params, first state, one after a bet) of a game."""
    env, params = envs.make(name, wording=wording, **OPTIONS.get(name, {}))
    first = env.initial(KEY, params)
    bet = (
        first.replace(game=first.game.replace(actions=jnp.array([1, -1, -1, -1])))
        if name == "KuhnPoker-v1"
        else first
    )
    return env, params, first, bet


@functools.cache
def compiled(name, wording, think):
    env, params, *_ = world(name, wording)
    grammar = make_grammar("faithful", think=think)

    def read(state, reply, length):
        return parse(grammar, env.view, env.view.slots(state, params, 0), reply, length)

    return jax.jit(read)


def parsed(name, reply, bet=False, wording="compact", think="none"):
    data = reply if isinstance(reply, bytes) else reply.encode()
    assert len(data) <= SIZE
    state = world(name, wording)[3 if bet else 2]
    # What stands behind the reply must not matter.
    behind = (b"[0][1 1][bid 1 1][roll][bet]" * 8)[: SIZE - len(data)]
    return compiled(name, wording, think)(state, np.frombuffer(data + behind, np.uint8), len(data))


def read(name, reply, bet=False, wording="compact"):
    return int(parsed(name, reply, bet, wording).actions[0])


@pytest.mark.parametrize(("name", "env_id", "count"), RECORDED)
def test_every_recorded_reply_is_read_as_textarena_read_it(name, env_id, count):
    env, number, memory = world(name)[0], 0, {}
    for game in recorded.games("textarena", env_id):
        legal = game["initial_state"].get("legal")
        for step in game["steps"]:
            asked = step["action"], legal is not None and "fold" in legal
            if asked not in memory:
                memory[asked] = read(name, *asked)
                assert memory[asked] == recorded.RULES[name](env, *asked), asked
            number += 1
            if legal is not None:
                now = step["state"]["legal"]
                legal = now if isinstance(now, list) else ["check", "bet"]
    assert number == count


def test_recorded_negotiations_are_played_by_their_replies():
    env, params, *_ = world("SimpleNegotiation-v1", "faithful")
    _, _, step = playing.programs(env)
    replies = on_both = 0
    for game in recorded.games("textarena", "SimpleNegotiation-v0"):
        state, total = begin("textarena", game), np.zeros(2)
        for told in game["steps"]:
            action = read("SimpleNegotiation-v1", told["action"], wording="faithful")
            *_, give, ask = negotiation(told["action"])
            on_both += bool(np.any((give > 0) & (ask > 0)))
            _, state, reward, terminated, _ = step(KEY, state, jnp.int32(action), params)
            check_market(state.game.market, told["state"], "textarena")
            total += reward
            assert bool(terminated) == told["done"]
            if not told["done"]:
                counts = int(state.errors), int(state.game.turn)
                assert counts == (told["error_count"], told["turn"])
            replies += 1
        assert total.tolist() == game["rewards"]
    assert replies == 216 and on_both > 20


DIGITS = ("0", "1", "2", "3", "4", "6", "7", "9", "007", "12", "4294967297", "99999999999999999999")
# Digits, white space and letters beyond ASCII that Python's expressions take for such.
BEYOND = ("３", "٤", "²", "\u3000", "\xa0", "\u2009", "\x1c", "\x85", "ſ", "\u212a", "İ", "ı", "é")
COMMON = ("[", "]", "[", "]", " ", "  ", "\n", "\t", ",", ":", "x", "中", "-", *DIGITS, *BEYOND)
WORDS = {
    "TicTacToe-v1": ("[4]", "[ 5 ]", "[05]", "[\n2]", "[9]"),
    "ConnectFour-v1": ("col", "COL", "cOl ", "[col 3]", "[6]", "[Col5]", "[col\n2]", "[col 9]"),
    "Nim-v1": ("[0 3]", "[ 1  2 ]", "[1\t1", "[2, 2]", "[0 00]"),
    "LiarsDice-v1": ("bid", "BID", "b\u0130d", "[bid: 1, 2]", "[Bid 2 ,6]", "[call]", "[Call]"),
    "PigDice-v1": ("roll", "hold", "[ROLL]", "[hold]", "[ roll]"),
    "KuhnPoker-v1": ("[check]", "[Bet]", "[fold]", "[CALL]", "[chec\u212a]", "call", "[raise]"),
}


@pytest.mark.parametrize("name", NAMES)
def test_forms_are_read_as_by_the_rule(name):
    env, pieces = world(name)[0], st.sampled_from((*WORDS[name] * 3, *COMMON))
    replies = st.lists(pieces, max_size=10).map("".join)

    @settings(deadline=None, max_examples=250, derandomize=True)
    @given(replies.filter(lambda reply: len(reply.encode()) <= SIZE), st.booleans())
    def check(reply, bet):
        assert read(name, reply, bet) == recorded.RULES[name](env, reply, bet)

    check()
    for reply in WORDS[name] + BEYOND:
        assert read(name, reply) == recorded.RULES[name](env, reply, False), reply


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=SIZE))
@example(b"[1\x80]")
@example(b"[\xef\xbc\x934")
@example(b"[\xef\xbc\x93]")
@example(b"[\xe0\x82\xa03]")
@example("[٣".encode()[:-1] + b"]")
@example(b"\xf0\x9d\x9f\x93")
def test_any_bytes_are_read_as_their_text(data):
    """What is no UTF-8 is what Python puts in its place: a character that stands for nothing."""
    env, reply = world("TicTacToe-v1")[0], data.decode("utf-8", "replace")
    assert read("TicTacToe-v1", data) == recorded.tictactoe(env, reply)


def negotiation(reply):
    """(accept, deny, offers, give, ask) by TextArena's rule; zeros for an unreadable offer."""
    reply = recorded.wrapped(reply)
    names = [name.title() for name in world("SimpleNegotiation-v1", "faithful")[0].resources]
    amounts = np.zeros((2, len(names)), np.int32)
    pattern = r"\[Offer:?\s*(?:I\s+(?:give|offer)\s+)?([^\[\]]+?)\s*\.*\]"
    found = re.search(pattern, reply, re.IGNORECASE | re.DOTALL)
    sides = (
        re.split(r"\s*->\s*", re.sub(r"[.,!?]+$", "", " ".join(found[1].split()))) if found else []
    )
    pairs = [re.findall(r"(\d+)\s+([A-Za-z]+)", side, re.IGNORECASE) for side in sides]
    if len(pairs) == 2 and all(pairs):
        for side, amount, name in ((i, *pair) for i in range(2) for pair in pairs[i]):
            name = {"Sheeps": "Sheep", "Woods": "Wood"}.get(name.title(), name.title())
            if name not in names or int(amount) == 0:
                amounts[:] = 0
                break
            amounts[side, names.index(name)] += int(amount)
    said = [bool(re.search(word, reply, re.IGNORECASE)) for word in (r"\[accept\]", r"\[deny\]")]
    return *said, found is not None, *amounts


GOODS = ("Wheat", "wood", "Woods", "SHEEP", "sheeps", "Brick", "Ore", "Ores", "Gold")
GOODS += ("br\u0131ck", "Bric\u212a", "\u017fheep", "wood\u017f")
AMOUNTS = ("1", "2", "5", "05", "0", "28", "29", "31", "32", "٢", "４０００")
TALK = ("[Accept]", "[deny]", "I give ", "and", ",", ".", "!", "Deal?", "\n", "[", "]", "->", "x")
GOOD = st.tuples(st.sampled_from(AMOUNTS), st.sampled_from((" ", " ", "\u3000", "")))
GOOD = st.tuples(GOOD.map("".join), st.sampled_from(GOODS)).map("".join)
SIDE = st.lists(st.one_of(GOOD, GOOD, GOOD, st.sampled_from(TALK)), min_size=1, max_size=3)
OFFERS = st.tuples(
    st.sampled_from(("", "", "[Accept] ", "Deal? [deny]", "[")),
    st.sampled_from(("[Offer: ", "[offer", "[OFFER:I offer ", "Offer: ")),
    SIDE.map(", ".join),
    st.sampled_from(("->", " -> ", " -> ", "")),
    SIDE.map(" and ".join),
    st.sampled_from(("]", "]", ".]", " !. ]", "", "] [Accept]", "] [Offer: 1 Ore -> 1 Wood]")),
).map("".join)


def decoded(action):
    """What a number says, as `negotiation`."""
    act = _decode()(action)
    said = [bool(x) for x in (act.accept, act.deny, act.offers)]
    return *said, np.asarray(act.give), np.asarray(act.ask)


@functools.cache
def _decode():
    return jax.jit(world("SimpleNegotiation-v1", "faithful")[0].decode)


@functools.cache
def _encode():
    return jax.jit(world("SimpleNegotiation-v1", "faithful")[0].encode)


@settings(deadline=None, max_examples=500, derandomize=True)
@given(OFFERS.filter(lambda reply: len(reply.encode()) <= SIZE))
@example("[Offer]")
@example("[Offer:]")
@example("[offer ]")
@example("[Accept] [Offer: 2 Wood]")
@example("[Offers 3 Sheep, 2 Ore->5 Brick2 Sheep...]")
@example("nothing")
@example("")
def test_offers_are_read_as_by_the_rule(reply):
    accept, deny, found, give, ask = negotiation(reply)
    # An offer that has no number cannot be read here.
    if int(_encode()(np.minimum(give, 99), np.minimum(ask, 99), accept)) < 0:
        give, ask = 0 * give, 0 * ask
    said = decoded(read("SimpleNegotiation-v1", reply, wording="faithful"))
    # A denial says nothing besides an offer or an acceptance.
    assert said[:3] == (accept, deny and not (accept or found), found)
    np.testing.assert_array_equal(said[3:], [give, ask])


def test_offers_with_a_resource_on_both_sides_have_numbers_of_their_own():
    """Random ones there and back, and the corners; no two share a number."""
    rng, seen = np.random.default_rng(0), {}
    for _ in range(300):
        sides = np.zeros((2, 5), np.int32)
        good = rng.integers(5)
        sides[:, good] = rng.integers(1, 29, 2)
        for place in rng.permutation(10)[: rng.integers(3)]:
            if (sides > 0).sum() < 4:
                sides.flat[place] = rng.integers(1, 29)
        accept = bool(rng.integers(2))
        number = int(_encode()(*sides, accept))
        assert number > 2 * 63**5
        said = decoded(number)
        assert said[:3] == (accept, False, True)
        np.testing.assert_array_equal(said[3:], sides)
        assert seen.setdefault(number, (accept, sides.tobytes())) == (accept, sides.tobytes())
    most = np.zeros((2, 5), np.int32)
    most[:, 3:] = offers.MOST_ON_BOTH
    last = int(_encode()(*most, True))
    np.testing.assert_array_equal(decoded(last)[3:], most)
    assert last < 2**31 - 1
    for sides in (most + np.eye(2, 5, 4, dtype=np.int32), np.maximum(most, np.eye(2, 5))):
        assert int(_encode()(*sides.astype(np.int32), False)) == -1


READERS = [(name, wording) for name in NAMES for wording in ("compact", "faithful")]
READERS.remove(("KuhnPoker-v1", "faithful"))
READERS.append(("SimpleNegotiation-v1", "faithful"))


WRITERS = [(name, wording, "none") for name, wording in READERS]
WRITERS += [(name, "faithful", "required") for name in ("TicTacToe-v1", "SimpleNegotiation-v1")]


@pytest.mark.parametrize(("name", "wording", "think"), WRITERS)
def test_what_the_expert_writes_is_read_back(name, wording, think):
    """Through tokens of bytes, by the frame that each grammar asks for; thoughts are not read."""
    env, params, *states = world(name, wording)
    grammar, codec = make_grammar("faithful", think=think), codecs.CODECS["byte"](env.view)
    thoughts = think == "required"
    size = codecs.reply_tokens(codec, grammar, env.view, 8, thoughts=thoughts)

    @jax.jit
    def run(state):
        commands = env.commands(state, params)[0][:60]
        written = codecs.replies(codec, grammar, commands, size, thoughts=thoughts)
        slots = env.view.slots(state, params, 0)

        def back(tokens, length):
            return parse(grammar, env.view, slots, *codecs.to_bytes(codec, tokens, length))

        return written.cut, jax.vmap(back)(written.tokens, written.length)

    for state in states:
        cut, said = run(state)
        count = min(env.num_actions, 60)
        assert not cut.any() and said.valid_format.all() and said.known.all()
        assert said.actions[:, 0].tolist() == list(range(count))
        assert said.thinks.tolist() == [thoughts] * count


def test_thoughts_stand_before_the_tags_that_are_read():
    think = functools.partial(parsed, "TicTacToe-v1", think="required")
    said = think("<think>[3]? no</think> so <action> I take [ 04 ] </action>")
    assert (int(said.actions[0]), bool(said.valid_format), bool(said.thinks)) == (4, True, True)
    for reply in ("[4]", "", "</action>[4]<action>", "<action>[4]"):
        assert int(think(reply).actions[0]) == -1 and not think(reply).known
    assert not think("<action>[4]</action>").valid_format
    # Without tags the whole reply is read, thoughts and all, as TextArena does.
    assert read("TicTacToe-v1", "<think>[3]?</think> [4]") == 3


def test_an_empty_reply_is_the_sources_affair():
    said = parsed("SimpleNegotiation-v1", "", wording="faithful")
    assert int(said.actions[0]) == 2 and bool(said.known) and bool(said.valid_format)
    said = parsed("TicTacToe-v1", "")
    assert int(said.actions[0]) == -1 and not said.known and bool(said.valid_format)


def test_other_grammars_read_whole_commands_as_before():
    view = world("TicTacToe-v1", "faithful")[0].view
    assert not any(grammar.faithful for name, grammar in GRAMMARS.items() if name != "faithful")

    @jax.jit
    def bare(reply, length):
        return parse(make_grammar("bare"), view, {}, reply, length).actions[0]

    for reply, action in (("[4]", 4), (" [4]\n", 4), ("[ 4 ]", -1), ("I take [4]", -1), ("4", -1)):
        data = np.frombuffer(reply.encode().ljust(16), np.uint8)
        assert int(bare(data, len(reply))) == action


def test_environments_without_a_rule_say_so():
    for name, options in (("FrozenLake-v1", {}), ("SimpleNegotiation-v1", {})):
        view = envs.make(name, **options)[0].view
        with pytest.raises(ValueError, match="grammar 'faithful'.*use grammar 'bare'"):
            make_grammar("faithful", view=view)
        with pytest.raises(ValueError, match="grammar 'faithful'.*use grammar 'bare'"):
            parse(FAITHFUL, view, {}, np.zeros(4, np.uint8), 0)
    with pytest.raises(ValueError, match="only 'answer'"):
        make_grammar("faithful", max_actions=2)


def test_numbers_of_any_length():
    text = np.frombuffer(b"[0 000 7 0000999 1000 123456789012 5", np.uint8)
    places = np.array([2, 4, 8, 10, 18, 23, 36])

    @jax.jit
    def values():
        return reading.value(reading.characters(text, 0, len(text)), places)

    assert values().tolist() == [0, 0, 7, 999, 1000, 1000, 5]
