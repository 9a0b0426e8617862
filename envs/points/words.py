"""EZPoints and Points24 in words: the cards and the formula so far."""

import jax.numpy as jnp
import numpy as np

from envs.points import formula as rules_of_formulas
from envs.points.env import EZPoints, Points24
from envs.text import Lexicon, View, template

NUMBERS = tuple(str(i) for i in range(1, 11))


def _tokens(lexicon: Lexicon, form: str) -> np.ndarray:
    """Fragment of each token of a formula, by code; 0 for none."""
    tokens = [form.format(word) for word in (*NUMBERS, *rules_of_formulas.SYMBOLS)]
    return np.append(np.int32(0), lexicon.table(tokens))


def compact(env: EZPoints | Points24) -> View:
    """`cards 7 10 7 1 formula 7 + 10`."""
    lexicon = Lexicon()
    tokens = _tokens(lexicon, " {}")
    cards, formula = lexicon("cards"), lexicon(" formula")

    def describe(state, params):
        words = jnp.asarray(tokens)[env.observe(state, params).astype(jnp.int32)]
        return jnp.concatenate(
            [cards[None], words[: env.num_cards], formula[None], words[env.num_cards :]]
        )

    longest = 3 * (env.num_cards + env.capacity)
    return _view(env, lexicon, describe, 2, len("cards formula") + longest)


def faithful(env: EZPoints | Points24) -> View:
    """`Numbers: [7, 10, 7, 1]. Current formula: 7+10.`

    As in RL4VLM's text wrapper for gym-cards (read), without the list of faces and suits, which are
    not part of our state. The formula without spaces is unambiguous: 0 occurs only in 10.
    """
    lexicon = Lexicon()
    tokens = _tokens(lexicon, "{}")
    cards, comma, formula = lexicon("Numbers: ["), lexicon(", "), lexicon("]. Current formula: ")
    stop = lexicon(".")

    def describe(state, params):
        words = jnp.asarray(tokens)[env.observe(state, params).astype(jnp.int32)]
        numbers = words[: env.num_cards]
        commas = jnp.full_like(numbers, comma)
        listed = jnp.stack([numbers, commas], axis=1).reshape(-1)[:-1]
        return jnp.concatenate(
            [cards[None], listed, formula[None], words[env.num_cards :], stop[None]]
        )

    longest = 2 * (env.num_cards + env.capacity) + 2 * (env.num_cards - 1)
    longest += len("Numbers: []. Current formula: .")
    return _view(env, lexicon, describe, env.num_cards + 2, longest)


def _view(env, lexicon: Lexicon, describe, around: int, max_bytes: int) -> View:
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=env.num_cards + env.capacity + around,
        max_bytes=max_bytes,
        max_command_bytes=2,
        rules=f"Write a formula with the value {env.target} that uses each of the {env.num_cards} "
        "cards once. Every command is appended to it: a card's number or one of "
        f"{' '.join(env.symbols)}. The command = has the formula judged, right or wrong.",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
