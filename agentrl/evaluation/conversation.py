"""A language policy's episode turn by turn, with replies that a person may give instead of it.

The steps are those of `agentrl.rollout.unroll`, one at a time, so that an episode in which nothing
is given is the one that `Rollout.play` plays for the same keys. A given reply enters the context,
and the KV cache, as the policy's own.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.records import TextRecord
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.transcript import OBSERVED, OMITTED, REPLIED, Composed
from agentrl.evaluation.terminal import Words
from agentrl.players.scripted import view_of
from agentrl.policies.codec import Codec, decode
from agentrl.policies.generation import Given
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import fresh, keep_turn, unroll
from agentrl.streams import SPANS
from envs.vector import World


class Reply(NamedTuple):
    """A reply of one agent.

    parts: (name of the span, text) in order. chance: its probability, None if it was given.
    command: what it was parsed to; None if that is none. ended: it ends with EOS. summary: what the
    policy wrote before it in place of earlier turns, or "".
    """

    parts: list[tuple[str, str]]
    chance: float | None
    command: str | None
    well_formed: bool
    ended: bool
    summary: str


class Step(NamedTuple):
    """A turn of all agents.

    replies: by agent, of those that replied; empty if a context had no room, which ends the episode
    before this turn. reward: f64[A]. valid: bool[A].
    """

    replies: dict[int, Reply]
    reward: np.ndarray
    valid: np.ndarray


class Standing(NamedTuple):
    """How an episode stands. steps: taken so far. total: returns f64[A]. success: bool[A].
    offender: see `envs.agents.Outcome`. full: a context had no room for the next turn."""

    steps: int
    total: np.ndarray
    success: np.ndarray
    offender: int = -1
    terminated: bool = False
    truncated: bool = False
    full: bool = False

    @property
    def ended(self) -> bool:
        """Whether the episode has no further turn: it is over, was cut, or its context is full."""
        return self.terminated or self.truncated or self.full


def no_turns(agents: int) -> Standing:
    """The standing of an episode that has begun."""
    return Standing(0, np.zeros(agents), np.zeros(agents, bool))


class Conversation:
    """Episodes of a policy that has all seats of an environment in the graph, one after another.

    An episode has to be begun with `begin`; the state before each of its turns is kept, for `undo`.
    """

    no_undo = "nothing to take back"

    def __init__(
        self,
        text: TextAgent,
        world: World,
        params: chex.ArrayTree,
        key: jax.Array,
        *,
        turns: int,
        greedy: bool = False,
    ):
        """turns: after which an episode is truncated. key: randomness of replies and environment,
        as of `Rollout.play`."""
        env = world.env
        self.env, self.text = env, text
        self._params, self._key, self._world = params, key, world
        self._words = Words(env, world.params)
        # Of the episode that `begin` starts; `_looked`: the view and prompts of the next turn.
        self.standing = no_turns(env.num_agents)
        self._now: Start | None = None
        self._looked: tuple[Any, Composed] | None = None
        self._past: list[tuple[Start, jax.Array | None, Standing]] = []
        seating = seat_all(env, 1)

        def begin(params, task_key):
            start, alive = fresh(world, task_key[None]), jnp.ones(1, bool)
            memory = text.actor(params, greedy=greedy).init(1, env.num_agents)
            return Start(start.state, None, (memory,), alive, alive)

        def step(params, now, taken, given):
            actor = text.actor(params, greedy=greedy, given=given)
            rest = {"length": 1, "taken": taken, "limit": turns, "keep": keep_turn}
            trajectory = unroll(world, [actor], seating, now, key, **rest)
            return trajectory.final, jax.tree.map(lambda x: x[0], trajectory.turns)

        def look(now):
            view = view_of(world, now.state)
            return view._replace(state=None), text.prompt(now.memory[0], view)

        self._begin, self._step, self._look = jax.jit(begin), jax.jit(step), jax.jit(look)
        self._legal = jax.jit(lambda state: env.legal_actions(state, world.params))
        self._speaker = jax.jit(lambda state: env.speaker(state, world.params))

    def begin(self, task_key: jax.Array) -> None:
        """Starts the episode of a task."""
        self._now = self._begin(self._params, task_key)
        self.standing = no_turns(self.env.num_agents)
        self._past, self._looked = [], None

    def _shown(self) -> tuple[Any, Composed]:
        """The view and the prompts of the next turn, [1, S, ...]."""
        if self._looked is None:
            self._looked = jax.device_get(self._look(self._now))
        return self._looked

    def acting(self) -> list[int]:
        """The agents that reply in the next turn."""
        view, _ = self._shown()
        return view.agent[view.acting].tolist()

    def read(self, agent: int) -> str:
        """What the agent reads before its next reply.

        In a context that keeps the whole episode, what is new of it.
        """
        view, prompt = self._shown()
        place = view.agent[0].tolist().index(agent)
        return prompt_text(self.text, jax.tree.map(lambda x: x[0, place], prompt))

    def role(self) -> int | None:
        """The role that writes next, where several write one transcript; None elsewhere."""
        if self.env.speakers == 1:
            return None
        return int(self._speaker(jax.tree.map(lambda x: x[0], self._now.state)))

    def commands(self, agent: int) -> tuple[list[str], list[bool]]:
        """The environment's commands now, and which of them are legal."""
        state = jax.tree.map(lambda x: x[0], self._now.state)
        return self._words.write(state, agent), np.asarray(self._legal(state))[agent].tolist()

    def step(self, given: Mapping[int, Given]) -> Step:
        """Takes the turn. given: replies by agent; the policy writes the others."""
        texts = {agent: self.commands(agent)[0] for agent in self.acting()}
        rows = given_rows(given, self.env.num_agents, self.text.layout.reply_tokens)
        now, taken = self._now, self.standing.steps
        self._now, turn = self._step(self._params, now, jnp.int32(taken), rows)
        turn: Turn = jax.device_get(turn)
        self._keep(now)
        outcome, before = turn.outcome, self.standing
        reward = outcome.reward[0].astype(np.float64)
        self.standing = Standing(
            steps=taken + int(turn.running[0]),
            total=before.total + reward,
            success=before.success | outcome.success[0],
            offender=int(outcome.offender[0]),
            terminated=bool(outcome.terminated[0]),
            truncated=bool(outcome.truncated[0]),
            full=not turn.running[0],
        )
        replies = {}
        for place in np.flatnonzero(turn.acting[0]):
            agent = int(turn.agent[0, place])
            record = jax.tree.map(lambda x, place=place: x[0, place], turn.decision.record)
            command = _command_text(texts[agent], np.atleast_1d(turn.action[0, place]))
            replies[agent] = reply_of(self.text.policy.codec, record, command, agent in given)
        return Step(replies, reward, outcome.valid[0])

    def _keep(self, before: Start) -> None:
        """Keeps a state for `undo`: of the KV cache its length, as nothing before that changes."""
        memory, self._looked = before.memory[0], None
        length = None if memory.cache is None else memory.cache.length
        before = before._replace(memory=(memory.replace(cache=None),))
        self._past.append((before, length, self.standing))

    def undo(self) -> bool:
        """Takes back a turn; False if there is none."""
        if not self._past:
            return False
        before, length, self.standing = self._past.pop()
        cache = self._now.memory[0].cache
        if length is not None:
            cache = cache.replace(length=length)
        self._now = before._replace(memory=(before.memory[0].replace(cache=cache),))
        self._looked = None
        return True

    def close(self) -> None:
        """Releases nothing: everything is in this process."""


def given_rows(given: Mapping[int, Given], agents: int, size: int) -> Given | None:
    """Replies by agent as rows, [A, G]; None without any."""
    if not given:
        return None
    tokens, length = np.zeros((agents, size), np.int32), np.zeros(agents, np.int32)
    for agent, reply in given.items():
        tokens[agent], length[agent] = reply
    return Given(tokens, length)


def prompt_text(agent: TextAgent, prompt: Composed) -> str:
    """The text of one prompt: pieces [L], of which those of its last turn if the row is the
    episode. Earlier replies are marked by "> "."""
    codec, size = agent.policy.codec, int(prompt.length)
    turn, kind = prompt.turn[:size], prompt.kind[:size]
    starts = np.flatnonzero(np.diff(turn, prepend=-2) | np.diff(kind, prepend=-2))
    lines = []
    for first, last in zip(starts, [*starts[1:], size], strict=True):
        text = decode(codec, prompt.tokens[first:last])
        if kind[first] == OMITTED:
            text = "..."
        elif kind[first] == REPLIED:
            text = f"> {text}"
        elif kind[first] not in (-1, OBSERVED):
            text = f"summary: {text}"
        if text and not (agent.one_row and turn[first] != turn[-1]):
            lines.append(text)
    return "\n".join(lines)


def reply_of(codec: Codec, record: TextRecord, command: str | None, given: bool) -> Reply:
    """The reply of a record without leading axes."""
    written, parts = record.reply, []
    count = int(written.count)
    tokens, spans = written.tokens[:count], written.spans[:count]
    starts = np.flatnonzero(np.diff(spans, prepend=-2))
    for first, last in zip(starts, [*starts[1:], count], strict=True):
        parts.append((SPANS[spans[first]], decode(codec, tokens[first:last])))
    summary = record.summary
    return Reply(
        parts=parts,
        chance=None if given else float(np.exp(written.logp[:count].sum())),
        command=command,
        well_formed=bool(record.format_ok),
        ended=bool(record.ended),
        summary="" if summary is None else decode(codec, summary.tokens[: int(summary.count)]),
    )


def _command_text(texts: list[str], actions: np.ndarray) -> str | None:
    """The text of actions i32[M]; None if there are none. A free text has no entry in texts."""
    named = [texts[a] if a < len(texts) else f"action {a}" for a in actions.tolist() if a >= 0]
    return " || ".join(named) or None
