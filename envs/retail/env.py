"""Retail-v1: a shop's support desk, a customer who tells bit by bit, and a database."""

import dataclasses
import functools
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams
from envs.retail import rules, tasks
from envs.retail.dialogue import ARGUMENTS, FORMS, HEARD, OPEN, VERB, RetailState, take, wish_of
from envs.retail.manual import advise
from envs.retail.rules import Call


@struct.dataclass
class RetailParams(EnvParams):
    """second: probability of a second wish. refusal: that one of two wishes must be refused.
    stranger: that the customer's code is wrong."""

    max_steps_in_episode: int = 24
    second: float = 0.5
    refusal: float = 0.5
    stranger: float = 0.1


@dataclasses.dataclass(frozen=True)
class Retail(Environment):
    """A customer wants one or two of its orders cancelled, modified, exchanged or returned.

    The customer answers questions: its name and code; its wish (tool, order, item), the next one
    once that is settled; the wish's detail (reason, new variant). Tools find a user by name and
    code, show an order, or a product's variants. `cancel`, `modify`, `exchange` and `return` ask
    the customer whether this shall be done: it says yes if tool, order and item are those of its
    current wish (it does not check reason or variant), and may ask for the amount. `go` writes what
    it said yes to. It is refused without a yes, before a user was found, and where the tool does
    not apply (`rules.accepts`). That an order is somebody else's or an item from a sale the desk
    has to see itself, and `deny`; a customer who is not found is transferred.

    Observation: uint8, the desk's notes: what was heard last, what the customer and the tools have
    said so far (0 for unknown), the last proposal, and which numbers were told. Actions: three
    questions, then find, order, product, cancel, modify, exchange, return with all of their
    arguments, go, tell with a number, deny, transfer, close. All are legal; what does not apply has
    no effect.

    Reward: tau-bench's. When the call ends, by transfer or close, 1 if the database's hash is that
    after the task's reference actions and all numbers that the customer has asked for were told,
    else 0; with `scored="database"` the hash alone. Success: both. Limit 24 steps.

    Tasks: the whole database, one customer, one wish or two about different orders; of two wishes
    one may have to be refused (somebody else's order, a status that does not fit, a reason that
    does not count, a variant out of stock, a sale). Kinds: these, and strangers.

    Expert: the desk's manual on its notes; it always succeeds.
    Source: tau-bench's retail domain and its reward in MUA-RL (https://arxiv.org/abs/2508.18669,
    code read; tools and policy from notes); texts, sizes and the scripted customer are ours.
    Reduced: one item per call, no addresses and payment methods, amounts that a tool shows.
    Deviations: a proposal is a command of its own, and tools hold the desk to authentication and
    consent; a transfer is a record of the database, and every task needs a write or a transfer, so
    that nothing is solved by doing nothing.
    """

    users: int = 3
    orders: int = 2
    items: int = 2
    products: int = 4
    variants: int = 3
    scored: str = "all"

    num_codes: ClassVar[int] = 32
    wordings: ClassVar[str] = "envs.retail.words"
    kinds: ClassVar[tuple[str, ...]] = ("one wish", "two wishes", "one refused", "stranger")
    default_params: ClassVar[RetailParams] = RetailParams()

    def __post_init__(self):
        most = {"users": (2, len(rules.NAMES)), "orders": (2, 4), "items": (1, 3)}
        most |= {"products": (2, len(rules.PRODUCTS)), "variants": (2, len(rules.VARIANTS))}
        for name, (least, greatest) in most.items():
            if not least <= getattr(self, name) <= greatest:
                raise ValueError(f"{name} {getattr(self, name)}: expected {least} to {greatest}")
        if self.items > self.products:
            raise ValueError(
                f"items {self.items} of {self.products} products: the items of an order differ, "
                "choose fewer items or more products"
            )
        if self.scored not in ("all", "database"):
            raise ValueError(f"scored {self.scored!r}: expected 'all' or 'database'")

    @property
    def ranges(self) -> dict[str, tuple[str, ...]]:
        """Words of the values of each argument."""
        return {
            "name": rules.NAMES[: self.users],
            "code": tuple(map(str, range(rules.CODES))),
            "order": tuple(f"#{n + 1}" for n in range(self.users * self.orders)),
            "product": rules.PRODUCTS[: self.products],
            "variant": rules.VARIANTS[: self.variants],
            "reason": rules.REASONS[:-1],
            "number": tuple(map(str, range(self.items * rules.HIGHEST_PRICE + 1))),
        }

    @functools.cached_property
    def _calls(self) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
        """(form, names of its arguments, their values) of every action."""
        sizes = {name: range(len(words)) for name, words in self.ranges.items()}
        return [
            (form, names, values)
            for form, names in FORMS.items()
            for values in itertools.product(*(sizes[name] for name in names))
        ]

    @functools.cached_property
    def parts(self) -> np.ndarray:
        """i32[num_actions, 1 + len(ARGUMENTS)]: verb and arguments of each action, -1 for none."""
        table = np.full((len(self._calls), 1 + len(ARGUMENTS)), -1, np.int32)
        for row, (form, names, values) in zip(table, self._calls, strict=True):
            row[0] = VERB[form]
            for name, value in zip(names, values, strict=True):
                where = "detail" if name in ("reason", "variant") else name
                row[1 + ARGUMENTS.index(where)] = value
            if form == "return":
                row[1 + ARGUMENTS.index("detail")] = 0
        return table

    @functools.cached_property
    def action_names(self) -> tuple[str, ...]:
        """Form and arguments of every action, as its command."""
        words = self.ranges
        return tuple(
            " ".join([form, *(words[n][v] for n, v in zip(names, values, strict=True))])
            for form, names, values in self._calls
        )

    def initial(self, key: jax.Array, params: RetailParams) -> RetailState:
        store_key, task_key = jax.random.split(key)
        shape = (self.products, self.variants)
        store = tasks.draw_store(store_key, self.users, self.orders, self.items, shape)
        chances = (params.second, params.refusal, params.stranger)
        task, store = tasks.draw(task_key, store, chances)
        no, zero = jnp.zeros((), bool), jnp.zeros((), jnp.int8)
        nothing = jnp.full((), -1, jnp.int32)
        return RetailState(
            time=jnp.zeros((), jnp.int32),
            store=store,
            task=task,
            heard=zero,
            about=zero,
            named=no,
            searched=jnp.zeros(2, jnp.int8),
            user=zero - 1,
            orders=jnp.zeros(self.users * self.orders, bool),
            products=jnp.zeros(self.products, bool),
            wish=zero,
            said=zero,
            settled=no,
            asked=no,
            proposal=Call(nothing, nothing, nothing, nothing),
            agreed=no,
            all_said=no,
            told=jnp.zeros(len(self.ranges["number"]), bool),
            end=zero,
        )

    def transition(
        self, key: jax.Array, state: RetailState, action: jax.Array, params: RetailParams
    ) -> tuple[RetailState, jax.Array]:
        del key, params
        state = take(state, jnp.asarray(self.parts)[action])
        right = self.stored(state) & (self.complete(state) | (self.scored == "database"))
        return state, jnp.where(right & (state.end != OPEN), 1.0, 0.0)

    def stored(self, state: RetailState) -> jax.Array:
        """Whether the database is as after the reference actions, bool[]."""
        return jnp.all(rules.hash_of(state.store) == state.task.goal)

    def complete(self, state: RetailState) -> jax.Array:
        """Whether all numbers that have to be said were told, bool[]."""
        number = np.arange(state.told.shape[0])
        needed = jnp.any(state.task.outputs[:, None] == number, axis=0)
        return jnp.all(state.told | ~needed)

    def observe(self, state: RetailState, params: RetailParams) -> jax.Array:
        store, wish, call = state.store, wish_of(state), state.proposal
        known, named = state.said > 0, state.named
        head = [
            *(state.heard, named * (1 + state.task.caller), named * (1 + state.task.code)),
            *(*state.searched, 1 + state.user, 1 + state.about),
            *(known * (1 + x) for x in (state.wish, wish.tool, wish.order, wish.product)),
            (state.said > 1) * (1 + wish.detail),
            *(state.settled, state.asked, state.agreed, state.all_said),
            *(1 + x for x in (call.tool, call.order, call.product, call.detail)),
        ]
        seen = state.orders
        owner = (seen | (store.owner == state.user)) * (1 + store.owner)
        items = [1 + store.product, 1 + store.variant, store.mark, store.sale]
        items = jnp.stack([*items, rules.prices_of(store)], axis=-1)
        listed = jnp.stack([store.price, 1 + store.stock], axis=-1)
        notes = [
            *(jnp.stack(head), owner, seen * (1 + store.status), seen * store.reason),
            seen[:, None, None] * items,
            state.products[:, None, None] * listed,
            state.told,
        ]
        return jnp.concatenate([x.reshape(-1).astype(jnp.uint8) for x in notes])

    def is_terminated(self, state: RetailState, params: RetailParams) -> jax.Array:
        return state.end != OPEN

    def is_success(self, state: RetailState, params: RetailParams) -> jax.Array:
        return (state.end != OPEN) & self.stored(state) & self.complete(state)

    def kind_of(self, state: RetailState, params: RetailParams) -> jax.Array:
        """One wish, two, two of which one must be refused, or a stranger."""
        task, code = state.task, jnp.take(state.store.code, state.task.caller)
        two = task.count == tasks.WISHES
        kind = jnp.where(two, jnp.where(jnp.all(task.right), 1, 2), 0)
        return jnp.where(code == task.code, kind, 3).astype(jnp.int32)

    def expert(self, state: RetailState, params: RetailParams) -> jax.Array:
        same = jnp.all(jnp.asarray(self.parts) == advise(state), axis=1)
        return jnp.argmax(same).astype(jnp.int32)

    def render(self, state: RetailState, params: RetailParams) -> str:
        """The wishes, then a line per order."""
        words, store = self.ranges, state.store
        lines = []
        for i in range(int(state.task.count)):
            wish = jax.tree.map(lambda x, i=i: int(x[i]), state.task.wishes)
            thing = "" if wish.product < 0 else f" {words['product'][wish.product]}"
            about = rules.REASONS if wish.tool == rules.CANCEL else words["variant"]
            detail = "" if wish.tool == rules.RETURN else f" {about[wish.detail]}"
            needs = int(state.task.outputs[i])
            said = f", how much ({needs})" if needs >= 0 else ""
            lines.append(f"{rules.WRITES[wish.tool]} #{wish.order + 1}{thing}{detail}{said}")
        for n, (owner, status) in enumerate(zip(store.owner, store.status, strict=True)):
            things = (
                f"{words['product'][int(p)]} {words['variant'][int(v)]}"
                for p, v in zip(store.product[n], store.variant[n], strict=True)
            )
            head = f"#{n + 1} {words['name'][int(owner)]} {rules.STATUSES[int(status)]}"
            lines.append(f"{head}: {', '.join(things)}")
        lines.append(f"heard: {HEARD[int(state.heard)]}")
        return "\n".join(lines)
