"""Graphs of agents: validity against a parser in Python, teams at work against a closed form."""

import itertools

import jax
import numpy as np
import pytest
from programs import fetched

from envs.agent_graph import rules
from envs.agent_graph.rules import REASONS, Team
from envs.mod_sum.rules import KINDS, SOLO, Graph, Workers

P = 7
WORKERS = Workers(right=0.93, tired=0.7, cap=2, handed=0.95, checker=0.8)
EPISODES = 100_000
valid = fetched(rules.valid)
accuracy = fetched(rules.accuracy, static_argnums=3)


def team(edges, size=None, agents=None, assign=None, kind=None, layer=None):
    """A team from pairs (who hands on, who reads); all of `size` places are taken by default."""
    agents = size if agents is None else agents
    reads = np.zeros((size, size), bool)
    for source, reader in edges:
        reads[reader, source] = True
    owns = np.zeros((size, 6), bool) if assign is None else np.asarray(assign, bool)
    kinds = np.zeros(size, np.int32) if kind is None else np.asarray(kind, np.int32)
    layer = None if layer is None else np.asarray(layer, np.int32)
    return Team(np.arange(size) < agents, kinds, owns, reads, layer)


def reason(*args, count=None, **options):
    ok, number = valid(team(*args, **options), count)
    assert bool(ok) == (int(number) == rules.OK)
    return REASONS[int(number)]


def test_worked_examples():
    assert reason([(0, 2), (1, 2)], 3) == "valid"
    assert reason([(0, 1)], 3) == "sinks"
    # The only source and sink is C, yet nothing leads to the others.
    assert reason([(0, 1), (1, 0)], 3) == "unreachable"
    assert reason([(0, 1), (1, 2), (2, 1), (2, 3)], 4) == "cycle"
    assert reason([], 3) == "no edges" and reason([], 3, agents=1) == "valid"
    assert reason([], 3, agents=0) == "nobody"
    assert reason([(0, 2)], 3, agents=2) == "undeclared"
    assert reason([(0, 0)], 1) == "self loop"
    owns = np.zeros((2, 6), bool)
    owns[:, 0] = True
    assert reason([(0, 1)], 2, assign=owns, count=np.int32(3)) == "node twice"
    owns[0, 0], owns[0, 3] = False, True
    assert reason([(0, 1)], 2, assign=owns, count=np.int32(3)) == "no such node"
    assert reason([(0, 1)], 2, assign=owns, count=np.int32(4)) == "valid"
    assert reason([(0, 1)], 2, layer=[0, 1]) == "valid"
    assert reason([(0, 1)], 2, layer=[1, 1]) == "same layer"


def in_python(agents, edges):
    """Whether a graph is valid, by walking all of its paths."""
    following = {a: [r for s, r in edges if s == a] for a in range(agents)}
    sources = [a for a in range(agents) if all(r != a for _, r in edges)]
    sinks = [a for a in range(agents) if not following[a]]
    if agents == 0 or (agents > 1 and not edges) or len(sinks) != 1:
        return False
    paths, seen, ends = [[s] for s in sources], set(), set()
    while paths:
        path = paths.pop()
        if path[-1] in path[:-1]:
            return False
        seen.add(path[-1])
        if path[-1] in sinks:
            ends.update(path)
        paths += [[*path, r] for r in following[path[-1]]]
    return seen == ends == set(range(agents))


def test_validity_is_that_of_a_parser_in_python():
    """Every graph of up to three agents, and of four 500 at random."""
    check = fetched(jax.vmap(rules.valid))
    rng = np.random.default_rng(0)
    for agents in (1, 2, 3, 4):
        pairs = list(itertools.product(range(agents), repeat=2))
        codes = np.arange(2 ** len(pairs)) if agents < 4 else rng.integers(0, 2**16, 500)
        bits = (codes[:, None] >> np.arange(len(pairs))) & 1
        reads = bits.reshape(-1, agents, agents).astype(bool)
        empty = np.zeros((len(codes), agents, 1), bool)
        full = np.ones((len(codes), agents), bool)
        found, _ = check(Team(full, full.astype(np.int32), empty, reads))
        expected = [in_python(agents, [(s, r) for r, s in np.argwhere(m)]) for m in reads]
        np.testing.assert_array_equal(found, expected)


def graphs_of(agents):
    """Every valid graph of agents in topological order, as lists of edges."""
    pairs = list(itertools.combinations(range(agents), 2))
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = [pair for pair, there in zip(pairs, chosen, strict=True) if there]
        if in_python(agents, edges):
            yield edges


GRAPHS = [(agents, edges) for agents in range(1, 6) for edges in graphs_of(agents)]


def case(number):
    """(task, team) of a graph: six nodes, owners, kinds and tampered constants at random."""
    agents, edges = GRAPHS[number]
    rng = np.random.default_rng(number)
    links = np.triu(rng.random((6, 6)) < 0.4, 1)
    constants = rng.integers(0, P, 6).astype(np.int32)
    shown = np.where(rng.random(6) < 0.1, (constants + 1) % P, constants).astype(np.int32)
    # Owners tend to be those before their readers, so that most of what is needed is known.
    owner = np.sort(rng.integers(0, agents, 6))
    assign = np.arange(5)[:, None] == owner
    kind = rng.integers(0, len(KINDS), 5)
    built = team(edges, 5, agents=agents, assign=assign, kind=kind)
    return Graph(links, constants, shown, np.int32(6)), built


def by_hand(task, built):
    """Chance of the right answer: values as sums of what can be wrong with them, no adjoint."""
    agents = [a for a in range(5) if built.active[a]]
    sink = next(a for a in agents if not built.reads[:, a].any())
    owner = {i: a for a in agents for i in np.flatnonzero(built.assign[a])}

    def value(agent, node):
        """{what may be wrong: how often it counts} of the value that the agent has of the node."""
        if owner[node] == agent:
            terms = {("operation", agent, node): 1}
            parents = [value(agent, i) for i in range(node) if task.edges[i, node]]
        elif built.reads[agent, owner[node]]:
            terms = {("handed", agent, owner[node], node): 1}
            parents = [value(owner[node], node)]
        else:
            return {("unknown", agent, node): 1}
        for term, times in (item for parent in parents for item in parent.items()):
            terms[term] = terms.get(term, 0) + times
        return terms

    total = {}
    for node in range(6):
        if not task.edges[node].any():
            for term, times in value(sink, node).items():
                total[term] = total.get(term, 0) + times
    counts = {term: times for term, times in total.items() if times % P}
    above, shift = 1.0, 0
    for what, agent, *where in counts:
        if what == "operation":
            place = int(built.assign[agent, : where[0] + 1].sum())
            s = WORKERS.right * (WORKERS.tired if place > WORKERS.cap else 1)
            q = WORKERS.checker
            s = [s, s**3 + 3 * s * s * (1 - s), s * q + s * (1 - q) * s + (1 - s) * q * s, s]
            s = s[built.kind[agent]]
            above *= s - (1 - s) / (P - 1)
            if KINDS[built.kind[agent]] != "verify":
                shift += total[what, agent, *where] * (
                    int(task.shown[where[0]]) - int(task.constants[where[0]])
                )
        above *= what != "unknown"
    above *= WORKERS.handed ** len({term[1:3] for term in counts if term[0] == "handed"})
    return (1 + (P - 1) * above) / P if shift % P == 0 else (1 - above) / P


@pytest.fixture(scope="module")
def at_work():
    """Answers that were right of 100,000 teams at work, one program for all graphs."""

    def one(task, built, key):
        keys = jax.random.split(key, EPISODES)
        run = jax.vmap(lambda k: rules.execute(k, task, built, WORKERS, P)[:2])
        answer, flawless = run(keys)
        return (answer == rules.answer_of(task, P)).mean(), flawless.mean()

    return fetched(one)


def compare(at_work, numbers):
    """z-scores of the right answers against the closed form by hand."""
    scores = []
    for number in numbers:
        task, built = case(number)
        expected = by_hand(task, built)
        right, flawless = at_work(task, built, jax.random.key(number))
        clean, found = accuracy(task, built, WORKERS, P)
        assert float(found) == pytest.approx(expected, abs=1e-5), GRAPHS[number]
        assert abs(flawless - clean) < 4 * np.sqrt(max(clean * (1 - clean), 1e-9) / EPISODES)
        scores.append((right - expected) / np.sqrt(expected * (1 - expected) / EPISODES))
    return np.array(scores)


def test_some_teams_work_as_the_closed_form_says(at_work):
    assert len(GRAPHS) == 1 + 1 + 3 + 21 + 315
    numbers = np.random.default_rng(1).choice(len(GRAPHS), 5, replace=False)
    assert np.abs(compare(at_work, numbers)).max() < 3


@pytest.mark.long
def test_all_teams_work_as_the_closed_form_says(at_work):
    """Within 3 standard errors, save one in a hundred; squares of the errors have a mean of 1."""
    scores = compare(at_work, range(len(GRAPHS)))
    assert (np.abs(scores) < 3).mean() > 0.99 and np.abs(scores).max() < 4.5
    assert 0.8 < (scores**2).mean() < 1.2


@pytest.mark.parametrize(
    ("nodes", "agents", "expected"),
    [
        *((3, 1, 0.941192), (3, 3, 0.922462), (6, 1, 0.566939), (6, 2, 0.876984)),
        *((6, 3, 0.868214), (12, 1, 0.131654), (12, 2, 0.318206), (12, 3, 0.769101)),
        (12, 4, 0.761410),
    ],
)
def test_chains_of_agents_have_the_worked_numbers(nodes, agents, expected):
    chain = np.eye(12, k=1, dtype=bool) & (np.arange(12) < nodes)
    constants = np.arange(12, dtype=np.int32) % P
    shares = np.array_split(np.arange(nodes), agents)
    assign = np.array([np.isin(np.arange(12), s) for s in [*shares, *[[]] * (4 - agents)]])
    edges = [(a, a + 1) for a in range(agents - 1)]
    built = team(edges, 4, agents=agents, assign=assign, kind=[SOLO] * 4)
    found = accuracy(Graph(chain, constants, constants, np.int32(nodes)), built, Workers(), P)
    assert float(found[0]) == pytest.approx(expected, abs=2e-6)


def test_density_by_hand():
    for (n, e, d, most), expected in (((3, 2, 3, 6), 0.466667), ((6, 15, 6, 6), 0.8)):
        assert float(rules.density(n, e, d, most)) == pytest.approx(expected, abs=1e-6)
    # One agent alone has no possible edge and one layer.
    assert float(rules.density(1, 0, 1, 4)) == pytest.approx((0.25 + 0.5) / 2.5)
    depth = fetched(rules.depth)
    assert int(depth(team([(0, 1), (1, 2)], 4, agents=3))) == 3
    assert int(depth(team([(0, 2), (1, 2)], 3))) == 2 and int(depth(team([], 2, agents=1))) == 1
    inside = list(itertools.combinations(range(4), 2))
    assert reason(inside, 4, layer=[0] * 4) == "same layer"
