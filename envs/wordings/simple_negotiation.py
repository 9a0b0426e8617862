"""SimpleNegotiation in words: the agent's goods, the open offer, and offers of any goods."""

import jax.numpy as jnp
import numpy as np

from envs.rules import simple_negotiation as rules
from envs.simple_negotiation import MOST, SimpleNegotiation
from envs.text import Lexicon, Query, View, template

RULES = (
    "You are trading with another agent, in turn. Who has gained more in its own values at the end "
    "wins.{0} You see the turns left and what came of the last act; for each resource how many you "
    "have, how that has changed and what one is worth to you; and the open offer, yours or theirs, "
    "with what its maker gives for what it asks. Commands: accept, deny, pass, {1}. An offer that "
    "ends with 'and accept' accepts the open one first."
)
PUBLIC = " What is worth 5 to you is worth 15 to the other, and the other way round."
OFFERS = {
    "textarena": "offer 2 wood for 1 brick, offer 3 sheep 2 ore for 4 brick 1 wheat",
    "spiral": "offer 2 wood for 1 gold",
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
        rules=RULES.format(PUBLIC * (env.rules == "spiral"), OFFERS[env.rules]),
    )


WORDINGS = {"compact": compact}
