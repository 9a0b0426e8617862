"""Replies to whoever waits for one: the compiled part of a host rollout, of one fixed shape."""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.generation import generate
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.contexts import OBSERVED, Layout, Transcript
from agentrl.rollout.reading import read
from envs.text import lower, span, thinks


class Asked(NamedTuple):
    """What stands in the rows, [W] each: their transcripts, and who waits for a reply.

    turn: i32, the turn to reply in. begins: bool, it is the row's first. waits: bool; of other rows
    nothing is read. episode: i32, whose key to draw by. seat: i32, whose turn it is.
    """

    transcript: Transcript
    turn: Any
    begins: Any
    waits: Any
    episode: Any
    seat: Any


class Reply(NamedTuple):
    """What W rows replied; G tokens, A bytes.

    fits: bool[W], it was read and replied to; what does not fit is not. tokens: i32[W, G]; logp,
    entropy: f32[W, G]; length: i32[W]; ended: bool[W]; kept: bool[W, G, V] or None, as in
    `Generated`. value: f32[W]. text: u8[W, A], of which [start, end) is the action; well_formed:
    bool[W], it keeps the grammar, whether or not it was cut at G. thinks: bool[W], something stands
    in its thought.
    """

    fits: jax.Array
    tokens: jax.Array
    logp: jax.Array
    entropy: jax.Array
    length: jax.Array
    ended: jax.Array
    kept: jax.Array | None
    value: jax.Array
    text: jax.Array
    start: jax.Array
    end: jax.Array
    well_formed: jax.Array
    thinks: jax.Array


class Replies:
    """A policy that replies to W rows at a time, whoever of them waits.

    The shape is always the same, so nothing compiles twice, and a row's reply depends on its
    episode, its turn and what it has read, but not on its place among the rows nor on who else
    waits: matrix products of another shape round otherwise, and a reply would depend on timing.
    """

    def __init__(
        self,
        policy: LanguagePolicy,
        layout: Layout,
        *,
        rows: int,
        context_tokens: int,
    ):
        self.policy, self.layout = policy, layout
        self.rows, self.context_tokens = rows, context_tokens
        self._reply = jax.jit(self._reply_to, static_argnames="greedy", donate_argnames="cache")
        self._value = jax.jit(self._value_of)

    def memory(self) -> decoder.Cache | None:
        """What the rows remember from turn to turn: nothing yet."""
        if self.layout.context != "whole":
            return None
        room = self.context_tokens
        if self.policy.has_critic:
            room += self.layout.observation_tokens
        return decoder.empty_cache(self.policy.config, self.rows, room)

    def reply(
        self,
        params: chex.ArrayTree,
        cache: decoder.Cache | None,
        asked: Asked,
        key: jax.Array,
        greedy: bool,
    ) -> tuple[decoder.Cache | None, Reply]:
        """(memory, replies), as NumPy arrays; the memory given is consumed."""
        cache, reply = self._reply(params, cache=cache, asked=asked, key=key, greedy=greedy)
        return cache, jax.device_get(reply)

    def value(self, params: chex.ArrayTree, cache: Any, asked: Asked) -> jax.Array:
        """The critic's value of what the waiting rows read now, f32[W]."""
        return jax.device_get(self._value(params, cache, asked))

    def _read(self, params, cache, asked: Asked, size: int):
        here = jnp.arange(self.rows)
        transcript, turn = asked.transcript, asked.turn
        if cache is not None:
            cache = cache.replace(length=jnp.where(asked.begins, 0, cache.length))
        return read(
            self.policy,
            self.layout,
            params,
            cache,
            transcript,
            turn,
            transcript.tokens[here, turn, : self.layout.observation_tokens],
            transcript.lengths[here, turn, OBSERVED],
            asked.waits,
            size,
            asked.seat,
        )

    def _value_of(self, params, cache, asked):
        # It may be longer than what any turn is read from.
        size = self.context_tokens + self.layout.observation_tokens
        last, _, _ = self._read(params, cache, asked, size)
        return decoder.values(params, self.policy.config, last)[..., 0]

    def _reply_to(self, params, cache, asked, key, greedy):
        policy, codec = self.policy, self.policy.codec
        size = self.layout.reply_tokens
        last, cache, fits = self._read(params, cache, asked, self.context_tokens - size)
        value = jnp.zeros(self.rows)
        if policy.has_critic:
            value = decoder.values(params, policy.config, last)[..., 0]

        def key_of(episode, turn):
            return jax.random.fold_in(jax.random.fold_in(key, episode), turn)

        sampling = dataclasses.replace(policy.sampling, greedy=True) if greedy else policy.sampling
        said = generate(
            params,
            policy.config,
            cache,
            last,
            jax.vmap(key_of)(asked.episode, asked.turn),
            sampling=sampling,
            max_new_tokens=size,
            end_token=codec.end,
            active=fits,
            keep=policy.cuts,
            role=asked.seat,
        )
        text, length = jax.vmap(functools.partial(codecs.to_bytes, codec))(said.tokens, said.length)
        start, end, well_formed = jax.vmap(functools.partial(span, policy.grammar))(
            lower(text), length
        )
        reply = Reply(
            fits=fits,
            tokens=said.tokens,
            logp=said.logp,
            entropy=said.entropy,
            length=said.length,
            ended=said.ended,
            kept=said.kept,
            value=value,
            text=text,
            start=start,
            end=end,
            well_formed=well_formed,
            thinks=jax.vmap(thinks)(lower(text), length),
        )
        return (said.cache if self.layout.context == "whole" else None), reply
