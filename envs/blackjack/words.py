"""Blackjack in words: the player's points and the dealer's open card."""

import jax.numpy as jnp

from envs.blackjack.env import Blackjack
from envs.text import Lexicon, View, template

RULES = (
    "You play blackjack against a dealer. Come closer to 21 than the dealer, but not above: hit "
    "takes another card, stand ends your turn. An ace counts 11, or 1 where 11 is too much."
)


def compact(env: Blackjack) -> View:
    """`15 against 10`, `soft 15 against ace`: soft for a usable ace, after the game's term."""
    lexicon = Lexicon()
    points = lexicon.table(str(i) for i in range(env.num_codes))
    soft, against, ace = lexicon("soft "), lexicon(" against "), lexicon("ace")

    def describe(state, params):
        held, usable, shown = env.observe(state, params).astype(jnp.int32)
        card = jnp.where(shown == 1, ace, points[0] + shown)
        return jnp.stack([jnp.where(usable > 0, soft, 0), points[0] + held, against, card])

    return _view(env, lexicon, describe, 4, len("soft 15 against ace"))


def faithful(env: Blackjack) -> View:
    """`Dealer's card: 10. Player's points: 15.`

    Like the line of RL4VLM's text wrapper for gym-cards (read), which lists the player's cards:
    hands of equal value are one state here, so the text has their points instead.
    """
    lexicon = Lexicon()
    points = lexicon.table(str(i) for i in range(env.num_codes))
    dealer, player = lexicon("Dealer's card: "), lexicon(". Player's points: ")
    ace, hard, soft = lexicon("A"), lexicon("."), lexicon(", with a usable ace.")

    def describe(state, params):
        held, usable, shown = env.observe(state, params).astype(jnp.int32)
        card = jnp.where(shown == 1, ace, points[0] + shown)
        end = jnp.where(usable > 0, soft, hard)
        return jnp.stack([dealer, card, player, points[0] + held, end])

    longest = len("Dealer's card: 10. Player's points: 15, with a usable ace.")
    return _view(env, lexicon, describe, 5, longest)


def _view(env: Blackjack, lexicon: Lexicon, describe, fragments: int, max_bytes: int) -> View:
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=fragments,
        max_bytes=max_bytes,
        max_command_bytes=5,
        rules=RULES,
    )


WORDINGS = {"compact": compact, "faithful": faithful}
