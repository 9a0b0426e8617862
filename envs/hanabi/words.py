"""Hanabi in words: the table, the other's cards, and the knowledge of the agent's own."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from envs.hanabi import rules
from envs.hanabi.env import COLOURS, Hanabi
from envs.text import Lexicon, View, template

RULES = (
    "You and another player build one stack of cards a colour, from 1 up to {ranks}. Each of you "
    "sees only the cards of the other. A card that you play gives you both a point if it is the "
    "next one of its colour, else a life is lost; with the last life all points are. A card that "
    "you discard gives back a hint token. A hint costs a token and shows the other all its cards "
    "of one colour or rank. Who plays or discards draws a card, which comes last in the hand. When "
    "the deck is empty each of you has one more turn. Of each colour there are {copies}. You see "
    "of each card what hints leave possible. {commands}"
)


def _subsets(names: Sequence[str], between: str = "") -> list[str]:
    """Texts of all sets of names, in order of their bits."""
    bits = range(2 ** len(names))
    return [between.join(n for i, n in enumerate(names) if b >> i & 1) for b in bits]


def _rules(env: Hanabi, commands: str) -> str:
    copies = [f"{n} of rank {r + 1}" for r, n in enumerate(env.copies_of_each[: env.ranks])]
    return RULES.format(ranks=env.ranks, copies=", ".join(copies), commands=commands)


def _names(env: Hanabi) -> tuple[str, str]:
    """Letters of the colours, digits of the ranks."""
    return COLOURS[: env.colours], "12345"[: env.ranks]


def _piles(env: Hanabi, lexicon: Lexicon) -> tuple[np.ndarray, np.ndarray]:
    """Fragments of each stack by its height, and of each card by its number of discards."""
    most = int(env.copies_of_each.max())
    heights = [lexicon.table(f" {c}{n}" for n in range(env.ranks + 1)) for c in _names(env)[0]]
    gone = [lexicon.table(f" {card}" * n for n in range(most + 1)) for card in env.card_names]
    return np.stack(heights), np.stack(gone)


def _take(table: np.ndarray, index) -> jnp.ndarray:
    return jnp.asarray(table)[index]


def _known(table: rules.Table, seat, colours: np.ndarray, ranks: np.ndarray) -> list:
    """Fragments of a seat's knowledge of its cards, i32[H] each."""
    sets = (colours, table.colours), (ranks, table.ranks)
    return [_take(words, rules.row(bits, seat)) for words, bits in sets]


def compact(env: Hanabi) -> View:
    """`lives 3 hints 2 deck 1`, `stacks R0 Y1`, `discards R1`, `you RY12 R1`, `other Y1 RY12 ..`.

    Each of the other's cards is shown first, then the other's knowledge. `turns` after the deck:
    turns left once it is empty. At the end `last play 2 Y1 right`, the last action and its card.
    """
    lexicon = Lexicon()
    letters, digits = _names(env)
    number = range(env.num_codes)
    tokens = [lexicon.table(f"{word} {n}" for n in number) for word in ("lives", " hints", " deck")]
    turns = lexicon.table(f" turns {n}" for n in range(3))
    heights, gone = _piles(env, lexicon)
    stacks, discards, you, other = map(lexicon, ("\nstacks", "\ndiscards", "\nyou", "\nother"))
    cards = lexicon.table(["", *(f" {card}" for card in env.card_names)])
    colours = lexicon.table(["", *(f" {names}" for names in _subsets(letters)[1:])])
    ranks = lexicon.table(_subsets(digits))
    last = lexicon.table(["", *(f"\nlast {name}" for name in env.action_names)])
    came = lexicon.table((" wrong", " right"))

    def describe(state, params, agent):
        table = state.table
        deck = len(table.deck) - table.drawn
        head = [_take(*x) for x in zip(tokens, (table.lives, table.hints, deck), strict=True)]
        head.append(jnp.where(deck == 0, _take(turns, table.turns), 0))
        own = _known(table, agent, colours, ranks)
        seen = _take(cards, rules.row(table.hands, 1 - agent) + 1)
        others = [seen, *_known(table, 1 - agent, colours, ranks)]
        played = (state.last > env.hand) & (state.last <= 2 * env.hand)
        result = jnp.where(played, _take(came, state.fitted.astype(jnp.int32)), 0)
        return jnp.concatenate(
            [
                jnp.stack([*head, stacks]),
                _take(heights, (np.arange(env.colours), table.stacks)),
                jnp.where(jnp.any(table.discards > 0), discards, 0)[None],
                _take(gone, (np.arange(len(gone)), table.discards)),
                jnp.array([you], jnp.int32),
                jnp.stack(own, axis=1).reshape(-1),
                jnp.array([other], jnp.int32),
                jnp.stack(others, axis=1).reshape(-1),
                jnp.stack([_take(last, state.last), _take(cards, state.card + 1), result]),
            ]
        )

    known = env.hand * (1 + env.colours + env.ranks)
    table = len("lives 10 hints 10 deck 10 turns 1") + 3 * (env.colours + len(env.cards))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=11 + env.colours * (1 + env.ranks) + 5 * env.hand,
        max_bytes=table + len("\nstacks\ndiscards\nyou\nother") + 2 * known + 3 * env.hand + 24,
        max_command_bytes=len("discard 1"),
        rules=_rules(
            env,
            f"Commands: play 1 to play {env.hand}, from the oldest card on; discard 1 to discard "
            f"{env.hand}; hint {letters[0]} and other colours; hint 1 and other ranks.",
        ),
    )


def faithful(env: Hanabi) -> View:
    """MARSHAL's text and commands; discards in order of the cards; in the original in order of
    time.
    """
    lexicon = Lexicon()
    letters, digits = _names(env)
    number = range(env.num_codes)
    lives = lexicon.table(f"1. There are {n} life tokens and " for n in number)
    hints = lexicon.table(f"{n} information tokens remaining.\n" for n in number)
    deck = lexicon.table(f"3. {n} cards remain in the draw pile.\n" for n in number)
    heights, gone = _piles(env, lexicon)
    stacks, end = lexicon("2. The top of the color stacks are:"), lexicon(".\n")
    discards, none = lexicon("4. The discard pile currently contains:"), lexicon(" None")
    other = lexicon("5. The other player's hand:")
    you = lexicon("\n6. Your own hand, based on the revealed information:")
    slots = lexicon.table(f"\n    - Card {i}" for i in range(env.hand))
    believes = "): the other player believes it is one of the colors ["
    cards = lexicon.table(["", *(f" ({card}{believes}" for card in env.card_names)])
    unseen = lexicon(": one of the colors [")
    colours = lexicon.table(["", *(f"{s}] and one of the " for s in _subsets(letters, ", ")[1:])])
    ranks = lexicon.table(["", *(f"ranks [{names}]." for names in _subsets(digits, ", ")[1:])])
    over = lexicon("The game is over.")

    def describe(state, params, agent):
        table = state.table
        left = len(table.deck) - table.drawn
        hands = []
        for seat, shown in ((1 - agent, True), (agent, False)):
            hand = rules.row(table.hands, seat)
            there = hand >= 0
            what = _take(cards, hand + 1) if shown else jnp.where(there, unseen, 0)
            rows = [jnp.where(there, slots, 0), what, *_known(table, seat, colours, ranks)]
            hands.append(jnp.stack(rows, axis=1).reshape(-1))
        parts = [
            jnp.stack([_take(lives, table.lives), _take(hints, table.hints), stacks]),
            _take(heights, (np.arange(env.colours), table.stacks)),
            jnp.stack([end, _take(deck, left), discards]),
            jnp.where(jnp.any(table.discards > 0), 0, none)[None],
            _take(gone, (np.arange(len(gone)), table.discards)),
            jnp.array([end, other], jnp.int32),
            hands[0],
            jnp.array([you], jnp.int32),
            hands[1],
        ]
        said = jnp.concatenate(parts)
        ended = jnp.zeros_like(said).at[0].set(over)
        return jnp.where(env.is_terminated(state, params), ended, said)

    known = env.hand * (3 * (env.colours + env.ranks) + len(" and one of the ranks []."))
    table = 220 + 3 * (env.colours + len(env.cards))
    forms = [f"<Discard card {i}>" for i in range(env.hand)]
    forms += [f"<Play card {i}>" for i in range(env.hand)]
    forms += [f"<Reveal player +1 color {c}>" for c in letters]
    forms += [f"<Reveal player +1 rank {n}>" for n in digits]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in forms),
        slots=lambda state, params, agent: {},
        max_fragments=10 + env.colours * (1 + env.ranks) + 8 * env.hand,
        max_bytes=table + 2 * known + env.hand * (2 * 13 + len(f" (R1{believes}") + 22),
        max_command_bytes=len("<Reveal player +1 color R>"),
        rules=_rules(
            env,
            "Commands: <Play card i> and <Discard card i>, counted from 0; <Reveal player +1 color "
            "c>; <Reveal player +1 rank r>.",
        ),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
