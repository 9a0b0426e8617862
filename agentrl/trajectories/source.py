"""A file of trajectories as a source of rows: supervised terms, and offline ones.

Nothing is tokenised again: rows are the token ids of the file. Letters as in `agentrl.streams`.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.policies.actor_critic import Policy
from agentrl.streams import SPANS, Rows, Streams
from agentrl.trajectories import files
from agentrl.trajectories.schema import Agent, Episode, Turn

Kept = Literal["all", "successes"]
Turns = Literal["all", "valid"]
_FLAGS = ("terminated", "truncated", "success", "valid", "well_formed")
_NUMBERS = ("reward", "value", "bootstrap", "cost", "duration")

Tree = TypeVar("Tree", Streams, Rows)


class Played(NamedTuple):
    """An agent of an episode. number: the episode's. first: its first stream. place: the agent's
    number in it."""

    episode: Episode
    number: int
    first: int
    place: int
    agent: Agent


def file(
    setup: Setup,
    *,
    path: str,
    rows: int = 0,
    episodes: Kept = "all",
    turns: Turns = "all",
) -> Component:
    """Source of the rows of a file of trajectories, for terms that name it: `source="file"`.

    Streams are all of the file's, with the fields that all its turns have, so that credit can be
    given there, too.

    Args:
      path: the file. rows: drawn per update, each from all rows; 0: all rows, in the file's order.
      episodes: "successes": those in which the task was solved.
      turns: "valid": turns whose reply was well formed and legal are trained on, the others read.

    Raises:
      ValueError: a file without such episodes, of tokens that the policy does not have or of none,
        or of arrays where the policy reads text, and the other way round.
    """
    where = "config.components.file"
    check_range(f"{where}.rows", rows, 0)
    check_choice(f"{where}.episodes", episodes, get_args(Kept))
    check_choice(f"{where}.turns", turns, get_args(Turns))
    try:
        found = list(files.read(path))
    except OSError as error:
        raise ValueError(f"{where}.path={path!r} cannot be read ({error.strerror})") from None
    found = [e for e in found if episodes == "all" or e.success]
    held_streams = streams_of(found)
    try:
        streams = stacked(held_streams)
        held = _held(setup, held_streams, turns)
    except ValueError as error:
        raise ValueError(f"{where}.path={path!r}: {error}") from None

    def make(context, sources):
        if rows == 0:
            return _on_device(streams), _on_device(held)
        at = jax.random.randint(context.key, (rows,), 0, held.tokens.shape[0])
        return _on_device(streams), jax.tree.map(lambda x: jnp.asarray(x)[at], held)

    return Component(source=Source(make), in_warm_start=True)


def _on_device(tree: Tree) -> Tree:
    return jax.tree.map(jnp.asarray, tree)


def streams_of(episodes: Sequence[Episode]) -> list[Played]:
    """The agents of episodes, in order."""
    out: list[Played] = []
    for number, episode in enumerate(episodes):
        first = len(out)
        out += [Played(episode, number, first, a, x) for a, x in enumerate(episode.agents)]
    return out


def stacked(found: Sequence[Played]) -> Streams:
    """The streams of episodes, NumPy arrays; fields that some turn lacks are None.

    Raises:
      ValueError: no turn at all.
    """
    every = [turn for one in found for turn in one.agent.turns]
    if not every:
        raise ValueError("no episodes with turns; expected one or more")
    shape = (len(found), 1 + max(turn.number for turn in every))
    mask = np.zeros(shape, bool)
    fields: dict[str, np.ndarray] = {}
    for names, dtype in ((_FLAGS, bool), (_NUMBERS, np.float32)):
        known = (n for n in names if all(getattr(turn, n) is not None for turn in every))
        fields |= {name: np.zeros(shape, dtype) for name in known}
    if all(turn.anchor is not None for turn in every):
        fields["anchor"] = np.zeros((*shape, 2), np.uint32)
    for i, one in enumerate(found):
        for turn in one.agent.turns:
            mask[i, turn.number] = True
            for name, array in fields.items():
                array[i, turn.number] = getattr(turn, name)
    groups = [_group(one.episode) for one in found]
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    called = [one.agent.parent is not None for one in found]
    if any(called):
        parents = [-1 if x.agent.parent is None else x.first + x.agent.parent for x in found]
        turns = [-1 if x.agent.call_turn is None else x.agent.call_turn for x in found]
        fields["parent"], fields["call_turn"] = np.int32(parents), np.int32(turns)
    if any(len(one.episode.agents) > 1 for one in found):
        fields["role"] = np.int32([one.agent.role for one in found])
        fields["task"] = np.zeros(len(found), np.int32)
    episode = np.int32([one.number for one in found])
    return Streams(
        mask=mask, group=np.int32([number[group] for group in groups]), episode=episode, **fields
    )


def _group(episode: Episode) -> tuple:
    """What the episodes of a group have in common, and no others."""
    if episode.group is None:
        return (episode.id,)
    return episode.seed, episode.update, episode.group


def _held(setup: Setup, found: Sequence[Played], turns: Turns) -> Rows:
    """The rows of the file as the policy's."""

    def trains(turn: Turn) -> bool:
        return turns == "all" or bool(turn.valid)

    codec = setup.policy.codec
    if codec is None:
        return array_rows(found, setup.policy, trains)
    return text_rows(found, codec.vocab_size, trains)


def text_rows(found: Sequence[Played], vocabulary: int, trains: Callable[[Turn], bool]) -> Rows:
    """Rows of a language policy, as long as the longest. ValueError without tokens of it."""
    rows = [(i, one, row) for i, one in enumerate(found) for row in one.agent.rows]
    sizes = [sum(len(span.tokens) for span in row) for _, _, row in rows]
    if not rows or not all(span.tokens for _, _, row in rows for span in row):
        raise ValueError(
            "spans without tokens (of arrays, or converted from text alone); expected those that "
            "a language policy wrote"
        )
    shape = (len(rows), max(sizes))
    tokens, turn, span_of = (np.full(shape, fill, np.int32) for fill in (0, -1, -1))
    mask, logp = np.zeros(shape, bool), np.zeros(shape, np.float32)
    for r, (_, one, row) in enumerate(rows):
        kept, at = {turn.number for turn in one.agent.turns if trains(turn)}, 0
        for span in row:
            here = slice(at, at + len(span.tokens))
            at = here.stop
            tokens[r, here] = span.tokens
            turn[r, here] = -1 if span.turn is None else span.turn
            span_of[r, here] = -1 if span.kind is None else SPANS.index(span.kind)
            mask[r, here] = span.trained and span.turn in kept
            if span.logp is not None:
                logp[r, here] = span.logp
    if tokens.max() >= vocabulary:
        raise ValueError(
            f"token {tokens.max()}, and the policy has {vocabulary}; expected a file of a policy "
            "with the same codec"
        )
    return Rows(
        tokens=tokens,
        loss_mask=mask,
        stream=np.int32([i for i, *_ in rows]),
        turn=turn,
        behaviour_logp=logp,
        span=span_of,
        role=np.int32([one.agent.role for _, one, _ in rows]),
    )


def array_rows(found: Sequence[Played], policy: Policy, trains: Callable[[Turn], bool]) -> Rows:
    """Rows of a policy over arrays: one per turn, or with memory one per stream, [N, T]."""
    memory = policy.memory(len(found))
    acted = [(i, one, turn) for i, one in enumerate(found) for turn in one.agent.turns]
    if any(turn.observation is None or turn.action is None for *_, turn in acted):
        raise ValueError("turns without observation and action; expected those of arrays")
    if memory is None:
        places = [(r, 0) for r in range(len(acted))]
        shape, of_row = (len(acted), 1), [(i, one) for i, one, _ in acted]
    else:
        places = [(i, turn.number) for i, _, turn in acted]
        shape = (len(found), 1 + max(turn.number for *_, turn in acted))
        of_row = list(enumerate(found))
    first = acted[0][2]
    continuous, seen = isinstance(first.action, tuple), first.observation
    fields = {
        "tokens": np.zeros(shape, np.int32),
        "loss_mask": np.zeros(shape, bool),
        "turn": np.full(shape, -1, np.int32),
        "behaviour_logp": np.zeros(shape, np.float32),
        "observation": np.zeros((*shape, *seen.shape), seen.dtype),
    }
    if continuous:
        fields["action"] = np.zeros((*shape, len(first.action)), np.float32)
    if first.legal is not None:
        fields["legal"] = np.ones((*shape, len(first.legal)), bool)
    for place, (_, _, turn) in zip(places, acted, strict=True):
        if turn.observation.shape != seen.shape:
            raise ValueError(f"observations of shapes {seen.shape} and {turn.observation.shape}")
        fields["action" if continuous else "tokens"][place] = turn.action
        fields["loss_mask"][place] = trains(turn)
        fields["turn"][place] = turn.number
        fields["behaviour_logp"][place] = 0.0 if turn.logp is None else turn.logp
        fields["observation"][place] = np.reshape(turn.observation.data, seen.shape)
        if turn.legal is not None and "legal" in fields:
            fields["legal"][place] = turn.legal
    several = any(len(one.episode.agents) > 1 for one in found)
    return Rows(
        stream=np.int32([i for i, _ in of_row]),
        role=np.int32([one.place for _, one in of_row]) if several else None,
        start=None if memory is None else np.zeros(shape, bool),
        memory=memory,
        **fields,
    )
