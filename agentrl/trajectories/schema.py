"""An episode as one line of JSON: what is in it, and what a line has to keep.

The dataclasses are the schema: a field is a key, and its type is what the line has to hold. Numbers
of float32 are written with as many digits as tell them apart, so they are read back bit for bit.
"""

import dataclasses
import json
import math
from typing import Any, SupportsFloat

import numpy as np

from agentrl.streams import SPANS
from agentrl.trajectories.reading import SchemaError as SchemaError
from agentrl.trajectories.reading import read, shown

# Raised when a line of the older form cannot be read as one of the newer.
VERSION = 1
STOPS = ("end", "length")


@dataclasses.dataclass(frozen=True)
class Array:
    """An array: its numbers in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: tuple[int | float, ...]


@dataclasses.dataclass(frozen=True)
class Span:
    """Neighbouring tokens of a row that have the same turn and are the same part of it.

    kind: one of `agentrl.streams.SPANS`; None for none. turn: the number of the turn; None for
    none. text: the tokens' text; bytes that are no UTF-8 are lone surrogates, so none is lost.
    trained: the policy is trained on them. logp: of these, under the distribution that they were
    drawn from, where it is known. advantage: of these, where the estimator gives one to each.
    tokens: empty where only the text is known (of other formats).
    """

    kind: str | None
    turn: int | None
    tokens: tuple[int, ...]
    text: str
    trained: bool = False
    logp: tuple[float, ...] | None = None
    advantage: tuple[float, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn of an agent; fields that a run does not have are None.

    number: of the turn on the episode's clock, from 0. reward, terminated, truncated, success,
    anchor, value, bootstrap, valid, well_formed, cost, duration: as in `agentrl.streams.Streams`.
    advantage: where the estimator gives one to the turn. action: of a policy over arrays: a number,
    or one per component. logp: of the action. observation, legal: what it acted from, and which
    actions it could choose. stop: why a reply ended: "end" (the end token) or "length".
    references: earlier turns whose results it used, (agent, number) each; None where nobody noted
    them.
    """

    number: int
    reward: float
    terminated: bool
    truncated: bool
    success: bool | None = None
    valid: bool | None = None
    well_formed: bool | None = None
    anchor: tuple[int, int] | None = None
    advantage: float | None = None
    value: float | None = None
    bootstrap: float | None = None
    cost: float | None = None
    duration: float | None = None
    action: int | tuple[float, ...] | None = None
    logp: float | None = None
    observation: Array | None = None
    legal: tuple[bool, ...] | None = None
    stop: str | None = None
    references: tuple[tuple[int, int], ...] | None = None


@dataclasses.dataclass(frozen=True)
class Agent:
    """An agent of the episode, in the order of the environment's agents.

    role: that it played. parent, call_turn: the agent that called it, and the turn of that one.
    turns: in which it acted and is learnt from. rows: what a language policy read and wrote, a row
    as the spans of one sequence.
    """

    role: int = 0
    parent: int | None = None
    call_turn: int | None = None
    turns: tuple[Turn, ...] = ()
    rows: tuple[tuple[Span, ...], ...] = ()

    def texts(self, turn: int) -> tuple[str, str] | None:
        """(what it read, what it wrote) in a turn; None if it wrote nothing then."""
        for row in self.rows:
            if any(span.trained and span.turn == turn and span.kind != "summary" for span in row):
                spans = [span for span in row if span.turn == turn]
                read, written = ("".join(s.text for s in spans if s.trained == x) for x in (0, 1))
                return read, written
        return None


@dataclasses.dataclass(frozen=True)
class Task:
    """What was played.

    environment, options: as `envs.make` takes them. start: fingerprint of the first state, or None.
    turns: after which the rollout truncates. anchor: "observation" or "state", which turns' anchors
    are fingerprints of. grammar: of a language policy's replies, by the names of
    `envs.text.Grammar`.
    """

    environment: str
    options: dict[str, Any]
    turns: int
    start: tuple[int, int] | None = None
    anchor: str | None = None
    grammar: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class Seeds:
    """Keys from which the episode follows, by `jax.random.wrap_key_data`.

    task: draws the task. chance: of the loop of turns (`agentrl.rollout.unroll`), in which the
    episode was number `index`.
    """

    task: tuple[int, int]
    chance: tuple[int, int]
    index: int


@dataclasses.dataclass(frozen=True)
class Episode:
    """An episode of some agents, from its start to its end.

    id: unique in a run: seed/update/number. seed, update: of the run, and updates that the policy
    had learnt from. group: number of the group of episodes of the same task; None for none.
    parent, branch_turn: the id of the episode that this one branched off, and the first turn that
    they do not share. seeds: None where the episode cannot be played again from keys. reset_seed:
    that an environment in Python was reset with, from which it is played again.
    """

    id: str
    task: Task
    agents: tuple[Agent, ...]
    seed: int = 0
    update: int = 0
    group: int | None = None
    seeds: Seeds | None = None
    reset_seed: int | None = None
    parent: str | None = None
    branch_turn: int | None = None
    version: int = VERSION

    @property
    def returns(self) -> tuple[float, ...]:
        """The sum of each agent's rewards."""
        return tuple(math.fsum(turn.reward for turn in agent.turns) for agent in self.agents)

    @property
    def success(self) -> bool:
        """Whether the task was solved, by any agent."""
        return any(bool(turn.success) for agent in self.agents for turn in agent.turns)


def number(value: SupportsFloat) -> float:
    """A float32 as the number of fewest digits that is read back as the same float32."""
    value = np.float32(value)
    return float(str(value)) if np.isfinite(value) else float(value)


def to_line(episode: Episode) -> str:
    """The episode as one line of JSON, without its end; fields that are None are left out."""
    return json.dumps(_plain(episode), separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: _plain(x) for name, x in fields if x is not None}
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def from_line(line: str) -> Episode:
    """The episode of a line. SchemaError for a line that is none."""
    try:
        found = json.loads(line, parse_constant=lambda name: name.lower())
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON ({error})") from None
    if not isinstance(found, dict):
        raise SchemaError(f"{shown(found)}, expected a JSON object")
    version = found.get("version")
    if version != VERSION or isinstance(version, bool):
        raise SchemaError(
            f"version: {shown(version)}, expected {VERSION}; read it with the version of agentrl "
            "that wrote it"
        )
    episode = read(Episode, found, "")
    _check(episode)
    return episode


def _check(episode: Episode) -> None:
    """SchemaError for fields that contradict each other."""
    task = episode.task
    if not episode.agents:
        raise SchemaError("agents: empty, expected one or more")
    if task.turns < 1:
        raise SchemaError(f"task.turns: {task.turns}, expected at least 1")
    if task.anchor not in (None, "observation", "state"):
        raise SchemaError(f"task.anchor: {shown(task.anchor)}, expected observation or state")
    _check_words("task.start", task.start)
    if episode.seeds is not None:
        _check_words("seeds.task", episode.seeds.task)
        _check_words("seeds.chance", episode.seeds.chance)
        if episode.seeds.index < 0:
            raise SchemaError(f"seeds.index: {episode.seeds.index}, expected at least 0")
    if episode.reset_seed is not None and not 0 <= episode.reset_seed < 2**31:
        raise SchemaError(f"reset_seed: {episode.reset_seed}, expected 31 bits without a sign")
    for i, agent in enumerate(episode.agents):
        where, parent = f"agents[{i}]", agent.parent
        if parent is not None and (parent == i or not 0 <= parent < len(episode.agents)):
            raise SchemaError(
                f"{where}.parent: {parent}, expected another of {len(episode.agents)} agents"
            )
        _check_turns(task, agent, where)
        for j, row in enumerate(agent.rows):
            for k, span in enumerate(row):
                _check_span(agent, span, f"{where}.rows[{j}][{k}]")
    _check_references(episode)


def _check_references(episode: Episode) -> None:
    acted = {(i, turn.number) for i, agent in enumerate(episode.agents) for turn in agent.turns}
    for i, agent in enumerate(episode.agents):
        for j, turn in enumerate(agent.turns):
            for reference in turn.references or ():
                if reference not in acted or reference[1] >= turn.number:
                    raise SchemaError(
                        f"agents[{i}].turns[{j}].references: {list(reference)}, expected [agent, "
                        f"number] of a turn before {turn.number}"
                    )


def _check_words(where: str, words: tuple[int, int] | None) -> None:
    if words is not None and not all(0 <= word < 2**32 for word in words):
        raise SchemaError(f"{where}: {list(words)}, expected two numbers of 32 bits without a sign")


def _check_turns(task: Task, agent: Agent, where: str) -> None:
    last = -1
    for j, turn in enumerate(agent.turns):
        here = f"{where}.turns[{j}]"
        if not last < turn.number < task.turns:
            raise SchemaError(
                f"{here}.number: {turn.number}, expected more than {last} and less than "
                f"task.turns={task.turns}"
            )
        last = turn.number
        if turn.terminated and turn.truncated:
            raise SchemaError(f"{here}: terminated and truncated, expected one of them at most")
        if (turn.terminated or turn.truncated) and j + 1 < len(agent.turns):
            raise SchemaError(f"{here}: ends the episode, and {here[:-1]} is not the last turn")
        if turn.stop not in (None, *STOPS):
            raise SchemaError(f"{here}.stop: {shown(turn.stop)}, expected {' or '.join(STOPS)}")
        _check_words(f"{here}.anchor", turn.anchor)
        if turn.observation is not None:
            _check_array(turn.observation, f"{here}.observation")


def _check_array(array: Array, where: str) -> None:
    try:
        kind = np.dtype(array.dtype).kind
    except TypeError:
        kind = ""
    if kind not in ("b", "i", "u", "f"):
        raise SchemaError(f"{where}.dtype: {shown(array.dtype)}, expected a dtype of numbers")
    if any(size < 0 for size in array.shape) or math.prod(array.shape) != len(array.data):
        raise SchemaError(
            f"{where}: {len(array.data)} numbers, expected those of shape {list(array.shape)}"
        )


def _check_span(agent: Agent, span: Span, where: str) -> None:
    if span.kind not in (None, *SPANS):
        raise SchemaError(f"{where}.kind: {shown(span.kind)}, expected one of {', '.join(SPANS)}")
    if not span.tokens and not span.text:
        raise SchemaError(f"{where}: neither tokens nor text, expected one of them")
    if any(not 0 <= token < 2**31 for token in span.tokens):
        raise SchemaError(f"{where}.tokens: {min(span.tokens)}, expected ids from 0 on")
    for name in ("logp", "advantage"):
        values = getattr(span, name)
        if values is not None and len(values) != len(span.tokens):
            raise SchemaError(
                f"{where}.{name}: {len(values)} numbers, expected one of {len(span.tokens)} tokens"
            )
    if span.trained and span.turn is None:
        raise SchemaError(f"{where}: trained and of no turn, expected the number of its turn")
    if span.turn is not None and span.turn not in {turn.number for turn in agent.turns}:
        raise SchemaError(f"{where}.turn: {span.turn}, which is no turn of this agent")
