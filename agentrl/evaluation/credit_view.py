"""The credit view: one group's episodes turn by turn, with the advantage that each turn gets."""

import dataclasses
from collections.abc import Mapping, Sequence

import chex
import jax
import numpy as np

from agentrl import advantages
from agentrl.evaluation.call_tree import callers, course
from agentrl.streams import Rows, Streams
from envs.environment import Environment, EnvParams


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn: observation, action, and its credit by label of the estimator.

    anchor: letters of the anchor group, "" if the turn is alone in it; anchor_size: number of its
    turns. number: of the turn in its episode, from 0. agent, depth: who acted, and how many calls
    deep.
    """

    board: str
    action: str
    probability: float
    reward: float
    valid: bool
    credit: Mapping[str, float]
    anchor: str
    anchor_size: int
    number: int = 0
    agent: int = 0
    depth: int = 0


@dataclasses.dataclass(frozen=True)
class Episode:
    """One member of the group: its turns and those of whom it called, its end ("success" and so on)
    and the last drawing. runs: of it in `Streams.runs`, if there are any."""

    turns: tuple[Turn, ...]
    end: str
    last_board: str
    episode_return: float
    runs: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class CreditView:
    """Content of the view. limit: the largest |advantage|, at which colours are full."""

    environment: str
    update: int
    group_size: int
    returns: tuple[float, ...]
    episodes: tuple[Episode, ...]
    limit: float


def choose_group(streams: Streams, task: int | None = None) -> tuple[int, float]:
    """The group whose returns differ most (the first of equals), and their standard deviation.

    task: restricts the choice to this task, in a batch of several.
    """
    returns = returns_of(streams)
    group = np.where(callers(streams) < 0, np.asarray(streams.group), -1)
    of_task = group if task is None else group[np.asarray(streams.task) == task]
    names = np.unique(of_task[of_task >= 0])
    spreads = [float(np.std(returns[group == name])) for name in names]
    return int(names[np.argmax(spreads)]), max(spreads)


def choose_episodes(streams: Streams, group: int, count: int = 4) -> list[int]:
    """Streams of the group: the best (by return, then by length) and the worst, half each.

    Not those that were called by others. Streams with the same sequence of observations and rewards
    are shown only once.
    """
    returns, mask = returns_of(streams), np.asarray(streams.mask)
    members = members_of(streams, group).tolist()
    order = sorted(members, key=lambda i: (-returns[i], mask[i].sum(), i))
    course = {
        i: (np.asarray(streams.anchor)[i][mask[i]].tobytes(), float(returns[i])) for i in order
    }
    different = list({course[i]: i for i in reversed(order)}.values())[::-1]
    if len(different) <= count:
        return different
    best = count // 2
    return different[:best] + different[best - count :]


def members_of(streams: Streams, group: int) -> np.ndarray:
    """Numbers of the group's streams that were not called by others."""
    return np.flatnonzero((np.asarray(streams.group) == group) & (callers(streams) < 0))


def per_turn(values: jax.Array, rows: Rows, shape: tuple[int, int]) -> np.ndarray:
    """Values of rows per turn, [N, T], for policies over arrays (one position per turn)."""
    turn = np.asarray(rows.turn)
    stream = np.broadcast_to(np.asarray(rows.stream)[:, None], turn.shape)
    out = np.zeros(shape, np.asarray(values).dtype)
    out[stream[turn >= 0], turn[turn >= 0]] = np.asarray(values)[turn >= 0]
    return out


def view(
    env: Environment,
    env_params: EnvParams,
    streams: Streams,
    rows: Rows,
    states: chex.ArrayTree,
    credit: Mapping[str, jax.Array],
    *,
    update: int = 0,
    episodes: int = 4,
) -> CreditView:
    """The view of a batch of whole episodes.

    states: [T + 1, B, ...], the result of `Rollout.states` for the arguments that gave the batch.
    credit: f32[N, T] by label, the advantages of each estimator for the batch's turns. Shows the
    group whose returns differ most.
    """
    group, _ = choose_group(streams)
    shown = choose_episodes(streams, group, episodes)
    mask = np.asarray(streams.mask)
    actions = per_turn(rows.tokens, rows, mask.shape)
    probability = np.exp(per_turn(rows.behaviour_logp, rows, mask.shape))
    played = [int(i) for i in np.asarray(streams.episode)[shown]]
    states = jax.tree.map(lambda x: np.asarray(x[:, np.asarray(played)]), states)
    owner = np.asarray(
        advantages.anchor_segments(streams.mask, streams.group, streams.anchor, role=streams.role)
    )
    sizes = dict(zip(*np.unique(owner[mask], return_counts=True), strict=True))
    courses = [course(streams, i) for i in shown]
    at = [owner[place.stream, place.turn] for places in courses for place in places]
    names = letters([o for o in at if sizes[o] > 1])
    agents = 1 if streams.role is None else env.num_agents
    arrays = {label: np.asarray(values) for label, values in credit.items()}
    reward, valid = np.asarray(streams.reward), np.asarray(streams.valid)

    def draw(t: int, column: int) -> str:
        state = jax.tree.map(lambda x: x[t, column], states)
        try:
            return env.render(state, env_params)
        except NotImplementedError:
            return ""

    drawn = []
    for column, (i, places) in enumerate(zip(shown, courses, strict=True)):
        turns = tuple(
            Turn(
                board=draw(t, column),
                action=env.action_names[actions[own, t]],
                probability=float(probability[own, t]),
                reward=float(reward[own, t]),
                valid=bool(valid[own, t]),
                credit={label: float(values[own, t]) for label, values in arrays.items()},
                anchor=names.get(owner[own, t], ""),
                anchor_size=int(sizes[owner[own, t]]),
                number=t,
                agent=own % agents,
                depth=depth,
            )
            for t, own, depth in places
        )
        end = "failure" if env.has_success else "the end"
        if np.asarray(streams.success)[i].any():
            end = "success"
        elif np.asarray(streams.truncated)[i].any():
            end = "out of time"
        last = draw(places[-1].turn + 1, column)
        runs = None if streams.runs is None else np.asarray(streams.runs[i])
        drawn.append(Episode(turns, end, last, float(returns_of(streams)[i]), runs))
    given = [abs(value) for e in drawn for turn in e.turns for value in turn.credit.values()]
    members = members_of(streams, group)
    return CreditView(
        environment=env.name,
        update=update,
        group_size=len(members),
        returns=tuple(float(r) for r in sorted(returns_of(streams)[members], reverse=True)),
        episodes=tuple(drawn),
        limit=max(given) or 1.0,
    )


def returns_of(streams: Streams) -> np.ndarray:
    """Sum of the rewards of each stream's turns (where `mask`), undiscounted, f32[N]."""
    return np.where(np.asarray(streams.mask), np.asarray(streams.reward), 0).sum(axis=1)


def letters(owners: Sequence[int]) -> dict[int, str]:
    """A, B, ..., Z, AA, AB, ... in order of first appearance."""
    names = {}
    for owner in dict.fromkeys(owners):
        rest, name = len(names) + 1, ""
        while rest:
            rest, digit = divmod(rest - 1, 26)
            name = chr(ord("A") + digit) + name
        names[owner] = name
    return names
