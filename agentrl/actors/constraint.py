"""Constrained decoding: only tokens that continue a legal command, or one of a behaviour's."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import flat
from agentrl.policies import codec as codecs
from agentrl.policies.generation import Constraint
from agentrl.policies.language import LanguagePolicy
from envs.vector import World


def of_agents(
    world: World, function: Callable, state: chex.ArrayTree, agent: jax.Array, *more: chex.ArrayTree
) -> chex.ArrayTree:
    """function(state, agent, params, *more) of agents i32[B, S] of states [B, ...]: [B * S, ...].

    more: [B, S, ...].
    """

    def of_state(state, agent, more, params):
        return jax.vmap(lambda agent, more: function(state, agent, params, *more))(agent, more)

    return flat(world.vmap(of_state)(state, agent, more))


def command_constraint(
    policy: LanguagePolicy, world: World, state: chex.ArrayTree, agent: jax.Array, size: int
) -> Constraint:
    """The constraint for agents i32[B, S] of states [B, ...]; one row per agent, B * S in all.

    Replies have at most `size` tokens. The state of the constraint is the set of legal commands
    that start with the reply so far: the tokens of all replies i32[B * S, n, size] with bool[B * S,
    n], and the next position i32[B * S]. The tokens of the remaining commands at that position are
    allowed, so commands need no distinct prefixes, with any tokenizer. Commands longer than `size`
    cannot be sampled.
    """

    env = world.env

    def one(state, agent, params):
        commands = env.commands_as(state, agent, params)
        said = codecs.replies(policy.codec, policy.grammar, commands, size)
        return said.tokens, env.legal_as(state, agent, params) & ~said.cut

    tokens, alive = of_agents(world, one, state, agent)
    batch, count = alive.shape
    row = jnp.arange(batch)[:, None]

    def following(state):
        tokens, _, position = state
        at = jnp.minimum(position, size - 1)[:, None, None]
        return jnp.take_along_axis(tokens, jnp.broadcast_to(at, (batch, count, 1)), axis=2)[..., 0]

    def allowed(state):
        _, alive, _ = state
        vocabulary = jnp.zeros((batch, policy.codec.vocab_size), bool)
        return vocabulary.at[row, following(state)].max(alive)

    def advance(state, token):
        tokens, alive, position = state
        return tokens, alive & (following(state) == token[:, None]), position + 1

    return Constraint((tokens, alive, jnp.zeros(batch, jnp.int32)), allowed, advance)


class _Written(NamedTuple):
    """The reply so far of N rows: alive bool[N, n], commands that it may become, whose part of the
    reply begins where `at` i32[N] counts from; tag bool[N], it may become <think>. In a thought,
    `at` counts the tokens of </think>. solid bool[N]: a thought that is not empty. used: i32[N].
    """

    alive: jax.Array
    tag: jax.Array
    thinking: jax.Array
    solid: jax.Array
    at: jax.Array
    used: jax.Array


class _Replies(NamedTuple):
    """Replies of N rows: the parts with the command, tokens i32[N, n, G] of lengths i32[N, n].

    may: bool[N, 2, n], by whether the reply thinks. opening, closing: tokens of <think> and
    </think>, empty without thoughts. solid, blank: bool[V], tokens of thoughts: they have bytes,
    only white space or not, and none is of a tag, so that no thought contains one.
    """

    tokens: jax.Array
    length: jax.Array
    may: jax.Array
    opening: np.ndarray
    closing: np.ndarray
    solid: np.ndarray
    blank: np.ndarray
    required: bool

    def following(self, at: jax.Array) -> jax.Array:
        """The next token of each command's part, i32[N, n]."""
        count, size = self.tokens.shape[1:]
        at = jnp.minimum(at, size - 1)[:, None, None]
        at = jnp.broadcast_to(at, (at.shape[0], count, 1))
        return jnp.take_along_axis(self.tokens, at, axis=2)[..., 0]

    def fitting(self, thinks: jax.Array, used: jax.Array) -> jax.Array:
        """Commands that may be written after this many tokens, bool[N, n]."""
        may = jnp.where(thinks[:, None], self.may[:, 1], self.may[:, 0])
        return may & (used[:, None] + self.length <= self.tokens.shape[2])

    def closes(self, thinks: jax.Array, used: jax.Array) -> jax.Array:
        """Whether a thought may be closed after this many tokens, bool[N]."""
        return jnp.any(self.fitting(thinks, used + len(self.closing)), axis=1)

    def start(self) -> _Written:
        """The state before the first token: what a reply may begin with."""
        no = jnp.zeros(self.may.shape[0], bool)
        used = no.astype(jnp.int32)
        tag = no
        if len(self.opening):
            opened = used + len(self.opening)
            tag = self.closes(no, opened) | self.closes(~no, opened + 1)
        alive = self.fitting(no, used) & (not self.required)
        return _Written(alive, tag, no, no, used, used)

    def allowed(self, state: _Written) -> jax.Array:
        """Tokens that may come next, bool[N, V]."""
        row = jnp.arange(state.at.shape[0])
        out = jnp.zeros((len(row), len(self.solid)), bool)
        out = out.at[row[:, None], self.following(state.at)].max(state.alive)
        if not len(self.opening):
            return out
        within = state.thinking & (state.at == 0)
        closes = within & self.closes(state.solid, state.used)
        tag = jnp.where(state.thinking, (state.at > 0) | closes, state.tag)
        out = out.at[row, self._tag(state)].max(tag)
        yes = jnp.ones_like(within)
        solid = within & self.closes(yes, state.used + 1)
        # White space alone is no thought: another token has to follow.
        blank = within & self.closes(yes, state.used + jnp.where(state.solid, 1, 2))
        return out | (solid[:, None] & self.solid) | (blank[:, None] & self.blank)

    def _tag(self, state: _Written) -> jax.Array:
        """The next token of <think>, or in a thought of </think>, i32[N]."""
        opening, closing = (
            jnp.asarray(tag)[jnp.minimum(state.at, len(tag) - 1)]
            for tag in (self.opening, self.closing)
        )
        return jnp.where(state.thinking, closing, opening)

    def advance(self, state: _Written, token: jax.Array) -> _Written:
        """The replies with one more token i32[N]."""
        used, at = state.used + 1, state.at + 1
        alive = state.alive & (self.following(state.at) == token[:, None])
        if not len(self.opening):
            return state._replace(alive=alive, at=at, used=used)
        tag = (state.tag | state.thinking) & (self._tag(state) == token)
        opens = tag & ~state.thinking & (at == len(self.opening))
        closes = tag & state.thinking & (at == len(self.closing))
        content = state.thinking & ~tag
        after = self.fitting(state.solid, used)
        return _Written(
            alive=jnp.where(closes[:, None], after, alive),
            tag=tag & ~state.thinking & ~opens,
            thinking=(state.thinking | opens) & ~closes,
            solid=state.solid | (content & jnp.asarray(self.solid)[token]),
            at=jnp.where(opens | closes | content, 0, at),
            used=used,
        )


def behaviour_constraint(
    policy: LanguagePolicy,
    world: World,
    state: chex.ArrayTree,
    agent: jax.Array,
    size: int,
    allowed: jax.Array,
) -> Constraint:
    """The constraint for agents i32[B, S] to the commands that a behaviour allows, and to thoughts.

    allowed: bool[B * S, 2, n], by whether the reply thinks, see `Behaviour.allowed`. A reply is a
    thought, where the grammar has thoughts, and a command, as briefly as the grammar allows; it
    ends within `size` tokens. If the policy is constrained, commands are legal too, unless no legal
    one is allowed.
    """
    env, grammar = world.env, policy.grammar
    bare = dataclasses.replace(grammar, think="none")

    def one(state, agent, params):
        commands = env.commands_as(state, agent, params)
        said = codecs.replies(policy.codec, bare, commands, size)
        return said.tokens, said.length, ~said.cut, env.legal_as(state, agent, params)

    tokens, length, whole, legal = of_agents(world, one, state, agent)
    may = allowed & whole[:, None]
    if policy.constrained:
        both = may & legal[:, None]
        may = jnp.where(jnp.any(both, axis=(1, 2), keepdims=True), both, may)
    tags = [(), ()] if grammar.think == "none" else [("<think>",), ("</think>",)]
    opening, closing = (
        np.array([t for n in tag for t in policy.codec.tags[n]], np.int32) for tag in tags
    )
    solid, blank = codecs.plain_tokens(policy.codec)
    required = grammar.think == "required"
    made = _Replies(tokens, length, may, opening, closing, solid, blank, required)
    return Constraint(made.start(), made.allowed, made.advance)
