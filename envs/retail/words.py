"""The shop's desk in words: what the customer or a tool said last."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.retail import rules
from envs.retail.dialogue import EVENT, FORMS, HEARD, RetailState, wish_of
from envs.retail.env import Retail
from envs.text import Lexicon, View, template

RULES = (
    "A customer of a shop calls. Ask for the name and find the user; ask for the wish and look the "
    "order up; ask for the detail (a reason, a variant) and look the product up. Pending orders "
    "can be cancelled (by mistake or unneeded) or an item modified, of delivered ones an item "
    "exchanged or returned if it is not from a sale, once, and only the customer's own. cancel, "
    "modify, exchange and return ask the customer; after a yes, go writes it. Deny what may not be "
    "done. Where the customer asks how much, tell the amount. Transfer who is not found; close "
    "when that was all. Commands: {commands}."
)
# What a message begins with, where it is not the event's own name.
HEADS = {"name": "i am", "wish": "please", "detail": "it is", "all": "that is all"}


class Words(NamedTuple):
    """Fragments of the wording. of: {kind: table}, of names, products and the like, and numbers."""

    of: dict[str, np.ndarray]
    heads: np.ndarray
    tools: np.ndarray
    statuses: np.ndarray
    sale: int
    out: int
    paid: int
    colon: int
    any: int
    comma: int


def compact(env: Retail) -> View:
    """The last message alone, so that the desk has to read the whole call.

    For example `i am ana 4`, `found #2 #5`, `please modify #5 mug`, `order #5 ana pending: mug red
    4, lamp blue 7 sale, paid 11`, `it is blue`, `product mug: red 4, blue 5, green out`, `yes, how
    much`, `done`.
    """
    lexicon = Lexicon()
    words = env.ranges | {"reason": rules.REASONS}
    tables = {name: lexicon.table(f" {word}" for word in words[name]) for name in words}
    tables["number"] = lexicon.table(
        f" {n}" for n in range(max(rules.CODES, 1 + env.items * rules.HIGHEST_PRICE))
    )
    known = Words(
        tables,
        lexicon.table(HEADS.get(event, event) for event in HEARD),
        lexicon.table(f" {name}" for name in rules.WRITES),
        lexicon.table(f" {name}:" for name in rules.STATUSES),
        *(lexicon(text) for text in (" sale", " out", " paid", ":", " any", ",")),
    )

    def describe(state, params):
        head = _at(known.heads, state.heard)[None]
        return jnp.concatenate([head, *_customer(known, state), *_looked_up(known, env, state)])

    commands = tuple(
        " ".join([form, *(f"{{{name}}}" for name in names)]) for form, names in FORMS.items()
    )
    slots = {name: tables[name][: len(env.ranges[name])][:, None] for name in tables}
    slots["code"] = tables["number"][: rules.CODES, None]
    longest = {name: max(map(len, words[name])) + 1 for name in words}
    item = longest["product"] + longest["variant"] + len(" 9 sale,")
    order = longest["order"] + longest["name"] + len(" exchanging:") + env.items * item
    offers = longest["product"] + 1 + env.variants * (longest["variant"] + len(" out,"))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, command.replace(" {", "{")) for command in commands),
        slots=lambda state, params: slots,
        max_fragments=max(7 + env.items * 5, 3 + 3 * env.variants, 1 + env.orders),
        max_bytes=max(order + len("order paid 99"), len("product") + offers, 40),
        max_command_bytes=max(map(len, env.action_names)),
        rules=RULES.format(commands=", ".join(commands)),
    )


def _customer(words: Words, state: RetailState) -> list[jax.Array]:
    """Fragments of a name and code, a wish, a detail, and the orders that were found."""
    is_, wish = {name: state.heard == EVENT[name] for name in EVENT}, wish_of(state)
    reason, variant = jnp.asarray(words.of["reason"]), jnp.asarray(words.of["variant"])
    detail = jnp.where(wish.tool == rules.CANCEL, _at(reason, wish.detail), words.any)
    swaps = (wish.tool == rules.MODIFY) | (wish.tool == rules.EXCHANGE)
    detail = jnp.where(swaps, _at(variant, wish.detail), detail)
    item = jnp.where(wish.product >= 0, _at(words.of["product"], wish.product), 0)
    own = is_["found"] & (state.store.owner == state.user)
    return [
        jnp.where(is_["name"], _at(words.of["name"], state.task.caller), 0)[None],
        jnp.where(is_["name"], _at(words.of["number"], state.task.code), 0)[None],
        jnp.where(is_["wish"], _at(words.tools, wish.tool), 0)[None],
        jnp.where(is_["wish"], _at(words.of["order"], wish.order), 0)[None],
        jnp.where(is_["wish"], item, 0)[None],
        jnp.where(is_["detail"], detail, 0)[None],
        jnp.where(own, words.of["order"], 0),
    ]


def _looked_up(words: Words, env: Retail, state: RetailState) -> list[jax.Array]:
    """Fragments of the order or the product that was looked up last."""
    store, order = state.store, jnp.clip(state.about, 0, env.users * env.orders - 1)
    product = jnp.clip(state.about, 0, env.products - 1)
    prices = rules.prices_of(store)[order]
    head = [
        _at(words.of["order"], order),
        _at(words.of["name"], store.owner[order]),
        _at(words.statuses, store.status[order]),
    ]
    commas = jnp.full(env.items, words.comma, jnp.int32)
    items = [
        _at(words.of["product"], store.product[order]),
        _at(words.of["variant"], store.variant[order]),
        _at(words.of["number"], prices),
        jnp.where(store.sale[order], words.sale, 0),
        commas,
    ]
    total = [jnp.int32(words.paid), _at(words.of["number"], jnp.sum(prices))]
    shown = jnp.concatenate(
        [jnp.stack(head), jnp.stack(items, axis=1).reshape(-1), jnp.stack(total)]
    )
    offers = jnp.stack(
        [
            jnp.asarray(words.of["variant"]),
            jnp.where(
                store.stock[product], _at(words.of["number"], store.price[product]), words.out
            ),
            jnp.where(np.arange(env.variants) < env.variants - 1, words.comma, 0),
        ],
        axis=1,
    )
    title = jnp.stack([_at(words.of["product"], product), jnp.int32(words.colon)])
    return [
        jnp.where(state.heard == EVENT["order"], shown, 0),
        jnp.where(state.heard == EVENT["product"], title, 0),
        jnp.where(state.heard == EVENT["product"], offers.reshape(-1), 0),
    ]


def _at(table, index):
    return jnp.asarray(table)[index]


WORDINGS = {"compact": compact}
