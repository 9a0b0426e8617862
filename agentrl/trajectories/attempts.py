"""What several attempts at a task are worth: by turn, by vote, and how often one is made again."""

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.evaluation.selection import self_consistency
from agentrl.trajectories.schema import Agent, Episode, Turn


class Attempts(NamedTuple):
    """Of E episodes of G tasks with up to T turns.

    by_turn: f64[T], share of the episodes that had succeeded after turn t + 1. majority: share of
    the tasks whose commonest first answer, of `votes` episodes of each, is right. repeated: share
    of the answers after a wrong one of the same episode that are one of its wrong ones again; nan
    if there are none.
    """

    by_turn: np.ndarray
    majority: float
    votes: int
    repeated: float


def attempts(episodes: Iterable[Episode], votes: int = 5) -> Attempts:
    """What episodes of one agent, in which each turn is an answer to the same question, tell.

    A vote counts answers that were understood (`Turn.valid`), the earliest of equally common ones;
    of tasks with fewer episodes than `votes`, all of these. The answer of a turn is its action over
    arrays, or what was written.

    Raises:
      ValueError: no episodes, one without a group, several agents, or no success in their turns.

    References:
      RISE (Qu et al., 2024, https://arxiv.org/abs/2407.18219, from notes) compares success after
      five turns with the majority of five independent first answers (Wang et al., 2022,
      https://arxiv.org/abs/2203.11171).
    """
    episodes = list(episodes)
    _check(episodes)
    solved, asked, again, first = [], 0, 0, collections.defaultdict(list)
    for episode in episodes:
        (agent,) = episode.agents
        given = answers(agent)
        marks = [bool(turn.success) for turn in agent.turns]
        solved.append(marks.index(True) if any(marks) else len(marks))
        for t in range(1, len(given)):
            asked += 1
            again += given[t] in given[:t]
        first[episode.seed, episode.group].append((given[0], agent.turns[0]))
    turns = max(len(episode.agents[0].turns) for episode in episodes)
    return Attempts(
        np.array([np.mean([at <= t for at in solved]) for t in range(turns)]),
        float(np.mean([voted(some[:votes]) for some in first.values()])),
        votes,
        again / asked if asked else float("nan"),
    )


def answers(agent: Agent) -> list[str]:
    """The answer of each turn, see `attempts`."""
    return [_answer(agent, turn) for turn in agent.turns]


def voted(given: Sequence[tuple[str, Turn]]) -> bool:
    """Whether the commonest understood answer, of pairs (answer, its turn), is right."""
    number = {text: i for i, text in enumerate({text: None for text, _ in given})}
    result = np.array([[number[text] for text, _ in given]])
    valid = np.array([[turn.valid is not False for _, turn in given]])
    at = int(self_consistency(result, valid)[0])
    return at >= 0 and bool(given[at][1].success)


def _answer(agent: Agent, turn: Turn) -> str:
    said = agent.texts(turn.number)
    return str(turn.action) if said is None else said[1].strip()


def _check(episodes: Sequence[Episode]) -> None:
    """ValueError for episodes that `attempts` does not fit."""
    if not episodes:
        raise ValueError("attempts: expected at least one episode; the file has none")
    for episode in episodes:
        turns = episode.agents[0].turns
        if len(episode.agents) != 1 or episode.group is None or not turns:
            raise ValueError(
                f"attempts: episode {episode.id} has {len(episode.agents)} agents, group "
                f"{episode.group}, {len(turns)} turns; expected one agent and the group of its task"
            )
        if turns[0].success is None:
            raise ValueError(
                f"attempts: episode {episode.id} does not say whether turns succeeded; use an "
                "environment with success"
            )
