"""Summaries that a language policy writes of its own transcript (SUPO).

Letters as in `agentrl.actors.text_agent`.
"""

from typing import TYPE_CHECKING

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.records import Memory
from agentrl.actors.transcript import Composed
from agentrl.policies import decoder
from agentrl.policies.generation import Generated
from agentrl.policies.prefill import read

if TYPE_CHECKING:
    from agentrl.actors.text_agent import TextAgent

# Folded into the key of a turn for the summary that is written in it.
_SUMMARY = 1002


def summarize(
    agent: "TextAgent",
    params: chex.ArrayTree,
    memory: Memory,
    lane: jax.Array,
    turn: jax.Array,
    active: jax.Array,
    role: jax.Array,
    key: jax.Array,
    *,
    greedy: bool,
    skip: bool,
) -> tuple[Memory, tuple[Composed, Generated], jax.Array]:
    """Writes a summary in the lanes whose prompt is longer than the context's limit.

    lane, turn, role: i32[n], of the lanes that are computed; active: bool[n], those that reply.
    key: one, or one per lane. skip: nobody writes one, since replies are given.

    Returns (memory, (prompts, summaries), lanes that may not write another one bool[n]).
    """
    layout, size, limit = agent.layout, agent.context.summary_tokens, agent.context.limit
    assert limit is not None  # of a context without summaries nothing is asked here
    room = agent.row_tokens - size
    prompt = layout.prompt(memory.transcript, lane, turn, agent.prompt_tokens)
    asked = layout.prompt(memory.transcript, lane, turn, room, request=True)
    too_long = prompt.cut | (prompt.length > limit)
    needs = active & too_long & layout.holds_replies(memory.transcript, lane, turn)
    needs = needs & (not skip)
    spent = jnp.zeros(needs.shape, bool)
    if agent.context.max_summaries is not None:
        spent = needs & (memory.summaries[lane] >= agent.context.max_summaries)
    needs = needs & ~spent & ~asked.cut
    fold = jax.random.fold_in if key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))

    def write():
        cache = decoder.empty_cache(agent.policy.config, lane.shape[0], room + size)
        count = jnp.where(needs, asked.length, 0)
        last, cache = read(params, agent.policy.config, cache, asked.tokens, count, role)
        chance = fold(key, _SUMMARY)
        said = agent.generate(params, cache, last, chance, needs, role, greedy, size=size)
        return said.replace(cache=None, hidden=None)

    zeros = jnp.zeros((lane.shape[0], size))
    kept = jnp.ones((*zeros.shape, agent.policy.codec.vocab_size), bool)
    nothing = Generated(
        tokens=zeros.astype(jnp.int32),
        logp=zeros,
        entropy=zeros,
        length=zeros[:, 0].astype(jnp.int32),
        ended=zeros[:, 0].astype(bool),
        kept=kept if agent.policy.cuts else None,
        hidden=None,
        cache=None,
    )
    said = nothing if skip else jax.lax.cond(jnp.any(needs), write, lambda: nothing)
    transcript = layout.summarized(memory.transcript, lane, turn, said.tokens, said.length)
    written = memory.summaries.at[lane].add(needs.astype(jnp.int32))
    return memory.replace(transcript=transcript, summaries=written), (asked, said), spent
