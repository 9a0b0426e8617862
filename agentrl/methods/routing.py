"""Routing: which of several frozen workers has each task, by outcomes that arrive later (Symphony).

Letters: G tasks of a collection, W workers, K kinds of tasks, D updates of delay, d features.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods import linucb
from agentrl.methods.by_turn import solved
from agentrl.methods.curriculum import tasks_by_number

if TYPE_CHECKING:
    from envs.dispatch.env import Dispatch, DispatchParams, Offers

Described = Literal["features", "pairs"]
RULES = ("linucb", "random", "oracle", "fixed:WORKER")


class Tickets(struct.PyTreeNode):
    """Tasks that were given away. x: f32[..., d], the context of the chosen worker. worker, kind:
    i32[...]. outcome: f32[...], success of the group. real: bool[...], False: an empty place."""

    x: jax.Array
    worker: jax.Array
    kind: jax.Array
    outcome: jax.Array
    real: jax.Array


class Routing(struct.PyTreeNode):
    """statistics: see `linucb.LinUCB`. reputation: f32[W, K], running mean of the outcomes that
    arrived, 0.5 before the first. open: [D, G], tickets, the oldest first. collections: i32[]."""

    statistics: linucb.LinUCB
    reputation: jax.Array
    open: Tickets
    collections: jax.Array


def assigned_tasks(
    key: jax.Array, count: int, given: Mapping[str, chex.ArrayTree]
) -> tuple[jax.Array, chex.ArrayTree]:
    """A task sampler: given["number"] i32[count], each with its own given["params"] [count, ...] of
    the environment, which say who has it. For `router`."""
    keys, _ = tasks_by_number(key, count, given["number"])
    return keys, given["params"]


def arrived(
    value: Routing, new: Tickets, *, keep: float, regularization: float, decay: float
) -> tuple[Routing, Tickets]:
    """(value, the tickets [G] that arrive now): those given away D updates ago.

    Each ticket is counted once. Of one worker's and kind's, reputation moves to their mean, and
    keeps `decay` of what it was.
    """
    line = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), value.open, new)
    now = jax.tree.map(lambda x: x[0], line)
    statistics = linucb.updated(
        value.statistics, now.x, now.outcome, now.real, keep=keep, regularization=regularization
    )
    count = jnp.zeros(value.reputation.shape).at[now.worker, now.kind].add(now.real)
    total = jnp.zeros_like(count).at[now.worker, now.kind].add(now.real * now.outcome)
    moved = decay * value.reputation + (1 - decay) * total / jnp.maximum(count, 1)
    reputation = jnp.where(count > 0, moved, value.reputation)
    rest = jax.tree.map(lambda x: x[1:], line)
    return Routing(statistics, reputation, rest, value.collections + 1), now


class Hooks(NamedTuple):
    """The hooks of `router`, with what they are made of. only: the worker of "fixed:WORKER", else
    None. groups: G. bonus: options of `linucb.upper_bounds`."""

    env: "Dispatch"
    env_params: "DispatchParams"
    groups: int
    workers: int
    rule: str
    only: int | None
    contexts: Described
    candidates: int
    bonus: Mapping[str, float]
    delay: int
    keep: float
    decay: float

    @property
    def features(self) -> int:
        """d, numbers that describe a worker for a task."""
        if self.contexts == "pairs":
            return self.workers * len(self.env.kinds)
        return len(linucb.FEATURES)

    def context(self, value: Routing, offers: "Offers", kind: jax.Array) -> jax.Array:
        """The context of each worker for one task, f32[W, d]."""
        if self.contexts == "pairs":
            number = jnp.arange(self.workers) * len(self.env.kinds) + kind
            return jax.nn.one_hot(number, self.features)
        waiting = jnp.zeros(self.workers).at[value.open.worker].add(value.open.real)
        load = waiting / jnp.maximum(jnp.sum(waiting), 1)
        reputation = value.reputation[:, kind]
        return linucb.context(offers.match, load, offers.latency, reputation, offers.available)

    def scores(self, value: Routing, x: jax.Array, chances: jax.Array, key: jax.Array) -> jax.Array:
        """What the rule thinks of each worker, f32[W]."""
        if self.rule == "linucb":
            return linucb.upper_bounds(value.statistics, x, **self.bonus)
        if self.rule == "random":
            return jax.random.uniform(key, (self.workers,))
        return chances if self.only is None else (jnp.arange(self.workers) == self.only) * 1.0

    def assigned(self, value: Routing, number: jax.Array, key: jax.Array) -> dict[str, jax.Array]:
        """One task, given away: x, worker, kind, and the chances of all workers."""
        params = self.env_params.replace(now=value.collections)
        keys, _ = tasks_by_number(key, 1, number[None])
        _, state = self.env.reset(keys[0], params)
        kind, offers = self.env.kind_of(state, params), self.env.offers(state, params)
        x, chances = self.context(value, offers, kind), self.env.chances(state, params)
        among = self.candidates if self.rule == "linucb" else self.workers
        scores = self.scores(value, x, chances, key)
        worker = linucb.route(scores, offers.match, offers.available, candidates=among)
        return {"x": x[worker], "worker": worker, "kind": kind, "chances": chances}

    def init(self, start: InitInputs) -> Routing:
        """Estimates of all workers before any outcome, and no tickets on their way."""
        del start
        regularization, places = self.bonus["regularization"], (self.delay, self.groups)
        none, x = jnp.zeros(places, jnp.int32), jnp.zeros((*places, self.features))
        return Routing(
            linucb.empty(self.features, regularization=regularization),
            jnp.full((self.workers, len(self.env.kinds)), 0.5, jnp.float32),
            Tickets(x, none, none, x[..., 0], none > 0),
            jnp.zeros((), jnp.int32),
        )

    def before(self, value: Routing, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The next tasks, each given to a worker."""
        del params
        groups = self.groups
        number_key, key = jax.random.split(key)
        number = jax.random.randint(number_key, (groups,), 0, jnp.iinfo(jnp.int32).max)
        keys = jax.random.split(key, groups)
        routed = jax.vmap(self.assigned, in_axes=(None, 0, 0))(value, number, keys)
        own = self.env_params.replace(worker=routed["worker"], now=value.collections)
        own = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (groups,)), own)
        return Inputs({"tasks": {"number": number, "params": own}, "routed": routed})

    def after(self, value: Routing, outcome: UpdateResult) -> tuple[Routing, dict[str, jax.Array]]:
        """The value with these tickets, and with the outcomes that arrive."""
        routed, streams = outcome.inputs["routed"], outcome.streams
        acted = jnp.any(streams.mask, axis=1)
        count, good = (
            jax.ops.segment_sum(x * 1.0, streams.group, num_segments=self.groups)
            for x in (acted, solved(streams))
        )
        success = good / jnp.maximum(count, 1)
        new = Tickets(routed["x"], routed["worker"], routed["kind"], success, count > 0)
        value, now = arrived(
            value, new,
            keep=self.keep, regularization=self.bonus["regularization"], decay=self.decay,
        )  # fmt: skip
        return value, _metrics(value, now, new, routed["chances"])


def _chosen_by(rule: str, workers: int) -> int | None:
    """The worker of "fixed:WORKER", None of another rule."""
    kind, colon, number = rule.partition(":")
    if kind == "fixed" and number.isdecimal() and int(number) < workers:
        return int(number)
    if colon or rule not in RULES:
        raise ValueError(
            f"config.components.router.rule={rule!r}: expected one of {', '.join(RULES)}, WORKER "
            f"below {workers}"
        )
    return None


def _check_numbers(**given: tuple) -> None:
    """ValueError for an option of `router` outside its range: (value, least, most)."""
    above = ("delta", "keep", "regularization")
    for name, (value, *limits) in given.items():
        path = f"config.components.router.{name}"
        check_range(path, value, *limits, above=name in above, below=name == "decay")


def router(
    setup: Setup,
    *,
    rule: str = "linucb",
    contexts: Described = "features",
    delay: int = 4,
    keep: float = 1.0,
    alpha: float = 1.0,
    delta: float = 0.05,
    bound: float = 1.0,
    regularization: float = 1.0,
    candidates: int = 3,
    decay: float = 0.9,
) -> Component:
    """Supplies the rollout's input `tasks`: the task of each group, and the worker who has it.

    Before a collection G tasks are drawn; each goes to the worker whose upper confidence bound is
    the largest among the best-matching ones that are there. All of a collection are given away by
    the same statistics. The outcome is the group's mean success, and arrives `delay` updates later:
    until then context and worker wait as a ticket in the carried value, which is saved and resumed
    with all else.

    Features are Symphony's six, see `linucb.context`: what a worker declares, its share of the open
    tickets as load, its latency, the running mean of its outcomes with tasks of this kind as
    reputation, and whether it is there. One ridge regression is shared by all workers, so that two
    with equal features cannot be told apart; "pairs" has a feature for each worker and kind instead
    (which makes it one bandit per kind).

    The environment says `offers(state, params)` and `chances(state, params)`, has `kinds`, and its
    params have `worker` and `now`: see `Dispatch-v1`.

    Metrics (Opponents, buffers, tasks):
      router/regret: Regret of routing [share]; chance of the best worker that is there less that of
        the chosen one.
      router/best: Tasks with a best worker [share]; that went to a best one.
      router/outcome: Outcomes that arrived [share]; of successes, of earlier updates.
      router/open: Open tickets [tickets]; tasks whose outcome has not arrived.
      router/share/{worker}: Tasks of worker {worker} [share].

    Args:
      rule: "linucb"; to compare with: "random" (evenly, of those that are there), "fixed:2" (that
        worker; the best-matching one if it is away), "oracle" (the best chance, which no router
        knows).
      contexts: "features" or "pairs".
      delay: D, updates until an outcome counts; 0: before the next collection.
      keep: of earlier outcomes, per update; see `linucb.updated`.
      alpha, delta, bound, regularization: see `linucb.upper_bounds`.
      candidates: of "linucb", see `linucb.route`.
      decay: in [0, 1), of reputation, per update with outcomes.

    Raises:
      ValueError: an environment or a rollout that gives no tasks away, or an option outside its
        range.

    References:
      Symphony-Coord (2026), from one file of another code base; see `linucb.upper_bounds`. Read
      there: the features, their scaling, the two stages, the bound. Its reputation's own update is
      not in that file; the running mean, `keep`, "pairs" and the delay in updates are ours.
    """
    env, env_params = required(
        setup, "router", None, "offers", "chances", example="Dispatch-v1",
        one_agent=True, one_environment=True, in_graph=True, whole_episodes=True,
    )  # fmt: skip
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            "component 'router' gives tasks to workers, which this rollout does not take: set its "
            "task sampler to agentrl.methods.routing.assigned_tasks"
        )
    check_choice("config.components.router.contexts", contexts, get_args(Described))
    _check_numbers(
        delay=(delay, 0), candidates=(candidates, 1), alpha=(alpha, 0.0), bound=(bound, 0.0),
        regularization=(regularization, 0.0), delta=(delta, 0.0, 1.0), keep=(keep, 0.0, 1.0),
        decay=(decay, 0.0, 1.0),
    )  # fmt: skip
    groups = setup.rollout.units[0]
    _, first = env.reset(jax.random.key(0), env_params)
    workers = env.offers(first, env_params).match.shape[0]
    bonus = {"alpha": alpha, "delta": delta, "bound": bound, "regularization": regularization}
    only = _chosen_by(rule, workers)
    hooks = Hooks(
        env, env_params, groups, workers, rule, only, contexts, candidates, bonus, delay, keep,
        decay,
    )  # fmt: skip
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))


def _metrics(value: Routing, now: Tickets, new: Tickets, chances: jax.Array) -> dict:
    one = jnp.ones(())
    got = jnp.take_along_axis(chances, new.worker[:, None], axis=1)[:, 0]
    lost = jnp.max(chances, axis=1) - got
    share = jnp.mean(new.worker[:, None] == jnp.arange(chances.shape[1]), axis=0)
    metrics = {
        "router/regret": jnp.stack([jnp.mean(lost), one]),
        "router/best": jnp.stack([jnp.mean(lost <= 1e-6), one]),
        "router/outcome": jnp.stack([jnp.sum(now.outcome * now.real), jnp.sum(now.real) * 1.0]),
        "router/open": jnp.stack([jnp.sum(value.open.real) * 1.0, one]),
    }
    return metrics | {
        f"router/share/{worker}": jnp.stack([share[worker], one]) for worker in range(len(share))
    }
