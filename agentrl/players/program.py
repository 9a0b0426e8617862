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
started again for the next turn. After `asked.PATIENCE` failures in a row a program is not asked
again and abstains from then on, so that one that hangs delays a match by a few time limits at most.
Nothing a program writes takes more than `LINE_BYTES` of memory.

The form follows MOSAIC's operators (2026; read in code), whose programs also get rewards.
"""

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import signal
from collections.abc import Sequence
from typing import Any

from agentrl.players.asked import GRACE, Asked, Failure, short
from envs.environment import Environment
from envs.hosted import worker

PREFIX = "program:"
LINE_BYTES = 1 << 16


class Program(Asked):
    """A process that plays a game; the module says how it is asked.

    Kinds of failures: "late", "invalid", "ended".
    """

    def __init__(
        self,
        command: str,
        env: Environment,
        *,
        timeout_s: float = 10.0,
        start_timeout_s: float = 60.0,
    ):
        """Starts the process and waits until it is ready.

        command: words as in a shell, which is not used: no pipes, no variables.

        Raises:
          ValueError: a game without words, a time limit that is not positive, or a program that
            does not start.
        """
        self.command, self.words = command, _words(command)
        size = max(64, 2 * env.view.max_command_bytes) if env.wordings else 0
        name = f"{PREFIX}{command}"
        super().__init__(name, env, grammar="bare", reply_bytes=size, timeout_s=timeout_s)
        self._number = 0
        self._process, self._transport, self._listener, self._errors = None, None, None, b""
        self._timeouts = (timeout_s, start_timeout_s)
        self._mark = secrets.token_hex(16)
        self._greeting = {
            "game": env.name,
            "seats": env.num_agents,
            "rules": env.view.rules,
            "timeout_s": timeout_s,
        }
        try:
            self._wait(self._start())
        except Failure as failure:
            self.close()
            raise ValueError(f"{name} does not start: {failure.args[1]}") from None

    def answers(self, turns: Sequence[dict[str, Any]]) -> list[bytes | None]:
        return [self.answer(turn) for turn in turns]

    def answer(self, turn: dict[str, Any]) -> bytes | None:
        """The reply to a turn, or None if the program abstains."""
        if self.gone:
            return None
        reply = self._wait(self._asked(self._play(turn)))
        if self.gone:
            self._wait(self._end())
        return reply

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
            raise Failure("ended", str(error)) from None
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
        except Failure as failure:
            if failure.args[0] == "ended":
                await self._end()
            raise
        action = answer.get("action")
        if action is None:
            return None
        if not isinstance(action, str):
            raise Failure("invalid", f"action {short(action)} is no string")
        return action.encode(errors="replace")

    async def _request(self, number: int, message: dict[str, Any], seconds: float) -> dict:
        late = Failure("late", f"no answer within {seconds:g} seconds")
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
                        raise Failure("invalid", f"an answer to request {answer['id']}")
        except TimeoutError:
            # What it has started may still hold its output open.
            if self._process.returncode is not None:
                raise self._ended() from None
            raise late from None

    async def _read(self) -> dict[str, Any]:
        try:
            line = await self._process.stdout.readline()
        except ValueError:
            raise Failure("invalid", f"a line of more than {LINE_BYTES:,} bytes") from None
        if not line:
            await asyncio.wait([self._listener], timeout=0.1)
            raise self._ended()
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or type(answer.get("id")) is not int:
            shown = short(line.decode(errors="replace").strip())
            raise Failure("invalid", f'{shown} instead of {{"id": ..., "action": ...}}')
        return answer

    def _ended(self) -> Failure:
        words = self._errors.decode(errors="replace").strip().splitlines()[-3:]
        said = f"; its last words: {' / '.join(words)}" if words else ""
        return Failure("ended", f"the process has ended{said}")

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
            await asyncio.wait_for(self._process.wait(), GRACE)
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
