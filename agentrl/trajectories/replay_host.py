"""An episode of an environment in Python, played again from the seed of its reset and its actions.

One worker process plays all episodes of a task, as in a rollout.
"""

import atexit
import functools
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envs
from agentrl.trajectories.schema import Episode, Turn
from envs.hosted import Hosted, HostError, Pool
from envs.text import Grammar
from envs.text.grammar import lower, span

# Seconds that an answer may take.
_TIMEOUT = 120.0


class HostReplayError(ValueError):
    """An episode that cannot be played again; the message says why."""


@functools.lru_cache(maxsize=1)
def _opened(environment: str, options: str) -> tuple[Hosted, Pool]:
    """The environment and a process that plays it. options: JSON."""
    try:
        env, _ = envs.make(environment, **json.loads(options))
    except (ValueError, TypeError) as error:
        raise HostReplayError(f"task: {error}") from None
    if not env.in_python or env.calls_model:
        raise HostReplayError(f"{environment} has no reset with a seed and no steps")
    pool = env.pool(1, _TIMEOUT)
    atexit.register(pool.close)
    return env, pool


def _asked(pool: Pool, **request: Any) -> dict[str, Any]:
    try:
        while not pool.idle():
            pool.wait()
        pool.ask(0, request)
        (answer,) = pool.wait()
    except HostError as error:
        raise HostReplayError(str(error)) from None
    if answer.reply is None:
        raise HostReplayError(f"the environment failed: {answer.failure}")
    return answer.reply


def played(episode: Episode) -> Iterator[tuple[list[str], list[Any]]]:
    """(what differs of what is seen, outcome) of each turn of an episode.

    outcome: rewards f32[A], terminated, truncated. Observations are compared bit for bit: texts by
    the fingerprints of their bytes that are the anchors, numbers by themselves.

    Raises:
      HostReplayError: the environment does not start or fails, or an action is not in the file.
    """
    task = episode.task
    env, pool = _opened(task.environment, json.dumps(task.options, sort_keys=True))
    if env.num_agents != len(episode.agents):
        raise HostReplayError(
            f"agents: {len(episode.agents)}, and {task.environment} has {env.num_agents}"
        )
    answer = _asked(pool, op="reset", seed=episode.reset_seed)
    acted = [{turn.number: turn for turn in agent.turns} for agent in episode.agents]
    for t in range(task.turns):
        present = [a for a, turns in enumerate(acted) if t in turns]
        if not present:  # the rollout had no room for another turn
            return
        wrong = list(_differences(env, answer, {a: acted[a][t] for a in present}, t))
        each = [_action(env, episode, a, t) if a in present else None for a in range(len(acted))]
        action = each if env.simultaneous else each[present[0]]
        answer = _asked(pool, op="step", action=action)
        ended = [answer["terminated"], answer["truncated"] and not answer["terminated"]]
        yield wrong, [np.asarray(answer["reward"], np.float32), *ended]
        if any(ended):
            return


def _differences(
    env: Hosted, answer: dict[str, Any], turns: dict[int, Turn], t: int
) -> Iterator[str]:
    """What differs of who acts in a turn, and of what they see."""
    together = env.simultaneous
    acting = np.flatnonzero(answer["acting"]).tolist() if together else [answer["seat"]]
    if acting != list(turns):
        yield f"turn {t}: agents {list(turns)} act in the file, {acting} now"
        return
    for a, turn in turns.items():
        seen = answer["observation"][a] if together else answer["observation"]
        if isinstance(seen, str):
            digest = hashlib.blake2b(seen.encode(errors="replace"), digest_size=8).digest()
            now = tuple(np.frombuffer(digest, "<u4").tolist())
            if turn.anchor not in (None, now):
                yield f"agents[{a}], turn {t}: anchor {turn.anchor} in the file, {now} of {seen!r}"
        elif turn.observation is not None:
            now = np.asarray(seen, np.float32).ravel().tolist()
            there = np.asarray(turn.observation.data, np.float32).tolist()
            if now != there:
                yield f"agents[{a}], turn {t}: observation {there} in the file, {now} now"


def _action(env: Hosted, episode: Episode, a: int, t: int) -> Any:
    """The action of an agent in a turn, as its environment takes it."""
    agent, grammar = episode.agents[a], episode.task.grammar
    if grammar is None:
        turn = next(turn for turn in agent.turns if turn.number == t)
        if turn.action is None:
            raise HostReplayError(f"agents[{a}], turn {t}: no action")
        return list(turn.action) if isinstance(turn.action, tuple) else turn.action
    texts = agent.texts(t)
    if texts is None:
        raise HostReplayError(f"agents[{a}].rows: none was written in turn {t}")
    data = texts[1].encode("utf-8", errors="surrogateescape")
    size = max(64, 1 << max(len(data) - 1, 1).bit_length())
    padded = np.zeros(size, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    find = _find(json.dumps(grammar, sort_keys=True))
    start, end, _ = find(jnp.asarray(padded), jnp.int32(len(data)))
    return data[int(start) : int(end)].decode("utf-8", errors="replace").strip()


@functools.lru_cache(maxsize=8)
def _find(grammar: str) -> Any:
    """(text, length) -> where the action is, compiled. grammar: JSON."""
    made = Grammar(**json.loads(grammar))
    return jax.jit(lambda text, length: span(made, lower(text), length))
