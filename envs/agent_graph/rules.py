"""Graphs of agents: which are valid, what they answer to a task of sums, how dense they are.

Agent a is given some nodes of a task (`envs.mod_sum.rules`), calculates them in their order, and
hands the values to whoever reads it. The one agent that nobody reads, the sink, answers the
question: the sum of all nodes that no other node depends on, modulo p.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.mod_sum.rules import REFLECT, VERIFY, VOTE, Graph, Workers, operation, shares, values

# What `valid` finds, the first that holds.
REASONS = (
    "valid",
    "nobody",  # no agent
    "undeclared",  # an edge to or from an agent that is not there
    "self loop",
    "no such node",  # an agent that is not there has a node, or the node is not the task's
    "node twice",  # two agents have the same node
    "same layer",  # an agent reads one that is not in an earlier layer
    "no edges",  # several agents, none of which reads another
    "sinks",  # not exactly one agent that nobody reads, or no agent that reads nobody
    "unreachable",  # an agent that no source leads to, or that does not lead to the sink
    "cycle",
)
OK = REASONS.index("valid")


class Team(NamedTuple):
    """A graph of up to A agents.

    active: bool[A], the agent is there. kind: i32[A], see `envs.mod_sum.rules.KINDS`. assign:
    bool[A, H], it calculates the node. reads: bool[A, A], agent (row) is handed what the other
    (column) calculates. layer: i32[A], or None: the graph has no layers.
    """

    active: jax.Array
    kind: jax.Array
    assign: jax.Array
    reads: jax.Array
    layer: jax.Array | None = None


def _reached(begin: jax.Array, leads: jax.Array) -> jax.Array:
    """Agents that paths from `begin` bool[A] lead to, themselves included; leads: bool[A, A]."""
    reached = begin
    for _ in range(begin.shape[0] - 1):
        reached = reached | jnp.any(leads & reached[:, None], axis=0)
    return reached


def _cyclic(active: jax.Array, reads: jax.Array) -> jax.Array:
    """Whether agents are left after A rounds in which those who read nobody left are removed."""
    left = active
    for _ in range(active.shape[0]):
        left = left & jnp.any(reads & left[None], axis=1)
    return jnp.any(left)


def valid(team: Team, count: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """(valid bool[], index of the reason in `REASONS` i32[]) of a team.

    count: number of nodes that the task has; by default the nodes are not looked at.

    Source: the parser of MAS-Orchestra (code read): at least one agent, declared ends of edges,
    exactly one sink, every agent on a path from a source to it, no cycle; several agents without
    an edge are invalid, one alone is valid. There an agent that cannot be read is left out in
    silence; here nothing is.
    """
    active, reads = team.active, team.reads
    exists = active[:, None] & active[None]
    alone = reads & ~np.eye(active.shape[0], dtype=bool)
    source, sink = active & ~jnp.any(alone, axis=1), active & ~jnp.any(alone, axis=0)
    on_path = _reached(source, alone.T) & _reached(sink, alone)
    no = jnp.zeros((), bool)
    stray, twice, level = no, no, no
    if count is not None:
        there = np.arange(team.assign.shape[1]) < count
        stray = jnp.any(team.assign & ~(there & active[:, None]))
        twice = jnp.any(jnp.sum(team.assign, axis=0) > 1)
    if team.layer is not None:
        level = jnp.any(reads & (team.layer[:, None] <= team.layer[None]))
    found = {
        "nobody": ~jnp.any(active),
        "undeclared": jnp.any(reads & ~exists),
        "self loop": jnp.any(jnp.diagonal(reads)),
        "no such node": stray,
        "node twice": twice,
        "same layer": level,
        "no edges": (jnp.sum(active) > 1) & ~jnp.any(reads),
        "sinks": (jnp.sum(sink) != 1) | ~jnp.any(source),
        "unreachable": jnp.any(active & ~on_path),
        "cycle": _cyclic(active, reads),
    }
    number = [REASONS.index(name) for name in found]
    reason = jnp.select(list(found.values()), number, OK).astype(jnp.int32)
    return reason == OK, reason


def finals(task: Graph) -> jax.Array:
    """The nodes that the question adds up, bool[H]: those that no other depends on."""
    return ~jnp.any(task.edges, axis=1) & (np.arange(task.edges.shape[0]) < task.count)


def answer_of(task: Graph, modulus: int) -> jax.Array:
    """The right answer, i32[]."""
    return jnp.sum(jnp.where(finals(task), values(task, modulus), 0)) % modulus


def _sink(team: Team) -> jax.Array:
    return team.active & ~jnp.any(team.reads, axis=0)


def _providers(team: Team) -> jax.Array:
    """bool[A, A, H]: the agent (first) takes the node from the other: the first of those that it
    reads that has it, unless it has it itself."""
    offers = team.reads[:, :, None] & team.assign[None] & ~team.assign[:, None]
    return offers & (jnp.cumsum(offers, axis=1) == 1)


def uses(task: Graph, team: Team) -> tuple[jax.Array, jax.Array]:
    """(uses i32[A, H], handed bool[A, A]) of a valid team.

    uses: how often the value that an agent holds for a node counts in the answer, along all paths.
    handed: the agent (row) uses a value of the other.
    """
    source = _providers(team)
    count = jnp.where(_sink(team)[:, None] & finals(task), 1, 0)
    for i in reversed(range(task.edges.shape[0])):
        count = count.at[:, i].add(
            jnp.sum(jnp.where(source[:, :, i], count[:, None, i], 0), axis=0)
        )
        own = jnp.where(team.assign[:, i], count[:, i], 0)
        count = count + own[:, None] * task.edges[:, i]
    return count, jnp.any(source & (count > 0)[:, None], axis=2)


def operations(team: Team, workers: Workers) -> jax.Array:
    """Probability that an agent calculates a node rightly, f32[A, H]; meaningless for others'."""
    tired = jnp.cumsum(team.assign, axis=1) > workers.cap
    right = workers.right * jnp.where(tired, workers.tired, 1.0)
    return operation(team.kind[:, None], right, workers)


def accuracy(
    task: Graph, team: Team, workers: Workers, modulus: int
) -> tuple[jax.Array, jax.Array]:
    """(chance of no mistake in what the answer needs, chance of the right answer) of a valid team.

    A mistake adds a uniform residue other than 0, and a value that is unknown or lost is guessed;
    both go on as often as the answer uses the value. So P(right) = 1/p + (1 - 1/p) Q with Q a
    product, over the values that are used, of s - (1 - s) / (p - 1), and of the chances of the
    hand-overs: Q is the accuracy above chance. Tampered constants that shift the answer make it
    (1 - Q) / p. p is a prime.
    """  # fmt: skip
    used, handed = uses(task, team)
    chance = operations(team, workers)
    known = team.assign | jnp.any(_providers(team), axis=1)
    own = team.assign
    doubtful = own & (team.kind[:, None] != VERIFY)
    shift = jnp.sum(jnp.where(doubtful, used * (task.shown - task.constants), 0)) % modulus
    counts = used % modulus != 0
    hands = jnp.any(_providers(team) & counts[:, None], axis=2)

    def product(factor, over, lost):
        found = jnp.prod(jnp.where(own & over, factor, 1.0)) * workers.handed ** jnp.sum(lost)
        return jnp.where(jnp.any(over & ~known), 0.0, found)

    wrong = doubtful & (task.shown != task.constants) & (used > 0)
    clean = jnp.where(jnp.any(wrong), 0.0, product(chance, used > 0, handed))
    beyond = product(chance - (1.0 - chance) / (modulus - 1), counts, hands)
    right = jnp.where(shift == 0, 1.0 + (modulus - 1) * beyond, 1.0 - beyond) / modulus
    return clean, right


def execute(
    key: jax.Array, task: Graph, team: Team, workers: Workers, modulus: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A valid team at work: (answer i32[], no mistake in what it needs bool[], held i32[A, H]).

    held: the value that each agent has for each node, calculated, handed over or guessed.
    """
    agents, size = team.assign.shape
    drawn = jax.random.uniform(key, (3 * agents * size + agents * agents,))
    chance, error, luck = drawn[: 3 * agents * size].reshape(3, agents, size)
    right = chance < operations(team, workers)
    wrong = 1 + (error * (modulus - 1)).astype(jnp.int32)
    guess = (luck * modulus).astype(jnp.int32)
    kept = drawn[3 * agents * size :].reshape(agents, agents) < workers.handed
    source = _providers(team)
    told = jnp.where((team.kind == VERIFY)[:, None], task.constants, task.shown)
    held = jnp.zeros((agents, size), jnp.int32)
    for j in range(size):
        total = told[:, j] + jnp.sum(jnp.where(task.edges[:, j], held, 0), axis=1)
        own = (total + jnp.where(right[:, j], 0, wrong[:, j])) % modulus
        given = source[:, :, j] & kept
        handed = jnp.sum(jnp.where(given, own[None], 0), axis=1)
        other = jnp.where(jnp.any(given, axis=1), handed, guess[:, j])
        held = held.at[:, j].set(jnp.where(team.assign[:, j], own, other))
    answer = jnp.sum(jnp.where(_sink(team)[:, None] & finals(task), held, 0)) % modulus
    used, handed = uses(task, team)
    needed, own = used > 0, team.assign
    known = own | jnp.any(source, axis=1)
    mistake = needed & own & (~right | (told != task.constants))
    flawless = ~jnp.any(mistake | (needed & ~known)) & ~jnp.any(handed & ~kept)
    return answer, flawless, held


def cost(team: Team, workers: Workers, reading: jax.Array | float = 0.0) -> jax.Array:
    """What a team costs, f32[]: calls and operations as in `envs.mod_sum.rules.chances`, and
    `reading` per edge."""
    tired = jnp.cumsum(team.assign, axis=1) > workers.cap
    right = workers.right * jnp.where(tired, workers.tired, 1.0)
    complaint = right * (1 - workers.checker) + (1 - right) * workers.checker
    kind = team.kind[:, None]
    times = jnp.select([kind == VOTE, kind == REFLECT], [3.0, 1.0 + complaint], 1.0)
    calls = jnp.select([team.kind == VOTE, team.kind == VERIFY], [3.0, 2.0], 1.0)
    spent = workers.operation * jnp.sum(jnp.where(team.assign, times, 0.0))
    called = workers.call * jnp.sum(jnp.where(team.active, calls, 0.0))
    return called + spent + reading * jnp.sum(team.reads)


def depth(team: Team) -> jax.Array:
    """Agents on the longest chain of a valid team, i32[]: its layers, if each is as early as it
    can be."""
    level = jnp.where(team.active, 1, 0)
    for _ in range(team.active.shape[0] - 1):
        level = jnp.maximum(level, 1 + jnp.max(jnp.where(team.reads, level[None], 0), axis=1))
        level = jnp.where(team.active, level, 0)
    return jnp.max(level)


def equal_runs(
    task: Graph, agents: jax.Array, places: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(share i32[A], reads bool[A, A], layer i32[A]) of so many agents in A `places`: equal runs of
    the task's nodes, and the edges that their values need; a later agent is in no earlier layer."""
    place, node = np.arange(places), np.arange(task.edges.shape[0])
    owner, _ = shares(task.count, agents, len(node))
    own = (owner == place[:, None]) & (node < task.count)
    needs = own.astype(jnp.int32) @ task.edges.T.astype(jnp.int32) > 0
    needs = needs | ((place[:, None] == agents - 1) & finals(task))
    reads = needs.astype(jnp.int32) @ own.T.astype(jnp.int32) > 0
    there = place < agents
    reads = reads & ~np.eye(places, dtype=bool) & there[:, None]
    layer = jnp.zeros(places, jnp.int32)
    for a in range(1, places):
        after = jnp.max(jnp.where(reads[a], layer + 1, 0))
        layer = layer.at[a].set(jnp.maximum(layer[a - 1], after))
    return jnp.sum(own, axis=1), reads, jnp.where(there, layer, 0)


def density(
    agents: jax.Array,
    edges: jax.Array,
    layers: jax.Array,
    most: int,
    weights: tuple[float, float, float] = (1.0, 1.0, 0.5),
) -> jax.Array:
    """Density of a team's communication, f32[], 0 to 1.

    The weighted mean of agents / most, of edges among the possible ones, and of parallelism, 1 for
    one layer and 0 for a chain. AgentConductor's own function could not be found; this one is ours.
    """
    n, pairs = agents / most, agents * (agents - 1) / 2
    e = edges / jnp.maximum(pairs, 1)
    d = 1.0 - (layers - 1) / jnp.maximum(agents - 1, 1)
    a, b, c = weights
    return (a * n + b * e + c * d) / (a + b + c)
