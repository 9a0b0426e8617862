"""Players that are programs: processes that read requests and write answers, a line of JSON each.

The first request introduces the game,

    {"id": 0, "game": "KuhnPoker", "seats": 2, "rules": "...", "timeout_s": 10.0}

and is answered by {"id": 0} when the program is ready. After it each request is a turn,

    {"id": 7, "match": 3, "seat": 1, "first": false, "observation": "...", "commands": ["call"]}

with what the seat reads, the commands that are legal now, and whether it is this seat's first turn
in the match; matches are played side by side, so that their turns alternate. The answer repeats the
id: {"id": 7, "action": "call"}, with what a language policy would write, or null to abstain.
Answers with earlier ids are ignored; there is one request at a time. At the end the program's
standard input is closed.

An answer that is late, is not such a line, or never comes because the process has ended, abstains,
too: an illegal action, for which the game's rules state what follows. A process that has ended is
started again for the next turn. After `PATIENCE` failures in a row a program is not asked again and
abstains from then on, so that one that hangs delays a match by a few time limits at most. Nothing a
program writes takes more than `LINE_BYTES` of memory.

The form follows MOSAIC's operators (2026; read in code), whose programs also get rewards.
"""

import asyncio
import collections
import contextlib
import json
import os
import secrets
import shlex
import signal
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from agentrl.actors.types import Actor, Decision, View
from envs.hosted import worker
from envs.text import join, make_grammar, parse
from envs.vector import World

PREFIX = "program:"
PATIENCE = 3
LINE_BYTES = 1 << 16
# Seconds that a process has to end.
_GRACE = 1.0


class _Failure(Exception):
    """(kind, what happened) of a request without a valid answer."""


class Program:
    """A process that plays a game; the module says how it is asked.

    failures: how many requests failed, per kind: "late", "invalid", "ended". abstained: how many
    answers were null. asked: number of turns that it was asked for. gone: why it is asked no
    longer, or "".
    """

    def __init__(
        self, command: str, env: Any, *, timeout_s: float = 10.0, start_timeout_s: float = 60.0
    ):
        """Starts the process and waits until it is ready.

        command: words as in a shell, which is not used: no pipes, no variables.

        Raises:
          ValueError: a game without words, a time limit that is not positive, or a program that
            does not start.
        """
        self.command, self.words = command, _words(command)
        if not env.wordings or env.continuous:
            raise ValueError(f"{PREFIX}{command} in {env.name}: programs play games with words")
        if timeout_s <= 0:
            raise ValueError(f"timeout_s={timeout_s}: expected a positive number of seconds")
        self.failures: collections.Counter[str] = collections.Counter()
        self.asked, self.abstained, self.gone = 0, 0, ""
        self._number, self._row = 0, 0
        self._process, self._transport, self._listener, self._errors = None, None, None, b""
        self._timeouts = (timeout_s, start_timeout_s)
        self._mark = secrets.token_hex(16)
        self._greeting = {
            "game": env.name,
            "seats": env.num_agents,
            "rules": env.view.rules,
            "timeout_s": timeout_s,
        }
        # A loop of its own, in a thread of its own: callers may have one that runs (notebooks).
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._wait(self._start())
        except _Failure as failure:
            self.close()
            raise ValueError(f"{PREFIX}{command} does not start: {failure.args[1]}") from None

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def answer(self, turn: dict[str, Any]) -> bytes | None:
        """The reply to a turn, or None if the program abstains."""
        if self.gone:
            return None
        self.asked += 1
        try:
            reply = self._wait(self._play(turn))
        except _Failure as failure:
            kind, what = failure.args
            self.failures[kind] += 1
            self._row += 1
            if self._row == PATIENCE:
                self.gone = f"{PATIENCE} failures in a row, the last: {what}"
                self._wait(self._end())
            return None
        self._row = 0
        self.abstained += reply is None
        return reply

    def summary(self) -> str:
        """What went wrong, in a line; "" for a program that answered everything."""
        parts = [f"{count} {kind}" for kind, count in sorted(self.failures.items())]
        if self.abstained:
            parts.append(f"{self.abstained} abstained")
        if not parts:
            return ""
        gone = f"; not asked again after {self.gone}" if self.gone else ""
        return f"{PREFIX}{self.command}: of {self.asked} turns {', '.join(parts)}{gone}"

    def close(self) -> None:
        """Ends the process and all that it has started, after a second to finish by itself."""
        if self._loop.is_closed():
            return
        self._wait(self._end(_GRACE))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _start(self) -> None:
        self._errors = b""
        try:
            # As asyncio.create_subprocess_exec, which does not give the transport.
            self._transport, streams = await self._loop.subprocess_exec(
                lambda: asyncio.subprocess.SubprocessStreamProtocol(LINE_BYTES, self._loop),
                *self.words,
                # Ctrl-C is handled here, and all processes that it starts can be ended with it.
                start_new_session=True,
                env={**os.environ, worker.MARK: self._mark},
            )
        except OSError as error:
            raise _Failure("ended", str(error)) from None
        self._process = asyncio.subprocess.Process(self._transport, streams, self._loop)
        self._listener = asyncio.ensure_future(self._listen(self._process.stderr))
        await self._request(0, self._greeting, self._timeouts[1])

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(LINE_BYTES):
            self._errors = (self._errors + data)[-2000:]

    async def _play(self, turn: dict[str, Any]) -> bytes | None:
        try:
            if self._process is None:
                await self._start()
            self._number += 1
            answer = await self._request(self._number, turn, self._timeouts[0])
        except _Failure as failure:
            if failure.args[0] == "ended":
                await self._end()
            raise
        action = answer.get("action")
        if action is None:
            return None
        if not isinstance(action, str):
            raise _Failure("invalid", f"action {_short(action)} is no string")
        return action.encode(errors="replace")

    async def _request(self, number: int, message: dict[str, Any], seconds: float) -> dict:
        late = _Failure("late", f"no answer within {seconds:g} seconds")
        until = self._loop.time() + seconds
        line = json.dumps({"id": number} | message) + "\n"
        try:
            async with asyncio.timeout_at(until):
                with contextlib.suppress(ConnectionError):
                    self._process.stdin.write(line.encode())
                    await self._process.stdin.drain()
                while True:
                    # Lines that are there already are read without waiting, so look at the clock.
                    if self._loop.time() > until:
                        raise late
                    answer = await self._read()
                    if answer["id"] == number:
                        return answer
                    if answer["id"] > number:
                        raise _Failure("invalid", f"an answer to request {answer['id']}")
        except TimeoutError:
            # What it has started may still hold its output open.
            if self._process.returncode is not None:
                raise self._ended() from None
            raise late from None

    async def _read(self) -> dict[str, Any]:
        try:
            line = await self._process.stdout.readline()
        except ValueError:
            raise _Failure("invalid", f"a line of more than {LINE_BYTES:,} bytes") from None
        if not line:
            await asyncio.wait([self._listener], timeout=0.1)
            raise self._ended()
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or type(answer.get("id")) is not int:
            shown = _short(line.decode(errors="replace").strip())
            raise _Failure("invalid", f'{shown} instead of {{"id": ..., "action": ...}}')
        return answer

    def _ended(self) -> _Failure:
        words = self._errors.decode(errors="replace").strip().splitlines()[-3:]
        said = f"; its last words: {' / '.join(words)}" if words else ""
        return _Failure("ended", f"the process has ended{said}")

    async def _end(self, grace: float = 0.0) -> None:
        if self._process is None:
            return
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        worker.end_marked(self._mark)
        # Where these are not found they may hold the pipes open.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _GRACE)
        self._listener.cancel()
        self._transport.close()
        await asyncio.sleep(0)
        self._process = None


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{PREFIX}{command}: {error}") from None
    if not words:
        raise ValueError(f"{PREFIX}: expected a command behind it, such as 'python my_player.py'")
    return words


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def program_actor(program: Program, world: World) -> Actor:
    """A program in seats of a game. Its memory counts each agent's own turns, i32[B, A].

    The compiled program of the matches calls the process in the middle of each step, in which it
    acts: the only actor that leaves the device.
    """
    env, grammar = world.env, make_grammar("bare")
    lexicon, size = env.view.lexicon, max(64, 2 * env.view.max_command_bytes)

    def ask(agent, acting, first, text, length, commands, legal) -> tuple[np.ndarray, np.ndarray]:
        """Replies u8[B, S, size] and their bytes i32[B, S], -1 for none."""
        replies, lengths = np.zeros((*acting.shape, size), np.uint8), np.full(acting.shape, -1)
        for at in zip(*np.nonzero(acting), strict=True):
            reply = program.answer(
                {
                    "match": int(at[0]),
                    "seat": int(agent[at]),
                    "first": bool(first[at]),
                    "observation": join(lexicon, text[at][: length[at]]),
                    "commands": [join(lexicon, row) for row in commands[at][legal[at]]],
                }
            )
            if reply is not None and len(reply) <= size:
                replies[at][: len(reply)] = np.frombuffer(reply, np.uint8)
                lengths[at] = len(reply)
        return replies, lengths.astype(np.int32)

    def shown(state, agents, params):
        def one(agent):
            text = env.describe_as(state, agent, params)
            return text.fragments, text.length, env.commands_as(state, agent, params)

        return jax.vmap(one)(agents)

    def understood(state, agents, reply, length, params):
        def one(agent, reply, length):
            slots = env.slots_as(state, agent, params)
            return parse(grammar, env.view, slots, reply, length).actions[0]

        return jnp.where(length < 0, -1, jax.vmap(one)(agents, reply, length))

    def act(params, memory, view: View, key):
        turns = jnp.take_along_axis(memory, view.agent, axis=1)
        text, length, commands = world.vmap(shown)(view.state, view.agent)
        there = view.agent.shape
        wanted = (
            jax.ShapeDtypeStruct((*there, size), np.uint8),
            jax.ShapeDtypeStruct(there, np.int32),
        )
        given = (view.agent, view.acting, turns == 0, text, length, commands, view.legal)
        reply, count = io_callback(
            lambda *given: ask(*map(np.asarray, given)), wanted, *given, ordered=True
        )
        action = world.vmap(understood)(view.state, view.agent, reply, count)
        batch = jnp.arange(there[0])[:, None]
        return Decision(action), memory.at[batch, view.agent].add(view.acting)

    return Actor(
        lambda batch, agents: jnp.zeros((batch, agents), jnp.int32),
        act,
        remembers=True,
        reads_arrays=False,
    )
