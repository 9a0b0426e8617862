"""A language policy that reads and replies in a context, wherever its text comes from.

Letters: B episodes, A agents, S agents shown in a step; n lanes (episode b's agent a is lane
b * A + a) are computed in a step: B * S, or all B * A where the KV cache of each lives across
turns. O tokens of an observation, G of a reply, L of a row, V in the vocabulary, W reply bytes.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.contexts import Context
from agentrl.actors.records import Memory, ObservationTokens, TurnResult, text_record
from agentrl.actors.source import Source
from agentrl.actors.summaries import summarize
from agentrl.actors.transcript import OBSERVED, REPLIED, Composed, Layout
from agentrl.actors.types import Actor, Decision, View
from agentrl.devices.placement import along_data
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.generation import Generated, Given, generate
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.prefill import read
from envs.text import contains, lower, thinks


class TextAgent:
    """A policy bound to a context and a source: it reads, replies and remembers."""

    def __init__(
        self,
        policy: LanguagePolicy,
        context: Context,
        source: Source,
        *,
        turns: int,
        segments: bool = False,
    ):
        """turns: T, own turns of an agent in an episode. segments: collections hold parts of
        several episodes, so that rows are turns and no cache lives."""
        self.policy, self.context, self.source = policy, context, source
        self.roles, self.agents = np.array(source.roles), len(source.roles)
        observation_tokens, reply_tokens = source.observation_tokens, source.reply_tokens
        self.layout = Layout(
            context,
            policy.codec,
            turns=turns,
            observation_tokens=observation_tokens,
            reply_tokens=reply_tokens,
        )
        # The row is the episode, and the KV cache lives across turns.
        self.one_row = context.one_row and not segments
        # Turns between two moves of the window are one row.
        self.strided = context.stride > 1 and not segments
        longest, given = self.layout.longest(), context.context_tokens
        self.row_tokens = longest if given is None else min(given, longest)
        if self.row_tokens < self.layout.least():
            raise ValueError(
                f"context context_tokens={given}: one turn takes {self.layout.least()} "
                f"({observation_tokens} to read, {reply_tokens} to write)"
            )
        if context.limit is not None and context.limit + reply_tokens < self.layout.least():
            raise ValueError(
                f"context limit={context.limit}: a prompt with a summary takes up to "
                f"{self.layout.least() - reply_tokens} tokens"
            )
        if context.branch and policy.grammar.name == "bare":
            raise ValueError(
                "context 'fold' with grammar 'bare', in which the whole reply is the command: use "
                "config.policy.grammar='action' or 'answer'"
            )

    @property
    def prompt_tokens(self) -> int:
        """Most tokens that may stand in a row before a reply: row_tokens less those of a reply."""
        return self.row_tokens - self.layout.reply_tokens

    def actor(
        self, params: chex.ArrayTree, *, greedy: bool = False, given: Given | None = None
    ) -> Actor:
        """The policy with these parameters. greedy: the most likely token each time. given: as in
        `act`."""
        commands = self.policy.grammar.max_actions
        return Actor(
            init=lambda batch, agents: self.init(params, batch),
            act=functools.partial(self.act, greedy=greedy, given=given),
            params=params,
            remembers=self.context.remembers,
            draws=not greedy,
            reads_arrays=False,
            commands=commands if commands > 1 else None,
            value=self.value if self.policy.has_critic else None,
            restart=self.restart,
            split=self.split,
            join=self.join,
        )

    def init(self, params: chex.ArrayTree | None, batch: int) -> Memory:
        """Memory before the first turn. params: None where nothing is generated."""
        lanes = batch * self.agents
        cache = None
        if self.one_row and params is not None:
            room = self.layout.observation_tokens if self.policy.has_critic else 0
            cache = decoder.empty_cache(self.policy.config, lanes, self.row_tokens + room)
            cache = self._with_opening(params, cache)
        zeros = jnp.zeros(lanes, jnp.int32)
        behaviour = None if self.source.behaviour is None else zeros
        memory = Memory(zeros, zeros - 1, zeros, self.layout.empty(lanes), cache, behaviour)
        return along_data(self._by_agent(memory))

    def restart(self, memory: Memory, done: jax.Array) -> Memory:
        """Memory in which the episodes `done` bool[B] begin anew."""
        flat = self._by_lane(memory)
        done, cache = jnp.repeat(done, self.agents), flat.cache
        if cache is not None:
            opening = len(self.layout.opening)
            cache = cache.replace(length=jnp.where(done, opening, cache.length))
        return self._by_agent(
            Memory(
                turn=jnp.where(done, 0, flat.turn),
                branch=jnp.where(done, -1, flat.branch),
                summaries=jnp.where(done, 0, flat.summaries),
                transcript=self.layout.restarted(flat.transcript, done),
                cache=cache,
                behaviour=None if flat.behaviour is None else jnp.where(done, 0, flat.behaviour),
            )
        )

    def split(self, memory: Memory) -> tuple[Memory, Any]:
        """`Actor.split`: where the row is the episode, transcript and KV cache are the past."""
        if not self.one_row:
            return memory, None
        assert memory.cache is not None  # it is generated from
        point = memory.replace(transcript=None, cache=memory.cache.length)
        return point, (memory.transcript, memory.cache)

    def join(self, point: Memory, past: chex.ArrayTree) -> Memory:
        """`Actor.join`. Slots and pieces behind the point are not read, and overwritten."""
        if past is None:
            return point
        transcript, cache = past
        return point.replace(transcript=transcript, cache=cache.replace(length=point.cache))

    def all_lanes(self, view: View) -> View:
        """The view of all agents where the KV cache of each lives across turns."""
        shown = view.agent.shape[1]
        if not self.one_row or shown == self.agents:
            return view
        everyone = jnp.arange(self.agents, dtype=jnp.int32)
        agent = jnp.broadcast_to(everyone, (view.agent.shape[0], self.agents))
        return view._replace(agent=agent, acting=view.acting & (view.agent == agent))

    def _seen(self, memory: Memory, view: View) -> tuple[View, jax.Array, ObservationTokens]:
        """(the view of all lanes that are computed, lanes i32[n], their observations)."""
        view = self.all_lanes(view)
        first = jnp.arange(view.agent.shape[0], dtype=jnp.int32)[:, None] * self.agents
        turn = jnp.take_along_axis(memory.turn, view.agent, axis=1)
        return view, (first + view.agent).reshape(-1), self.source.observe(view, turn)

    def role_of(self, lane: jax.Array) -> jax.Array:
        """The role of each lane's agent, i32[...] like `lane`."""
        return jnp.asarray(self.roles, jnp.int32)[lane % self.agents]

    def _role(self, lane: jax.Array, observed: ObservationTokens) -> jax.Array:
        return self.role_of(lane) if observed.speaker is None else observed.speaker

    def _own(self, view: View, computed: View, tree: chex.ArrayTree) -> chex.ArrayTree:
        """Values of the lanes of `all_lanes`, [n, ...], as those of the view, [B, S, ...]."""
        batch, count = computed.agent.shape

        def one(x):
            x = x.reshape(batch, count, *x.shape[1:])
            if count == view.agent.shape[1]:
                return x
            index = view.agent.reshape(*view.agent.shape, *[1] * (x.ndim - 2))
            return jnp.take_along_axis(x, index, axis=1)

        return jax.tree.map(one, tree)

    def _by_lane(self, memory: Memory) -> Memory:
        return self._reshaped(memory, lambda x: x.reshape(-1, *x.shape[2:]))

    def _by_agent(self, memory: Memory) -> Memory:
        return self._reshaped(memory, lambda x: x.reshape(-1, self.agents, *x.shape[1:]))

    def _reshaped(self, memory, reshape):
        if self.agents > 1:
            return jax.tree.map(reshape, memory)
        # A reshape makes a loop copy the cache: that of one agent is [B, ...] always.
        changed = jax.tree.map(reshape, memory.replace(cache=None))
        return changed.replace(cache=memory.cache)

    def _with_opening(self, params, cache):
        """A cache in which all lanes have read the rows' opening: one row per agent reads it."""
        opening, lanes = self.layout.opening, cache.length.shape[0]
        if not opening:
            return cache
        first = jax.tree.map(lambda x: x[: self.agents], cache)
        tokens = jnp.broadcast_to(jnp.asarray(opening, jnp.int32), (self.agents, len(opening)))
        count = jnp.full(self.agents, len(opening), jnp.int32)
        role = jnp.asarray(self.roles, jnp.int32)
        _, first = decoder.extend(params, self.policy.config, first, tokens, count, role)
        copies = lanes // self.agents
        return jax.tree.map(lambda x: jnp.tile(x, (copies, *[1] * (x.ndim - 1))), first)

    def act(
        self,
        params: chex.ArrayTree | None,
        memory: Memory,
        view: View,
        key: jax.Array,
        *,
        greedy: bool = False,
        given: Given | None = None,
        expert: Generated | None = None,
    ) -> tuple[Decision, Memory]:
        """Replies of the acting agents of a view: see `agentrl.actors.types`.

        key: one for all, or one per episode [B]: its replies then depend on no other episode.
        given: [B * A, ...], replies of single lanes, which the policy reads as its own.
        expert: [n, ...], replies in place of sampled ones; no parameters are needed.
        """
        shown, lane, observed = self._seen(memory, view)
        active, constraint = shown.acting.reshape(-1), None
        before = None if memory.behaviour is None else memory.behaviour.reshape(-1)[lane]
        if self.source.constraint is not None and expert is None:
            constraint = self.source.constraint(shown, before, memory.turn.reshape(-1)[lane])
        if key.ndim and self.agents > 1:
            each = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))
            key = each(key, shown.agent).reshape(-1)
        replied, memory = self._reply(
            params, memory, lane, active, observed, key, greedy, constraint, expert, given
        )
        said = replied.said
        to_bytes = functools.partial(codecs.to_bytes, self.policy.codec)
        text, length = jax.vmap(to_bytes)(said.tokens, said.length)
        understood, lowered = self.source.understand(shown, text, length), lower(text)
        if self.context.branch:
            memory = self._fold(memory, lane, replied, lowered, length)
        ok, known, violates = understood.format_ok, understood.known, None
        if before is not None:
            memory, violates = self._judged(memory, lane, replied, understood, lowered, length)
        decision = Decision(
            action=understood.action,
            logp=jnp.sum(said.logp, axis=1),
            value=replied.value,
            record=text_record(
                self.policy, replied, observed, lowered, length, format_ok=ok, known=known
            )._replace(violates=violates),
            anchor=jnp.where(replied.active[:, None], observed.anchor, 0),
            full=active & ~replied.active,
        )
        return self._own(view, shown, decision), memory

    def value(self, params: chex.ArrayTree, memory: Memory, view: View) -> jax.Array:
        """The critic's value f32[B, S] of the next prompts of a view, without changing memory."""
        shown, lane, observed = self._seen(memory, view)
        memory, turn = self._observed(memory, lane, observed)
        # The prompt may be longer than those that are replied to.
        size = self.row_tokens + self.layout.observation_tokens
        last, *_ = self._read(
            params, memory, lane, turn, observed, jnp.ones(lane.shape, bool), size
        )
        values = decoder.values(params, self.policy.config, last)[..., 0]
        return self._own(view, shown, values)

    def prompt(self, memory: Memory, view: View, size: int | None = None) -> Composed:
        """What the agents of a view read before their next reply, [B, S, ...], unless they
        summarize it first; up to `size` tokens, by default those that leave room for a reply."""
        size = self.prompt_tokens if size is None else size
        shown, lane, observed = self._seen(memory, view)
        memory, turn = self._observed(memory, lane, observed)
        return self._own(view, shown, self.layout.prompt(memory.transcript, lane, turn, size))

    def _reply(
        self, params, memory, lane, active, observed, key, greedy, constraint, expert, given
    ) -> tuple[TurnResult, Memory]:
        """The active lanes i32[n] read their observations and reply; key: one, or per lane."""
        layout, shape = self.layout, memory.turn.shape
        memory, turn = self._observed(memory, lane, observed)
        role = self._role(lane, observed)
        if given is not None:
            given = jax.tree.map(lambda x: x[lane], given)
        summary, spent = None, jnp.zeros(active.shape, bool)
        if self.context.limit is not None:
            memory, summary, spent = summarize(
                self, params, memory, lane, turn, active, role, key,
                greedy=greedy, skip=expert is not None,
            )  # fmt: skip
        value, prompt = jnp.zeros(active.shape), None
        if expert is None:
            last, cache, fits, prompt = self._read(
                params, memory, lane, turn, observed, active, self.prompt_tokens
            )
            fits = fits & ~spent
            active = active & self._whole_episode(fits | ~active, shape)
            if self.policy.has_critic:
                value = decoder.values(params, self.policy.config, last)[..., 0]
            how = {"size": layout.reply_tokens, "constraint": constraint, "given": given}
            said = self.generate(params, cache, last, key, active, role, greedy, **how)
            memory = memory.replace(cache=said.cache if self.one_row else None)
        else:
            said, fits = expert, jnp.ones(active.shape, bool)
            if not self.one_row:
                prompt = layout.prompt(memory.transcript, lane, turn, self.prompt_tokens)
                fits = ~prompt.cut
            active = active & self._whole_episode(fits | ~active, shape)
        count = jnp.where(active, said.length, 0)
        transcript = layout.written(memory.transcript, lane, turn, REPLIED, said.tokens, count)
        memory = memory.replace(
            transcript=transcript, turn=memory.turn.at[lane].add(active.astype(jnp.int32))
        )
        said = said.replace(cache=None, hidden=None)
        out = TurnResult(active, fits, turn, value, said, prompt, summary)
        return out, self._by_agent(memory)

    def _observed(self, memory, lane, observed):
        """(memory with these observations, lanes first; own turns i32[n])."""
        memory = self._by_lane(memory)
        turn = memory.turn[lane]
        transcript = self.layout.written(
            memory.transcript, lane, turn, OBSERVED, observed.tokens, observed.length
        )
        return memory.replace(transcript=transcript), turn

    def _whole_episode(self, fits, shape):
        """Whether all lanes of an episode have room: bool[n] of bool[n]."""
        each = jnp.all(fits.reshape(shape[0], -1), axis=1)
        return jnp.repeat(each, fits.shape[0] // shape[0])

    def generate(self, params, cache, last, key, active, role, greedy, *, size, **how) -> Generated:
        """Up to `size` tokens in the active lanes behind what the cache holds; last: f32[n, D], the
        hidden state at its last token. role: i32[n]. how: as in `generation.generate`."""
        sampling = self.policy.sampling
        return generate(
            params,
            self.policy.config,
            cache,
            last,
            key,
            sampling=dataclasses.replace(sampling, greedy=True) if greedy else sampling,
            max_new_tokens=size,
            end_token=self.policy.codec.end,
            active=active,
            keep=self.policy.cuts,
            role=role,
            **how,
        )

    def _read(self, params, memory, lane, turn, observed, reading, size):
        """(last hidden state [n, D], cache, whether the prompt fits, prompt or None)."""
        config, layout = self.policy.config, self.layout
        if self.one_row:
            tokens, length, prompt = observed.tokens, observed.length, None
            if layout.replaced:
                # The opening is read already; it replaces the first observation's own beginning.
                drop = jnp.where(turn == 0, layout.replaced, 0)
                index = jnp.arange(tokens.shape[1]) + drop[:, None]
                tokens = jnp.take_along_axis(tokens, index, axis=1, mode="clip")
                length = length - drop
            cache = memory.cache
            fits = reading & (cache.length + length <= size)
        else:
            prompt = layout.prompt(memory.transcript, lane, turn, size)
            tokens, length = prompt.tokens, prompt.length
            fits = reading & ~prompt.cut
            room = size + max(layout.reply_tokens, self.context.summary_tokens)
            cache = decoder.empty_cache(config, lane.shape[0], room)
        count = jnp.where(fits, length, 0)
        last, cache = read(params, config, cache, tokens, count, self._role(lane, observed))
        return last, cache, fits, prompt

    def _judged(self, memory: Memory, lane, replied: TurnResult, understood, text, length):
        """(memory with the behaviour's states after these replies, whether one leads from a live
        state to the dead one, bool[n])."""
        behaviour, thoughts = self.source.behaviour, self.policy.grammar.think != "none"
        assert behaviour is not None and memory.behaviour is not None
        thinking = jax.vmap(thinks)(text, length) if thoughts else jnp.zeros(lane.shape, bool)
        states, violates = behaviour.judged(
            memory.behaviour, lane, understood.action, thinking, replied.active
        )
        return memory.replace(behaviour=states), violates

    def _fold(self, memory: Memory, lane: jax.Array, replied: TurnResult, text, length) -> Memory:
        """Opens and closes branches by the tags in the replies' bytes u8[n, W], i32[n]."""
        opens, closes = (
            jax.vmap(functools.partial(contains, tag=tag))(text, length) & replied.active
            for tag in self.context.branch
        )
        memory = self._by_lane(memory)
        branch = memory.branch[lane]
        closes = closes & (branch >= 0)
        transcript = self.layout.folded(memory.transcript, lane, branch, replied.turn, closes)
        after = jnp.where(opens & (branch < 0), replied.turn, jnp.where(closes, -1, branch))
        memory = memory.replace(transcript=transcript, branch=memory.branch.at[lane].set(after))
        return self._by_agent(memory)
