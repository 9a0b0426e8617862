"""The shop's desk in words: what the customer or a tool said last."""

import jax.numpy as jnp
import numpy as np

from envs.retail import rules
from envs.retail.dialogue import EVENT, FORMS, HEARD, wish_of
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


def compact(env: Retail) -> View:
    """The last message alone, so that the desk has to read the whole call.

    For example `i am ana 4`, `found #2 #5`, `please modify #5 mug`, `order #5 ana pending: mug red
    4, lamp blue 7 sale, paid 11`, `it is blue`, `product mug: red 4, blue 5, green out`, `yes, how
    much`, `done`.
    """
    lexicon = Lexicon()
    words = env.ranges | {"reason": rules.REASONS}
    tables = {name: lexicon.table(f" {word}" for word in words[name]) for name in words}
    tables["number"] = numbers = lexicon.table(
        f" {n}" for n in range(max(rules.CODES, 1 + env.items * rules.HIGHEST_PRICE))
    )
    heads = lexicon.table(HEADS.get(event, event) for event in HEARD)
    tools = lexicon.table(f" {name}" for name in rules.WRITES)
    statuses = lexicon.table(f" {name}:" for name in rules.STATUSES)
    sale, out, paid, colon, any_, comma = (
        lexicon(text) for text in (" sale", " out", " paid", ":", " any", ",")
    )

    def customer(state):
        """Fragments of a name and code, a wish, a detail, and the orders that were found."""
        is_, wish = {name: state.heard == EVENT[name] for name in EVENT}, wish_of(state)
        reason, variant = jnp.asarray(tables["reason"]), jnp.asarray(tables["variant"])
        detail = jnp.where(wish.tool == rules.CANCEL, _at(reason, wish.detail), any_)
        swaps = (wish.tool == rules.MODIFY) | (wish.tool == rules.EXCHANGE)
        detail = jnp.where(swaps, _at(variant, wish.detail), detail)
        item = jnp.where(wish.product >= 0, _at(tables["product"], wish.product), 0)
        own = is_["found"] & (state.store.owner == state.user)
        return [
            jnp.where(is_["name"], _at(tables["name"], state.task.caller), 0)[None],
            jnp.where(is_["name"], _at(numbers, state.task.code), 0)[None],
            jnp.where(is_["wish"], _at(tools, wish.tool), 0)[None],
            jnp.where(is_["wish"], _at(tables["order"], wish.order), 0)[None],
            jnp.where(is_["wish"], item, 0)[None],
            jnp.where(is_["detail"], detail, 0)[None],
            jnp.where(own, tables["order"], 0),
        ]

    def looked_up(state):
        """Fragments of the order or the product that was looked up last."""
        store, order = state.store, jnp.clip(state.about, 0, env.users * env.orders - 1)
        product = jnp.clip(state.about, 0, env.products - 1)
        prices = rules.prices_of(store)[order]
        head = [
            _at(tables["order"], order),
            _at(tables["name"], store.owner[order]),
            _at(statuses, store.status[order]),
        ]
        commas = jnp.full(env.items, comma, jnp.int32)
        items = [
            _at(tables["product"], store.product[order]),
            _at(tables["variant"], store.variant[order]),
            _at(numbers, prices),
            jnp.where(store.sale[order], sale, 0),
            commas,
        ]
        total = [jnp.int32(paid), _at(numbers, jnp.sum(prices))]
        shown = jnp.concatenate(
            [jnp.stack(head), jnp.stack(items, axis=1).reshape(-1), jnp.stack(total)]
        )
        offers = jnp.stack(
            [
                jnp.asarray(tables["variant"]),
                jnp.where(store.stock[product], _at(numbers, store.price[product]), out),
                jnp.where(np.arange(env.variants) < env.variants - 1, comma, 0),
            ],
            axis=1,
        )
        title = jnp.stack([_at(tables["product"], product), jnp.int32(colon)])
        return [
            jnp.where(state.heard == EVENT["order"], shown, 0),
            jnp.where(state.heard == EVENT["product"], title, 0),
            jnp.where(state.heard == EVENT["product"], offers.reshape(-1), 0),
        ]

    def describe(state, params):
        return jnp.concatenate([_at(heads, state.heard)[None], *customer(state), *looked_up(state)])

    commands = tuple(
        " ".join([form, *(f"{{{name}}}" for name in names)]) for form, names in FORMS.items()
    )
    slots = {name: tables[name][: len(env.ranges[name])][:, None] for name in tables}
    slots["code"] = numbers[: rules.CODES, None]
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


def _at(table, index):
    return jnp.asarray(table)[index]


WORDINGS = {"compact": compact}
