"""Sums over a graph of dependencies, and teams of unreliable workers who calculate them.

A task has n nodes; node j's value is its constant plus the values of the nodes that it depends on,
modulo p. A team divides the nodes, in order, among its workers; a value that another worker needs
is handed over.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

KINDS = ("solo", "vote", "reflect", "verify")
SOLO, VOTE, REFLECT, VERIFY = range(4)


class Graph(NamedTuple):
    """A task of at most H nodes, of which the first `count` exist.

    edges: bool[H, H], node j depends on node i < j. constants: i32[H], in [0, p). shown: i32[H],
    what the workers are told of them; tampered ones differ.
    """

    edges: jax.Array
    constants: jax.Array
    shown: jax.Array
    count: jax.Array


class Workers(NamedTuple):
    """Reliability and cost of workers.

    right: probability of a correct operation among the first `cap` of a worker, afterwards times
    `tired`. handed: probability that a value survives being handed over. checker: probability that
    the checker of "reflect" is right about an operation. call, operation: costs.
    """

    right: float = 0.98
    tired: float = 0.8
    cap: int = 4
    handed: float = 0.99
    checker: float = 0.9
    call: float = 1.0
    operation: float = 0.1


def shares(count: jax.Array, parts: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """(part of each of `size` places, its place within the part) i32[size], in equal runs.

    The first count mod parts runs are one longer. Places from `count` on are meaningless.
    """
    place = jnp.arange(size)
    short, more = count // parts, count % parts
    border = more * (short + 1)
    late = place - border
    short = jnp.maximum(short, 1)
    early = place // (count // parts + 1), place % (count // parts + 1)
    return (
        jnp.where(late < 0, early[0], more + late // short),
        jnp.where(late < 0, early[1], late % short),
    )


def check_tasks(
    nodes: tuple[int, int],
    parts: tuple[int, int],
    tampered: tuple[int, int],
    *,
    breadth: int,
    chained: float,
) -> None:
    """ValueError for options of which no tasks can be drawn; see `drawn`."""
    given = {"nodes": (nodes, 1), "parts": (parts, 1), "tampered": (tampered, 0)}
    for name, ((low, high), least) in given.items():
        if not least <= low <= high <= 16:
            raise ValueError(f"{name} {(low, high)}: expected (fewest, most) of {least} to 16")
    if parts[1] > nodes[0] or tampered[1] > nodes[0]:
        raise ValueError(
            f"nodes {nodes} with parts {parts}, tampered {tampered}: expected no more of either "
            "than the fewest nodes"
        )
    if breadth < 1 or not 0 <= chained <= 1:
        raise ValueError(
            f"breadth {breadth}, chained {chained}: expected at least 1, and a probability"
        )


def drawn(
    key: jax.Array,
    nodes: tuple[int, int],
    parts: tuple[int, int],
    tampered: tuple[int, int],
    *,
    breadth: int,
    chained: float,
    modulus: int,
) -> Graph:
    """A task whose numbers of nodes, parts and tampered constants are uniform between (fewest,
    most); the rest as in `draw`."""
    *keys, key = jax.random.split(key, 4)
    counts = (
        jax.random.randint(k, (), low, high + 1)
        for k, (low, high) in zip(keys, (nodes, parts, tampered), strict=True)
    )
    return draw(key, *counts, size=nodes[1], breadth=breadth, chained=chained, modulus=modulus)


def draw(
    key: jax.Array,
    count: jax.Array,
    parts: jax.Array,
    tampered: jax.Array,
    *,
    size: int,
    breadth: int,
    chained: float,
    modulus: int,
) -> Graph:
    """A random task: `parts` graphs without edges in between, nodes of at most `breadth` parents.

    The first node of a part has no parents; each later one has 1 to `breadth`, as far as there are
    nodes before it, among them the one just before it with probability `chained`.
    """  # fmt: skip
    keys = jax.random.split(key, 5)
    part, _ = shares(count, parts, size)
    before = (part[:, None] == part[None]) & (np.arange(size)[:, None] < np.arange(size)[None])
    score = jax.random.uniform(keys[0], (size, size))
    last = np.arange(size)[:, None] == np.arange(size)[None] - 1
    score = score + (last & (jax.random.uniform(keys[1], (size,)) < chained))
    score = jnp.where(before, score, -1.0)
    rank = jnp.sum(score[None] > score[:, None], axis=1)
    wanted = jax.random.randint(keys[2], (size,), 1, breadth + 1)
    exists = jnp.arange(size) < count
    edges = before & (rank < wanted) & exists[None] & exists[:, None]
    constants = jax.random.randint(keys[3], (size,), 0, modulus)
    order = jnp.argsort(jnp.where(exists, jax.random.uniform(keys[4], (size,)), 2.0))
    wrong = jnp.zeros(size, bool).at[order].set(jnp.arange(size) < tampered) & exists
    return Graph(edges, constants, jnp.where(wrong, (constants + 1) % modulus, constants), count)


def values(graph: Graph, modulus: int) -> jax.Array:
    """The value of every node, i32[H]."""

    def add(value, j):
        total = graph.constants[j] + jnp.sum(jnp.where(graph.edges[:, j], value, 0))
        return value.at[j].set(total % modulus), None

    size = graph.constants.shape[0]
    return jax.lax.scan(add, jnp.zeros(size, jnp.int32), jnp.arange(size))[0]


def axes(graph: Graph) -> dict[str, jax.Array]:
    """The five axes of a task, i32[]: depth, horizon, breadth, parallel, robustness."""
    size = graph.constants.shape[0]
    exists = jnp.arange(size) < graph.count

    def longest(chain, j):
        return chain.at[j].set(1 + jnp.max(jnp.where(graph.edges[:, j], chain, 0))), None

    chain = jax.lax.scan(longest, jnp.zeros(size, jnp.int32), jnp.arange(size))[0]
    linked = graph.edges | graph.edges.T | np.eye(size, dtype=bool)
    for _ in range((size - 1).bit_length()):
        linked = (linked.astype(jnp.int32) @ linked.astype(jnp.int32)) > 0
    first = jnp.argmax(linked, axis=1) == jnp.arange(size)
    return {
        "depth": jnp.max(jnp.where(exists, chain, 0)),
        "horizon": graph.count,
        "breadth": jnp.max(jnp.sum(graph.edges, axis=0)),
        "parallel": jnp.sum(first & exists),
        "robustness": jnp.sum((graph.shown != graph.constants) & exists),
    }


def operation(kind: jax.Array, right: jax.Array, workers: Workers) -> jax.Array:
    """Probability that an operation of a kind of worker is right."""
    q = workers.checker
    vote = right**3 + 3 * right**2 * (1 - right)
    # A complaint leads to one more attempt, justified or not.
    reflect = right * q + right * (1 - q) * right + (1 - right) * q * right
    return jnp.select([kind == VOTE, kind == REFLECT], [vote, reflect], right)


def chances(
    graph: Graph, team: jax.Array, kind: jax.Array, workers: Workers
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(chance of each node's operation f32[H], 1 for none; handed-over values i32[]; cost f32[]).

    A tampered constant has no chance, unless the workers verify.
    """
    size = graph.constants.shape[0]
    exists = jnp.arange(size) < graph.count
    owner, number = shares(graph.count, team, size)
    right = workers.right * jnp.where(number < workers.cap, 1.0, workers.tired)
    chance = operation(kind, right, workers)
    told = (graph.shown == graph.constants) | (kind == VERIFY)
    chance = jnp.where(exists, jnp.where(told, chance, 0.0), 1.0)
    member = (owner[:, None] == np.arange(size)) & exists[:, None]
    needs = member.T.astype(jnp.int32) @ graph.edges.astype(jnp.int32) @ member.astype(jnp.int32)
    handed = jnp.sum((needs > 0) & ~np.eye(size, dtype=bool))
    complaint = right * (1 - workers.checker) + (1 - right) * workers.checker
    times = jnp.select([kind == VOTE, kind == REFLECT], [3.0, 1.0 + complaint], 1.0)
    calls = team * jnp.select([kind == VOTE, kind == VERIFY], [3.0, 2.0], 1.0)
    spent = workers.operation * jnp.sum(jnp.where(exists, times, 0.0))
    return chance, handed, workers.call * calls + spent


def accuracy(graph: Graph, team: jax.Array, kind: jax.Array, workers: Workers) -> jax.Array:
    """Probability that a team makes no mistake, f32[]."""
    chance, handed, _ = chances(graph, team, kind, workers)
    return jnp.prod(chance) * workers.handed**handed
