"""Players outside this process: they are asked for each turn in the middle of a compiled program.

A turn is a JSON object with what the seat reads, the commands that are legal now, and where it is:

    {"match": 3, "seat": 1, "first": false, "observation": "...", "commands": ["call"]}

`first`: it is the seat's first turn in the match. The answer is a reply, as a language policy would
write it, or none: the player abstains. That is an illegal action, for which the game's rules state
what follows.
"""

import abc
import asyncio
import atexit
import collections
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from agentrl.actors.types import Actor, Decision, View
from envs.environment import Environment
from envs.text import Grammar, join, make_grammar, parse
from envs.vector import World

# Failures in a row after which a player is not asked again.
PATIENCE = 3
# Seconds in which a player may end by itself.
GRACE = 1.0


class Gone(RuntimeError):
    """A player that is asked no longer, where nobody can take its seats."""


class Failure(Exception):
    """(kind, what happened) of a request without a valid answer."""


class Asked(abc.ABC):
    """A player outside this process, and what went wrong with it.

    name: as it is named. grammar: of its replies. reply_bytes: of a reply, at most; a longer one
    abstains. failures: how many requests failed, per kind. abstained: how many answers were none.
    asked: number of turns that it was asked for. gone: why it is asked no longer, or "": after
    `PATIENCE` failures in a row, so that one that hangs delays a match by a few time limits only.
    """

    def __init__(
        self, name: str, env: Environment, *, grammar: str, reply_bytes: int, timeout_s: float
    ):
        """Begins the loop. ValueError: no words in the game, or a time limit that is no time."""
        if not env.wordings or env.continuous:
            raise ValueError(f"{name} in {env.name}: such players play games with words")
        if timeout_s <= 0:
            raise ValueError(f"timeout_s={timeout_s}: expected a positive number of seconds")
        self.name, self.grammar, self.reply_bytes = name, grammar, reply_bytes
        self.failures: collections.Counter[str] = collections.Counter()
        self.asked, self.abstained, self.gone = 0, 0, ""
        self._row = 0
        # A loop of its own, in a thread of its own: callers may have one that runs (notebooks).
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # of a run that ends before it begins

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abc.abstractmethod
    def answers(self, turns: Sequence[dict[str, Any]]) -> list[bytes | None]:
        """The replies to turns of several seats and matches; None where the player abstains."""

    @abc.abstractmethod
    async def _end(self, grace: float) -> None:
        """Ends what was opened; grace: seconds that it may take by itself."""

    def summary(self) -> str:
        """What went wrong, in a line; "" for a player that answered everything."""
        parts = [f"{count} {kind}" for kind, count in sorted(self.failures.items())]
        if self.abstained:
            parts.append(f"{self.abstained} abstained")
        if not parts:
            return ""
        gone = f"; not asked again after {self.gone}" if self.gone else ""
        return f"{self.name}: of {self.asked} turns {', '.join(parts)}{gone}"

    def close(self) -> None:
        """Ends what was started for it."""
        if self._loop.is_closed():
            return
        atexit.unregister(self.close)
        self._wait(self._end(GRACE))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _asked(self, reply: Coroutine[Any, Any, bytes | None]) -> bytes | None:
        """The reply, counted; a `Failure` abstains."""
        self.asked += 1
        try:
            said = await reply
        except Failure as failure:
            kind, what = failure.args
            self.failures[kind] += 1
            self._row += 1
            if self._row >= PATIENCE and not self.gone:
                self.gone = f"{PATIENCE} failures in a row, the last: {what}"
            return None
        self._row = 0
        self.abstained += said is None
        return said


def short(value: Any) -> str:
    """A value as Python writes it, cut, for messages."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def asked_actor(player: Asked, world: World, *, must_play: bool = False) -> Actor:
    """Such a player in seats of a game. Its memory counts each agent's own turns, i32[B, A].

    The compiled program of the matches asks the player in the middle of each step, in which it
    acts: the only actors that leave the device.

    must_play: the program fails (`Gone`) once the player is asked no longer, instead of playing on
    against one that abstains.
    """
    grammar = make_grammar(player.grammar, view=world.env.view)
    return Actor(
        lambda batch, agents: jnp.zeros((batch, agents), jnp.int32),
        _Asking(player, world, grammar, must_play).act,
        remembers=True,
        reads_arrays=False,
    )


class _Asking(NamedTuple):
    """A player in seats of a game: see `asked_actor`."""

    player: Asked
    world: World
    grammar: Grammar
    must_play: bool

    def act(self, params, memory, view: View, key):
        turns = jnp.take_along_axis(memory, view.agent, axis=1)
        text, length, commands = self.world.vmap(self.shown)(view.state, view.agent)
        there = view.agent.shape
        wanted = (
            jax.ShapeDtypeStruct((*there, self.player.reply_bytes), np.uint8),
            jax.ShapeDtypeStruct(there, np.int32),
        )
        given = (view.agent, view.acting, turns == 0, text, length, commands, view.legal)
        reply, count = io_callback(
            lambda *given: self.ask(*map(np.asarray, given)), wanted, *given, ordered=True
        )
        action = self.world.vmap(self.understood)(view.state, view.agent, reply, count)
        batch = jnp.arange(there[0])[:, None]
        return Decision(action), memory.at[batch, view.agent].add(view.acting)

    def shown(self, state, agents, params):
        """What each agent of a state reads, and its commands."""
        env = self.world.env

        def one(agent):
            text = env.describe_as(state, agent, params)
            return text.fragments, text.length, env.commands_as(state, agent, params)

        return jax.vmap(one)(agents)

    def understood(self, state, agents, reply, length, params):
        """The action of each agent's reply, -1 where it abstains."""
        env = self.world.env

        def one(agent, reply, length):
            slots = env.slots_as(state, agent, params)
            return parse(self.grammar, env.view, slots, reply, length).actions[0]

        return jnp.where(length < 0, -1, jax.vmap(one)(agents, reply, length))

    def ask(self, agent, acting, first, text, length, commands, legal):
        """Replies u8[B, S, size] and their bytes i32[B, S], -1 for none; on the host."""
        player, size, lexicon = self.player, self.player.reply_bytes, self.world.env.view.lexicon
        replies, lengths = np.zeros((*acting.shape, size), np.uint8), np.full(acting.shape, -1)
        places = [*zip(*np.nonzero(acting), strict=True)]
        turns = [
            {
                "match": int(at[0]),
                "seat": int(agent[at]),
                "first": bool(first[at]),
                "observation": join(lexicon, text[at][: length[at]]),
                "commands": [join(lexicon, row) for row in commands[at][legal[at]]],
            }
            for at in places
        ]
        said = player.answers(turns)
        if self.must_play and player.gone:
            raise Gone(player.summary())
        for at, reply in zip(places, said, strict=True):
            if reply is not None and len(reply) <= size:
                replies[at][: len(reply)] = np.frombuffer(reply, np.uint8)
                lengths[at] = len(reply)
        return replies, lengths.astype(np.int32)
