"""Generation: rows write tokens until each has ended."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.policies import decoder
from agentrl.policies.sampling import Sampling, entropy, sample


class Constraint(NamedTuple):
    """A grammar that constrains the rows' tokens.

    state: arrays with the rows first. allowed: (state) -> bool[B, V], tokens that may come next; a
    row without any can only end. advance: (state, token i32[B]) -> state. For rows that have ended,
    `advance` gets arbitrary tokens and its result is ignored.
    """

    state: chex.ArrayTree
    allowed: Callable[[chex.ArrayTree], jax.Array]
    advance: Callable[[chex.ArrayTree, jax.Array], chex.ArrayTree]


class Generated(struct.PyTreeNode):
    """Replies of B rows, up to G tokens each.

    tokens: i32[B, G], EOS included and repeated as padding. logp: f32[B, G], under the distribution
      sampled from; 0 after the end. entropy: f32[B, G], of that distribution.
    length: i32[B], number of tokens written, EOS included.
    ended: bool[B], the row wrote EOS; else it stopped at max_new_tokens, or was inactive.
    kept: bool[B, G, V], sampling mask: tokens that could be drawn, all True after the end; or None.
    hidden: f32[B, D], at the last token in the cache; cache: including the reply. None for replies
      that were not generated here.
    """

    tokens: jax.Array
    logp: jax.Array
    entropy: jax.Array
    length: jax.Array
    ended: jax.Array
    kept: jax.Array | None
    hidden: jax.Array | None
    cache: decoder.Cache | None


class Given(NamedTuple):
    """Replies from elsewhere: tokens i32[B, G], with EOS, which is repeated as padding.

    length: i32[B], with EOS; 0 for rows that generate their reply.
    """

    tokens: jax.Array
    length: jax.Array


def _rows(mask: jax.Array, new: chex.ArrayTree, old: chex.ArrayTree) -> chex.ArrayTree:
    def select(n, o):
        return jnp.where(mask.reshape(-1, *[1] * (n.ndim - 1)), n, o)

    return jax.tree.map(select, new, old)


def _empty_record(shape: tuple[int, int], end_token: int) -> dict[str, jax.Array]:
    """What is recorded per token, for shape (G, B), before any token is written."""
    return {
        "tokens": jnp.full(shape, end_token, jnp.int32),
        "logp": jnp.zeros(shape, jnp.float32),
        "entropy": jnp.zeros(shape, jnp.float32),
    }


def _allowed_tokens(grammar: Constraint, state: chex.ArrayTree, end_token: int) -> jax.Array:
    """Tokens that may come next, bool[B, V]: the end where the grammar allows none."""
    allowed = grammar.allowed(state)
    stuck = ~jnp.any(allowed, axis=-1, keepdims=True)
    return allowed | (stuck & (jnp.arange(allowed.shape[-1]) == end_token))


def generate(
    params: decoder.Params,
    config: decoder.DecoderConfig,
    cache: decoder.Cache,
    hidden: jax.Array,
    key: jax.Array,
    *,
    sampling: Sampling,
    max_new_tokens: int,
    end_token: int,
    active: jax.Array,
    constraint: Constraint | tuple | None = None,
    keep: bool = False,
    role: jax.Array | None = None,
    given: Given | None = None,
) -> Generated:
    """Generates tokens in the active rows until each has written `end_token` or `max_new_tokens`
    tokens.

    Args:
      cache, hidden: the prompt, and the hidden state f32[B, D] at its last token.
      key: one for all rows, or one per row, [B], which makes rows independent of each other.
      active: bool[B]; other rows are unchanged. No step is taken if no row is active.
      constraint: a `Constraint`, or its three parts.
      keep: record the sampling mask.
      role: i32[B], see `agentrl.policies.decoder`.
      given: replies that rows take instead of generating one.
    """
    grammar = None if constraint is None else Constraint(*constraint)
    record = _empty_record((max_new_tokens, hidden.shape[0]), end_token)
    if keep:
        record["kept"] = jnp.ones((*record["tokens"].shape, config.vocab_size), bool)

    split = jax.random.split if key.ndim == 0 else jax.vmap(jax.random.split, out_axes=1)

    def running(carry):
        t, live = carry[:2]
        return (t < max_new_tokens) & jnp.any(live)

    def write(carry):
        t, live, key, cache, hidden, state, record = carry
        key, sample_key = split(key)
        allowed = None if grammar is None else _allowed_tokens(grammar, state, end_token)
        scores = decoder.unembed(params, config, hidden)
        token, logp, kept = sample(sample_key, scores, sampling, allowed)
        token = jnp.where(live, token, end_token)
        new = {
            "tokens": token,
            "logp": jnp.where(live, logp, 0.0),
            "entropy": jnp.where(live, entropy(scores, sampling, kept), 0.0),
        }
        if keep:
            kept = jnp.ones(scores.shape, bool) if kept is None else kept
            new["kept"] = kept | ~live[:, None]
        record = jax.tree.map(lambda r, n: r.at[t].set(n), record, new)
        read, cache = decoder.step(params, config, cache, token, live, role)
        hidden = _rows(live, read, hidden)
        if grammar is not None:
            state = _rows(live, grammar.advance(state, token), state)
        return t + 1, live & (token != end_token), key, cache, hidden, state, record

    params = decoder.cast(params, config)
    start = cache.length
    state = None if grammar is None else grammar.state
    writes = active if given is None else active & (given.length == 0)
    carry = (jnp.zeros((), jnp.int32), writes, key, cache, hidden, state, record)
    t, live, _, cache, hidden, _, record = jax.lax.while_loop(running, write, carry)
    record = jax.tree.map(lambda r: jnp.moveaxis(r, 0, 1), record)
    said = Generated(
        tokens=record["tokens"],
        logp=record["logp"],
        entropy=record["entropy"],
        length=cache.length - start,
        ended=active & ~live,
        kept=record.get("kept"),
        hidden=hidden,
        cache=cache,
    )
    return said if given is None else _with_given(said, given, params, config, active, role)


def _with_given(said: Generated, given: Given, params, config, active, role) -> Generated:
    """The replies, in which active rows take the given ones and read them into their cache."""
    count = jnp.where(active, given.length, 0)
    read, cache = decoder.extend(params, config, said.cache, given.tokens, count, role)
    last = jnp.take_along_axis(read, jnp.maximum(count - 1, 0)[:, None, None], axis=1)[:, 0]
    return said.replace(
        tokens=_rows(count > 0, given.tokens, said.tokens),
        length=said.length + count,
        hidden=_rows(count > 0, last, said.hidden),
        cache=cache,
    )
