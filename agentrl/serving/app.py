"""The HTTP application (aiohttp): routes, limits, events, and errors as JSON."""

import asyncio
import contextlib
import dataclasses
import hmac
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from aiohttp import web

from agentrl.serving import protocol
from agentrl.serving.answers import Answer, Part
from agentrl.serving.engine import Engine, Full
from agentrl.serving.protocol import ProtocolError
from agentrl.serving.served import Served
from agentrl.serving.sessions import Session

ROUTES = "POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /health"


@dataclasses.dataclass(frozen=True)
class Limits:
    """body_bytes: of a request. receive_seconds: for its body to arrive. send_seconds: for the
    client to take what was written, before the connection is closed."""

    body_bytes: int = 2**20
    receive_seconds: float = 30.0
    send_seconds: float = 30.0


def application(
    served: Served,
    engine: Engine,
    *,
    api_key: str = "",
    limits: Limits | None = None,
    sessions: Mapping[str, Session] | None = None,
) -> web.Application:
    """The application; the engine has to be started. api_key: that clients must send; "": none.

    sessions: by name, the sessions that there are at a time; each has its chats, alone, at an
    address of its own, /NAME/v1, and nothing is at /v1.
    """
    server = _Server(
        served, engine, api_key, limits or Limits(), {} if sessions is None else sessions
    )
    app = web.Application(client_max_size=server.limits.body_bytes, middlewares=[server.guard])
    root = "/v1" if sessions is None else "/{session}/v1"
    app.add_routes(
        [
            web.post(f"{root}/chat/completions", server.chat),
            web.get(f"{root}/models", server.models),
            web.get(f"{root}/models/{{name:.+}}", server.model),
            web.get("/health", server.health),
        ]
    )
    if sessions is None:
        app.router.add_post("/v1/completions", server.complete)
    return app


@contextlib.contextmanager
def listening(app: web.Application, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The application in a thread of its own; gives its URL. port 0: any that is free.

    Raises:
      OSError: the port is taken.
    """
    loop, opened = asyncio.new_event_loop(), threading.Event()
    # With cancellation a client that has left frees its slots.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)

    async def begin():
        await runner.setup()
        await web.TCPSite(runner, host, port).start()

    def run():
        loop.call_soon(opened.set)
        loop.run_forever()

    thread = threading.Thread(target=run, name="http", daemon=True)
    thread.start()
    opened.wait()
    try:
        asyncio.run_coroutine_threadsafe(begin(), loop).result()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Server:
    def __init__(
        self,
        served: Served,
        engine: Engine,
        api_key: str,
        limits: Limits,
        sessions: Mapping[str, Session],
    ):
        self.served, self.engine, self.limits = served, engine, limits
        self.sessions = sessions
        self.authorization = f"Bearer {api_key}".encode() if api_key else None

    @web.middleware
    async def guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Checks the key; turns errors into the protocol's JSON."""
        try:
            if request.path != "/health":
                self._check_key(request)
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            most = self.limits.body_bytes
            error = ProtocolError(
                f"the request has more than {most} bytes; shorten it", status=413, code="too_large"
            )
        except web.HTTPException as refused:
            error = ProtocolError(
                f"{request.method} {request.path}: {refused.reason}; expected {ROUTES}",
                status=refused.status,
            )
        except ProtocolError as refused:
            error = refused
        except Exception as failure:  # the client is told, and the others' requests go on
            logging.getLogger(__name__).exception("a request failed")
            error = _broken(failure)
        return web.json_response(error.body, status=error.status, headers=error.headers)

    def _check_key(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").encode(errors="replace")
        if self.authorization and not hmac.compare_digest(given, self.authorization):
            raise ProtocolError(
                "the API key is missing or wrong; expected the header Authorization: Bearer KEY",
                status=401,
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def health(self, request: web.Request) -> web.Response:
        """Whether requests are answered, and how many are."""
        active, waiting = self.engine.load()
        broken = self.engine.broken
        state = {
            "status": "ok" if broken is None else f"broken: {broken}",
            "slots": self.engine.slots,
        }
        state |= {"active": active, "waiting": waiting}
        return web.json_response(state, status=200 if broken is None else 503)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name != self.served.name:
            raise ProtocolError(
                f"there is no model {name!r}; expected {self.served.name!r}",
                status=404,
                code="model_not_found",
            )
        return web.json_response(self._model())

    def _model(self) -> dict[str, Any]:
        about = {"id": self.served.name, "object": "model", "created": 0, "owned_by": "agentrl"}
        return about | {"max_model_len": self.engine.size}

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def _answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        engine = self._engine(request)
        given = await self._json(request)
        # Long texts take a while to become tokens.
        asked = await asyncio.to_thread(
            protocol.read, given, self.served, chat=chat, row_tokens=engine.size
        )
        most = engine.slots + engine.waiting
        if asked.choices > most:
            raise ProtocolError(f"n={asked.choices}: this server has room for {most}", param="n")
        answer, parts = Answer(asked, self.served), asyncio.Queue[Part]()
        loop = asyncio.get_running_loop()

        def post(part):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(parts.put_nowait, part)

        requests = answer.requests(post)
        try:
            engine.submit(requests)
            if asked.stream:
                return await self._stream(request, answer, parts)
            ended = sorted([await parts.get() for _ in requests], key=lambda part: part.choice)
            for part in ended:
                if isinstance(part.end, Exception):
                    raise _broken(part.end)
            return web.json_response(answer.whole(ended))
        except Full:
            raise ProtocolError(
                f"{engine.waiting} requests wait already; try again",
                status=429,
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            ) from None
        finally:
            for one in requests:
                one.cancel()

    def _engine(self, request: web.Request) -> Engine | Session:
        """What answers a request."""
        name = request.match_info.get("session")
        if name is None:
            return self.engine
        if name not in self.sessions:
            raise ProtocolError("there is no such session; it has ended", status=404)
        return self.sessions[name]

    async def _json(self, request: web.Request) -> Any:
        seconds = self.limits.receive_seconds
        try:
            async with asyncio.timeout(seconds):
                return json.loads(await request.read(), parse_constant=_no_constant)
        except TimeoutError:
            raise ProtocolError(
                f"the request did not arrive within {seconds:g} seconds", status=408
            ) from None
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"the request is no JSON: {error}", code="invalid_json") from None

    async def _stream(self, request, answer: Answer, parts: asyncio.Queue) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )

        async def send(event: dict[str, Any] | None) -> None:
            text = "[DONE]" if event is None else json.dumps(event)
            async with asyncio.timeout(self.limits.send_seconds):
                await response.write(f"data: {text}\n\n".encode())

        await response.prepare(request)
        try:
            for event in answer.openings():
                await send(event)
            left = answer.asked.choices
            while left:
                part = await parts.get()
                if isinstance(part.end, Exception):
                    await send(_broken(part.end).body)
                    return response
                left -= part.end is not None
                event = answer.event(part)
                if event is not None:
                    await send(event)
            if answer.asked.with_usage:
                await send(answer.usage_event())
            await send(None)
        except (TimeoutError, ConnectionError):
            # A reader that takes nothing would hold the connection.
            if request.transport is not None:
                request.transport.abort()
        return response


def _broken(failure: Exception) -> ProtocolError:
    return ProtocolError(f"the server failed: {failure}", status=500, code="internal_error")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
