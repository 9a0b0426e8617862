"""The chat-completions protocol: requests from JSON, answers as JSON, errors in its form.

https://platform.openai.com/docs/api-reference/chat, with `return_token_ids`, top_k and min_p as in
vLLM. Log-probabilities are those of the distribution that a token was drawn from, temperature and
cuts included; at temperature 0 those of temperature 1.
"""

import dataclasses
import difflib
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.checks import LARGEST
from agentrl.policies.sampling import Sampling
from agentrl.serving.engine import MOST_LIKELY
from agentrl.serving.served import Served

MOST_CHOICES, MOST_STOPS = 16, 8
# What says nothing of the reply: names for a provider's records.
_IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
# Requests may have these with a value that asks for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "echo": (False,),
    "best_of": (1,),
    "suffix": ("",),
}


class ProtocolError(Exception):
    """A request that is refused. status: of HTTP. body: JSON. headers: besides those of JSON."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": param, "code": code}
        self.body = {"error": error}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request. chat: of chat completions, else of completions.

    prompt: tokens. choices: n. max_tokens: of each. stops: strings as bytes. likeliest: number of
    the likeliest tokens told with each token; None: no log-probabilities. token_ids: the tokens are
    told. stream: in events; with_usage: the last of which counts tokens.
    """

    chat: bool
    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    choices: int
    max_tokens: int
    stops: tuple[bytes, ...]
    likeliest: int | None
    token_ids: bool
    stream: bool
    with_usage: bool


class _Fields:
    """The fields of a request, each read with a check; `done` refuses what was not read."""

    def __init__(self, given: Any):
        if not isinstance(given, dict):
            raise ProtocolError(f"the request is {_kind(given)}; expected a JSON object")
        self.given, self.known = given, set[str]()

    def take(self, name: str, expected: str, fits: Callable[[Any], bool], default: Any) -> Any:
        """A field, or the default for none and for null."""
        self.known.add(name)
        value = self.given.get(name)
        if value is None:
            return default
        if not fits(value):
            raise ProtocolError(f"{name}={_short(value)}: expected {expected}", param=name)
        return value

    def number(self, name: str, low: float, high: float, default: Any, *, above=False) -> Any:
        """A number between low and high (above: more than low)."""

        def fits(x):
            real = isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
            return real and (low < x if above else low <= x) and x <= high

        bound = f"more than {low:g}" if above else f"at least {low:g}"
        limit = f" and at most {high:g}" if math.isfinite(high) else ""
        return self.take(name, f"a number of {bound}{limit}", fits, default)

    def count(self, name: str, low: int, high: int, default: Any) -> Any:
        """An integer between low and high."""
        return self.take(
            name,
            f"an integer from {low} to {high}",
            lambda x: isinstance(x, int) and not isinstance(x, bool) and low <= x <= high,
            default,
        )

    def flag(self, name: str) -> bool:
        return self.take(name, "true or false", lambda x: isinstance(x, bool), False)

    def done(self) -> None:
        """Refuses fields that are not known, and known ones that ask for what is not there."""
        for name, value in self.given.items():
            if name in self.known or name in _IGNORED or value is None:
                continue
            if name in _NEUTRAL:
                if value not in _NEUTRAL[name]:
                    raise ProtocolError(
                        f"{name}={_short(value)} is not supported by this server; leave it out",
                        param=name,
                        code="unsupported_parameter",
                    )
                continue
            close = difflib.get_close_matches(name, self.known, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; leave it out"
            raise ProtocolError(f"unknown field {name!r}{hint}", param=name, code="unknown_field")


def read(given: Any, served: Served, *, chat: bool, row_tokens: int) -> Asked:
    """A request of chat completions, or of completions, checked.

    row_tokens: of a prompt and its reply, at most.

    Raises:
      ProtocolError: what is wrong with it.
    """
    fields = _Fields(given)
    model = fields.take("model", "a string", lambda x: isinstance(x, str), None)
    if model is None:
        raise ProtocolError(
            f"model is missing; expected {served.name!r}", param="model", code="missing_field"
        )
    if model != served.name:
        raise ProtocolError(
            f"model={_short(model)}: there is no such model; expected {served.name!r}",
            status=404,
            param="model",
            code="model_not_found",
        )
    sampling = _sampling(fields, served.sampling)
    if chat:
        prompt = _chat_prompt(fields, served)
        logprobs, likeliest = fields.flag("logprobs"), fields.count("top_logprobs", 0, 20, None)
        if likeliest is not None and not logprobs:
            raise ProtocolError("top_logprobs without logprobs=true; set it", param="logprobs")
        likeliest = (likeliest or 0) if logprobs else None
    else:
        prompt = _prompt(fields, served)
        likeliest = fields.count("logprobs", 0, MOST_LIKELY, None)
    limit = fields.count("max_tokens", 1, LARGEST, None)
    limit = fields.count("max_completion_tokens", 1, LARGEST, limit) if chat else limit
    stream, stops = fields.flag("stream"), _stops(fields)
    options = fields.take("stream_options", "an object", lambda x: isinstance(x, dict), {})
    if options and not stream:
        raise ProtocolError("stream_options without stream=true", param="stream_options")
    usage = _Fields(options)
    asked = Asked(
        chat=chat,
        prompt=tuple(prompt),
        sampling=sampling,
        seed=fields.count("seed", 0, LARGEST, None),
        choices=fields.count("n", 1, MOST_CHOICES, 1),
        max_tokens=_room(len(prompt), limit, served.reply_tokens, row_tokens),
        stops=stops,
        likeliest=likeliest,
        token_ids=fields.flag("return_token_ids"),
        stream=stream,
        with_usage=usage.flag("include_usage"),
    )
    fields.done()
    usage.done()
    seed = secrets.randbelow(LARGEST) if asked.seed is None else asked.seed
    return dataclasses.replace(asked, seed=seed)


def _sampling(fields: _Fields, own: Sampling) -> Sampling:
    """How a reply is sampled; what is not given is the policy's own."""
    temperature = fields.number("temperature", 0, 100, None)
    return Sampling(
        temperature=own.temperature if temperature is None else temperature or 1.0,
        top_k=max(0, fields.count("top_k", -1, LARGEST, own.top_k)),
        top_p=fields.number("top_p", 0, 1, own.top_p, above=True),
        min_p=min(fields.number("min_p", 0, 1, own.min_p), 1 - 1e-6),
        greedy=own.greedy if temperature is None else temperature == 0,
    )


def _stops(fields: _Fields) -> tuple[bytes, ...]:
    def fits(x):
        texts = [x] if isinstance(x, str) else x
        return (
            isinstance(texts, list)
            and len(texts) <= MOST_STOPS
            and all(isinstance(text, str) and text for text in texts)
        )

    given = fields.take("stop", f"a string, or up to {MOST_STOPS} strings, none empty", fits, [])
    given = [given] if isinstance(given, str) else given
    return tuple(text.encode(errors="replace") for text in given)


def _room(prompt: int, limit: int | None, usual: int, row_tokens: int) -> int:
    """Tokens that the reply may have. ProtocolError: it does not fit behind the prompt."""
    room = row_tokens - prompt
    if prompt < 1:
        raise ProtocolError("the prompt is empty; expected at least one token", param="prompt")
    if room < (limit or 1):
        raise ProtocolError(
            f"the prompt has {prompt} tokens and the reply may take {limit or 1}: more than the "
            f"{row_tokens} of this server; shorten the prompt or lower max_tokens",
            param="max_tokens" if limit and room > 0 else "prompt",
            code="context_length_exceeded",
        )
    return min(usual, room) if limit is None else limit


def _chat_prompt(fields: _Fields, served: Served) -> Sequence[int]:
    messages = fields.take(
        "messages",
        'a list of {"role": ..., "content": ...} with at least one entry',
        lambda x: isinstance(x, list) and x and all(isinstance(m, dict) for m in x),
        None,
    )
    if messages is None:
        raise ProtocolError("messages is missing", param="messages", code="missing_field")
    read = []
    for i, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if isinstance(content, list) and all(
            isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str)
            for p in content
        ):
            content = "".join(part["text"] for part in content)
        if not isinstance(role, str) or not isinstance(content, str):
            raise ProtocolError(
                f"messages[{i}]={_short(message)}: expected a role and a content of text",
                param="messages",
            )
        role = "system" if role == "developer" else role
        read.append({"role": role, "content": content})
    return _in_tokens(lambda: served.prompt(read), "messages")


def _prompt(fields: _Fields, served: Served) -> Sequence[int]:
    size = served.config.vocab_size

    def fits(x):
        numbers = isinstance(x, list) and all(type(t) is int and 0 <= t < size for t in x)
        return isinstance(x, str) or numbers

    expected = f"one text, or a list of token ids below {size}"
    prompt = fields.take("prompt", expected, fits, None)
    if prompt is None:
        raise ProtocolError("prompt is missing", param="prompt", code="missing_field")
    if isinstance(prompt, list):
        return prompt
    return _in_tokens(lambda: served.encode(prompt), "prompt")


def _in_tokens(make: Callable[[], Sequence[int]], param: str) -> Sequence[int]:
    try:
        return make()
    except ValueError as error:
        raise ProtocolError(str(error), param=param) from None


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
