"""Episodes of one task as a graph of merged states: which of them, and which tasks, teach most.

Episodes of a group that come through the same state share its node. A node's potential is the share
of them, among all that visit it, that end in success; edges lead to the next state, and from the
last one to "solved" or "failed". A branch is a node with two children or more.

Source: TopoCurate (arXiv:2603.01714; notes were read, the formulas are ours).
"""

import collections
import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.trajectories.schema import Episode

SOLVED, FAILED = "solved", "failed"
# By how much the potential has to fall so that a recovery from it counts.
_DROP = 0.1


class Scores(NamedTuple):
    """Of an episode; 0 for those that failed, but for recovery.

    recovery: how much of the potential it won back after each sharp fall. efficiency: edges of the
    shortest way to success in the graph, per edge of the episode. rarity: sum over branches of
    -log(share of the solved episodes through it that went on in the same way).
    """

    recovery: float
    efficiency: float
    rarity: float


class Graph:
    """The merged graph of some ways, each of which begins in the task's first state.

    Args:
      ways: the states of each episode in order, the last being `SOLVED` or `FAILED`.
      smooth: a node's potential is (solved + 1) / (visits + 2), for few episodes.
    """

    def __init__(self, ways: Sequence[Sequence[Hashable]], *, smooth: bool = False):
        self.ways = [tuple(way) for way in ways]
        visits: collections.Counter = collections.Counter()
        solved: collections.Counter = collections.Counter()
        self.children: dict[Hashable, set[Hashable]] = collections.defaultdict(set)
        for way in self.ways:
            visits.update(set(way))
            solved.update(set(way) if way[-1] == SOLVED else ())
            for one, following in self._edges(way):
                self.children[one].add(following)
        more = int(smooth)
        self.potential = {v: (solved[v] + more) / (n + 2 * more) for v, n in visits.items()}

    @staticmethod
    def _edges(way: Sequence[Hashable]) -> set[tuple[Hashable, Hashable]]:
        """The edges of a way, each once, however often it comes by."""
        return set(zip(way, way[1:], strict=False))

    @property
    def branches(self) -> list[Hashable]:
        """The nodes with two children or more."""
        return [node for node, children in self.children.items() if len(children) > 1]

    @functools.cached_property
    def shortest(self) -> float:
        """Edges of the shortest way to success from where the first episode begins; inf: none."""
        reached, length = {self.ways[0][0]}, 0
        while SOLVED not in reached:
            more = reached.union(*(self.children.get(node, ()) for node in reached))
            if more == reached:
                return float("inf")
            reached, length = more, length + 1
        return length

    def scores(self, way: Sequence[Hashable]) -> Scores:
        """Recovery, efficiency and rarity of an episode, given as the nodes that it visits."""
        level = np.array([self.potential[node] for node in way])
        later = np.maximum.accumulate(level[::-1])[::-1]
        falls = np.flatnonzero(np.diff(level) < -_DROP) + 1
        recovery = float(np.sum(later[falls] - level[falls]))
        if way[-1] != SOLVED:
            return Scores(recovery, 0.0, 0.0)
        rarity, won = 0.0, [self._edges(other) for other in self.ways if other[-1] == SOLVED]
        through = collections.Counter(node for edges in won for node in {a for a, _ in edges})
        taken = collections.Counter(edge for edges in won for edge in edges)
        for one, following in self._edges(way):
            if len(self.children[one]) > 1:
                rarity -= float(np.log(taken[one, following] / through[one]))
        return Scores(recovery, self.shortest / (len(way) - 1), rarity)

    @property
    def error_branches(self) -> float:
        """The share of the branches' edges that lead to a lower potential; 0 without branches."""
        falls = [
            self.potential[child] < self.potential[node]
            for node in self.branches
            for child in self.children[node]
        ]
        return float(np.mean(falls)) if falls else 0.0

    @property
    def heterogeneity(self) -> float:
        """Different solved ways per solved way; 0 if none is solved."""
        won = [way for way in self.ways if way[-1] == SOLVED]
        return len(set(won)) / len(won) if won else 0.0


def way_of(episode: Episode) -> tuple[Hashable, ...]:
    """What was acted from in each turn, by whom, and the end.

    ValueError for turns without anchor.
    """
    steps = [
        (turn.number, a, turn.anchor)
        for a, agent in enumerate(episode.agents)
        for turn in agent.turns
    ]
    if any(anchor is None for *_, anchor in steps):
        raise ValueError(f"{episode.id}: turns without anchor, by which states are told apart")
    nodes = ((agent, anchor) for _, agent, anchor in sorted(steps))
    return (*nodes, SOLVED if episode.success else FAILED)


class Task(NamedTuple):
    """A group of episodes of the same task. score: of the task, among all; see `curated`."""

    name: tuple[Any, ...]
    episodes: tuple[Episode, ...]
    graph: Graph
    score: float


class Curated(NamedTuple):
    """tasks: the highest first. episodes: (score, scores, episode) of the solved ones, the highest
    first."""

    tasks: tuple[Task, ...]
    episodes: tuple[tuple[float, Scores, Episode], ...]


def curated(episodes: Iterable[Episode], *, smooth: bool = False) -> Curated:
    """Scores of all tasks and of all solved episodes: sums of z-scores.

    Of an episode those of recovery, efficiency and rarity, among all solved ones: what to imitate.
    Of a task those of the shares of error branches and of different solutions: where a policy that
    explores has something to learn.
    """
    groups: dict[tuple[Any, ...], list[Episode]] = collections.defaultdict(list)
    for episode in episodes:
        of = episode.task.start if episode.group is None else episode.group
        groups[episode.seed, episode.update, of].append(episode)
    graphs = {
        name: Graph([way_of(episode) for episode in members], smooth=smooth)
        for name, members in groups.items()
    }
    values = [(graph.error_branches, graph.heterogeneity) for graph in graphs.values()]
    tasks = [
        Task(name, tuple(groups[name]), graphs[name], score)
        for name, score in zip(graphs, _z_scores(values), strict=True)
    ]
    solved = [
        (graphs[name].scores(way_of(episode)), episode)
        for name, members in groups.items()
        for episode in members
        if episode.success
    ]
    scores = _z_scores([one for one, _ in solved])
    ranked = [(score, *pair) for score, pair in zip(scores, solved, strict=True)]
    return Curated(
        tuple(sorted(tasks, key=lambda task: -task.score)),
        tuple(sorted(ranked, key=lambda one: -one[0])),
    )


def _z_scores(values: Sequence[tuple[float, ...]]) -> list[float]:
    """The sum over columns of (value - mean) / deviation; 0 of columns that do not differ."""
    if not values:
        return []
    table = np.array(values, float)
    deviation = table.std(axis=0)
    scaled = (table - table.mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf)
    # Sums that are 0 but for rounding are equal, and not -0.
    return [round(float(x), 12) + 0.0 for x in scaled.sum(axis=1)]
