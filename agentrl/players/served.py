"""Players behind a server of the chat-completions protocol: ours, llama.cpp's, vLLM's and others.

    served:http://127.0.0.1:8000/v1#MODEL
    served:https://api.example.org/v1#MODEL?key=EXAMPLE_KEY&temperature=0&grammar=action

The address ends where the protocol's paths begin (/v1). Without a model the server's only one is
meant. Options:

    key: name of the environment variable with the API key; none by default
    rules: yes (default): a message of the system says the game's rules and the reply's format; no
    commands: yes: observations end with the legal commands; no (default)
    grammar: bare (default), action, answer or faithful, see `envs.text.make_grammar`
    temperature, max_tokens: as the protocol has them; the server's own by default
    seed: from which each request has its own; none by default

A seat's match is a chat: observations are messages of the user, replies the assistant's. A run that
`launchers.serve` serves knows its game and takes no message of the system: rules=no. The turns that
wait at the same time are asked for together, `AT_ONCE` at most.

A server that is busy (429), fails (5xx) or cannot be reached is asked again after pauses that grow,
or as long as it says (Retry-After). What stays without a reply abstains and is counted, by kind:
"late" (longer than the time limit), "refused" (another status), "unreachable", "invalid" (no reply
in the answer).
"""

import asyncio
import contextlib
import json
import os
import random
import urllib.parse
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentrl.checks import check_range
from agentrl.players.asked import Asked, Failure, short
from envs.environment import Environment
from envs.text import make_grammar

if TYPE_CHECKING:
    import aiohttp

PREFIX = "served:"
# Requests at the same time, and tries of each.
AT_ONCE, TRIES = 32, 6
# Seconds before the second try; twice as many before each further one. A server may ask for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 60.0
# Of a reply that is parsed, and of an answer that is read.
REPLY_BYTES, ANSWER_BYTES = 1 << 13, 1 << 22

_FORMATS = {
    "bare": "Answer with one command and nothing else.",
    "action": "Think between <think> and </think>, then write one command between <action> and "
    "</action>.",
    "answer": "Think between <think> and </think>, then write one command between <answer> and "
    "</answer>.",
    "faithful": "",
}


class Address(NamedTuple):
    """A name, read: the module says what its parts mean."""

    url: str
    model: str = ""
    key: str = ""
    rules: bool = True
    commands: bool = False
    grammar: str = "bare"
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


def read_name(name: str) -> Address:
    """The parts of a name with `PREFIX`. ValueError: it is none."""
    url, _, rest = name.removeprefix(PREFIX).partition("#")
    model, _, query = rest.partition("?")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"player {name!r}: expected {PREFIX}http://HOST:PORT/v1#MODEL")
    if parts.username or parts.password:
        raise ValueError(
            f"player {PREFIX}...@{parts.hostname}: a name is shown and stored, so that no key may "
            "stand in it; write ?key=NAME behind the model, the name of an environment variable"
        )
    yes = {"yes": True, "no": False}.__getitem__
    kinds: dict[str, Callable[[str], Any]] = {"rules": yes, "commands": yes}
    kinds |= {"temperature": float, "max_tokens": int, "seed": int}
    options: dict[str, Any] = {}
    for key, text in urllib.parse.parse_qsl(query, keep_blank_values=True):
        if key not in {*kinds, "key", "grammar"}:
            known = ", ".join(["key", "grammar", *kinds])
            raise ValueError(f"player {name!r}: unknown option {key!r}; expected {known}")
        try:
            options[key] = kinds.get(key, str)(text)
        except (ValueError, KeyError):
            expected = {int: "an integer", float: "a number"}.get(kinds[key], "yes or no")
            raise ValueError(f"player {name!r}: {key}={text}: expected {expected}") from None
    address = Address(url.rstrip("/"), model, **options)
    for key, low in (("temperature", 0), ("max_tokens", 1), ("seed", 0)):
        if key in options:
            check_range(f"player {name!r}: {key}", options[key], low)
    return address


class Served(Asked):
    """A model behind a server in seats of a game; the module says how it is asked."""

    def __init__(self, name: str, env: Environment, *, timeout_s: float = 10.0):
        """Finds the server and its model, before anything is played.

        timeout_s: seconds for each try of a request.

        Raises:
          ValueError: a game without words, a name that is none, a key that is not there, no server,
            or one without the model.
        """
        self.address = address = read_name(name)
        make_grammar(address.grammar, view=env.view if env.wordings else None)
        limits = {"reply_bytes": REPLY_BYTES, "timeout_s": timeout_s}
        super().__init__(name, env, grammar=address.grammar, **limits)
        self._timeout = timeout_s
        self._opening = []
        if address.rules:
            told = " ".join(x for x in (env.view.rules, _FORMATS[address.grammar]) if x)
            self._opening = [{"role": "system", "content": told}]
        self._chats: dict[tuple[int, int], list[dict[str, str]]] = {}
        self._session: aiohttp.ClientSession | None = None
        try:
            self.model = self._wait(self._open())
        except Failure as failure:
            self.close()
            raise ValueError(f"player {name}: {failure.args[1]}") from None
        except BaseException:
            self.close()
            raise

    def answers(self, turns: Sequence[dict[str, Any]]) -> list[bytes | None]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(turn):
            async with gate:
                return None if self.gone else await self._asked(self._reply(turn))

        async def all_of_them():
            return await asyncio.gather(*map(one, turns))

        return self._wait(all_of_them())

    async def _open(self) -> str:
        """Connects; the model's id."""
        try:
            import aiohttp
        except ImportError:
            raise Failure(
                "unreachable", "needs the package aiohttp: pip install 'agentrl[serve]'"
            ) from None
        headers, address = {}, self.address
        if address.key:
            if not os.environ.get(address.key):
                raise Failure("refused", f"the environment variable {address.key} is not set")
            headers["Authorization"] = f"Bearer {os.environ[address.key]}"
        self._session = aiohttp.ClientSession(headers=headers)
        listed = await self._request("GET", "/models", tries=1)
        try:
            names = [one["id"] for one in listed["data"]]
        except (KeyError, TypeError):
            raise Failure("invalid", f"{address.url}/models lists no models") from None
        if address.model in names or (not address.model and len(names) == 1):
            return address.model or names[0]
        raise Failure(
            "refused",
            f"expected #MODEL behind the address, one of the server's: {', '.join(names)}",
        )

    async def _reply(self, turn: dict[str, Any]) -> bytes:
        place, observation = (turn["match"], turn["seat"]), turn["observation"]
        if self.address.commands:
            observation += f"\nLegal commands: {', '.join(turn['commands'])}"
        if turn["first"] or place not in self._chats:
            self._chats[place] = [*self._opening]
        chat = self._chats[place]
        if chat and chat[-1]["role"] == "user":  # which has no reply
            observation = f"{chat.pop()['content']}\n{observation}"
        chat.append({"role": "user", "content": observation})
        body: dict[str, Any] = {"model": self.model, "messages": chat}
        options = {"temperature": self.address.temperature, "max_tokens": self.address.max_tokens}
        body |= {name: value for name, value in options.items() if value is not None}
        if self.address.seed is not None:
            told = repr((self.address.seed, *place, len(chat)))
            body["seed"] = zlib.crc32(told.encode()) >> 1  # of 31 bits, which all servers take
        answer = await self._request("POST", "/chat/completions", body, tries=TRIES)
        try:
            said = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            said = None
        if not isinstance(said, str):
            raise Failure("invalid", f"an answer without a reply: {short(answer)}")
        reply = said.encode(errors="replace")
        if len(reply) > REPLY_BYTES:
            raise Failure("invalid", f"a reply of {len(reply):,} bytes, more than {REPLY_BYTES:,}")
        chat.append({"role": "assistant", "content": said})
        return reply

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, tries: int
    ) -> Any:
        """The answer's JSON. Raises Failure."""
        for number in range(tries):
            pause, apart = FIRST_PAUSE * 2**number, random.uniform(1.0, 1.5)
            try:
                return await self._once(method, path, body)
            except _Again as again:
                failure, asked = again.args
                if number + 1 == tries or self.gone:
                    raise failure from None
                await asyncio.sleep(min(apart * max(pause, asked), LONGEST_PAUSE))
        raise AssertionError  # the last try returns or raises

    async def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        import aiohttp

        assert self._session is not None  # since `_open`
        url, data = f"{self.address.url}{path}", b""
        try:
            async with (
                asyncio.timeout(self._timeout),
                # Elsewhere the key has no business.
                self._session.request(method, url, json=body, allow_redirects=False) as answer,
            ):
                async for part in answer.content.iter_chunked(1 << 16):
                    data += part
                    if len(data) > ANSWER_BYTES:
                        raise Failure("invalid", f"an answer of more than {ANSWER_BYTES:,} bytes")
        except TimeoutError:
            raise Failure("late", f"{url} does not answer within {self._timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _Again(Failure("unreachable", f"{url}: {error}"), 0.0) from None
        if answer.status == 200:
            try:
                return json.loads(data)
            except (ValueError, RecursionError):
                shown = short(data.decode(errors="replace"))
                raise Failure("invalid", f"{url} answers {shown} instead of JSON") from None
        failure = Failure("refused", f"{url}: HTTP {answer.status}: {_message(data)}")
        if answer.status == 429 or answer.status >= 500:
            wanted = 0.0
            with contextlib.suppress(ValueError):  # a date, which is rare
                wanted = float(answer.headers.get("Retry-After", 0))
            raise _Again(failure, wanted)
        raise failure

    async def _end(self, grace: float = 0.0) -> None:
        if self._session is not None:
            await self._session.close()


class _Again(Exception):
    """(failure, seconds that the server asks for) of a request that may succeed later."""


def _message(data: bytes) -> str:
    """What the body of an error says."""
    text = data.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        text = str(json.loads(text)["error"]["message"])
    return text[:300]
