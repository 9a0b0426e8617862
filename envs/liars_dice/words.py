"""LiarsDice in words: the agent's dice, the number of the other's, and the bid."""

import jax.numpy as jnp
import numpy as np

from envs.liars_dice import rules
from envs.liars_dice.env import LiarsDice
from envs.text import Lexicon, View, reading, template

RULES = (
    "You are playing Liar's Dice with one other player; you see your own dice only. In your turn, "
    "bid how many of all dice show a face at least, with a higher quantity or a higher face than "
    "the last bid and neither lower; or call the last bid. If it does not hold, its bidder loses a "
    "die, else the caller does, and all dice are thrown anew. Who has no dice left loses."
)


def compact(env: LiarsDice) -> View:
    """`1 4 6 against 3, other bid 2 4`, dice in order."""
    lexicon = Lexicon()
    numbers = lexicon.table([str(i) for i in range(env.num_codes)])[0]
    space, against = lexicon(" "), lexicon("against ")
    bidders = np.array([0, lexicon(", you bid "), lexicon(", other bid ")], np.int32)

    def describe(state, params, agent):
        others, quantity, face, bidder = env.observe_as(state, agent, params)[rules.FACES :]
        own = jnp.sort(rules.hands_of(state.game.dice, agent)[0]).astype(jnp.int32)
        own = jnp.where(own[:, None] > 0, jnp.stack([numbers + own, own * 0 + space], 1), 0)
        before = jnp.stack([against, numbers + others, jnp.asarray(bidders)[bidder]])
        bid = jnp.stack([numbers + quantity, space, numbers + face])
        bid = jnp.where(quantity > 0, bid, 0)
        return jnp.concatenate([own.reshape(-1), before, bid])

    longest = f"against {env.dice}, other bid {env.quantities} 6"
    forms = ("bid {quantity} {face}", "call")
    return _view(env, lexicon, describe, forms, 2 * env.dice + 6, longest, 2, "bid 2 4 or call")


def faithful(env: LiarsDice) -> View:
    """TextArena's lines on the round and on the bid, and its commands.

    Its line on the revealed dice after a call belongs to the move and is not repeated.
    """
    lexicon = Lexicon()
    numbers = lexicon.table([str(i) for i in range(env.num_codes)])[0]
    comma = lexicon(", ")
    head = lexicon("\nNew round - Remaining dice: \tPlayer 0: ")
    second, own_dice = lexicon("; \tPlayer 1: "), lexicon("\nYour current Dice are: ")
    bids = lexicon.table(["\nPlayer 0 bids ", "\nPlayer 1 bids "])
    of_face, stop = lexicon(" of face "), lexicon(".")

    def describe(state, params, agent):
        first, last = numbers + rules.remaining(state.game.dice)
        own = rules.hands_of(state.game.dice, agent)[0].astype(jnp.int32)[:, None]
        own = jnp.where(own > 0, jnp.append(own * 0 + comma, numbers + own, axis=1), 0)
        own = own.reshape(-1).at[0].set(0)
        bidder = jnp.asarray(bids)[1 - state.game.seat]
        bid = [bidder, numbers + state.game.quantity, of_face, numbers + state.game.face, stop]
        bid = jnp.where(state.game.quantity > 0, jnp.stack(bid), 0)
        return jnp.concatenate([jnp.stack([head, first, second, last, own_dice]), own, bid])

    longest = f"\nNew round - Remaining dice: \tPlayer 0: {env.dice}; \tPlayer 1: {env.dice}"
    longest += f"\nYour current Dice are: \nPlayer 0 bids {env.quantities} of face 6."
    forms = ("[Bid: {quantity}, {face}]", "[Call]")
    how = "[Bid: 2, 4] or [Call]"
    return _view(env, lexicon, describe, forms, 2 * env.dice + 9, longest, 3, how)


def _read(env: LiarsDice):
    """TextArena's rule: a call in brackets, wherever it stands, or else the first bid.

    The colon may be left out, and commas, white space or both stand between the two numbers.
    """
    colon, between = reading.Maybe((b":",)), reading.Run(b"," + reading.SPACES, 1)
    numbers = (reading.NUMBER, between, reading.NUMBER, b"]")
    form = (b"[bid", reading.SPACE, colon, reading.SPACE, *numbers)

    def read(codes, slots):
        quantity, face = reading.first_numbers(codes, form)
        there = (quantity >= 1) & (quantity <= env.quantities) & (face >= 1) & (face <= rules.FACES)
        bid = jnp.where(there, (quantity - 1) * rules.FACES + face - 1, -1)
        called = jnp.any(reading.literal(codes, b"[call]"))
        return jnp.where(called, env.num_actions - 1, bid)

    return read


def _view(
    env: LiarsDice,
    lexicon: Lexicon,
    describe,
    forms: tuple[str, str],
    max_fragments: int,
    longest: str,
    die: int,
    how: str,
) -> View:
    """A view; longest: the longest text without the dice, which take `die` bytes each."""
    quantities = [str(quantity) for quantity in range(1, env.quantities + 1)]
    faces = [str(face) for face in range(1, rules.FACES + 1)]
    slots = {
        name: lexicon.table(values)[:, None]
        for name, values in (("quantity", quantities), ("face", faces))
    }
    bid = forms[0].format(quantity=quantities[-1], face=faces[-1])
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in forms),
        slots=lambda state, params, agent: slots,
        max_fragments=max_fragments,
        max_bytes=len(longest) + die * env.dice,
        max_command_bytes=max(len(bid), len(forms[1])),
        read=_read(env),
        rules=f"{RULES} Answer {how}, the quantity first.",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
