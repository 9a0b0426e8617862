"""A shop's database: what its tools do to it, what the policy permits, what is said about money.

Source: tau-bench's retail domain (its reward from the reference code of MUA-RL, the tools and the
policy from notes), reduced: see `envs.retail.env.Retail`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.fingerprint import fingerprint

NAMES = ("ana", "ben", "cleo", "dan", "eva", "finn")
PRODUCTS = ("mug", "lamp", "rug", "bag", "vase", "clock")
VARIANTS = ("red", "blue", "green", "white")
# The last is none that a cancellation may have.
REASONS = ("mistake", "unneeded", "late")
STATUSES = ("pending", "delivered", "cancelled", "modified", "exchanging", "returning")
PENDING, DELIVERED, CANCELLED, MODIFIED, EXCHANGING, RETURNING = range(6)
WRITES = ("cancel", "modify", "exchange", "return")
CANCEL, MODIFY, EXCHANGE, RETURN = range(4)
CODES = 10
HIGHEST_PRICE = 9

# Status that an order must have for each write, and gets by it.
BEFORE = np.array([PENDING, PENDING, DELIVERED, DELIVERED], np.int32)
AFTER = np.array([CANCELLED, MODIFIED, EXCHANGING, RETURNING], np.int32)


@struct.dataclass
class Store:
    """The database: U users, N orders of I items, P products in V variants.

    code: u8[U], of each user. owner: u8[N]. status: u8[N]. reason: u8[N], 1 + reason of a
    cancellation, else 0. product, variant: u8[N, I], of each item; the products of an order differ.
    mark: u8[N, I], 0 for none, 1 for an item that returns, 2 + the variant that it is exchanged
    for. sale: bool[N, I], bought in a sale. price: u8[P, V]. stock: bool[P, V]. handed_on: bool[],
    the customer was transferred to a person.
    """

    code: jax.Array
    owner: jax.Array
    status: jax.Array
    reason: jax.Array
    product: jax.Array
    variant: jax.Array
    mark: jax.Array
    sale: jax.Array
    price: jax.Array
    stock: jax.Array
    handed_on: jax.Array


@struct.dataclass
class Call:
    """A write, i32[] each. tool: CANCEL to RETURN, -1 for none. order. product: of the item, -1 in
    a cancellation. detail: reason of a cancellation, new variant, 0 of a return."""

    tool: jax.Array
    order: jax.Array
    product: jax.Array
    detail: jax.Array


def hash_of(store: Store) -> jax.Array:
    """Fingerprint of the database's contents, u32[2]; the order of writes leaves no trace."""
    return fingerprint(store)


def prices_of(store: Store) -> jax.Array:
    """Price of every item of every order, i32[N, I]: its variant's."""
    return store.price[store.product, store.variant].astype(jnp.int32)


def _item(store: Store, call: Call) -> jax.Array:
    """The item that a call is about, bool[N, I]; none if the order has no such item."""
    at = np.arange(store.status.shape[0]) == call.order
    return at[:, None] & (store.product == call.product)


def _listed(table: jax.Array, call: Call) -> jax.Array:
    """A catalogue's entry for a call's product and detail, as the variant, []."""
    products, variants = table.shape
    row = (np.arange(products) == call.product)[:, None]
    return jnp.sum(jnp.where(row & (np.arange(variants) == call.detail), table, 0))


def accepts(store: Store, call: Call) -> jax.Array:
    """Whether a write's tool carries it out, bool[]: the status fits, and there is such an item
    and, of a new variant, another one in stock. Owners and sales are the policy's concern."""
    orders = np.arange(store.status.shape[0]) == call.order
    status = jnp.sum(jnp.where(orders, store.status, 0).astype(jnp.int32))
    tool = np.arange(len(WRITES)) == call.tool
    fits = jnp.any(tool) & (status == jnp.sum(jnp.where(tool, BEFORE, 0)))
    item = _item(store, call)
    other = ~jnp.any(item & (store.variant == call.detail)) & (_listed(store.stock, call) > 0)
    swaps = (call.tool == MODIFY) | (call.tool == EXCHANGE)
    cancels = (call.tool == CANCEL) & (call.detail >= 0) & (call.detail < len(REASONS) - 1)
    rest = jnp.any(item) & (~swaps | other)
    return fits & jnp.any(orders) & jnp.where(call.tool == CANCEL, cancels, rest)


def permits(store: Store, caller: jax.Array, call: Call) -> jax.Array:
    """Whether the desk's policy permits a write for a customer, bool[]: the tool accepts it, the
    order is the customer's own, and what was bought in a sale is neither exchanged nor returned."""
    orders = np.arange(store.status.shape[0]) == call.order
    own = jnp.any(orders & (store.owner == caller))
    back = (call.tool == EXCHANGE) | (call.tool == RETURN)
    return accepts(store, call) & own & ~(back & jnp.any(_item(store, call) & store.sale))


def write(store: Store, call: Call) -> Store:
    """The database after a write that its tool `accepts`; after others it is the same.

    Cancelled: status and reason. Modified: the item's variant, and a status that no other change
    is accepted from. Exchanged, returned: the status, and a mark at the item.
    """
    done = accepts(store, call)
    item = _item(store, call) & done
    at = (np.arange(store.status.shape[0]) == call.order) & done
    status = jnp.sum(jnp.where(np.arange(len(WRITES)) == call.tool, AFTER, 0))
    mark = jnp.where(call.tool == EXCHANGE, 2 + call.detail, 1)
    marks = item & ((call.tool == EXCHANGE) | (call.tool == RETURN))
    changed = {
        "status": jnp.where(at, status, store.status),
        "reason": jnp.where(at & (call.tool == CANCEL), 1 + call.detail, store.reason),
        "variant": jnp.where(item & (call.tool == MODIFY), call.detail, store.variant),
        "mark": jnp.where(marks, mark, store.mark),
    }
    return store.replace(**{name: value.astype(jnp.uint8) for name, value in changed.items()})


def amount(store: Store, call: Call) -> jax.Array:
    """What a customer asks about a write, i32[]: a cancelled order's total, a returned item's
    price, the price of a new variant. The same before and after the write."""
    prices = prices_of(store)
    at = np.arange(store.status.shape[0]) == call.order
    total = jnp.sum(jnp.where(at[:, None], prices, 0))
    item = jnp.sum(jnp.where(_item(store, call), prices, 0))
    new = _listed(store.price.astype(jnp.int32), call)
    return jnp.where(call.tool == CANCEL, total, jnp.where(call.tool == RETURN, item, new))
