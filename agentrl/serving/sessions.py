"""Sessions: the calls of one run of a program, recorded while the engine answers them."""

import dataclasses
import threading
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from agentrl.methods.calls import Call
from agentrl.policies.sampling import Sampling
from agentrl.serving.engine import Engine, Request
from agentrl.serving.protocol import ProtocolError


@dataclasses.dataclass
class _Said:
    """A call while it is answered. ended: the whole reply has been written."""

    request: Request
    prompt: tuple[int, ...]
    reply: list[int] = dataclasses.field(default_factory=list)
    logp: list[float] = dataclasses.field(default_factory=list)
    ended: bool = False


class Session:
    """The engine as one run of a program sees it.

    Replies are sampled as in training, whatever a request says of temperature, top_p and so on, and
    with seeds of the session: the n-th call is a function of its prompt, the parameters, and the
    session's seed. A call that goes on where the one before ended reads what is new alone. cut:
    what the program ran out of, "" for nothing.
    """

    # A prompt that is too long comes here, so that it is known.
    size = np.iinfo(np.int32).max

    def __init__(self, engine: Engine, *, calls: int, sampling: Sampling, seed: Sequence[int]):
        """calls: that the program may make. seed: numbers that no other session has."""
        self.engine, self.cut = engine, ""
        self.slots, self.waiting = engine.slots, engine.waiting
        self._most, self._sampling, self._seed = calls, sampling, seed
        self._said: list[_Said] = []
        self._lock = threading.Lock()

    def submit(self, requests: Sequence[Request]) -> None:
        """As the engine's. Raises ProtocolError, too: there is no room for the calls."""
        with self._lock:
            number = len(self._said)
            if number + len(requests) > self._most:
                self._stop(f"a program may make {self._most} calls (config.rollout.max_turns)")
            for request in requests:
                count, reply = len(request.prompt), request.max_tokens
                if count + reply > self.engine.size:
                    self._stop(
                        f"the prompt has {count} tokens and the reply may take {reply}: more than "
                        f"the {self.engine.size} of a row (config.context.context_tokens)"
                    )
            said = [self._recorded(request, number + i) for i, request in enumerate(requests)]
            self.engine.submit(requests)
            self._said += said

    def calls(self) -> list[Call]:
        """The calls with a whole reply, in the order in which they came."""
        with self._lock:
            whole = [said for said in self._said if said.ended]
        return [Call(said.prompt, tuple(said.reply), tuple(said.logp)) for said in whole]

    def close(self) -> None:
        """The program has ended: what its calls have read may be overwritten."""
        for said in self._said:
            said.request.held = False

    def _stop(self, why: str) -> NoReturn:
        self.cut = why
        raise ProtocolError(f"{why}; the episode is cut", code="context_length_exceeded")

    def _recorded(self, request: Request, number: int) -> _Said:
        prompt, take, end = tuple(map(int, request.prompt)), request.take, request.end
        said = _Said(request, prompt)
        for before in self._said[-1:]:
            whole = (*before.prompt, *before.reply)
            if before.ended and prompt[: len(whole)] == whole and len(prompt) > len(whole):
                request.continues = before.request
            before.request.held = request.continues is not None

        def taken(token):
            said.reply.append(token.token)
            said.logp.append(token.logp)
            return take(token)

        def ended(reason):
            said.ended = not isinstance(reason, Exception)
            end(reason)

        request.take, request.end, request.held = taken, ended, True
        drawn = np.random.SeedSequence([*self._seed, number]).generate_state(1)[0]
        request.sampling, request.seed, request.choice = self._sampling, int(drawn >> 1), 0
        return said
