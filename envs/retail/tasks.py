"""Tasks of the shop's desk: a database, a customer, its wishes, and what they should come to."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.retail import rules
from envs.retail.rules import Call, Store

WISHES = 2
# What is wrong with a wish that has to be refused.
FOREIGN, STATUS, DETAIL = 1, 2, 3


@struct.dataclass
class Task:
    """What a customer calls for.

    caller: i32[], the user that it says it is. code: i32[], the code that it gives. wishes: Call of
    i32[2]. asks: bool[2], whether it asks for the amount. count: i32[], number of wishes. right:
    bool[2], wishes that the policy permits. goal: u32[2], hash of the database after the reference
    actions. outputs: i32[2], numbers that must be said, -1 for none.
    """

    caller: jax.Array
    code: jax.Array
    wishes: Call
    asks: jax.Array
    count: jax.Array
    right: jax.Array
    goal: jax.Array
    outputs: jax.Array


def draw_store(key: jax.Array, users: int, orders: int, items: int, shape: tuple[int, int]):
    """A Store with `orders` of each user in any order; shape: products and variants."""
    keys = jax.random.split(key, 8)
    total = users * orders
    products, variants = shape
    mixed = jax.vmap(lambda k: jax.random.permutation(k, products)[:items])
    code = jax.random.randint(keys[0], (users,), 0, rules.CODES)
    variant = jax.random.randint(keys[4], (total, items), 0, variants)
    price = jax.random.randint(keys[6], shape, 1, rules.HIGHEST_PRICE + 1)
    return Store(
        code=code.astype(jnp.uint8),
        owner=(jax.random.permutation(keys[1], total) // orders).astype(jnp.uint8),
        status=jax.random.bernoulli(keys[2], 0.5, (total,)).astype(jnp.uint8),
        reason=jnp.zeros(total, jnp.uint8),
        product=mixed(jax.random.split(keys[3], total)).astype(jnp.uint8),
        variant=variant.astype(jnp.uint8),
        mark=jnp.zeros((total, items), jnp.uint8),
        sale=jax.random.bernoulli(keys[5], 0.15, (total, items)),
        price=price.astype(jnp.uint8),
        stock=jax.random.bernoulli(keys[7], 0.8, shape),
        handed_on=jnp.zeros((), bool),
    )


def _orders_of(key: jax.Array, store: Store, caller: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(the caller's orders first, all others after them, each in a random order) i32[N]; how many
    are the caller's."""
    own = store.owner == caller
    draw = jax.random.uniform(key, own.shape) + ~own
    return jnp.argsort(draw).astype(jnp.int32), jnp.sum(own)


def _wish(key: jax.Array, store: Store, order: jax.Array, trouble: jax.Array) -> tuple[Call, Store]:
    """A wish about an order, and the database in which `trouble` alone is wrong with it."""
    keys = jax.random.split(key, 4)
    tool = jax.random.randint(keys[0], (), 0, len(rules.WRITES))
    items = store.product.shape[1]
    item = jax.random.randint(keys[1], (), 0, items)
    product, variant = (x[order, item].astype(jnp.int32) for x in (store.product, store.variant))
    variants = store.stock.shape[1]
    other = (variant + jax.random.randint(keys[2], (), 1, variants)) % variants
    cancels, swaps = tool == rules.CANCEL, (tool == rules.MODIFY) | (tool == rules.EXCHANGE)
    reason = jax.random.randint(keys[3], (), 0, len(rules.REASONS) - 1)
    wrong = trouble == DETAIL
    reason = jnp.where(wrong, len(rules.REASONS) - 1, reason)
    call = Call(
        tool=tool,
        order=order,
        product=jnp.where(cancels, -1, product),
        detail=jnp.where(cancels, reason, jnp.where(swaps, other, 0)),
    )
    fits = jnp.asarray(rules.BEFORE)[tool]
    status = jnp.where(trouble == STATUS, 1 - fits, fits)
    sale, stock = store.sale, store.stock
    back = (tool == rules.EXCHANGE) | (tool == rules.RETURN)
    sold = jnp.where(back, wrong & (tool == rules.RETURN), sale[order, item])
    there = jnp.where(swaps, ~wrong, stock[product, other])
    return call, store.replace(
        status=store.status.at[order].set(status.astype(jnp.uint8)),
        sale=sale.at[order, item].set(sold),
        stock=stock.at[product, other].set(there),
    )


def draw(
    key: jax.Array, store: Store, chances: tuple[jax.Array, jax.Array, jax.Array]
) -> tuple[Task, Store]:
    """A customer and the database in which it calls.

    One or two wishes, about different orders. A single wish is permitted; of two, one may have to
    be refused, for which the first two chances count.

    Args:
      key: of the task.
      store: of `draw_store`; statuses, sales and stock are changed where the wishes need it.
      chances: f32[] each, of a second wish, of a wish that must be refused if there are two, and
        of a stranger, whose code is wrong.

    Returns:
      (Task, Store).
    """
    second, refusal, stranger = chances
    keys = jax.random.split(key, 7)
    caller = jax.random.randint(keys[0], (), 0, store.code.shape[0])
    draws = jax.random.uniform(keys[1], (4,))
    count = 1 + (draws[0] < second)
    number = np.arange(WISHES)
    bad = (count == WISHES) & (draws[1] < refusal)
    bad = bad & (number == (draws[2] * WISHES).astype(jnp.int32))
    trouble = jnp.where(bad, jax.random.randint(keys[2], (), FOREIGN, DETAIL + 1), 0)
    sorted_orders, own = _orders_of(keys[3], store, caller)
    places = jnp.where(trouble == FOREIGN, own + number, number)
    wishes = []
    # What has to be refused first, so that nothing of it is left where another wish needs it.
    turned = jnp.where(bad[1], 1, 0)
    for i, wish_key in enumerate(jax.random.split(keys[4], WISHES)):
        which = i ^ turned
        wish, store = _wish(wish_key, store, sorted_orders[places[which]], trouble[which])
        wishes.append(wish)
    wishes = jax.tree.map(
        lambda *x: jnp.where(turned == 1, jnp.stack(x[::-1]), jnp.stack(x)), *wishes
    )
    shift = 1 + (draws[3] * (rules.CODES - 1)).astype(jnp.int32)
    strange = jax.random.uniform(keys[5]) < stranger
    code = store.code[caller].astype(jnp.int32)
    asks = jax.random.bernoulli(keys[6], 0.5, (WISHES,))
    task = Task(
        caller=caller,
        code=jnp.where(strange, (code + shift) % rules.CODES, code),
        wishes=wishes,
        asks=asks,
        count=count.astype(jnp.int32),
        **reference(store, caller, wishes, asks & (number < count), count, strange),
    )
    return task, store


def reference(
    store: Store,
    caller: jax.Array,
    wishes: Call,
    asks: jax.Array,
    count: jax.Array,
    strange: jax.Array,
) -> dict[str, jax.Array]:
    """`right`, `goal` and `outputs` of a Task: all permitted wishes are written, and of those that
    ask the amount is said; a stranger is handed on, and nothing else is done."""
    after, right, outputs = store, [], []
    for i in range(WISHES):
        wish = jax.tree.map(lambda x, i=i: x[i], wishes)
        good = rules.permits(store, caller, wish) & (i < count) & ~strange
        written = rules.write(after, wish)
        after = jax.tree.map(lambda new, old, good=good: jnp.where(good, new, old), written, after)
        right.append(good)
        outputs.append(jnp.where(good & asks[i], rules.amount(store, wish), -1))
    after = after.replace(handed_on=strange)
    return {
        "right": jnp.stack(right),
        "goal": rules.hash_of(after),
        "outputs": jnp.stack(outputs).astype(jnp.int32),
    }
