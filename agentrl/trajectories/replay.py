"""An episode played again from its task, its seeds and its actions, and compared with its line.

The steps are those of `agentrl.rollout.unroll`, one episode at a time: the key of turn t is
fold_in(fold_in(chance, t), 1), of whose split over the batch the episode has entry `index`; of a
reply with several commands, command i has fold_in(key, i).
"""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import envs
from agentrl.streams import to_last_turn
from agentrl.trajectories import replay_host
from agentrl.trajectories.schema import Episode, Task, number
from envs.environment import Environment, EnvState
from envs.text import Grammar, parse

# As in `agentrl.rollout.unroll`: what of a turn's key is for the environment.
STEP = 1


class ReplayError(ValueError):
    """An episode that cannot be played again; the message says why."""


class World(NamedTuple):
    """Compiled functions of one environment, for single episodes. draw: (state) -> text, on the
    host."""

    env: Environment
    reset: Callable[[jax.Array], EnvState]
    step: Callable[..., Any]
    seen: Callable[[Any], Any]
    legal: Callable[..., Any]
    expert: Callable[..., Any]
    success: Callable[[Any], Any]
    described: Callable[[Any], Any]
    understood: Callable[..., Any]
    draw: Callable[[Any], str]


@functools.lru_cache(maxsize=8)
def _world(environment: str, options: str, anchor: str, grammar: str) -> World:
    """options, grammar: JSON."""
    try:
        env, params = envs.make(environment, **_own(json.loads(options)))
    except (ValueError, TypeError) as error:
        raise ReplayError(f"task: {error}") from None
    if env.in_python:
        raise ReplayError(f"{environment} is an environment in Python, which keys do not repeat")
    agents = jnp.arange(env.num_agents, dtype=jnp.int32)

    def step(key, state, action):
        """(state, rewards f32[A], terminated, truncated)."""
        _, state, outcome = env.step_agents(key, state, action, params)
        return state, outcome.reward, outcome.terminated, outcome.truncated

    def seen(state):
        """(acting bool[A], anchors u32[A, 2])."""
        return env.acting(state, params), env.fingerprint(state, params, of=anchor)

    def legal(state, agent):
        """Which actions an agent may take, bool[num_actions]."""
        return env.legal_as(state, agent, params)

    def expert(state, agent):
        """The action of the environment's expert for an agent."""
        return env.expert_as(state, agent, params)

    def success(state):
        """Whether any agent has success, bool[]."""
        return jnp.any(env.is_success(state, params))

    def described(state):
        """What each agent reads, and the anchors of that."""
        text = jax.vmap(lambda agent: env.describe_as(state, agent, params))(agents)
        return text, jax.vmap(envs.fingerprint)(text.fragments)

    def understood(state, agent, text, length):
        slots = env.slots_as(state, agent, params)
        return parse(Grammar(**json.loads(grammar)), env.view, slots, text, length).actions

    reset = lambda key: env.reset_env(key, params)[1]  # noqa: E731
    functions = (reset, step, seen, legal, expert, success, described, understood)
    return World(env, *map(jax.jit, functions), lambda state: env.render(state, params))


def _own(options: Any) -> Any:
    """Options as `envs.make` takes them: lists of JSON are tuples."""
    if isinstance(options, dict):
        return {key.removesuffix("_"): _own(value) for key, value in options.items()}
    return tuple(map(_own, options)) if isinstance(options, list) else options


def replay(episode: Episode) -> list[str]:
    """Plays the episode again; what differs from its line, one text each.

    Compared bit for bit: the fingerprint of the first state, the anchor of every turn, rewards,
    ends, and of a language policy the text that it read. Of an environment in Python: who acts,
    what is seen, rewards and ends; that is equal if the environment follows from the seed of its
    reset.

    Raises:
      ReplayError: without seeds, with an environment that does not exist or fails, or without the
        actions of an agent that acts.
    """
    if episode.reset_seed is None:
        return list(_differences(episode))
    try:
        course = list(replay_host.played(episode))
    except replay_host.HostReplayError as error:
        raise ReplayError(str(error)) from None
    seen = [text for texts, _ in course for text in texts]
    raw = [outcome for _, outcome in course]
    last = max(turn.number for agent in episode.agents for turn in agent.turns)
    if not any(raw[-1][1:]) and len(raw) == last + 1:
        raw[-1][2] = True  # the rollout had no room for another turn
    return [*seen, *_outcomes(episode, raw)]


def drawings(episode: Episode) -> list[str]:
    """What the environment looked like before each turn, by the turn's number, and at the end.

    Raises:
      ReplayError: as `replay`.
      NotImplementedError: the environment has no drawing.
    """
    world, state = _begun(episode)
    shown = [world.draw(state)]
    for *_, after in _steps(world, episode, state):
        shown.append(world.draw(after))
    return shown


def _begun(episode: Episode) -> tuple[World, Any]:
    """The environment of an episode and its first state. ReplayError: as `replay`."""
    task, seeds = episode.task, episode.seeds
    if seeds is None:
        raise ReplayError(
            "no seeds: tasks were not drawn independently, or the rollout was not 'episodes' of "
            "one environment"
        )
    world = world_of(task)
    if world.env.num_agents != len(episode.agents):
        raise ReplayError(
            f"agents: {len(episode.agents)}, and {task.environment} has {world.env.num_agents}"
        )
    return world, world.reset(key_of(seeds.task))


def _differences(episode: Episode) -> Iterator[str]:
    world, state = _begun(episode)
    start = _words(envs.fingerprint(state))
    if episode.task.start not in (None, start):
        yield f"task.start: {episode.task.start} in the file, {start} now"
        return
    raw = []
    for t, before, present, outcome, _ in _steps(world, episode, state):
        yield from _seen(world, episode, before, t, present)
        raw.append(outcome)
    yield from _outcomes(episode, raw)


def _steps(
    world: World, episode: Episode, state: EnvState
) -> Iterator[tuple[int, Any, list[int], list[Any], Any]]:
    """(turn, state before it, agents that act, outcome as of `stepped`, state after it) of all."""
    assert episode.seeds is not None  # `_begun` has checked
    chance = key_of(episode.seeds.chance)
    acted = [{turn.number: turn for turn in agent.turns} for agent in episode.agents]
    for t in range(episode.task.turns):
        present = [a for a, turns in enumerate(acted) if t in turns]
        acting, _ = world.seen(state)
        missing = [a for a in np.flatnonzero(acting).tolist() if a not in present]
        if missing and not any(max(turns, default=-1) > t for turns in acted):
            break
        if missing:
            raise ReplayError(
                f"turn {t}: agent {missing[0]} acts, and the file has no action of it (it was "
                "another player's, from which nothing is learnt)"
            )
        key = jax.random.fold_in(jax.random.fold_in(chance, t), STEP)
        actions = {a: actions_of(world, episode, state, a, t) for a in present}
        after, *outcome = stepped(world, episode, state, actions, key)
        yield t, state, present, outcome, after
        state = after
        if outcome[1] or outcome[2]:
            break


def world_of(task: Task) -> World:
    """The environment of a task. ReplayError if there is none."""
    anchor = task.anchor or "observation"
    texts = (json.dumps(x, sort_keys=True) for x in (task.options, task.grammar))
    options, grammar = texts
    return _world(task.environment, options, anchor, grammar)


def key_of(words: tuple[int, int]) -> jax.Array:
    """The key of its two words."""
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32))


def _words(fingerprint: jax.Array) -> tuple[int, int]:
    first, second = np.asarray(fingerprint).tolist()
    return first, second


def _seen(
    world: World, episode: Episode, state: EnvState, t: int, present: list[int]
) -> Iterator[str]:
    """What differs of what is seen before a turn."""
    task, anchors = episode.task, np.asarray(world.seen(state)[1])
    if task.grammar is not None:
        text, of_text = jax.device_get(world.described(state))
        anchors = anchors if task.anchor == "state" else of_text
    for a in present:
        turn = next(turn for turn in episode.agents[a].turns if turn.number == t)
        if turn.anchor not in (None, _words(anchors[a])):
            yield f"agents[{a}], turn {t}: anchor {turn.anchor} in the file, {anchors[a]} now"
        if task.grammar is None:
            continue
        fragments = text.fragments[a, : text.length[a]]
        now = "".join(world.env.view.lexicon[f] for f in fragments)
        read = _text(episode, a, t, trained=False)
        if now not in read:  # between the texts of a chat template
            yield f"agents[{a}], turn {t}: read {read!r} in the file, {now!r} now"


def _text(episode: Episode, agent: int, t: int, *, trained: bool) -> str:
    """What an agent read in a turn, or wrote."""
    texts = episode.agents[agent].texts(t)
    if texts is None:
        raise ReplayError(f"agents[{agent}].rows: none was written in turn {t}")
    return texts[trained]


def stepped(
    world: World,
    episode: Episode,
    state: EnvState,
    actions: dict[int, list[np.ndarray]],
    key: jax.Array,
) -> tuple:
    """(state, rewards f32[A], terminated, truncated) after a turn with the actions of each agent
    that acts."""
    env, grammar = world.env, episode.task.grammar
    assert episode.seeds is not None
    index = episode.seeds.index
    zero = np.zeros(env.action_shape, np.float32 if env.continuous else np.int32)
    commands = [[zero] * env.num_agents]
    if grammar is not None:
        commands = [[zero] * env.num_agents for _ in range(grammar["max_actions"])]
    for a, own_actions in actions.items():
        for i, action in enumerate(own_actions):
            commands[i][a] = action
    if env.in_turns:  # the mover's is everybody's
        mover = next(iter(actions))
        commands = [[row[mover]] * env.num_agents for row in commands]
    several = grammar is not None and grammar["max_actions"] > 1
    total, ended = np.zeros(env.num_agents, np.float32), (False, False)
    for i, action in enumerate(commands):
        if any(ended) or (several and np.min(action) < 0):
            continue
        own = jax.random.fold_in(key, i) if several else key
        own = jax.random.split(own, index + 1)[index]
        state, reward, *flags = world.step(own, state, jnp.asarray(np.stack(action)))
        total = total + np.asarray(reward)
        ended = tuple(bool(flag) for flag in flags)
    return state, total, *ended


def actions_of(world: World, episode: Episode, state: EnvState, a: int, t: int) -> list[np.ndarray]:
    """The actions of an agent in a turn: as they are in the file, or read in its reply."""
    if episode.task.grammar is None:
        turn = next(turn for turn in episode.agents[a].turns if turn.number == t)
        if turn.action is None:
            raise ReplayError(f"agents[{a}], turn {t}: no action")
        kind = np.float32 if world.env.continuous else np.int32
        return [np.asarray(turn.action, kind)]
    data = _text(episode, a, t, trained=True).encode("utf-8", errors="surrogateescape")
    size = max(64, 1 << max(len(data) - 1, 1).bit_length())
    text = np.zeros(size, np.uint8)
    text[: len(data)] = np.frombuffer(data, np.uint8)
    lowered = np.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text).astype(np.uint8)
    found = world.understood(state, jnp.int32(a), lowered, jnp.int32(len(data)))
    return list(np.asarray(found))


def _outcomes(episode: Episode, raw: list[list[Any]]) -> Iterator[str]:
    """What differs of rewards and ends: those after an agent's turn belong to it."""
    length, last = len(raw), episode.task.turns - 1
    rewards, terminated, truncated = (np.array(x) for x in zip(*raw, strict=True))
    if length - 1 == last and not terminated[-1]:
        truncated[-1] = True  # the rollout's own limit
    mask = np.zeros((len(episode.agents), length), bool)
    for a, agent in enumerate(episode.agents):
        numbers = [turn.number for turn in agent.turns]
        if numbers and numbers[-1] >= length:
            yield f"agents[{a}]: turn {numbers[-1]} in the file, the episode is over after {length}"
            return
        mask[a, numbers] = True
    shape = mask.shape
    moved = {
        "reward": to_last_turn(jnp.asarray(rewards.T), mask),
        "terminated": to_last_turn(jnp.broadcast_to(terminated, shape), mask),
        "truncated": to_last_turn(jnp.broadcast_to(truncated, shape), mask),
    }
    for name, values in jax.device_get(moved).items():
        for a, agent in enumerate(episode.agents):
            for turn in agent.turns:
                now = values[a, turn.number]
                now = number(now) if name == "reward" else bool(now)
                if now != getattr(turn, name):
                    yield (
                        f"agents[{a}], turn {turn.number}: {name} {getattr(turn, name)} in the "
                        f"file, {now} now"
                    )
