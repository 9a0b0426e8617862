"""Retail: calls by hand, a database in plain Python, refusals, the reward, the manual."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
from programs import fetched

import envs
from envs.retail import rules, tasks
from envs.retail.rules import Call, Store

functions = functools.partial(playing.functions, "Retail-v1")
tell = playing.teller("Retail-v1")
KEY = jax.random.key(0)
ANA, BEN = range(2)
MUG, LAMP, RUG, BAG = range(4)
RED, BLUE, GREEN = range(3)
# Price of each product in red, blue and green; blue lamps are out of stock.
PRICES = np.array([[3, 5, 4], [6, 2, 7], [1, 8, 9], [2, 2, 5]], np.uint8)
OPENING = ("ask name", "find ana 4", "ask wish")
reference, write = fetched(tasks.reference), fetched(rules.write)
hash_of, accepts, permits = map(fetched, (rules.hash_of, rules.accepts, rules.permits))


def store():
    """Ana (code 4): #1 pending, red mug and red lamp; #2 delivered, green rug and red mug (sale).
    Ben: #3 pending, blue bag and blue rug; #4 delivered. Cleo: #5, #6."""
    stock = np.ones((4, 3), bool)
    stock[LAMP, BLUE] = False
    sale = np.zeros((6, 2), bool)
    sale[1, 1] = True
    pairs = [(MUG, LAMP), (RUG, MUG), (BAG, RUG), (MUG, BAG), (MUG, RUG), (LAMP, BAG)]
    return Store(
        code=np.array([4, 7, 0], np.uint8),
        owner=np.array([0, 0, 1, 1, 2, 2], np.uint8),
        status=np.array([0, 1, 0, 1, 0, 1], np.uint8),
        reason=np.zeros(6, np.uint8),
        product=np.array(pairs, np.uint8),
        variant=np.array([(0, 0), (2, 0), (1, 1), (0, 0), (0, 0), (0, 0)], np.uint8),
        mark=np.zeros((6, 2), np.uint8),
        sale=sale,
        price=PRICES,
        stock=stock,
        handed_on=np.array(False),
    )


def call(tool, order, product=-1, detail=0):
    return Call(*(np.int32(x) for x in (rules.WRITES.index(tool), order - 1, product, detail)))


def started(*wishes, asks=(False, False), code=4, **options):
    """A call of Ana's with these wishes."""
    state = functions(**options)[2](KEY)
    wanted = jax.tree.map(lambda *x: np.stack(x), *(*wishes, wishes[0])[:2])
    asks, count = np.array(asks), np.int32(len(wishes))
    ends = reference(store(), np.int32(ANA), wanted, asks, count, np.array(code != 4))
    task = state.task.replace(caller=np.int32(ANA), code=np.int32(code), wishes=wanted, asks=asks)
    return state.replace(store=store(), task=task.replace(count=count, **ends))


def said(state, *commands, **options):
    """(state, reward, success, what was heard after each command)."""
    env, _, _, step = functions(**options)
    heard, total, success = [], 0.0, False
    for command in commands:
        _, state, reward, _, info = step(state, env.action_names.index(command))
        total, success = total + float(reward), bool(info["success"])
        heard.append(tell(state))
    return state, total, success, heard


def test_a_call_by_hand():
    wishes = call("modify", 1, MUG, BLUE), call("return", 2, RUG)
    state, reward, success, heard = said(
        started(*wishes, asks=(True, True)),
        *OPENING, "order #1", "ask detail", "product mug", "modify #1 mug blue", "go", "tell 5",
        "ask wish", "order #2", "return #2 rug", "go", "tell 9", "ask wish", "close",
    )  # fmt: skip
    assert heard == [
        "i am ana 4", "found #1 #2", "please modify #1 mug",
        "order #1 ana pending: mug red 3, lamp red 6, paid 9", "it is blue",
        "product mug: red 3, blue 5, green 4", "yes, how much", "done", "thanks",
        "please return #2 rug",
        "order #2 ana delivered: rug green 9, mug red 3 sale, paid 12", "yes, how much", "done",
        "thanks", "that is all", "that is all",
    ]  # fmt: skip
    assert (reward, success) == (1.0, True)
    assert state.store.status.tolist() == [rules.MODIFIED, rules.RETURNING, 0, 1, 0, 1]
    assert state.store.variant[0].tolist() == [BLUE, RED] and state.store.mark[1].tolist() == [1, 0]


CANCEL = (*OPENING, "ask detail", "cancel #1 unneeded")


@pytest.mark.parametrize(
    "commands, scored, reward, success",
    [
        ((*CANCEL, "go", "tell 9", "close"), "all", 1, True),
        # All that is required, in any order, and by a transfer only what it writes itself.
        (("tell 9", *CANCEL, "go", "close"), "all", 1, True),
        ((*CANCEL, "go", "tell 9", "transfer"), "all", 0, False),
        # The amount was not told, or another one.
        ((*CANCEL, "go", "close"), "all", 0, False),
        ((*CANCEL, "go", "tell 8", "close"), "all", 0, False),
        ((*CANCEL, "go", "close"), "database", 1, False),
        # Not written, or for a reason that the customer did not give.
        ((*CANCEL, "tell 9", "close"), "all", 0, False),
        ((*CANCEL, "tell 9", "close"), "database", 0, False),
        ((*OPENING, "cancel #1 mistake", "go", "tell 9", "close"), "all", 0, False),
    ],
)
def test_the_reward_is_the_hash_and_the_outputs(commands, scored, reward, success):
    state = started(call("cancel", 1, -1, 1), asks=(True, False), scored=scored)
    assert said(state, *commands, scored=scored)[1:3] == (reward, success)


def test_nothing_is_written_before_the_user_was_found_and_has_agreed():
    state = started(call("cancel", 1, -1, 1))
    ways = (
        ("ask name", "ask wish", "cancel #1 unneeded", "go"),  # No user was found.
        ("ask name", "find ana 5", "ask wish", "cancel #1 unneeded", "go"),
        (*OPENING, "go"),  # Nothing was proposed.
        ("ask name", "find ana 4", "cancel #1 unneeded", "go"),  # It has not told the wish.
        (*OPENING, "cancel #2 unneeded", "go"),  # It says no.
        (*OPENING, "cancel #1 unneeded", "deny", "go"),
    )
    for commands in ways:
        after, _, _, heard = said(state, *commands)
        assert heard[-1] == "refused"
        np.testing.assert_array_equal(hash_of(after.store), hash_of(state.store))
        assert said(after, "close")[1] == 0
    assert said(state, *OPENING, "cancel #1 unneeded", "go")[3][-1] == "done"


@pytest.mark.parametrize(
    "wrong, commands",
    [
        (call("modify", 3, BAG, RED), ("modify #3 bag red", "go")),  # Ben's order.
        (call("return", 2, MUG), ("return #2 mug", "go")),  # From a sale.
    ],
)
def test_a_write_that_the_policy_forbids_is_agreed_to_and_pays_nothing(wrong, commands):
    state = started(call("exchange", 2, RUG, BLUE), wrong)
    if wrong.order == 1:
        state = started(call("cancel", 1, -1, 0), wrong)
        first = (*OPENING, "cancel #1 mistake", "go", "ask wish")
    else:
        first = (*OPENING, "exchange #2 rug blue", "go", "ask wish")
    assert bool(accepts(store(), wrong)) and not permits(store(), np.int32(ANA), wrong)
    assert state.task.right.tolist() == [True, False]
    _, reward, _, heard = said(state, *first, *commands, "close")
    assert heard[-3:-1] == ["yes", "done"] and reward == 0
    assert said(state, *first, "deny", "close")[1:3] == (1.0, True)


def test_what_tools_do_not_accept():
    refused = (
        call("cancel", 2, -1, 0), call("cancel", 1, -1, 2), call("modify", 1, LAMP, BLUE),
        call("modify", 1, MUG, RED), call("modify", 1, RUG, RED), call("modify", 2, RUG, RED),
        call("exchange", 1, MUG, BLUE), call("return", 1, MUG), call("return", 2, LAMP),
        call("return", 7, MUG), Call(*(np.int32(-1),) * 4),
    )  # fmt: skip
    for wrong in refused:
        assert not accepts(store(), wrong)
        jax.tree.map(np.testing.assert_array_equal, write(store(), wrong), store())
    # One change per order.
    after = write(store(), call("modify", 1, MUG, BLUE))
    for again in (call("modify", 1, LAMP, GREEN), call("cancel", 1, -1, 0)):
        assert accepts(store(), again) and not accepts(after, again)
    after = write(store(), call("return", 2, RUG))
    assert not accepts(after, call("exchange", 2, MUG, BLUE))


def test_the_order_of_writes_leaves_no_trace():
    first, second = call("modify", 1, MUG, BLUE), call("exchange", 2, RUG, RED)
    hashes = [hash_of(write(write(store(), a), b)) for a, b in ((first, second), (second, first))]
    np.testing.assert_array_equal(*hashes)
    others = [write(store(), first), write(store(), second), store()]
    others += [write(others[0], call("exchange", 2, RUG, BLUE))]
    others += [write(others[0], call("return", 2, RUG))]
    assert all((hash_of(other) != hashes[0]).any() for other in others)


def test_a_stranger_is_transferred():
    state = started(call("cancel", 1, -1, 1), code=5)
    assert said(state, "ask name", "find ana 5", "transfer")[1:] == (
        *(1.0, True), ["i am ana 5", "not found", "not found"],
    )  # fmt: skip
    assert said(state, "ask name", "find ana 5", "close")[1] == 0
    # A guessed code opens the customer's account; what is written there is too much.
    guessed = ("ask name", "find ana 4", "ask wish", "cancel #1 unneeded", "go", "transfer")
    _, reward, _, heard = said(state, *guessed)
    assert heard[-2] == "done" and reward == 0


def test_the_desk_sees_what_it_was_told_alone():
    env, params, _, step = functions()
    state = started(call("cancel", 1, -1, 1), call("return", 2, RUG), asks=(True, True))
    for command in ("ask name", "find ana 4", "order #2", "product rug"):
        _, state, *_ = step(state, env.action_names.index(command))
    table = store()
    price = PRICES.copy()
    price[MUG, GREEN] = 9
    other = state.replace(
        store=table.replace(status=np.array([2, 1, 1, 0, 1, 0], np.uint8), price=price),
        task=state.task.replace(
            wishes=jax.tree.map(lambda x: x[::-1], state.task.wishes), asks=np.zeros(2, bool)
        ),
    )
    observe = playing.method(env, "observe")
    np.testing.assert_array_equal(observe(state, params), observe(other, params))
    assert tell(state) == tell(other)
    _, state, *_ = step(state, env.action_names.index("ask wish"))
    _, other, *_ = step(other, env.action_names.index("ask wish"))
    assert (observe(state, params) != observe(other, params)).any()


@functools.cache
def player(**options):
    """Calls by the manual, with a share `noise` of other actions: (first and last state, actions,
    rewards, kinds)."""
    env, _ = envs.make("Retail-v1", **options)

    def play(key, params, noise):
        first_key, *keys = jax.random.split(key, 25)

        def step(state, key):
            which, action_key = jax.random.split(key)
            other = jnp.array([env.action_names.index(name) for name in ("go", "deny", "close")])
            other = jax.random.choice(action_key, other)
            right, draw = env.expert(state, params), jax.random.uniform(which)
            # The action behind the right one: another variant, reason, order or number.
            action = jnp.where(draw < noise / 2, (right + 1) % env.num_actions, right)
            action = jnp.where(draw > 1 - noise / 2, other, action)
            out = env.step_env(key, state, action, params)
            return out[1], (jnp.where(state.end == 0, action, -1), out[2])

        first = env.initial(first_key, params)
        last, (actions, rewards) = jax.lax.scan(step, first, jnp.stack(keys))
        return first, last, actions, rewards.sum(), env.kind_of(first, params)

    return fetched(jax.vmap(play, (0, None, None)))


SMALL = {"users": 2, "orders": 3, "items": 1, "products": 6, "variants": 4}


@pytest.mark.parametrize("options", [{}, SMALL])
def test_the_manual_solves_every_task(options):
    _, params = envs.make("Retail-v1", **options)
    keys = jax.random.split(KEY, 512)
    for changes in ({}, {"second": 1.0, "refusal": 1.0, "stranger": 0.0}):
        first, last, _, reward, kind = player(**options)(keys, params.replace(**changes), 0.0)
        assert (reward == 1).all() and last.time.max() <= 18
        number = np.bincount(kind, minlength=4)
        # A wish that should be refused may be right after all, where another needs what it lacks.
        assert (number > 20).all() if not changes else number[2] > 480
        needed = (first.task.outputs >= 0).sum(axis=1)
        assert set(needed) == {0, 1, 2} or changes
        lawful = first.task.right.sum(axis=1) > 0
        np.testing.assert_array_equal(lawful, kind != 3)


class Desk:
    """The call in plain Python."""

    def __init__(self, env, state):
        self.words, self.task = env.ranges, state.task
        table = jax.tree.map(lambda x: x.tolist(), state.store)
        self.code, self.price, self.stock = table.code, table.price, table.stock
        self.orders = [
            {
                "owner": table.owner[n], "status": rules.STATUSES[table.status[n]], "why": 0,
                "items": [list(x) for x in zip(table.product[n], table.variant[n],
                                               table.sale[n], [0] * env.items, strict=True)],
            }
            for n in range(len(table.owner))
        ]  # fmt: skip
        self.wish, self.known, self.settled, self.user, self.pending = 0, False, False, None, None
        self.told, self.ended, self.handed = set(), False, False

    def wishes(self):
        for i in range(int(self.task.count)):
            yield tuple(int(x[i]) for x in jax.tree.leaves(self.task.wishes))

    def does(self, tool, n, product, detail, orders):
        """Carries out a write on orders if their status and stock admit it."""
        order = orders[n]
        item = next((x for x in order["items"] if x[0] == product), None)
        needs, gives = {
            "cancel": ("pending", "cancelled"), "modify": ("pending", "modified"),
            "exchange": ("delivered", "exchanging"), "return": ("delivered", "returning"),
        }[tool]  # fmt: skip
        fits = order["status"] == needs and (tool == "cancel" or item is not None)
        if tool in ("modify", "exchange"):
            fits = fits and item[1] != detail and self.stock[product][detail]
        if tool == "cancel":
            fits = fits and detail < 2
        if not fits:
            return False
        order["status"] = gives
        if tool == "cancel":
            order["why"] = 1 + detail
        elif tool == "modify":
            item[1] = detail
        else:
            item[3] = 1 if tool == "return" else 2 + detail
        return True

    def act(self, command):
        form, *rest = command.split()
        wish = list(self.wishes())[self.wish]
        if command == "ask wish":
            if self.settled and self.wish + 1 < int(self.task.count):
                self.wish, self.settled, self.pending = self.wish + 1, False, None
            self.known = True
        elif form == "find":
            user = rules.NAMES.index(rest[0])
            self.user = user if self.code[user] == int(rest[1]) else None
        elif form in rules.WRITES:
            n = int(rest[0][1:]) - 1
            product = -1 if form == "cancel" else rules.PRODUCTS.index(rest[1])
            options = rules.REASONS if form == "cancel" else rules.VARIANTS
            detail = 0 if form == "return" else options.index(rest[-1])
            agreed = (rules.WRITES.index(form), n, product) == wish[:3]
            agreed = agreed and self.known and not self.settled
            self.pending = (form, n, product, detail) if agreed else None
        elif form == "go" and self.pending and self.user is not None:
            if self.does(*self.pending, self.orders):
                self.settled, self.pending = True, None
        elif form == "tell":
            self.told.add(int(rest[0]))
        elif form == "deny" and self.known and not self.settled:
            self.settled, self.pending = True, None
        self.handed |= form == "transfer"
        self.ended |= form in ("transfer", "close")

    def paid(self, start):
        """The reward, from the orders at the start."""
        caller, needed = int(self.task.caller), set()
        strange = self.code[caller] != int(self.task.code)
        for i, (tool, n, product, detail) in enumerate(self.wishes()):
            order, name = start[n], rules.WRITES[tool]
            sold = any(x[0] == product and x[2] for x in order["items"])
            costs = [self.price[x[0]][x[1]] for x in order["items"] if product in (-1, x[0])]
            if strange or order["owner"] != caller or (tool > 1 and sold):
                continue
            if self.does(name, n, product, detail, start) and self.task.asks[i]:
                needed.add(self.price[product][detail] if tool in (1, 2) else sum(costs))
        same = self.orders == start and self.handed == strange
        return float(self.ended and same and needed <= self.told)


@pytest.mark.parametrize("options", [{}, SMALL])
def test_calls_pay_what_a_loop_in_plain_python_says(options):
    env, params = envs.make("Retail-v1", **options)
    keys, paid = jax.random.split(jax.random.key(1), 512), []
    params = params.replace(second=0.8)
    first, _, actions, rewards, _ = player(**options)(keys, params, 0.15)
    for i in range(96):
        state = jax.tree.map(lambda x, i=i: x[i], first)
        desk, start = Desk(env, state), Desk(env, state).orders
        for action in actions[i][actions[i] >= 0]:
            desk.act(env.action_names[action])
        paid.append(desk.paid(start))
    np.testing.assert_array_equal(paid, rewards[:96])
    assert 0.2 < np.mean(paid) < 0.95
