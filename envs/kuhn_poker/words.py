"""Kuhn poker in words: the agent's card, the actions so far, and the legal ones."""

import jax.numpy as jnp
import numpy as np

from envs.kuhn_poker import rules
from envs.kuhn_poker.env import KuhnPoker
from envs.text import Lexicon, View, reading, template

RULES = (
    "You are playing Kuhn poker with the cards J, Q and K. Both pay one chip and get a card. You "
    "may check or bet one chip more; to a bet you call or fold. The higher card wins the pot."
)
RULES_OF_MORE = (
    "You are one of {players} who play Kuhn poker with the cards {cards}. All pay one chip and get "
    "a card. You may check or bet one chip more; to a bet each one calls or folds. The highest "
    "card of those who bet wins the pot."
)


def compact(env: KuhnPoker) -> View:
    """The card, chips so far (in games of several hands), then every action of the hand."""
    lexicon = Lexicon()
    # Of pass and bet, before and after a bet.
    words = (("check", "fold"), ("bet", "call"))
    names = np.array([[lexicon(word) for word in pair] for pair in words], np.int32)
    cards = lexicon.table(env.ranks)[0]
    space, hand = lexicon(" "), lexicon(" hand ")
    counts = np.array([lexicon(str(n)) for n in range(1, env.rounds + 1)], np.int32)
    most = env.rounds * (2 * (env.players - 1) if env.pot_grows else 1)
    chips = np.array([lexicon(f" {n:+d}") for n in range(-most, most + 1)], np.int32)

    def describe(state, params, agent):
        at = state.game
        last = jnp.minimum(at.round, env.rounds - 1)
        card = cards + at.cards[last, agent]
        before = jnp.cumsum(at.actions == rules.BET) - (at.actions == rules.BET)
        taken = at.actions >= 0
        name = jnp.asarray(names)[jnp.maximum(at.actions, 0), (before > 0).astype(jnp.int32)]
        done = jnp.stack([jnp.full(2 * env.players, space), name], axis=1)
        done = jnp.where(taken[:, None], done, 0).reshape(-1)
        if env.rounds == 1:
            return jnp.append(card, done)
        told = jnp.stack(
            [hand, jnp.asarray(counts)[last], jnp.asarray(chips)[at.chips[agent] + most]]
        )
        return jnp.concatenate([card[None], told, done])

    def slots(state, params, agent):
        faces_bet = jnp.any(state.game.actions == rules.BET)
        now = jnp.asarray(names)[:, faces_bet.astype(jnp.int32)]
        return {"pass": now[:1, None], "bet": now[1:, None]}

    def read(codes, slots):
        """TextArena's rule: the first of the four words in brackets, if it may be said now."""
        word = reading.first_word(codes, ("check", "fold", "bet", "call"))
        said = jnp.where(word < 0, -1, jnp.asarray(names).reshape(-1)[word])
        passes, bets = said == slots["pass"][0, 0], said == slots["bet"][0, 0]
        return jnp.where(passes, rules.PASS, jnp.where(bets, rules.BET, -1))

    about = RULES
    if env.players > 2:
        about = RULES_OF_MORE.format(players=env.players, cards=", ".join(env.ranks))
    extra = 0 if env.rounds == 1 else 3
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{pass}"), template(lexicon, "{bet}")),
        slots=slots,
        max_fragments=1 + extra + 4 * env.players,
        max_bytes=1 + 12 * env.players + (6 + 2 * len(str(2 * most)) + 2 if extra else 0),
        max_command_bytes=5,
        read=read,
        rules=f"{about} Commands: check, bet, call, fold.",
    )


WORDINGS = {"compact": compact}
