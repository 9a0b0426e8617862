"""The manual of the shop's desk: its next action, by what the customer and the tools have said.

Source: the policy of tau-bench's retail domain (from notes), for the tools of `envs.retail`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from envs.retail import rules
from envs.retail.dialogue import ARGUMENTS, VERB, RetailState, wish_of


def advise(state: RetailState) -> jax.Array:
    """The desk's next action as `envs.retail.dialogue.take` takes it, i32[7].

    Only of what is in the desk's notes: each condition that reads the database comes after those
    that look it up. Identity, wish, order, detail, variants; refusal or proposal; the write, the
    amount if the customer asked for it, the next wish.
    """
    task, store, wish = state.task, state.store, wish_of(state)
    identity = jnp.stack([task.caller, task.code])
    swaps = (wish.tool == rules.MODIFY) | (wish.tool == rules.EXCHANGE)

    def seen(flags, number):
        return jnp.any(flags & (np.arange(flags.shape[0]) == number))

    own = seen(store.owner == task.caller, wish.order)
    status = jnp.sum(jnp.where(np.arange(store.status.shape[0]) == wish.order, store.status, 0))
    fits = status == jnp.asarray(rules.BEFORE)[jnp.clip(wish.tool, 0, rules.RETURN)]
    proposed = jax.tree.map(jnp.equal, state.proposal, wish)
    proposed = proposed.tool & proposed.order & proposed.product & proposed.detail
    price = rules.amount(store, wish)
    told = seen(state.told, price)

    def does(form, **arguments):
        parts = [VERB[form], *(arguments.get(name, -1) for name in ARGUMENTS)]
        return jnp.stack([jnp.int32(part) for part in parts])

    write = [wish.tool + VERB["cancel"], -1, -1, wish.order, wish.product, wish.detail, -1]
    advice = (
        (~state.named, does("ask name")),
        (
            (state.user != task.caller) & jnp.any(state.searched != 1 + identity),
            does("find", name=task.caller, code=task.code),
        ),
        (state.user != task.caller, does("transfer")),
        (state.all_said, does("close")),
        (state.said == 0, does("ask wish")),
        (state.settled & state.asked & ~told, does("tell", number=price)),
        (state.settled, does("ask wish")),
        (~seen(state.orders, wish.order), does("order", order=wish.order)),
        (~own | ~fits, does("deny")),
        ((wish.tool != rules.RETURN) & (state.said < 2), does("ask detail")),
        (swaps & ~seen(state.products, wish.product), does("product", product=wish.product)),
        (~rules.permits(store, task.caller, wish), does("deny")),
        (~(state.agreed & proposed), jnp.stack([jnp.int32(part) for part in write])),
    )
    conditions = [jnp.broadcast_to(when, (7,)) for when, _ in advice]
    return jnp.select(conditions, [what for _, what in advice], does("go"))
