"""Leduc poker in words: the agent's card, the public one, and the actions so far."""

import jax.numpy as jnp
import numpy as np

from envs.leduc_poker.env import RANKS, LeducPoker
from envs.text import Lexicon, View, template

RULES = (
    "You are playing Leduc poker with two cards each of J, Q and K. After a round of betting a "
    "public card is shown, and there is another. A pair with it wins, then the higher card. Raises "
    "are 2 chips, then 4, at most two a round."
)


def compact(env: LeducPoker) -> View:
    """The card, actions of the first round, the public card, actions of the second."""
    lexicon = Lexicon()
    cards = lexicon.table(RANKS)[0]
    names = np.array([lexicon(f" {name}") for name in env.action_names], np.int32)
    then = lexicon(" then ")

    def describe(state, params, agent):
        hand = state.game
        done = jnp.where(hand.actions >= 0, jnp.asarray(names)[jnp.maximum(hand.actions, 0)], 0)
        public = jnp.stack([jnp.int32(then), cards + hand.cards[2] // 2])
        public = jnp.where(hand.round > 0, public, 0)
        card = (cards + hand.cards[agent] // 2)[None]
        return jnp.concatenate([card, done[0], public, done[1]])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + 4 + 2 + 4,
        max_bytes=1 + 24 + 7 + 24,
        max_command_bytes=5,
        rules=f"{RULES} Commands: {', '.join(env.action_names)}; call also checks.",
    )


WORDINGS = {"compact": compact}
