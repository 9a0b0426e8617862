"""Which turn used what which other turn had found: an episode as a graph of information.

Letters: n steps, in the order of their turns. An edge i -> j says that step j used what came out of
step i.

Source: GraphTracer (arXiv:2510.10581; notes and a reproduction by others were read). It is reported
to be retracted: the graph is used here, none of its numbers. There a model reads the references off
texts; here a line has them, or they follow from who called whom.
"""

from typing import NamedTuple

import numpy as np

from agentrl.trajectories.schema import Episode


class Step(NamedTuple):
    """A turn of an agent, by the turn's number."""

    turn: int
    agent: int


class Dependencies(NamedTuple):
    """steps: all of them, in order. edges: bool[n, n], the row's step is used by the column's."""

    steps: tuple[Step, ...]
    edges: np.ndarray


def dependencies(episode: Episode) -> Dependencies:
    """The graph of an episode.

    A turn without `references` used the agent's own turn before; if it is the agent's first, that
    of its caller; and the last turns of agents that were called in between. Where nobody is called,
    it used the last turn of every agent before it.
    """
    turns = {
        Step(turn.number, a): turn.references
        for a, agent in enumerate(episode.agents)
        for turn in agent.turns
    }
    steps = tuple(sorted(turns))
    place = {step: i for i, step in enumerate(steps)}
    edges = np.zeros((len(steps), len(steps)), bool)
    for step, references in turns.items():
        if references is None:
            used = _usual(episode, step)
        else:
            used = [Step(turn, agent) for agent, turn in references]
        edges[[place[other] for other in used], place[step]] = True
    return Dependencies(steps, edges)


def _usual(episode: Episode, step: Step) -> list[Step]:
    """What a turn used by the order of turns and calls."""
    agents, own = episode.agents, episode.agents[step.agent]
    calling = any(agent.parent is not None for agent in agents)
    before = {
        a: [t.number for t in agent.turns if t.number < step.turn] for a, agent in enumerate(agents)
    }
    last = before[step.agent][-1] if before[step.agent] else -1
    used = []
    for a, numbers in before.items():
        called = agents[a].parent == step.agent and numbers and numbers[-1] > last
        if numbers and (a == step.agent or called or not calling):
            used.append(Step(numbers[-1], a))
    caller = own.parent
    if last < 0 and caller is not None and own.call_turn in before[caller]:
        used.append(Step(own.call_turn, caller))
    return used


def ancestors(edges: np.ndarray, node: int) -> np.ndarray:
    """bool[n]: the steps from which something reached `node`, itself not among them."""
    reached = edges[:, node]
    for _ in range(len(edges)):
        reached = reached | edges[:, reached].any(axis=1)
    return reached


def impact(edges: np.ndarray, alpha: float = 0.5) -> np.ndarray:
    """alpha * (outgoing edges / (n-1)) + (1-alpha) * (betweenness / ((n-1)(n-2))), f64[n].

    Betweenness of a step: the share of the shortest paths between two others that leads through it,
    summed over all pairs.
    """
    n = len(edges)
    if n < 3:
        return alpha * edges.sum(axis=1) / max(n - 1, 1)
    distance = np.full((n, n), np.inf)
    paths, walks = np.zeros((n, n)), np.eye(n)
    for length in range(n):
        new = np.isinf(distance) & (walks > 0)
        distance[new], paths[new] = length, walks[new]
        walks = walks @ edges
    between = np.zeros(n)
    for v in range(n):
        through = distance[:, v, None] + distance[None, v] == distance
        through &= np.isfinite(distance) & ~np.eye(n, dtype=bool)
        through[v], through[:, v] = False, False
        share = paths[:, v, None] * paths[None, v] / np.where(paths > 0, paths, 1)
        between[v] = np.sum(share, where=through)
    return alpha * edges.sum(axis=1) / (n - 1) + (1 - alpha) * between / ((n - 1) * (n - 2))


def backtrace(weights: np.ndarray, depth: int | None = None, mode: str = "sum") -> np.ndarray:
    """How much of the last step goes back to each step, f64[n].

    s[n-1] = 1, s[i] = sum_{i < j <= i + depth} weights[i, j] s[j], or the largest of these with
    mode "max". weights: f64[n, n], how much of step j is from step i.
    """
    if mode not in ("sum", "max"):
        raise ValueError(f"mode {mode!r}: expected sum or max")
    n = len(weights)
    score = np.zeros(n)
    score[-1] = 1.0
    for i in range(n - 2, -1, -1):
        later = slice(i + 1, n if depth is None else i + 1 + depth)
        parts = weights[i, later] * score[later]
        score[i] = parts.sum() if mode == "sum" else parts.max()
    return score


def proximity(distance: float, width: float = 1.0) -> float:
    """exp(-distance^2 / (2 width^2)): reward of a step that is so many turns off the true one."""
    return float(np.exp(-(distance**2) / (2 * width**2)))
