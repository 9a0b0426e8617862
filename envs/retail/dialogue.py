"""A call at the shop's desk: what is known, and what the customer and the tools answer."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import EnvState
from envs.retail import rules
from envs.retail.rules import Call, Store
from envs.retail.tasks import WISHES, Task

OPEN, CLOSED, TRANSFERRED = range(3)
# What the desk hears after its action: of the customer, or of a tool.
HEARD = (
    *("hello", "name", "wish", "detail", "all", "found", "not found", "order", "product"),
    *("yes", "yes, how much", "no", "done", "refused", "thanks", "sorry"),
)
EVENT = {name: number for number, name in enumerate(HEARD)}
# Kinds of actions, and which of the arguments of `ARGUMENTS` each takes, in their order.
FORMS = {
    "ask name": (),
    "ask wish": (),
    "ask detail": (),
    "find": ("name", "code"),
    "order": ("order",),
    "product": ("product",),
    "cancel": ("order", "reason"),
    "modify": ("order", "product", "variant"),
    "exchange": ("order", "product", "variant"),
    "return": ("order", "product"),
    "go": (),
    "tell": ("number",),
    "deny": (),
    "transfer": (),
    "close": (),
}
VERB = {name: number for number, name in enumerate(FORMS)}
ARGUMENTS = ("name", "code", "order", "product", "detail", "number")


@struct.dataclass
class RetailState(EnvState):
    """State of one call.

    store: the database. task: what the customer wants, and what counts in the end. heard: i8[],
    of HEARD. about: i8[], order or product that was looked up last. named: bool[], the customer has
    given its name. searched: i8[2], 1 + name and code last searched for. user: i8[], found by that,
    -1 for none. orders, products: bool[N], bool[P], looked up so far. wish: i8[], the current one.
    said: i8[], how much of it the desk knows: 0, 1 the wish, 2 the detail. settled: bool[], it was
    written or refused. asked: bool[], the customer has asked for its amount. proposal: Call that
    the customer was asked about. agreed: bool[], to that. all_said: bool[]. told: bool[numbers].
    end: i8[], OPEN to TRANSFERRED.
    """

    store: Store
    task: Task
    heard: jax.Array
    about: jax.Array
    named: jax.Array
    searched: jax.Array
    user: jax.Array
    orders: jax.Array
    products: jax.Array
    wish: jax.Array
    said: jax.Array
    settled: jax.Array
    asked: jax.Array
    proposal: Call
    agreed: jax.Array
    all_said: jax.Array
    told: jax.Array
    end: jax.Array


def wish_of(state: RetailState) -> Call:
    """The customer's current wish, Call of i32[], whether the desk knows it or not."""
    at = np.arange(WISHES) == state.wish
    return jax.tree.map(lambda x: jnp.sum(jnp.where(at, x, 0)), state.task.wishes)


def take(state: RetailState, parts: jax.Array) -> RetailState:
    """The call after an action of the desk, which does nothing where it does not apply.

    Args:
      state: of a running call.
      parts: i32[7], verb (of FORMS) and the arguments of ARGUMENTS, -1 for none.

    Returns:
      The next state; its `time` is not counted.
    """
    verb, name, code, order, product, detail, number = parts
    is_ = {form: verb == value for form, value in VERB.items()}
    state = _customer(state, is_)
    state = _lookups(state, is_, name, code, order, product)
    tool = verb - VERB["cancel"]
    proposes = (tool >= 0) & (tool < len(rules.WRITES))
    state = _proposed(state, proposes, Call(tool, order, product, detail))
    state = _written(state, is_["go"])
    told = state.told | (is_["tell"] & (np.arange(state.told.shape[0]) == number))
    end = jnp.where(is_["close"], CLOSED, jnp.where(is_["transfer"], TRANSFERRED, OPEN))
    state = _hear(state.replace(told=told, end=end.astype(jnp.int8)), is_["tell"], "thanks")
    handed_on = state.store.handed_on | is_["transfer"]
    return state.replace(store=state.store.replace(handed_on=handed_on))


def _hear(state: RetailState, when: jax.Array, event: str) -> RetailState:
    return state.replace(heard=jnp.where(when, EVENT[event], state.heard).astype(jnp.int8))


def _customer(state: RetailState, is_: dict[str, jax.Array]) -> RetailState:
    """What the customer says when asked, and that a wish is refused."""
    asks, known = is_["ask wish"], state.said > 0
    over = asks & state.settled
    follows = over & (state.wish + 1 < state.task.count)
    ends = over & ~follows
    detail = is_["ask detail"] & known
    denied = is_["deny"] & known & ~state.settled
    wish = state.wish + follows
    said = jnp.where(follows, 1, jnp.where(asks, jnp.maximum(state.said, 1), state.said))
    state = state.replace(
        named=state.named | is_["ask name"],
        wish=wish.astype(jnp.int8),
        said=jnp.where(detail, 2, said).astype(jnp.int8),
        settled=(state.settled | denied) & ~follows,
        asked=state.asked & ~follows,
        proposal=jax.tree.map(lambda x: jnp.where(follows, -1, x), state.proposal),
        agreed=state.agreed & ~follows & ~denied,
        all_said=state.all_said | ends,
    )
    state = _hear(state, is_["ask name"], "name")
    state = _hear(state, asks, "wish")
    state = _hear(state, ends, "all")
    state = _hear(state, is_["ask detail"] | is_["deny"], "no")
    return _hear(_hear(state, detail, "detail"), denied, "sorry")


def _lookups(
    state: RetailState,
    is_: dict[str, jax.Array],
    name: jax.Array,
    code: jax.Array,
    order: jax.Array,
    product: jax.Array,
) -> RetailState:
    """Results of the tools that only read; the user that was found last counts."""
    finds, orders, products = is_["find"], is_["order"], is_["product"]
    users = np.arange(state.store.code.shape[0]) == name
    found = finds & jnp.any(users & (state.store.code == code))
    user = jnp.where(found, name, jnp.where(finds, -1, state.user))
    about = jnp.where(orders, order, jnp.where(products, product, state.about))
    searched = jnp.where(finds, 1 + jnp.stack([name, code]), state.searched)
    numbers = np.arange(state.orders.shape[0]), np.arange(state.products.shape[0])
    state = state.replace(
        user=user.astype(jnp.int8),
        searched=searched.astype(jnp.int8),
        about=about.astype(jnp.int8),
        orders=state.orders | (orders & (numbers[0] == order)),
        products=state.products | (products & (numbers[1] == product)),
    )
    state = _hear(_hear(state, finds, "not found"), found, "found")
    return _hear(_hear(state, orders, "order"), products, "product")


def _proposed(state: RetailState, proposes: jax.Array, call: Call) -> RetailState:
    """The customer's answer to a proposal: yes if tool, order and item are those of a wish that it
    has told and that is not settled."""
    wish = wish_of(state)
    same = (call.tool == wish.tool) & (call.order == wish.order) & (call.product == wish.product)
    yes = proposes & same & (state.said > 0) & ~state.settled
    asks = jnp.any(state.task.asks & (np.arange(WISHES) == state.wish))
    state = state.replace(
        proposal=jax.tree.map(lambda new, old: jnp.where(proposes, new, old), call, state.proposal),
        agreed=jnp.where(proposes, yes, state.agreed),
        asked=state.asked | (yes & asks),
    )
    state = _hear(_hear(state, proposes, "no"), yes, "yes")
    return _hear(state, yes & asks, "yes, how much")


def _written(state: RetailState, goes: jax.Array) -> RetailState:
    """The write that was agreed to, if a user was found and its tool accepts it."""
    done = goes & state.agreed & (state.user >= 0) & rules.accepts(state.store, state.proposal)
    written = rules.write(state.store, state.proposal)
    state = state.replace(
        store=jax.tree.map(lambda new, old: jnp.where(done, new, old), written, state.store),
        settled=state.settled | done,
        agreed=state.agreed & ~done,
    )
    return _hear(_hear(state, goes, "refused"), done, "done")
