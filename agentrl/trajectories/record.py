"""From Streams and Rows to episodes, on the host.

Letters as in `agentrl.streams`; episodes are whole, so that a stream belongs to one of them.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import envs
from agentrl.policies.codec import Codec
from agentrl.rollout import hosted
from agentrl.rollout.starts import independent
from agentrl.streams import SPANS, PerPosition, PerTurn, Rows, Streams
from agentrl.trajectories.schema import Agent, Array, Episode, Seeds, Span, Task, Turn, number

# Numbers and flags of turns that streams may lack.
_FLAGS = ("success", "valid", "well_formed")
_NUMBERS = ("value", "bootstrap", "cost", "duration")


class Recorded(NamedTuple):
    """A batch on the host, from which episodes are read.

    credit: f32[N, T] or f32[R, L] as a Note, or None. tasks: by `Streams.task`, where there are
    several. seeds: (episode) -> the fields of its seeds, see `seeds_of` and `reset_seeds_of`.
    """

    streams: Streams
    rows: Rows
    tasks: Sequence[Task]
    credit: PerTurn | PerPosition | None = None
    codec: Codec | None = None
    seeds: Callable[[int], dict[str, Any]] = lambda episode: {}
    seed: int = 0
    update: int = 0

    def episode(self, number_: int) -> Episode:
        """One episode, by its number in `Streams.episode`."""
        streams = self.streams
        members = np.flatnonzero(streams.episode == number_)
        first = int(members[0])
        task = self.tasks[int(streams.task[first]) if len(self.tasks) > 1 else 0]
        if streams.first_state is not None:
            state = jax.tree.map(lambda x: x[first], streams.first_state)
            task = dataclasses.replace(task, start=_words(envs.fingerprint(state)))
        branched = {}
        parent = -1 if streams.parent is None else int(streams.parent[first])
        if parent >= 0 and streams.episode[parent] != number_:
            branched["parent"] = self._id(int(streams.episode[parent]))
            branched["branch_turn"] = int(streams.call_turn[first])
        return Episode(
            id=self._id(number_),
            task=task,
            agents=tuple(self._agent(int(i), members) for i in members),
            seed=self.seed,
            update=self.update,
            group=None if streams.group is None else int(streams.group[first]),
            **self.seeds(number_),
            **branched,
        )

    def _id(self, episode: int) -> str:
        return f"{self.seed}/{self.update}/{episode}"

    def _agent(self, stream: int, members: np.ndarray) -> Agent:
        streams, called = self.streams, {}
        parent = -1 if streams.parent is None else int(streams.parent[stream])
        if parent in members:
            called["parent"] = int(np.flatnonzero(members == parent)[0])
            called["call_turn"] = int(streams.call_turn[stream])
        turns = np.flatnonzero(streams.mask[stream]).tolist()
        own = np.flatnonzero((self.rows.stream == stream) & self.rows.loss_mask.any(axis=1))
        acted = {
            int(self.rows.turn[r, at]): (int(r), int(at))
            for r in own
            for at in np.flatnonzero(self.rows.loss_mask[r])
        }
        return Agent(
            role=0 if streams.role is None else int(streams.role[stream]),
            turns=tuple(self._turn(stream, t, acted.get(t)) for t in turns),
            rows=() if self.codec is None else tuple(self._row(int(r)) for r in own),
            **called,
        )

    def _turn(self, stream: int, t: int, place: tuple[int, int] | None) -> Turn:
        """A turn; place: the row and the last position that was written in it."""
        streams, here = self.streams, (stream, t)
        more: dict[str, Any] = {}
        for names, kind in ((_FLAGS, bool), (_NUMBERS, number)):
            arrays = {name: getattr(streams, name) for name in names}
            more |= {name: kind(x[here]) for name, x in arrays.items() if x is not None}
        if streams.anchor is not None:
            more["anchor"] = _words(streams.anchor[here])
        if isinstance(self.credit, PerTurn):
            more["advantage"] = number(self.credit.values[here])
        if place is not None and self.codec is None:
            more |= self._action(place)
        elif place is not None:
            ends = self.rows.tokens[place] == self.codec.end
            more["stop"] = "end" if ends else "length"
        return Turn(
            number=t,
            reward=number(streams.reward[here]),
            terminated=bool(streams.terminated[here]),
            truncated=bool(streams.truncated[here]),
            **more,
        )

    def _action(self, place: tuple[int, int]) -> dict[str, Any]:
        """What a policy over arrays saw and did at a position."""
        rows, legal = self.rows, None
        action: int | tuple[float, ...] = int(rows.tokens[place])
        if rows.action is not None:
            action = tuple(map(number, rows.action[place]))
        if rows.legal is not None:
            legal = tuple(rows.legal[place].tolist())
        seen = np.asarray(rows.observation[place])
        data = tuple(map(number, seen.ravel())) if seen.dtype.kind == "f" else seen.ravel().tolist()
        return {
            "action": action,
            "logp": number(rows.behaviour_logp[place]),
            "observation": Array(str(seen.dtype), seen.shape, tuple(data)),
            "legal": legal,
        }

    def _row(self, r: int) -> tuple[Span, ...]:
        """The spans of a row up to its last position that belongs to a turn."""
        rows, codec = self.rows, self.codec
        assert codec is not None and rows.span is not None  # a language policy's
        used = np.flatnonzero((rows.turn[r] >= 0) | (rows.span[r] >= 0) | rows.loss_mask[r])
        size = int(used[-1]) + 1
        keys = np.stack([rows.turn[r, :size], rows.span[r, :size], rows.loss_mask[r, :size]])
        starts = np.flatnonzero(np.diff(keys, prepend=-2).any(axis=0)).tolist()
        token_credit = self.credit.values[r] if isinstance(self.credit, PerPosition) else None
        spans = []
        for first, last in zip(starts, [*starts[1:], size], strict=True):
            turn, kind, trained = keys[:, first].tolist()
            tokens = rows.tokens[r, first:last].tolist()
            data = b"".join(bytes(codec.token_bytes[t, : codec.token_lengths[t]]) for t in tokens)
            written = {}
            if trained:
                written["logp"] = tuple(map(number, rows.behaviour_logp[r, first:last]))
                if token_credit is not None:
                    written["advantage"] = tuple(map(number, token_credit[first:last]))
            spans.append(
                Span(
                    kind=None if kind < 0 else SPANS[kind],
                    turn=None if turn < 0 else turn,
                    tokens=tuple(tokens),
                    text=data.decode("utf-8", errors="surrogateescape"),
                    trained=bool(trained),
                    **written,
                )
            )
        return tuple(spans)


def _words(fingerprint: jax.Array) -> tuple[int, int]:
    first, second = np.asarray(fingerprint).tolist()
    return first, second


def recorded(streams: Streams, rows: Rows, tasks: Sequence[Task], **more: Any) -> Recorded:
    """A batch, its arrays brought to the host; more: the further fields of `Recorded`."""
    streams, rows, credit = jax.device_get((streams, rows, more.pop("credit", None)))
    return Recorded(streams, rows, tasks, credit=credit, **more)


def chosen(streams: Streams, score: jax.Array, most: int) -> list[int]:
    """Numbers of the episodes with a positive score f32[N], the highest first; at most `most`, or
    all for 0. The score of an episode is the largest of its streams."""
    best: dict[int, float] = {}
    for episode, value in zip(streams.episode.tolist(), np.asarray(score).tolist(), strict=True):
        best[episode] = max(best.get(episode, value), value)
    order = sorted((e for e in best if best[e] > 0), key=lambda e: (-best[e], e))
    return order[: most or None]


def seeds_of(key: jax.Array, groups: int, size: int) -> Callable[[int], dict[str, Any]]:
    """(episode) -> its seeds, of a collection of `agentrl.rollout.episodes` with this key, whose
    tasks are drawn independently."""
    task_key, chance = jax.random.split(key)
    keys, _ = independent(task_key, groups)
    tasks, chance = (np.asarray(jax.random.key_data(x)) for x in (keys, chance))
    return lambda episode: {"seeds": Seeds(_words(tasks[episode // size]), _words(chance), episode)}


def reset_seeds_of(key: jax.Array, groups: int, size: int) -> Callable[[int], dict[str, Any]]:
    """(episode) -> its seed, of such a collection of an environment in Python."""
    tasks = hosted.seeds_of(jax.random.split(jax.random.split(key)[0], groups))
    return lambda episode: {"reset_seed": int(tasks[episode // size])}


def episodes_of(batch: Recorded, score: jax.Array, most: int) -> Iterator[Episode]:
    """The chosen episodes of a batch; score and most: see `chosen`."""
    return map(batch.episode, chosen(batch.streams, score, most))
