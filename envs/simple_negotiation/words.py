"""SimpleNegotiation in words: the agent's goods, the open offer, and offers of any goods."""

import jax.numpy as jnp
import numpy as np

from envs.simple_negotiation import offers, rules
from envs.simple_negotiation.env import ACCEPT, DENY, MOST, PASS, SimpleNegotiation
from envs.text import Lexicon, Query, View, reading, template

RULES = (
    "You are trading with another agent, in turn. Who has gained more in its own values at the end "
    "wins.{0} You see the turns left and what came of the last act; for each resource how many you "
    "have, how that has changed and what one is worth to you; and the open offer, yours or theirs, "
    "with what its maker gives for what it asks. Commands: {1}."
)
BOTH = " An offer that ends with 'and accept' accepts the open one first."
PUBLIC = " What is worth 5 to you is worth 15 to the other, and the other way round."
OFFERS = {
    "textarena": (
        "accept, deny, pass, offer 2 wood for 1 brick, offer 3 sheep 2 ore for 4 brick 1 wheat"
    ),
    "spiral": "accept, deny, pass, offer 2 wood for 1 gold",
}
_FIELD = 50  # largest number of units of a resource


def _query(env: SimpleNegotiation, lexicon: Lexicon) -> Query:
    """`offer 3 sheep, 2 ore for 5 brick and accept`: numbers and resources alternate.

    At most four resources in total: a longer offer is cut within a pair, and so not understood.
    """
    size = len(env.resources)
    words = [str(n + 1) for n in range(MOST)]
    words += [*env.resources, *(f"{name}," for name in env.resources), "for", "->", "accept"]
    first = MOST + 2 * size

    def action(words):
        place = np.arange(len(words))
        accept = jnp.any(words == first + 2)
        # Accepting comes last, if at all.
        count = jnp.sum(words >= 0) - accept
        inside = place < count
        turns = inside & ((words == first) | (words == first + 1))
        middle = jnp.argmax(turns)
        behind = place > middle
        # Numbers are at even places of their side, resources at odd ones.
        odd = jnp.where(behind, place - middle - 1, place) % 2 == 1
        number = (words >= 0) & (words < MOST)
        resource = (words >= MOST) & (words < first)
        ordered = jnp.all(turns | ~inside | jnp.where(odd, resource, number))
        even = (middle % 2 == 0) & ((count - middle - 1) % 2 == 0)
        known = ordered & even & (jnp.sum(turns) == 1)
        # Each resource with the number before it.
        before = jnp.append(0, words[:-1]) + 1
        kind = jnp.where(resource & inside, (words - MOST) % size, size)
        chosen = kind == np.arange(size)[:, None]
        give = jnp.sum(jnp.where(chosen & ~behind, before, 0), axis=1)
        ask = jnp.sum(jnp.where(chosen & behind, before, 0), axis=1)
        something = jnp.any(give > 0) & jnp.any(ask > 0)
        return jnp.where(known & something, env.encode(give, ask, accept), -1)

    return Query(
        prefix="offer ",
        suffix="",
        words=lexicon.table(words),
        max_words=2 * 4 + 2,
        action=action,
    )


def compact(env: SimpleNegotiation) -> View:
    """`left 8 offered`, one line per resource (`wheat 18 +0 at 5`), `theirs 1 brick for 4
    wheat`."""
    lexicon = Lexicon()
    size = len(env.resources)
    left = lexicon.table(f"left {n}" for n in range(env.num_codes))
    came = np.zeros(rules.OFFERED + 1, np.int32)
    for code, word in (
        (rules.PASSED, " passed"),
        (rules.DENIED, " denied"),
        (rules.ACCEPTED, " accepted"),
        (rules.OFFERED, " offered"),
    ):
        came[code] = lexicon(word)
    names = lexicon.table(f"\n{name}" for name in env.resources)
    counts = lexicon.table(f" {n}" for n in range(_FIELD + 1))
    changes = lexicon.table(f" {n:+d}" for n in range(-_FIELD, _FIELD + 1))
    values = lexicon.table(f" at {n}" for n in range(41))
    goods = lexicon.table(f" {name}" for name in env.resources)
    whose = np.array([0, lexicon("\nyours"), lexicon("\ntheirs")], np.int32)
    between = lexicon(" for")
    given, asked, q, p = env.table.T
    sides = [counts[q], goods[given], np.full_like(q, between), counts[p], goods[asked]]
    trades = np.stack(sides, axis=1)
    forms = ("accept", "deny", "pass", "offer{trade}")

    def side(quantities):
        number = jnp.asarray(counts)[jnp.clip(quantities, 0, _FIELD)]
        pairs = jnp.stack([number, jnp.asarray(goods)], axis=1)
        return jnp.where((quantities > 0)[:, None], pairs, 0).reshape(-1)

    def describe(state, params, agent):
        seen = env.observe_as(state, agent, params).astype(jnp.int32)
        (turns, last, offer), rest = seen[:3], seen[3:].reshape(5, size)
        give, ask, stock, start, worth = rest
        lines = [
            names,
            jnp.asarray(counts)[stock],
            jnp.asarray(changes)[_FIELD + stock - start],
            jnp.asarray(values)[worth],
        ]
        return jnp.concatenate(
            [
                jnp.stack([jnp.asarray(left)[turns], jnp.asarray(came)[last]]),
                jnp.stack(lines, axis=1).reshape(-1),
                jnp.asarray(whose)[offer][None],
                side(give),
                jnp.where(offer > 0, between, 0)[None],
                side(ask),
            ]
        )

    longest = max(map(len, env.resources))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in forms),
        slots=lambda state, params, agent: {"trade": trades},
        max_fragments=4 + 4 * size + 4 * size,
        max_bytes=16 + size * (longest + 14) + 11 + 2 * size * (longest + 4),
        max_command_bytes=len("offer  for  and accept") + 4 * (longest + 5),
        query=_query(env, lexicon),
        rules=RULES.format(PUBLIC * (env.rules == "spiral"), OFFERS[env.rules]) + BOTH,
    )


def _goods(env: SimpleNegotiation, codes: jnp.ndarray) -> tuple[jnp.ndarray, ...]:
    """A number and a word behind it, wherever they stand: (bool[S], kinds, amounts, i32[S] each).

    kinds: the resource, -1 for any other word.
    """
    place = jnp.arange(codes.shape[0], dtype=jnp.int32)
    digit, letter = (reading.member(codes, of) for of in (reading.DIGITS, reading.LETTERS))
    number_ends, space_ends, word_ends = (
        reading.run_ends(codes, of) for of in (reading.DIGITS, reading.SPACES, reading.LETTERS)
    )
    word = space_ends[number_ends]
    found = digit & ~jnp.append(False, digit[:-1]) & (word > number_ends) & letter[word]
    kind = jnp.full(codes.shape, -1)
    plurals = {"sheeps": "sheep", "woods": "wood"}
    for name, means in [(name, name) for name in env.resources] + list(plurals.items()):
        if means in env.resources:
            same = reading.literal(codes, name.encode(), name=True)
            same &= word_ends - place == len(name)
            kind = jnp.where(same, env.resources.index(means), kind)
    return found, kind[word], reading.value(codes, place)


def _read(env: SimpleNegotiation):
    """TextArena's rule: `[Accept]` and `[Deny]` anywhere, and the first `[Offer: 2 Wood -> 1 Ore]`.

    In an offer the colon may be left out, there is one arrow, and on both sides of it something is
    named, as a number and a resource; what stands between these does not matter. All else is talk.
    """
    opening = b"[offer"
    form = (opening, reading.Run(reading.INSIDE, 1), b"]")
    kinds = np.arange(len(env.resources))[:, None]
    unread = env.num_actions + offers.only_accepting(len(env.resources))

    def read(codes, slots):
        place = jnp.arange(codes.shape[0])
        offer = reading.match(codes, form)
        begins = reading.first(offer.found)
        inside = (place >= begins + len(opening)) & (place < offer.end[begins])
        arrows = reading.literal(codes, b"->") & inside
        found, kind, amount = _goods(env, codes)
        found &= inside
        sides = [found & (place < reading.first(arrows)), found & (place > reading.first(arrows))]
        readable = (jnp.sum(arrows) == 1) & jnp.any(sides[0]) & jnp.any(sides[1])
        readable &= ~jnp.any(found & ((kind < 0) | (amount == 0)))
        give, ask = (
            jnp.where(readable, jnp.sum(jnp.where(side & (kind == kinds), amount, 0), axis=1), 0)
            for side in sides
        )
        accept = jnp.any(reading.literal(codes, b"[accept]"))
        deny = jnp.any(reading.literal(codes, b"[deny]"))
        # An offer that cannot be read or has no number is an error, and accepting comes first.
        number = jnp.where(readable, env.encode(give, ask, accept), -1)
        number = jnp.where((number < 0) & accept, unread, number)
        answer = jnp.where(accept, ACCEPT, jnp.where(deny, DENY, PASS))
        return jnp.where(jnp.any(offer.found), number, answer)

    return read


_HEAD = "The resources and associated values you currently have are:"


def _last_acts(lexicon: Lexicon) -> np.ndarray:
    """TextArena's line on the last act, fragments [acts, seats]; none of offers."""
    came = np.zeros((rules.OFFERED + 1, 2), np.int32)
    for seat in range(2):
        said = {
            rules.PASSED: "made no new trade offer.",
            rules.DENIED: "rejected the trade offer.",
            rules.ACCEPTED: f"accepted the trade offer from Player {1 - seat}.",
        }
        for code, words in said.items():
            came[code, seat] = lexicon(f"\nPlayer {seat} {words}")
    return came


def _bounds(env: SimpleNegotiation) -> tuple[int, int]:
    """The most bytes of a faithful description, and of a command."""
    size, longest = len(env.resources), max(map(len, env.resources))
    line = len("\n\t+ ") + max(8, longest + 2) + len("  Qty: 50   Value: 40   Change: +50")
    told = len("\nTurns left: 50") + len("\nPlayer 0 accepted the trade offer from Player 1.")
    offer = len("\nPlayer 0 made the following offer to Player 1: Offered items: ")
    offer += len(" -> Requested items: ") + 2 * size * (longest + len("50 , "))
    command = len("[Accept] [Offer:  -> ]") + 4 * (longest + len("31 , "))
    return len(_HEAD) + size * line + told + offer, command


def faithful(env: SimpleNegotiation) -> View:
    """TextArena's list of one's goods and its lines on the last act and the offer; its commands.

    The change of each good since the start and the turns left are told besides. TextArena's log of
    what was said before is not told again. "[Pass]" stands for any reply without an offer. Offers
    that are not of the table are read by the faithful grammar alone.
    """
    lexicon = Lexicon()
    size = len(env.resources)
    names = [name.title() for name in env.resources]
    lines = [f"\n\t+ {f'[{name}]':<8}  Qty: " for name in names]
    lines[0] = _HEAD + lines[0]
    before = lexicon.table(lines)
    counts = lexicon.table(f"{n:<2}" for n in range(_FIELD + 1))
    values = lexicon.table(f"   Value: {n}" for n in range(41))
    changes = lexicon.table(f"   Change: {n:+d}" for n in range(-_FIELD, _FIELD + 1))
    left = lexicon.table(f"\nTurns left: {n}" for n in range(env.num_codes))
    came = _last_acts(lexicon)
    makers = lexicon.table(
        f"\nPlayer {seat} made the following offer to Player {1 - seat}: Offered items: "
        for seat in range(2)
    )
    between = lexicon(" -> Requested items: ")
    goods = lexicon.table(f"{n} {name}" for name in names for n in range(1, _FIELD + 1))
    goods = goods.reshape(size, _FIELD)
    comma, blank, arrow = lexicon(", "), lexicon(" "), lexicon(" ->")
    given, asked, q, p = env.table.T
    sides = [np.full_like(q, blank), goods[given, q - 1], np.full_like(q, arrow)]
    trades = np.stack([*sides, np.full_like(q, blank), goods[asked, p - 1]], axis=1)
    forms = ("[Accept]", "[Deny]", "[Pass]", "[Offer:{trade}]")

    def side(amounts):
        there = amounts > 0
        behind = there & (jnp.cumsum(there) > 1)
        good = jnp.asarray(goods)[np.arange(size), jnp.clip(amounts, 1, _FIELD) - 1]
        pairs = jnp.stack([jnp.where(behind, comma, 0), jnp.where(there, good, 0)], axis=1)
        return pairs.reshape(-1)

    def describe(state, params, agent):
        at = state.game
        seen = env.observe_as(state, agent, params).astype(jnp.int32)
        (turns, last, _), rest = seen[:3], seen[3:].reshape(5, size)
        give, ask, stock, start, worth = rest
        listed = [
            before,
            jnp.asarray(counts)[stock],
            jnp.asarray(values)[worth],
            jnp.asarray(changes)[_FIELD + stock - start],
        ]
        proposer = at.market.proposer
        open_ = proposer >= 0
        parts = [
            jnp.stack(listed, axis=1).reshape(-1),
            jnp.stack([jnp.asarray(left)[turns], jnp.asarray(came)[last, 1 - rules.player(at)]]),
            jnp.where(open_, jnp.asarray(makers)[jnp.maximum(proposer, 0)], 0)[None],
            side(give),
            jnp.where(open_, between, 0)[None],
            side(ask),
        ]
        return jnp.concatenate(parts)

    max_bytes, max_command_bytes = _bounds(env)
    how = "[Accept], [Deny], [Pass], [Offer: 2 {} -> 1 {}]".format(*names[1::-1])
    how += "" if env.rules == "spiral" else ", [Offer: 3 Sheep, 2 Ore -> 4 Brick, 1 Wheat]"
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in forms),
        slots=lambda state, params, agent: {"trade": trades},
        max_fragments=4 * size + 2 + 2 + 4 * size,
        max_bytes=max_bytes,
        max_command_bytes=max_command_bytes,
        # SPIRAL's parser is another one.
        read=_read(env) if env.rules == "textarena" else None,
        rules=RULES.format(PUBLIC * (env.rules == "spiral"), how),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
