"""Answers of the chat-completions protocol as JSON, whole or in parts."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentrl.serving.engine import Request, Token
from agentrl.serving.protocol import Asked
from agentrl.serving.served import Served
from agentrl.serving.text import ReplyText


class Part(NamedTuple):
    """What has become certain of a reply: text, and its new tokens.

    choice: its number. end: "stop", "length", an exception, or None while it is written.
    """

    choice: int
    text: str
    tokens: tuple[Token, ...]
    end: str | Exception | None


class Answer:
    """An answer to one request. The functions return the objects that become JSON."""

    def __init__(self, asked: Asked, served: Served):
        self.asked, self.served = asked, served
        kind = "chatcmpl" if asked.chat else "cmpl"
        self.begun, self.id = int(time.time()), f"{kind}-{uuid.uuid4().hex}"
        self.written = 0

    def requests(self, post: Callable[[Part], None]) -> list[Request]:
        """A request to the engine for each choice. post: called in the engine's thread, with every
        token if the answer is a stream, else at the end of each choice."""
        return [self._request(choice, post) for choice in range(self.asked.choices)]

    def _request(self, choice: int, post: Callable[[Part], None]) -> Request:
        asked, text = self.asked, ReplyText(self.served.pieces, self.asked.stops)
        texts: list[str] = []
        tokens: list[Token] = []

        def tell(end):
            post(Part(choice, "".join(texts), tuple(tokens), end))
            texts.clear()
            tokens.clear()

        def take(token):
            texts.append(text.add(token.token))
            tokens.append(token)
            if asked.stream:
                tell(None)
            return text.stopped

        def end(reason):
            texts.append(text.rest())
            tell(reason)

        return Request(
            prompt=asked.prompt,
            sampling=asked.sampling,
            seed=asked.seed,
            choice=choice,
            max_tokens=asked.max_tokens,
            likeliest=asked.likeliest or 0,
            take=take,
            end=end,
        )

    def whole(self, parts: Sequence[Part]) -> dict[str, Any]:
        """The answer that is no stream. parts: of the choices, in their order."""
        name = "message" if self.asked.chat else "text"
        choices = []
        for part in parts:
            said = {"role": "assistant", "content": part.text} if self.asked.chat else part.text
            choices.append(self._choice(part, {name: said}))
        head = self._head("chat.completion" if self.asked.chat else "text_completion", choices)
        return self._with_prompt(head) | {"usage": self._usage()}

    def openings(self) -> list[dict[str, Any]]:
        """The events before any text: a role for each choice of a chat."""
        if not self.asked.chat:
            return []
        said = {"delta": {"role": "assistant", "content": ""}}
        parts = [Part(choice, "", (), None) for choice in range(self.asked.choices)]
        events = [self._event([self._choice(part, said)]) for part in parts]
        return [self._with_prompt(events[0]), *events[1:]]

    def event(self, part: Part) -> dict[str, Any] | None:
        """The event of a part of a stream; None if it says nothing."""
        told = self.asked.token_ids or self.asked.likeliest is not None
        if part.end is None and not part.text and not told:
            self.written += len(part.tokens)
            return None
        if self.asked.chat:
            said: dict[str, Any] = {"delta": {"content": part.text} if part.text else {}}
        else:
            said = {"text": part.text}
        return self._event([self._choice(part, said)])

    def usage_event(self) -> dict[str, Any]:
        """The last event, which counts the tokens."""
        return self._event([]) | {"usage": self._usage()}

    def _event(self, choices):
        return self._head(
            "chat.completion.chunk" if self.asked.chat else "text_completion", choices
        )

    def _head(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": self.id, "object": kind, "created": self.begun, "model": self.served.name}
        return head | {"choices": choices}

    def _with_prompt(self, head: dict[str, Any]) -> dict[str, Any]:
        """With the tokens of the prompt, if they are asked for: vLLM has them here in chats."""
        told = self.asked.token_ids and self.asked.chat
        return head | ({"prompt_token_ids": list(self.asked.prompt)} if told else {})

    def _usage(self) -> dict[str, int]:
        read = len(self.asked.prompt)
        total = read + self.written
        return {
            "prompt_tokens": read,
            "completion_tokens": self.written,
            "total_tokens": total,
        }

    def _choice(self, part: Part, said: dict[str, Any]) -> dict[str, Any]:
        self.written += len(part.tokens)
        out = {"index": part.choice, **said, "finish_reason": part.end, "logprobs": None}
        if self.asked.likeliest is not None and part.tokens:
            told = self._chat_logprobs if self.asked.chat else self._logprobs
            out["logprobs"] = told(part.tokens)
        if self.asked.token_ids:
            out["token_ids"] = [token.token for token in part.tokens]
            if not self.asked.chat:
                out["prompt_token_ids"] = list(self.asked.prompt)
        return out

    def _text(self, token: int) -> str:
        return self.served.pieces[token].decode("utf-8", errors="replace")

    def _chat_logprobs(self, tokens: Sequence[Token]) -> dict[str, Any]:
        def told(token, logp):
            piece = list(self.served.pieces[token])
            return {"token": self._text(token), "logprob": logp, "bytes": piece}

        return {
            "content": [
                told(token.token, token.logp)
                | {"top_logprobs": [told(*likely) for likely in token.likely]}
                for token in tokens
            ]
        }

    def _logprobs(self, tokens: Sequence[Token]) -> dict[str, Any]:
        tops = [{self._text(number): logp for number, logp in token.likely} for token in tokens]
        return {
            "tokens": [self._text(token.token) for token in tokens],
            "token_logprobs": [token.logp for token in tokens],
            "top_logprobs": tops if self.asked.likeliest else None,
        }
