"""Continuous batching: requests join and leave a batch of replies between any two tokens.

The decoder has a fixed number of slots, S rows of one KV cache. A request that finds a free slot is
read into it by a program for its padded length; then every step writes one token in each slot that
is in use. A reply is a function of the prompt, the options and the seed: the programs and their
shapes are the same whatever the other slots hold, and no row reads another's. A request that
continues an earlier one goes into that one's slot if it is still there, and its further tokens
alone are read.

The scheme is iteration-level scheduling: G.-I. Yu et al. 2022, "Orca",
https://www.usenix.org/conference/osdi22/presentation/yu.
"""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.checks import check_range
from agentrl.policies import decoder
from agentrl.policies.decoder import Cache, DecoderConfig, Params
from agentrl.policies.prefill import AT_ONCE, read
from agentrl.policies.sampling import Sampling, SamplingRows, sample_rows

# Likeliest tokens that can be asked for beside each token; the protocol's limit.
MOST_LIKELY = 20


class Full(Exception):
    """There are as many waiting requests as there may be."""


class Slots(struct.PyTreeNode):
    """What is on the device. cache: S rows. hidden: f32[S, D], at each row's last token. key: [S].
    sampling: [S] each."""

    cache: Cache
    hidden: jax.Array
    key: jax.Array
    sampling: SamplingRows


class Step(NamedTuple):
    """A token of each slot: token i32[S], its log-probability f32[S], and the likeliest tokens
    i32[S, K] with theirs f32[S, K], best first, where they were asked for."""

    token: jax.Array
    logp: jax.Array
    likely: jax.Array
    likely_logp: jax.Array


def _row(sampling: Sampling) -> SamplingRows:
    """A sampling method as scalars; of fixed types, so that nothing is compiled again."""
    types = SamplingRows(np.float32, np.int32, np.float32, np.float32, np.bool_)
    return SamplingRows(*(of(getattr(sampling, name)) for name, of in types._asdict().items()))


def empty_slots(config: DecoderConfig, slots: int, size: int) -> Slots:
    """S slots without a request, with room for `size` tokens each."""
    return Slots(
        cache=decoder.empty_cache(config, slots, size),
        hidden=jnp.zeros((slots, config.width)),
        key=jax.random.split(jax.random.key(0), slots),
        sampling=jax.tree.map(lambda x: jnp.full(slots, x), _row(Sampling())),
    )


def admit(
    params: Params,
    config: DecoderConfig,
    slots: Slots,
    slot: jax.Array,
    tokens: jax.Array,
    count: jax.Array,
    key: jax.Array,
    sampling: SamplingRows,
    kept: jax.Array,
    role: jax.Array | None = None,
) -> Slots:
    """Reads a prompt into a slot i32[]: the first count of tokens i32[P], behind the first kept
    i32[] tokens that the slot holds.

    key, sampling (scalars), role i32[]: of the reply.
    """
    held = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, slot, 1, axis=0), slots.cache)
    cache = held.replace(length=jnp.full_like(held.length, kept))
    role = None if role is None else role[None]
    hidden, cache = read(params, config, cache, tokens[None], count[None], role)
    row = Slots(cache, hidden, key[None], jax.tree.map(lambda x: x[None], sampling))

    def put(old, new):
        return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), slot, axis=0)

    return jax.tree.map(put, slots, row)


def write(
    params: Params,
    config: DecoderConfig,
    slots: Slots,
    active: jax.Array,
    likeliest: jax.Array,
    role: jax.Array | None = None,
) -> tuple[Slots, Step]:
    """Writes a token in the active slots, bool[S], as `generation.generate` with a key per row.

    likeliest: bool[], whether any request wants the likeliest tokens.
    """
    split = jax.vmap(jax.random.split, out_axes=1)
    key, sample_key = split(slots.key)
    scores = decoder.unembed(params, config, slots.hidden)
    token, logp = sample_rows(sample_key, scores, slots.sampling)
    count = min(MOST_LIKELY, config.vocab_size)
    shape = (token.shape[0], count)
    best, number = jax.lax.cond(
        likeliest,
        lambda: jax.lax.top_k(logp, count),
        lambda: [jnp.zeros(shape), jnp.zeros(shape, jnp.int32)],
    )
    chosen = jnp.take_along_axis(logp, token[:, None], axis=-1)[:, 0]
    if role is not None:
        role = jnp.broadcast_to(role, token.shape)
    hidden, cache = decoder.step(params, config, slots.cache, token, active, role)
    return slots.replace(cache=cache, hidden=hidden, key=key), Step(token, chosen, number, best)


def reply_key(seed: int, choice: int = 0) -> jax.Array:
    """The key of a reply: with it `generation.generate` writes the same, by itself.

    choice: number of the reply among the n of a request.
    """
    return jax.random.fold_in(jax.random.key(seed), choice)


class Token(NamedTuple):
    """A token of a reply: its number, its log-probability under the distribution that it was drawn
    from, and (number, log-probability) of the likeliest tokens, best first."""

    token: int
    logp: float
    likely: tuple[tuple[int, float], ...]


@dataclasses.dataclass
class Request:
    """A reply that is asked for.

    prompt: tokens. sampling, seed, choice: see `reply_key`. max_tokens: of the reply.
    likeliest: how many of the likeliest tokens are told with each token.
    take: called with each token, in the engine's thread; returns whether the reply ends with it.
    end: called once, in that thread, with "stop" (the end token, or `take`), "length", or an
      exception. Not called after `cancel`.
    continues: a request that has ended, whose prompt and reply this prompt begins with, token by
      token, and goes on.
    held: set by anyone; while it is, other requests take other slots than this one's, if there are.
    cancelled: set by anyone; the slot is free at the next step.
    """

    prompt: Sequence[int]
    sampling: Sampling
    seed: int
    choice: int
    max_tokens: int
    likeliest: int
    take: Callable[[Token], bool]
    end: Callable[[str | Exception], None]
    continues: "Request | None" = None
    held: bool = False
    cancelled: bool = False
    written: int = 0

    def cancel(self) -> None:
        """Ends the reply, whether it waits or is being written."""
        self.cancelled = True


class Engine:
    """The slots of a decoder, and the thread that owns them.

    broken: the exception that ended the thread, or None.
    """

    def __init__(
        self,
        params: Params,
        config: DecoderConfig,
        *,
        end_token: int,
        slots: int,
        size: int,
        waiting: int,
        role: int | None = None,
    ):
        """slots: S, replies written at the same time. size: tokens of a prompt and its reply.
        waiting: requests that may wait for a slot. role: whose adapters, if each role has its own.
        """
        check_range("slots", slots, 1)
        check_range("size", size, 2)
        check_range("waiting", waiting, 0)
        self.slots, self.size, self.waiting = slots, size, waiting
        self.end_token, self.broken = end_token, None
        # Lengths to which prompts are padded. The longest are read in blocks, at their own cost.
        blocks = [16 * 4**i for i in range(3) if 16 * 4**i <= AT_ONCE]
        self.lengths = [*(length for length in blocks if length < size), size]
        self._cast = jax.jit(decoder.cast, static_argnums=1)
        self._params = self._cast(params, config)
        self._state = empty_slots(config, slots, size)
        self._fixed = {"config": config, "role": None if role is None else jnp.int32(role)}
        options = {"static_argnames": "config", "donate_argnames": "slots"}
        self._admit, self._write = jax.jit(admit, **options), jax.jit(write, **options)
        self._taken: list[Request | None] = [None] * slots
        # The request whose tokens are in each slot.
        self._last: list[Request | None] = [None] * slots
        self._queue: collections.deque[Request] = collections.deque()
        self._change, self._closing = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Compiles the programs, then begins to answer."""
        for length in self.lengths:
            self._read(0, [self.end_token] * length, Sampling(), reply_key(0), 0)
        self._step(np.zeros(self.slots, bool), False)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; requests that are left end with an exception."""
        with self._change:
            self._closing = True
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queues all of the requests, or none.

        Raises:
          Full: too many would wait. RuntimeError: the engine has ended.
        """
        with self._change:
            if self.broken is not None or self._closing:
                raise RuntimeError(f"the engine has ended: {self.broken or 'closed'}")
            self._queue = collections.deque(r for r in self._queue if not r.cancelled)
            free = sum(taken is None for taken in self._taken)
            if len(self._queue) + len(requests) > self.waiting + free:
                raise Full
            self._queue.extend(requests)
            self._change.notify()

    def load(self) -> tuple[int, int]:
        """(replies being written, requests that wait)."""
        with self._change:
            waiting = sum(not request.cancelled for request in self._queue)
            return sum(taken is not None for taken in self._taken), waiting

    def use(self, params: Params) -> None:
        """Replies of requests from now on are of other parameters of the same shapes, with the same
        programs. No reply may be in the middle: see `drain`."""
        self._last = [None] * self.slots
        self._params = self._cast(params, self._fixed["config"])

    def drain(self) -> None:
        """Cancels all requests and waits until none is being written: parameters are not read any
        more, and may be donated."""
        with self._change:
            for request in [*self._queue, *self._taken]:
                if request is not None:
                    request.cancel()
        while self.load()[0]:
            time.sleep(0.001)

    def _run(self) -> None:
        error: Exception = RuntimeError("the server is stopping")
        try:
            while self._wait():
                self._fill()
                self._advance()
        except Exception as failure:  # told to every request, and by `broken`
            error = self.broken = failure
        with self._change:
            self._closing = True
            left = [*self._queue, *self._taken]
            self._queue.clear()
            self._taken = [None] * self.slots
        for request in left:
            if request is not None and not request.cancelled:
                request.end(error)

    def _wait(self) -> bool:
        """Waits for something to do; False at the end. Frees the slots of cancelled requests."""
        with self._change:
            while True:
                for slot, request in enumerate(self._taken):
                    if request is not None and request.cancelled:
                        self._taken[slot] = None
                if self._closing:
                    return False
                if self._queue or any(self._taken):
                    return True
                self._change.wait()

    def _fill(self) -> None:
        """Reads the prompts of waiting requests into free slots."""
        while True:
            with self._change:
                free = [slot for slot, taken in enumerate(self._taken) if taken is None]
                while self._queue and self._queue[0].cancelled:
                    self._queue.popleft()
                if not free or not self._queue:
                    return
                request = self._queue.popleft()
                slot, kept = self._place(request, free)
                self._taken[slot] = self._last[slot] = request
            key = reply_key(request.seed, request.choice)
            self._read(slot, request.prompt[kept:], request.sampling, key, kept)

    def _place(self, request: Request, free: Sequence[int]) -> tuple[int, int]:
        """(a free slot, how many of the prompt's tokens are in it already)."""
        before = request.continues
        for slot in free:
            if before is not None and self._last[slot] is before:
                return slot, len(before.prompt) + before.written
        of_nobody = [slot for slot in free if not getattr(self._last[slot], "held", False)]
        return (of_nobody or free)[0], 0

    def _read(self, slot, prompt, sampling, key, kept):
        length = next(length for length in self.lengths if length >= len(prompt))
        tokens = np.full(length, self.end_token, np.int32)
        tokens[: len(prompt)] = prompt
        self._state = self._admit(
            params=self._params,
            slots=self._state,
            slot=np.int32(slot),
            tokens=tokens,
            count=np.int32(len(prompt)),
            key=key,
            sampling=_row(sampling),
            kept=np.int32(kept),
            **self._fixed,
        )

    def _step(self, active: np.ndarray, likeliest: bool) -> Step:
        self._state, step = self._write(
            params=self._params,
            slots=self._state,
            active=active,
            likeliest=np.bool_(likeliest),
            **self._fixed,
        )
        return jax.tree.map(np.asarray, step)

    def _advance(self) -> None:
        """Writes a token in every slot that is in use, and tells it."""
        taken = list(self._taken)
        active = np.array([request is not None for request in taken])
        if not active.any():
            return
        step = self._step(active, any(r is not None and r.likeliest for r in taken))
        for slot, request in enumerate(taken):
            if request is None or request.cancelled:
                continue
            count = request.likeliest
            best = zip(step.likely[slot, :count], step.likely_logp[slot, :count], strict=True)
            # Tokens that were cut are no candidates.
            likely = tuple((int(t), float(p)) for t, p in best if np.isfinite(p))
            token = int(step.token[slot])
            request.written += 1
            stops = request.take(Token(token, float(step.logp[slot]), likely))
            if stops or token == self.end_token or request.written == request.max_tokens:
                with self._change:
                    self._taken[slot] = None
                request.end("stop" if stops or token == self.end_token else "length")
