"""Who made an episode fail, and in which turn: by playing it again with something corrected.

An `Outcome` plays an episode again, some agents or some steps of which do as a reference does
(`agentrl.trajectories.counterfactual` for environments in JAX, with their experts;
`agentrl.trajectories.faults` for episodes whose faults are known).

Source: failure attribution by causal inference (arXiv:2509.08682; abstract and notes were read):
Shapley values of agents and a critical step. There both come from a causal model fitted to logs;
here they are measured.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from agentrl.trajectories.references import Dependencies, Step, ancestors, dependencies
from agentrl.trajectories.schema import Episode

# Agents up to which every coalition is played.
EXACT = 6


class Outcome(Protocol):
    """Plays an episode again and returns its success, 0 to 1: `agents` do in all their turns as the
    reference does, and others in `steps`; the rest as in the file."""

    def __call__(
        self, agents: frozenset[int] = frozenset(), steps: frozenset[Step] = frozenset()
    ) -> float: ...


class Blame(NamedTuple):
    """Why an episode failed.

    agents: those that acted. shapley, error: f64[agents], what each one's correction adds to the
    success, and the standard error of that (0: exact). effects: what the correction of each step
    of the blamed agent adds. agent, step: the blamed ones; None if no correction helps. upstream:
    what the agent did reached the last step.
    """

    agents: tuple[int, ...]
    shapley: np.ndarray
    error: np.ndarray
    effects: dict[Step, float]
    agent: int | None
    step: Step | None
    upstream: bool

    @property
    def shares(self) -> np.ndarray:
        """max(shapley, 0), divided by their sum; f64[agents]."""
        positive = np.maximum(self.shapley, 0)
        return positive / max(positive.sum(), np.finfo(float).tiny)


def shapley(values: np.ndarray) -> np.ndarray:
    """Shapley values f64[n] of values f64[2^n] of coalitions: bit i of the index is player i."""
    n = int(len(values)).bit_length() - 1
    if len(values) != 2**n:
        raise ValueError(f"{len(values)} values, expected one of each coalition, 2^n")
    coalition, found = np.arange(2**n), np.zeros(n)
    size = np.array([int(s).bit_count() for s in coalition])
    for i in range(n):
        without = coalition[coalition >> i & 1 == 0]
        weight = [1 / (n * math.comb(n - 1, k)) for k in size[without]]
        found[i] = np.sum(weight * (values[without | 1 << i] - values[without]))
    return found


def shapley_sampled(
    value: Callable[[frozenset[int]], float], n: int, orders: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of Shapley values and their standard errors, f64[n] each.

    From `orders` (two or more) random orders of the players and the reverse of each; the error is
    that of the mean over these pairs.
    """
    if orders < 2:
        raise ValueError(f"orders {orders}: expected two or more")
    gains = np.zeros((orders, n))
    for k in range(orders):
        order = rng.permutation(n).tolist()
        for way in (order, order[::-1]):
            coalitions = itertools.accumulate(way, lambda s, i: s | {i}, initial=frozenset())
            worth = np.array([value(coalition) for coalition in coalitions])
            gains[k, way] += np.diff(worth) / 2
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / math.sqrt(orders)


def critical(effects: dict[Step, float]) -> Step | None:
    """The earliest step whose correction adds at least half of what the best one's adds."""
    best = max(effects.values(), default=0.0)
    return min((s for s in effects if best > 0 and effects[s] >= best / 2), default=None)


def blame(episode: Episode, outcome: Outcome, orders: int = 32, seed: int = 0) -> Blame:
    """Shapley values of the agents that acted, and the critical step of the one with the largest.

    More than `EXACT` agents: from random orders drawn from the seed. Coalitions are played once.
    """
    graph, played = dependencies(episode), {}
    agents = tuple(sorted({step.agent for step in graph.steps}))

    def value(coalition: frozenset[int]) -> float:
        if coalition not in played:
            played[coalition] = outcome(agents=frozenset(agents[i] for i in coalition))
        return played[coalition]

    n = len(agents)
    if n <= EXACT:
        coalitions = [frozenset(i for i in range(n) if s >> i & 1) for s in range(2**n)]
        worth, error = shapley(np.array([*map(value, coalitions)])), np.zeros(n)
    else:
        worth, error = shapley_sampled(value, n, orders, np.random.default_rng(seed))
    if n == 0 or worth.max() <= 0:
        return Blame(agents, worth, error, {}, None, None, False)
    blamed, as_logged = agents[int(np.argmax(worth))], value(frozenset())
    effects = {
        step: outcome(steps=frozenset([step])) - as_logged
        for step in graph.steps
        if step.agent == blamed
    }
    upstream = any(step.agent == blamed for step in suspects(graph))
    return Blame(agents, worth, error, effects, blamed, critical(effects), upstream)


def suspects(graph: Dependencies) -> list[Step]:
    """The steps of the last turn and all from which something reached one, in order."""
    ends = [i for i, step in enumerate(graph.steps) if step.turn == graph.steps[-1].turn]
    reached = np.any([ancestors(graph.edges, i) for i in ends], axis=0)
    return [step for i, step in enumerate(graph.steps) if reached[i] or i in ends]


def root_causes(graph: Dependencies, restores: Callable[[Step], bool]) -> list[Step]:
    """The suspects whose correction alone restores the success, in order: the first is the root
    cause, GraphTracer's decisive step. Several independent causes leave none."""
    return [step for step in suspects(graph) if restores(step)]
