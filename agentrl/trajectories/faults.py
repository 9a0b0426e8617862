"""Episodes with one injected fault each, of which it is known who made it and in which turn.

The world is that of ModSum-v1: node j of a graph is its constant plus the values of the nodes that
it depends on, modulo p. In turn j the agent that owns node j writes its value from what it has
read; the last node's value is the answer. A fault is a wrong sum: whoever uses it calculates
rightly with a wrong number. Nodes that the answer does not depend on are wrong at times, too, which
does no harm.

What was added wrongly in a turn can be read off the episode, so that it is played again from its
line alone: an agent that is not corrected adds the same again.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.trajectories import references
from agentrl.trajectories.attribution import Outcome
from agentrl.trajectories.references import Step
from agentrl.trajectories.schema import Agent, Episode, Task, Turn

_NAME = "sums over a graph"


class Injected(NamedTuple):
    """An episode that failed, and the step at which the fault was put in."""

    episode: Episode
    step: Step


class _Sums(NamedTuple):
    """edges bool[n, n], constants and owner int[n] of a task; values int[n], as written."""

    edges: np.ndarray
    constants: np.ndarray
    owner: np.ndarray
    modulus: int
    values: np.ndarray

    def carried_out(self, added: np.ndarray, true: Sequence[int] = ()) -> np.ndarray:
        """Values int[..., n] if each sum is off by `added`, and those of `true` are right."""
        values = np.zeros_like(added)
        right = self.right if true else values
        for j in range(added.shape[-1]):
            total = self.constants[j] + values[..., self.edges[:, j]].sum(-1) + added[..., j]
            values[..., j] = right[j] if j in true else total % self.modulus
        return values

    @property
    def right(self) -> np.ndarray:
        """The true values, int[n]."""
        return self.carried_out(np.zeros(len(self.constants), int))

    @property
    def added(self) -> np.ndarray:
        """How far off each sum was, int[n]."""
        return (self.values - self.constants - self.edges.T @ self.values) % self.modulus


def draw(count: int, seed: int, *, nodes: int = 12, agents: int = 4) -> list[Injected]:
    """Episodes with one fault, from which the answer is wrong."""
    rng, modulus, found = np.random.default_rng(seed), 7, []
    for number in range(count):
        edges = np.zeros((nodes, nodes), bool)
        for j in range(1, nodes):
            edges[rng.choice(j, min(j, rng.integers(1, 4)), replace=False), j] = True
        constants = rng.integers(0, modulus, nodes)
        owner = rng.permutation(np.arange(nodes) % agents)
        sums = _Sums(edges, constants, owner, modulus, np.zeros(nodes, int))
        # A wrong sum makes the answer wrong by a multiple: p is prime, so any or none does.
        matters = sums.carried_out(np.eye(nodes, dtype=int))[:, -1] != sums.right[-1]
        node = int(rng.choice(np.flatnonzero(matters)))
        reaches = references.ancestors(edges, nodes - 1)
        reaches[-1] = True
        harmless = ~reaches & (rng.random(nodes) < 0.3)
        added = np.where(harmless, rng.integers(1, modulus, nodes), 0)
        added[node] = rng.integers(1, modulus)
        episode = _episode(sums._replace(values=sums.carried_out(added)), str(number))
        found.append(Injected(episode, Step(node, int(owner[node]))))
    return found


def _episode(sums: _Sums, name: str) -> Episode:
    last = len(sums.values) - 1
    solved = bool(sums.values[last] == sums.right[last])
    turns = [
        Turn(
            number=j,
            reward=float(j == last and solved),
            terminated=j == last,
            truncated=False,
            success=j == last and solved,
            action=int(value),
            references=tuple(
                (int(sums.owner[i]), i) for i in np.flatnonzero(sums.edges[:, j]).tolist()
            ),
        )
        for j, value in enumerate(sums.values)
    ]
    # An episode ends for all agents.
    agents = range(int(sums.owner.max()) + 1)
    options = {"constants": sums.constants.tolist(), "modulus": sums.modulus}
    return Episode(
        name,
        Task(_NAME, options, len(turns)),
        tuple(Agent(turns=tuple(t for t in turns if sums.owner[t.number] == a)) for a in agents),
    )


def _sums(episode: Episode) -> _Sums:
    turns = [(a, turn) for a, agent in enumerate(episode.agents) for turn in agent.turns]
    turns.sort(key=lambda pair: pair[1].number)
    edges = np.zeros((len(turns), len(turns)), bool)
    for _, turn in turns:
        edges[[number for _, number in turn.references or ()], turn.number] = True
    owner, values = np.array([a for a, _ in turns]), np.array([turn.action for _, turn in turns])
    options = episode.task.options
    return _Sums(edges, np.array(options["constants"]), owner, options["modulus"], values)


def outcome(episode: Episode, slips: float = 0.0, draws: int = 1) -> Outcome:
    """The episode with agents or steps that add rightly what they read.

    slips: probability that a sum which is not corrected goes wrong by chance, anew in each of
    `draws` repetitions, whose mean is returned; the same chance whatever is corrected, drawn from
    the episode's id.
    """
    sums, rng = _sums(episode), np.random.default_rng(zlib.crc32(episode.id.encode()))
    right = sums.right[-1]
    shape = (draws, len(sums.values))
    slipped = np.where(rng.random(shape) < slips, rng.integers(1, sums.modulus, shape), 0)

    def play(agents: frozenset[int] = frozenset(), steps: frozenset[Step] = frozenset()) -> float:
        corrected = np.isin(sums.owner, list(agents))
        corrected[[step.turn for step in steps]] = True
        added = np.where(corrected, 0, sums.added + slipped)
        return float(np.mean(sums.carried_out(added)[:, -1] == right))

    return play


def restores(episode: Episode, step: Step) -> bool:
    """Whether the answer is right if the result of one step is, whatever was read in it."""
    sums = _sums(episode)
    return bool(sums.carried_out(sums.added, true=[step.turn])[-1] == sums.right[-1])
