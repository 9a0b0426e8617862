"""Policies as actors of environments in Python: compiled programs of one fixed shape.

W rows, one per process. The shape is fixed, so each program compiles once, and the decision of a
row depends on its episode, its turn and its observation, but not on its place among the rows or on
the other waiting rows: matrix products of another shape round differently, and decisions would
depend on timing.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.array import array_actor
from agentrl.actors.contexts import Context
from agentrl.actors.records import ObservationTokens
from agentrl.actors.source import Source, Understood, check_roles
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.transcript import Composed
from agentrl.actors.types import Actor, Decision, View, select
from agentrl.checks import check_range
from agentrl.policies.actor_critic import Policy
from agentrl.policies.language import LanguagePolicy
from envs.hosted import Hosted
from envs.text import lower, span


class HostView(NamedTuple):
    """Views of W waiting processes, [W, S, ...].

    agent, acting: as in `View`; rows that do not wait have no acting agent. observation: arrays, or
    `ObservationTokens` in words. begins: bool[W], a new episode begins. episode, turn: i32[W],
    whose key is used.
    """

    agent: chex.Array
    acting: chex.Array
    observation: chex.Array | ObservationTokens
    begins: chex.Array
    episode: chex.Array
    turn: chex.Array


class ReplyBytes(NamedTuple):
    """Replies as bytes u8[W, S, n], of which [start, end) is the action."""

    text: jax.Array
    start: jax.Array
    end: jax.Array


class HostActor(NamedTuple):
    """A policy for W rows.

    init: (params, W) -> memory. act: (params, memory, HostView, key, greedy) -> (Decision,
    ReplyBytes or None, memory); the memory given is consumed. value: (params, memory, HostView) ->
    f32[W, S], the critic's value, or None without a critic.
    Of a policy in words, else None: prompt: (memory, HostView) -> the prompts of its next replies,
    [W, S, ...]; text, the agent. Its act takes replies `given` [W * A, ...], too.
    """

    init: Callable[..., chex.ArrayTree]
    act: Callable[..., tuple[Decision, ReplyBytes | None, chex.ArrayTree]]
    value: Callable[..., jax.Array] | None
    prompt: Callable[..., Composed] | None = None
    text: TextAgent | None = None


def _keys(key: jax.Array, shown: HostView) -> jax.Array:
    """A key per row, [W]: that of its episode and turn."""
    of_episodes = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, shown.episode)
    return jax.vmap(jax.random.fold_in)(of_episodes, shown.turn)


def _view_of(shown: HostView) -> View:
    return View(shown.agent, shown.acting, shown.observation, None, None)


def _alone(function: Callable, params: chex.ArrayTree, memory, view: View, *key: jax.Array):
    """function(params, memory, view, *key) of one row, as a batch of one episode."""
    one = jax.tree.map(lambda x: x[None], (memory, view))
    return jax.tree.map(lambda x: x[0], function(params, *one, *key))


class _ArrayRows(NamedTuple):
    """A policy over arrays for rows that act each by itself. agents: of an episode."""

    sampling: Actor
    greedy: Actor
    agents: int

    def init(self, params: chex.ArrayTree, rows: int) -> chex.ArrayTree:
        return self.sampling.init(rows, self.agents)

    def act(self, params, memory, shown, key, greedy):
        actor, before = self.greedy if greedy else self.sampling, memory
        if memory is not None:
            before = select(shown.begins, self.init(params, shown.begins.shape[0]), memory)
        each = jax.vmap(functools.partial(_alone, actor.act, params))
        decision, after = each(before, _view_of(shown), _keys(key, shown))
        if memory is not None:
            # Rows that wait for no decision have seen nothing new.
            waits = jnp.any(shown.acting, axis=1)
            after = select(waits, after, memory)
        return decision, None, after

    def value(self, params, memory, shown):
        each = jax.vmap(functools.partial(_alone, self.sampling.value, params))
        return each(memory, _view_of(shown))


def host_array_actor(policy: Policy, agents: int) -> HostActor:
    """The `HostActor` of a policy over arrays for environments of `agents` agents."""
    sampling, greedy = (
        array_actor(policy, greedy=greedy, records=True, anchor="observation")
        for greedy in (False, True)
    )
    rows = _ArrayRows(sampling, greedy, agents)
    return HostActor(
        init=rows.init,
        act=jax.jit(rows.act, static_argnames="greedy", donate_argnames="memory"),
        value=jax.jit(rows.value) if policy.has_critic else None,
    )


def host_text_agent(
    policy: LanguagePolicy,
    env: Hosted,
    context: Context,
    *,
    turns: int,
    observation_tokens: int,
    segments: bool,
) -> TextAgent:
    """A language policy, which reads `HostView.observation`; the environment parses its replies.

    Raises:
      ValueError: policy, context and environment do not fit.
    """
    _check_text(policy, env, context)
    least = len(policy.codec.before) + len(policy.codec.after) + 1
    check_range("host observation_tokens", observation_tokens, least)

    def observe(view: View, turn: jax.Array) -> ObservationTokens:
        seen = view.observation
        copies = view.agent.shape[1] // seen.length.shape[1]
        return jax.tree.map(lambda x: jnp.repeat(x, copies, axis=1).reshape(-1, *x.shape[2:]), seen)

    def understand(view: View, text: jax.Array, length: jax.Array) -> Understood:
        find = functools.partial(span, policy.grammar)
        start, end, format_ok = jax.vmap(find)(lower(text), length)
        return Understood(ReplyBytes(text, start, end), format_ok, True)

    source = Source(
        roles=env.roles_of_seats,
        observation_tokens=observation_tokens,
        reply_tokens=16 if context.max_new_tokens is None else context.max_new_tokens,
        observe=observe,
        understand=understand,
    )
    return TextAgent(policy, context, source, turns=turns, segments=segments)


class _TextRows(NamedTuple):
    """A text agent for rows that begin episodes when they do."""

    agent: TextAgent

    def act(self, params, memory, shown, key, greedy, given=None):
        memory = self.agent.restart(memory, shown.begins)
        decision, memory = self.agent.act(
            params, memory, _view_of(shown), _keys(key, shown), greedy=greedy, given=given
        )
        nothing = jnp.zeros(shown.agent.shape, jnp.int32)
        return decision._replace(action=nothing), decision.action, memory

    def prompt(self, memory, shown):
        return self.agent.prompt(self.agent.restart(memory, shown.begins), _view_of(shown))

    def value(self, params, memory, shown):
        return self.agent.value(params, memory, _view_of(shown))


def host_text_actor(agent: TextAgent) -> HostActor:
    """The `HostActor` of a text agent of `host_text_agent`."""
    rows = _TextRows(agent)
    return HostActor(
        init=jax.jit(agent.init, static_argnums=1),
        act=jax.jit(rows.act, static_argnames="greedy", donate_argnames="memory"),
        value=jax.jit(rows.value) if agent.policy.has_critic else None,
        prompt=jax.jit(rows.prompt),
        text=agent,
    )


def _check_text(policy: LanguagePolicy, env: Hosted, context: Context) -> None:
    if env.observation_shape:
        raise ValueError(
            f"{env.name} has observations of numbers, which have no words: use a policy over arrays"
        )
    if policy.codec.encode is None:
        raise ValueError(
            f"policy codec={policy.codec.name!r} with {env.name}, whose text may be anything: use "
            "'byte'"
        )
    if policy.constrained:
        raise ValueError(
            f"policy constrained=True with {env.name}, whose legal commands are not known: set "
            "False"
        )
    if policy.behaviour is not None:
        raise ValueError(
            f"policy behaviour with {env.name}, whose commands are not known: leave it out"
        )
    if policy.grammar.max_actions > 1:
        raise ValueError(
            f"policy grammar={policy.grammar.name!r} with {env.name}: it takes one action per "
            "turn; set policy.max_actions=1"
        )
    if context.inject and not isinstance(context.inject, str):
        raise ValueError(f"context inject is a function with {env.name}: expected a text")
    check_roles(policy, env, context, max(env.num_roles, env.speakers))
