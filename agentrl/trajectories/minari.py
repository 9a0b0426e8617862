"""Minari: its data sets on this disk from episodes of arrays, and back.

A data set is in the directory MINARI_DATASETS_PATH (default ~/.minari/datasets), under its id
NAMESPACE/NAME-vNUMBER; nothing is downloaded. Observations, actions, rewards, terminations and
truncations are Minari's arrays, losslessly; what else an episode has is the text
infos["agentrl.episode"][0], so that nothing is lost on the way back. Minari asks for an observation
after the last action, which files of ours do not have: the last one is repeated there.

Needs the package minari (extra `minari`).

References:
  Younis et al., Minari, https://minari.farama.org.
"""

import dataclasses
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from agentrl.trajectories.schema import (
    Agent,
    Array,
    Episode,
    SchemaError,
    Task,
    Turn,
    from_line,
    number,
    to_line,
)

if TYPE_CHECKING:
    from gymnasium.spaces import Space
    from minari import EpisodeData, MinariDataset

_OWN = "agentrl.episode"
_ID = re.compile(r"([-\w]{2,}(/[-\w]+)*/)?[-\w]+-v\d+")


def to_minari(name: str, episodes: Iterable[Episode]) -> int:
    """Writes a data set, and returns how many episodes it has.

    Raises:
      ValueError: the name is no id, or is taken.
      SchemaError: an episode of several agents or of words, or episodes that differ in shapes.
    """
    minari, found = _package(name), list(episodes)
    if not found:
        raise SchemaError("no episodes, expected one or more")
    turns = [turn for episode in found for turn in _turns_of(episode)]
    first = turns[0]
    for turn in turns:
        kinds = [
            (x.observation.dtype, x.observation.shape, np.shape(x.action)) for x in (turn, first)
        ]
        if kinds[0] != kinds[1]:
            raise SchemaError(f"observations and actions of {kinds[0]} and {kinds[1]}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of authors and addresses that are not given
        minari.create_dataset_from_buffers(
            name,
            [_buffer(i, episode) for i, episode in enumerate(found)],
            observation_space=_seen_space(first.observation),
            action_space=_action_space(turns),
            jpeg_encoding=False,
        )
    return len(found)


def from_minari(name: str) -> Iterator[Episode]:
    """The episodes of a data set, of ours or of others.

    Of others: observations that are Discrete become one-hot, Discrete actions begin at 0, and those
    of a Box are scaled to [-1, 1], as `gymnasium:NAME` with arrays=True has them. A step that is
    both terminated and truncated is terminated. `success` is read from infos of that name, or
    `is_success`.

    Raises:
      ValueError: there is no such data set, or its spaces are of another kind.
      SchemaError: an episode that is none.
    """
    minari = _package(name)
    try:
        data = minari.load_dataset(name)
    except FileNotFoundError:
        known = ", ".join(sorted(minari.list_local_datasets())) or "none"
        raise ValueError(
            f"no data set {name!r} in MINARI_DATASETS_PATH or ~/.minari/datasets; there: {known}"
        ) from None
    see, act, count = _observer(data.observation_space), *_actor(data.action_space)
    task = _task(data)
    for one in data.iterate_episodes():
        told = one.infos.get(_OWN) if one.infos else None
        if told is not None:
            yield _own(from_line(bytes(told[0]).decode("utf-8")), one)
            continue
        if not len(one):
            raise SchemaError(f"episode {one.id} of {name} has no steps, expected one or more")
        legal = (True,) * count if count else None
        solved = _solved(one)
        turns = tuple(
            Turn(
                number=t,
                reward=float(one.rewards[t]),
                terminated=bool(one.terminations[t]),
                truncated=bool(one.truncations[t]) and not one.terminations[t],
                success=None if solved is None else bool(solved[t]),
                action=act(one.actions[t]),
                observation=_array(see(one.observations[t])),
                legal=legal,
            )
            for t in range(len(one))
        )
        longer = dataclasses.replace(task, turns=max(task.turns, len(one)))
        yield Episode(f"{name}/{one.id}", longer, (Agent(turns=turns),))


def _package(name: str) -> Any:
    """The package, for a data set's id."""
    if not _ID.fullmatch(name):
        raise ValueError(f"{name!r} is no id of a data set: expected NAMESPACE/NAME-v0, or NAME-v0")
    try:
        import minari
    except ImportError as error:
        raise ValueError(f"Minari's data sets need the package minari ({error}): pip install "
                         "'minari[hdf5]'") from None  # fmt: skip
    return minari


def _turns_of(episode: Episode) -> tuple[Turn, ...]:
    """The turns of an episode of one agent over arrays."""
    if len(episode.agents) != 1:
        raise SchemaError(f"{episode.id}: {len(episode.agents)} agents, expected one")
    turns = episode.agents[0].turns
    if not turns or any(turn.observation is None or turn.action is None for turn in turns):
        raise SchemaError(
            f"{episode.id}: turns without observation and action (of words), expected those of "
            "arrays"
        )
    return turns


def _values(array: Array | None) -> np.ndarray:
    assert array is not None  # `_turns_of` has looked
    return np.array(array.data, array.dtype).reshape(array.shape)


def _array(values: np.ndarray) -> Array:
    values = np.asarray(values)
    data = map(number, values.ravel()) if values.dtype.kind == "f" else values.ravel().tolist()
    return Array(str(values.dtype), values.shape, tuple(data))


def _seen_space(seen: Array | None) -> Any:
    from gymnasium import spaces

    values = _values(seen)
    kind = values.dtype
    low, high = (-math.inf, math.inf) if kind.kind == "f" else (0, 1)
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return spaces.Box(low, high, values.shape, kind.type)


def _action_space(turns: list[Turn]) -> Any:
    from gymnasium import spaces

    action = turns[0].action
    if isinstance(action, tuple):
        return spaces.Box(-1.0, 1.0, (len(action),), np.float32)
    most = max(len(turn.legal or ()) or 1 + turn.action for turn in turns)  # type: ignore[operator]
    return spaces.Discrete(most)


def _buffer(place: int, episode: Episode) -> Any:
    """Minari's episode, and what it has no place for as a text."""
    from minari.data_collector import EpisodeBuffer

    turns = _turns_of(episode)
    seen = [_values(turn.observation) for turn in turns]
    kind = np.float32 if isinstance(turns[0].action, tuple) else np.int64
    agent = episode.agents[0]
    rest = tuple(
        dataclasses.replace(
            turn, observation=None, action=None, reward=0.0, terminated=False, truncated=False
        )
        for turn in turns
    )
    line = to_line(dataclasses.replace(episode, agents=(dataclasses.replace(agent, turns=rest),)))
    return EpisodeBuffer(
        id=place,
        observations=[*seen, seen[-1]],
        actions=[np.asarray(turn.action, kind) for turn in turns],
        rewards=[turn.reward for turn in turns],
        terminations=[turn.terminated for turn in turns],
        truncations=[turn.truncated for turn in turns],
        infos={_OWN: [line, *[""] * len(turns)]},
    )


def _own(rest: Episode, one: "EpisodeData") -> Episode:
    """An episode of ours with the arrays of Minari's."""
    (agent,) = rest.agents
    if len(agent.turns) != len(one):
        raise SchemaError(f"{rest.id}: {len(one)} steps of {len(agent.turns)} turns")
    kept = one.actions.dtype.kind
    turns = tuple(
        dataclasses.replace(
            turn,
            observation=_array(one.observations[t]),
            action=tuple(map(number, one.actions[t])) if kept == "f" else int(one.actions[t]),
            reward=float(one.rewards[t]),
            terminated=bool(one.terminations[t]),
            truncated=bool(one.truncations[t]),
        )
        for t, turn in enumerate(agent.turns)
    )
    return dataclasses.replace(rest, agents=(dataclasses.replace(agent, turns=turns),))


def _observer(space: "Space") -> Callable[[Any], Any]:
    """(observation) -> the array that a policy reads."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        each = np.arange(space.start, space.start + space.n)
        return lambda seen: (each == seen).astype(np.float32)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        return np.asarray
    raise ValueError(f"observation space {space}: expected Box, Discrete or a vector of numbers")


def _actor(space: "Space") -> tuple[Callable[[Any], Any], int]:
    """((action) -> ours, the number of discrete ones or 0)."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return lambda action: int(action - space.start), int(space.n)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.is_bounded():
        low, high = space.low, space.high
        return lambda action: tuple(map(number, 2 * (action - low) / (high - low) - 1)), 0
    raise ValueError(f"action space {space}: expected Discrete, or a vector with bounds (Box)")


def _task(data: "MinariDataset") -> Task:
    """The environment that the data set names, as `envs.make` takes it."""
    spec = data.spec.env_spec
    if spec is None:
        return Task(f"minari:{data.spec.dataset_id}", {}, 1)
    options = {"arrays": True, **spec.kwargs}
    return Task(f"gymnasium:{spec.id}", options, spec.max_episode_steps or 1)


def _solved(one: "EpisodeData") -> np.ndarray | None:
    """Whether each step said that the task is solved; None where none says so."""
    infos = one.infos or {}
    told = infos.get("success", infos.get("is_success"))
    # The first is of the reset.
    return None if told is None else np.asarray(told)[-len(one) :]
