"""What a language policy remembers and records: its memory, its replies, its turns.

Letters: B episodes, A agents, S agents shown in a step, n lanes; O tokens of an observation, G of a
reply, L of a row, V in the vocabulary.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.actors.transcript import SPAN_OF_KIND, Composed, Transcript
from agentrl.policies import decoder
from agentrl.policies.generation import Generated
from agentrl.policies.language import LanguagePolicy
from agentrl.streams import ACTION, MESSAGE, SUBGOAL, SUMMARY, SWITCH, THOUGHT
from envs.text import between, thinks

_TAGS = (("think", THOUGHT), ("switch", SWITCH), ("subgoal", SUBGOAL), ("message", MESSAGE))


class Memory(struct.PyTreeNode):
    """Memory of the lanes of B episodes and A agents, leaves [B, A, ...].

    turn: i32, own turns so far. branch: i32, the turn that opened the branch, -1 for none.
    summaries: i32, how many have been written.
    cache: the KV cache, if the context keeps it across turns, else None; of one agent [B, ...].
    behaviour: i32, the state of the specification's automaton; None without one.
    """

    turn: jax.Array
    branch: jax.Array
    summaries: jax.Array
    transcript: Transcript
    cache: decoder.Cache | None
    behaviour: jax.Array | None = None


class PromptAndReply(struct.PyTreeNode):
    """A prompt and the tokens written after it; leaves [B, S, ...].

    prompt: i32[.., L - G]; None where the row is the episode. age: i16, own turns since the turn
    that a position belongs to, -1 for none; span: i8, see `agentrl.streams.SPANS`. length: i32,
    tokens of the prompt. tokens: i32[.., G], of which `count` were written; logp, entropy: f32[..,
    G]; kept: bool[.., G, V] or None, tokens that could be sampled; spans: i8[.., G].
    """

    prompt: jax.Array | None
    age: jax.Array | None
    span: jax.Array | None
    length: jax.Array | None
    tokens: jax.Array
    count: jax.Array
    logp: jax.Array
    entropy: jax.Array
    kept: jax.Array | None
    spans: jax.Array


class TextRecord(NamedTuple):
    """Record of a turn, from which rows and metrics are made, leaves [B, S, ...].

    replied: bool. turn: i32, the agent's own turn. reply, summary: the written tokens; summary is
    None in contexts without. ended: bool, the reply ends with EOS, or is of one token, which leaves
    no room for it. cut: bool, the observation did not fit. format_ok: bool, the reply keeps the
    grammar and has ended. known: bool, it names commands. thinks: bool, its thought is not empty;
    None without thoughts. violates: bool, the specification of the behaviour cannot be kept from
    this turn on; None without one. speaker: i32, the role that replied, where several write one
    transcript; else None.
    """

    replied: jax.Array
    turn: jax.Array
    reply: PromptAndReply
    summary: PromptAndReply | None
    ended: jax.Array
    cut: jax.Array
    format_ok: jax.Array
    known: jax.Array
    thinks: jax.Array | None
    violates: jax.Array | None = None
    speaker: jax.Array | None = None


class ObservationTokens(NamedTuple):
    """Observations of n lanes as tokens: i32[n, O], i32[n], bool[n], and their anchor u32[n, 2].

    speaker: i32[n], the role that reads and replies, where several write one transcript; else None.
    """

    tokens: jax.Array
    length: jax.Array
    cut: jax.Array
    anchor: jax.Array
    speaker: jax.Array | None = None


class TurnResult(NamedTuple):
    """The result of a turn in n lanes.

    The prompt's last hidden state gives `value`; fits: bool[n], the prompt had room.
    """

    active: jax.Array
    fits: jax.Array
    turn: jax.Array
    value: jax.Array
    said: Generated
    prompt: Composed | None
    summary: tuple[Composed, Generated] | None


def written(
    prompt: Composed | None, said: Generated, turn: jax.Array, spans: jax.Array
) -> PromptAndReply:
    """The record of prompts [n, ...] and what was written after them at own turns i32[n]."""
    reply = (said.tokens, said.length, said.logp, said.entropy, said.kept, spans)
    if prompt is None:
        return PromptAndReply(None, None, None, None, *reply)
    inside = prompt.turn >= 0
    age = jnp.where(inside, turn[:, None] - prompt.turn, -1).astype(jnp.int16)
    kinds = jnp.asarray(SPAN_OF_KIND)[jnp.maximum(prompt.kind, 0)]
    span = jnp.where(prompt.kind >= 0, kinds, -1).astype(jnp.int8)
    return PromptAndReply(prompt.tokens, age, span, prompt.length, *reply)


def token_spans(
    policy: LanguagePolicy, text: jax.Array, length: jax.Array, tokens: jax.Array
) -> jax.Array:
    """The span of each token of a reply, i8[G], by the tags around its first byte.

    text: u8[W], the reply's bytes in lower case.
    """
    sizes = jnp.asarray(policy.codec.token_lengths)[tokens]
    first = jnp.minimum(jnp.cumsum(sizes) - sizes, text.shape[0] - 1)
    out = jnp.full(tokens.shape, ACTION, jnp.int8)
    bare = policy.grammar.name == "bare"
    for name, span in _TAGS:
        # A bare reply has the tags that are part of the environment's commands.
        if bare and not policy.codec.writes(f"<{name}>"):
            continue
        out = jnp.where(between(text, length, name)[first], jnp.int8(span), out)
    return out


def text_record(
    policy: LanguagePolicy,
    replied: TurnResult,
    observed: ObservationTokens,
    text: jax.Array,
    length: jax.Array,
    *,
    format_ok: jax.Array,
    known: jax.Array | bool,
) -> TextRecord:
    """The record of a turn in n lanes, from what was understood of the replies.

    text, length: u8[n, W] and i32[n], the replies' bytes in lower case. format_ok, known: bool[n],
    whether a reply keeps the grammar, and whether it names commands.
    """
    said, turn, summary = replied.said, replied.turn, None
    spans = jax.vmap(functools.partial(token_spans, policy))(text, length, said.tokens)
    ended = said.ended | (said.tokens.shape[1] == 1)
    thoughts = None if policy.grammar.think == "none" else jax.vmap(thinks)(text, length)
    if replied.summary is not None:
        asked, told = replied.summary
        kinds = jnp.full(told.tokens.shape, SUMMARY, jnp.int8)
        summary = written(asked, told, turn, kinds)
    return TextRecord(
        replied=replied.active,
        turn=turn,
        reply=written(replied.prompt, said, turn, spans),
        summary=summary,
        ended=ended,
        cut=observed.cut,
        format_ok=replied.active & format_ok & ended,
        known=replied.active & known,
        thinks=thoughts,
        speaker=observed.speaker,
    )
