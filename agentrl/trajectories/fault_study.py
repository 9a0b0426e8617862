"""How often each way of attribution names the agent and the turn of an injected fault."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.trajectories import attribution, faults
from agentrl.trajectories.references import Step, backtrace, dependencies, impact, proximity
from agentrl.trajectories.schema import Episode


class Accuracy(NamedTuple):
    """Shares of the episodes in which the agent, the turn, the turn or a neighbour is right.

    near: mean of `references.proximity`. plays: how often an episode was played again, on average.
    """

    agent: float
    step: float
    within_one: float
    near: float
    plays: float


class _Counted:
    """An outcome that counts how often it is played."""

    def __init__(self, play: attribution.Outcome, draws: int):
        self.play, self.draws, self.plays = play, draws, 0

    def __call__(
        self, agents: frozenset[int] = frozenset(), steps: frozenset[Step] = frozenset()
    ) -> float:
        self.plays += self.draws
        return self.play(agents, steps)


def without_replay(one: faults.Injected) -> dict[str, Step]:
    """The step that is named from the graph or the order alone."""
    graph = dependencies(one.episode)
    suspects = attribution.suspects(graph)
    among = np.isin(np.arange(len(graph.steps)), [graph.steps.index(s) for s in suspects])
    weights = graph.edges / np.maximum(graph.edges.sum(axis=0), 1)
    traced = backtrace(weights)
    traced[-1] = 0.0
    return {
        "the last turn": graph.steps[-1],
        "the first turn": graph.steps[0],
        "graph: impact": graph.steps[int(np.argmax(np.where(among, impact(graph.edges), -1.0)))],
        "graph: back-trace": graph.steps[int(np.argmax(np.where(among, traced, -1.0)))],
    }


def with_replay(
    one: faults.Injected,
    outcome: attribution.Outcome,
    restores: Callable[[Step], bool] | None,
    draws: int,
) -> dict[str, tuple[Step | None, int | None, int]]:
    """(the step, the agent, how often it was played) that is named by playing it again."""
    graph, found = dependencies(one.episode), {}
    play = _Counted(outcome, draws)
    logged = play()
    effects = {step: play(steps=frozenset([step])) - logged for step in graph.steps}
    step = attribution.critical(effects)
    found["critical step of all"] = (step, step and step.agent, play.plays)
    repaired = restores or (lambda step: logged + effects[step] > 0.5)
    step = next(iter(attribution.root_causes(graph, repaired)), None)
    plays = draws * len(attribution.suspects(graph))
    found["GraphTracer: repair"] = (step, step and step.agent, plays)
    play = _Counted(outcome, draws)
    blame = attribution.blame(one.episode, play)
    found["Shapley, then its critical step"] = (blame.step, blame.agent, play.plays)
    return found


def study(
    injected: Sequence[faults.Injected],
    outcome: Callable[[Episode], attribution.Outcome],
    restores: Callable[[Episode, Step], bool] | None = None,
    draws: int = 1,
) -> dict[str, Accuracy]:
    """The accuracy of each way, and that of a step drawn among all.

    outcome: plays an episode again, `draws` times each. restores: whether the result of a step
    being right restores the success; by default, whether the reference's in its place does.
    """
    scores: dict[str, list[tuple[float, ...]]] = {}
    for one in injected:
        steps = dependencies(one.episode).steps
        chance = np.mean([_score(one.step, step, step.agent, 0) for step in steps], axis=0)
        scores.setdefault("chance", []).append(tuple(chance))
        ways = {name: (s, s.agent, 0) for name, s in without_replay(one).items()}
        repair = functools.partial(restores, one.episode) if restores else None
        ways |= with_replay(one, outcome(one.episode), repair, draws)
        for name, answer in ways.items():
            scores.setdefault(name, []).append(_score(one.step, *answer))
    return {name: Accuracy(*np.mean(values, axis=0)) for name, values in scores.items()}


def _score(true: Step, step: Step | None, agent: int | None, plays: int) -> tuple[float, ...]:
    distance = np.inf if step is None else abs(step.turn - true.turn)
    return (agent == true.agent, distance == 0, distance <= 1, proximity(distance), plays)
