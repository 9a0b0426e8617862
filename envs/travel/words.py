"""A trip in words."""

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, template
from envs.travel.env import DOMAINS, OFFERED, UNKNOWN, Travel


def compact(env: Travel) -> View:
    """`budget 8. flight: 1 for 3 at 0, 4 for 2 at 2, booked 4. hotel: ? sight: none`"""
    lexicon = Lexicon()
    names = DOMAINS[: env.domains]
    budget = lexicon.table(f"budget {n}." for n in range(env.highest + 1))
    domain = lexicon.table(f" {name}:" for name in names)
    offer = lexicon.table(
        f" {o + 1} for {env.prices[d, o]} at {env.hours[d, o]},"
        for d in range(env.domains)
        for o in range(env.options)
    )
    booked = lexicon.table(f" booked {o + 1}." for o in range(env.options))
    unknown, none = lexicon(" ?"), lexicon(" none")
    number = np.arange(env.domains * env.options).reshape(env.domains, env.options)

    def describe(state, params):
        found = jnp.where(state.listed == OFFERED, offer[0] + number, 0)
        searched = state.listed[:, 0] != UNKNOWN
        nothing = jnp.where(jnp.any(found > 0, axis=1), 0, none)
        note = jnp.where(searched, nothing, unknown)
        mine = jnp.where(state.booked >= 0, booked[0] + state.booked, 0)
        lines = jnp.column_stack([domain[0] + np.arange(env.domains), note, found, mine])
        return jnp.concatenate([(budget[0] + state.budget)[None], lines.reshape(-1)])

    offers = " 6 for 5 at 5,"
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=1 + env.domains * (env.options + 3),
        max_bytes=len("budget 99.")
        + env.domains
        * (len(" flight:") + len(" none") + env.options * len(offers) + len(" booked 6.")),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Book a trip: one offer in each domain, all of them within the budget, and none "
        "earlier than the one in the domain before. Only what a search finds exists: `1 for 3 at "
        "0` is offer 1 with price 3 and hour 0. Commands: "
        f"search {' or '.join(names)}; book, a domain and an offer; hand in.",
    )


WORDINGS = {"compact": compact}
