"""A traveller's wishes and the options in words."""

import jax.numpy as jnp
import numpy as np

from envs.itinerary.env import DOMAINS, SLOTS, TOLD, VALUES, Itinerary
from envs.text import Lexicon, View, template


def compact(env: Itinerary) -> View:
    """`flight: late, place ? style any. 1 late quiet plain 2 late central grand chose 2, best.`"""
    lexicon = Lexicon()
    names, slots = DOMAINS[: env.domains], SLOTS[: env.slots]
    domain = lexicon.table(f" {name}:" for name in names)
    unsaid = lexicon.table(f" {slot} {known}" for slot in slots for known in ("?", "any"))
    said = lexicon.table(f" {value}," for pair in VALUES[: env.slots] for value in pair)
    number = lexicon.table(f" {o + 1}" for o in range(env.options))
    value = lexicon.table(f" {value}" for pair in VALUES[: env.slots] for value in pair)
    chosen = lexicon.table(f" chose {o + 1}," for o in range(env.options))
    verdict = lexicon.table(f" {name}." for name in ("wrong", "correct", "best"))
    failed = lexicon(" The search failed.")
    slot, offer = 2 * np.arange(env.slots), np.arange(env.options)

    def describe(state, params):
        wish = jnp.where(
            state.known == TOLD, said[0] + slot + state.wanted, unsaid[0] + slot + state.known
        )
        numbers = jnp.broadcast_to(number[0] + offer[:, None], (env.domains, env.options, 1))
        options = jnp.concatenate([numbers, value[0] + slot + state.values], axis=2)
        options = jnp.where(state.found[:, None], options.reshape(env.domains, -1), 0)
        mine = state.chosen >= 0
        choice = jnp.where(mine, chosen[0] + state.chosen, 0)
        result = jnp.where(mine, verdict[0] + env.verdict(state), 0)
        heads = domain[0] + np.arange(env.domains)
        lines = jnp.column_stack([heads, wish, options, choice, result])
        end = jnp.where(state.failed, failed, 0)
        return jnp.concatenate([lines.reshape(-1), end[None]])

    line = len(" restaurant:") + env.slots * len(" central,") + len(" chose 1, correct.")
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=1 + env.domains * (3 + env.slots + env.options * (1 + env.slots)),
        max_bytes=len(" The search failed.")
        + env.domains * (line + env.options * (len(" 1") + env.slots * len(" central"))),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Somebody plans a trip and says what is wanted only if asked. Ask, search, and "
        "choose once in each domain: of the options that have all that is wanted the cheapest, "
        "which is the first in the list. A search may fail; search again. Commands: ask, a domain "
        f"and {' or '.join(slots)}; search and a domain; choose, a domain and a number. Domains: "
        f"{', '.join(names)}.",
    )


WORDINGS = {"compact": compact}
