"""A language policy as an actor of an environment with a text view: renders, replies, parses.

Letters: B episodes, A agents, S agents shown in a step; n = B * S lanes are computed in a step (B *
A where the KV cache lives across turns). G tokens of a reply.
"""

import functools
from typing import TYPE_CHECKING

import chex
import jax
import jax.numpy as jnp

import envs
from agentrl.actors.constraint import command_constraint
from agentrl.actors.contexts import Context
from agentrl.actors.injection import injection, spliced
from agentrl.actors.records import Memory, ObservationTokens, text_record
from agentrl.actors.speaker import Speaker
from agentrl.actors.transcript import Composed
from agentrl.actors.types import Actor, Decision, View
from agentrl.policies import codec as codecs
from agentrl.policies.generation import Generated, Given
from agentrl.policies.language import LanguagePolicy
from envs.text import lower, parse
from envs.vector import World

if TYPE_CHECKING:
    from envs.environment import Environment
    from envs.hosted import Hosted

# Folded into the key of a turn for an expert's noise.
_NOISE = 1001


def check_roles(policy: LanguagePolicy, env: "Environment | Hosted", roles: int) -> None:
    """ValueError where a language policy has adapters for fewer roles than the environment."""
    if 1 < policy.config.lora_roles < roles:
        raise ValueError(
            f"policy lora_roles={policy.config.lora_roles} with {env.name}, which has {roles} "
            "roles: set it to as many, or to 1 for one adapter for all"
        )


class TextActor:
    """A `Speaker` in an environment with a text view: renders, replies, parses."""

    def __init__(
        self,
        policy: LanguagePolicy,
        world: World,
        context: Context,
        *,
        turns: int,
        anchor: str = "observation",
        segments: bool = False,
    ):
        """turns: T, turns of an episode. anchor: what `TextRecord.anchor` is a fingerprint of."""
        env = world.env
        check_roles(policy, env, env.num_roles)
        if env.num_agents > 1 and policy.grammar.max_actions > 1:
            raise ValueError(
                f"policy max_actions={policy.grammar.max_actions} with {env.name}: in games a "
                "reply is one agent's one move; set it to 1, or use another grammar"
            )
        self.policy, self.world, self.context, self.anchor = policy, world, context, anchor
        fragments = jax.eval_shape(self._commands, jax.random.key(0)).shape[-1]
        self._expert_tokens = functools.partial(
            codecs.reply_tokens, policy.codec, policy.grammar, env.view, fragments
        )
        given = context.max_new_tokens
        self._injected = injection(policy.codec, context, env)
        self.speaker = Speaker(
            policy,
            context,
            roles=env.roles_of_seats,
            turns=turns,
            observation_tokens=policy.codec.observation_tokens(env.view) + self._injected.size,
            reply_tokens=self._expert_tokens() if given is None else given,
            segments=segments,
        )

    def _commands(self, key):
        env, params = self.world.env, self.world.params
        if self.world.batched:
            params = jax.tree.map(lambda x: x[0], params)
        return env.commands_as(env.initial(key, params), jnp.int32(0), params)

    def actor(
        self, params: chex.ArrayTree, *, greedy: bool = False, given: Given | None = None
    ) -> Actor:
        """The policy with these parameters. greedy: the most likely token each time. given: as in
        `Speaker.reply`."""
        n = self.policy.grammar.max_actions
        return Actor(
            init=lambda batch, agents: self.speaker.init(params, batch),
            act=functools.partial(self.act, greedy=greedy, given=given),
            params=params,
            remembers=self.context.remembers,
            draws=not greedy,
            reads_arrays=False,
            commands=n if n > 1 else None,
            value=self.value if self.policy.has_critic else None,
            restart=self.speaker.restart,
        )

    def expert(self, *, thoughts: bool = False, noise: float = 0.0) -> Actor:
        """The environment's expert, writing as the policy should.

        thoughts: the thought repeats the command. noise: probability that a random legal action is
        taken instead of the one in the reply.
        """
        n = self.policy.grammar.max_actions
        act = functools.partial(self.demonstrate, thoughts=thoughts, noise=noise)
        init = lambda batch, agents: self.speaker.init(None, batch)  # noqa: E731
        commands = n if n > 1 else None
        return Actor(init=init, act=act, reads_arrays=False, commands=commands)

    def act(
        self,
        params: chex.ArrayTree,
        memory: Memory,
        view: View,
        key: jax.Array,
        *,
        greedy: bool,
        given: Given | None = None,
    ) -> tuple[Decision, Memory]:
        """Replies of the acting agents of a view: see `agentrl.actors.types`."""
        shown, constraint = self.speaker.all_lanes(view), None
        if self.policy.constrained:
            constraint = command_constraint(
                self.policy, self.world, shown.state, shown.agent, self.speaker.layout.reply_tokens
            )
        how = {"greedy": greedy, "constraint": constraint, "given": given}
        return self._turn(params, memory, view, shown, key, None, **how)

    def demonstrate(
        self,
        params: None,
        memory: Memory,
        view: View,
        key: jax.Array,
        *,
        thoughts: bool,
        noise: float,
    ) -> tuple[Decision, Memory]:
        """As `act`, but the reply is the command of the environment's expert.

        thoughts: with a scripted thought before it. noise: probability that a random action is
        played instead; the reply stays the expert's.
        """
        shown = self.speaker.all_lanes(view)
        said = self._expert_reply(shown, thoughts=thoughts)
        stray = (jax.random.fold_in(key, _NOISE), noise) if noise else None
        return self._turn(None, memory, view, shown, key, stray, expert=said)

    def value(self, params: chex.ArrayTree, memory: Memory, view: View) -> jax.Array:
        """The critic's value of the next prompts of the agents of a view, f32[B, S]."""
        shown = self.speaker.all_lanes(view)
        observed = self._observe(shown, memory)
        value = self.speaker.value(params, memory, self.speaker.lanes(shown), observed)
        return self.speaker.own(view, shown, value)

    def prompt(self, memory: Memory, view: View) -> Composed:
        """The next prompts of the agents of a view, [B, S, ...]: `Speaker.prompt`."""
        shown = self.speaker.all_lanes(view)
        observed = self._observe(shown, memory)
        prompt = self.speaker.prompt(memory, self.speaker.lanes(shown), observed)
        return self.speaker.own(view, shown, prompt)

    def remember(self, memory: Memory, view: View, action: jax.Array) -> Memory:
        """Memory after a turn in which the acting agents of a view wrote the command of an action,
        i32[B], as briefly as the grammar allows; nothing is computed by the policy."""
        shown = self.speaker.all_lanes(view)
        chosen = jnp.broadcast_to(jnp.maximum(action, 0)[:, None], shown.agent.shape)

        def one(state, agent, params, action):
            return self._reply(self.world.env.commands_as(state, agent, params)[action])

        said = self._each(one, shown.state, shown.agent, chosen)
        nothing = jnp.zeros(said.tokens.shape)
        written = Generated(said.tokens, nothing, nothing, said.length, ~said.cut, None, None, None)
        lane, acting = self.speaker.lanes(shown), shown.acting.reshape(-1)
        observed = self._observe(shown, memory)
        _, memory = self.speaker.reply(
            None, memory, lane, acting, observed, jax.random.key(0), expert=written
        )
        return memory

    def commands(self, view: View) -> codecs.Tokens:
        """The reply of each action for the first agent of a view, [B, num_actions, G]."""

        def one(state, agent, params):
            return self._reply(self.world.env.commands_as(state, agent, params))

        return self._each(one, view.state, view.agent[:, :1])

    def _reply(self, commands: jax.Array) -> codecs.Tokens:
        size = self.speaker.layout.reply_tokens
        return codecs.replies(self.policy.codec, self.policy.grammar, commands, size)

    def _each(self, function, state, agent, *more):
        """function(state, agent, params, *more) of each agent i32[B, S], [B * S, ...]."""

        def of_state(state, agent, more, params):
            return jax.vmap(lambda agent, more: function(state, agent, params, *more))(agent, more)

        out = self.world.vmap(of_state)(state, agent, more)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)

    def _observe(self, view: View, memory: Memory) -> ObservationTokens:
        env, codec, injected = self.world.env, self.policy.codec, self._injected
        size = self.speaker.layout.observation_tokens
        by_agent = jnp.take_along_axis(memory.turn, view.agent, axis=1)

        def one(state, agent, params, turn):
            text = env.describe_as(state, agent, params)
            seen = codecs.render(codec, text, size - injected.size)
            if injected.size:
                tokens, count = injected.tokens(state, agent, params, turn)
                seen = spliced(seen, tokens, count, len(codec.before), size)
            if self.anchor == "state":
                anchor = env.fingerprint_as(state, agent, params, of="state")
            else:
                anchor = envs.fingerprint(text.fragments)
            return ObservationTokens(*seen, anchor)

        return self._each(one, view.state, view.agent, by_agent)

    def _expert_reply(self, view: View, *, thoughts: bool) -> Generated:
        """The expert's commands as replies of G tokens. ValueError: thoughts may not fit."""
        env, room = self.world.env, self.speaker.layout.reply_tokens
        longest = self._expert_tokens(thoughts=thoughts)
        if thoughts and longest > room:
            raise ValueError(
                f"context max_new_tokens={room}: the expert's replies with thoughts take up to "
                f"{longest} in {env.name}"
            )

        def one(state, agent, params):
            command = env.commands_as(state, agent, params)[env.expert_as(state, agent, params)]
            size = max(longest, room)
            return codecs.replies(
                self.policy.codec, self.policy.grammar, command, size, thoughts=thoughts
            )

        said = self._each(one, view.state, view.agent)
        tokens = said.tokens[:, :room]
        nothing = jnp.zeros(tokens.shape)
        length = jnp.minimum(said.length, room)
        return Generated(tokens, nothing, nothing, length, said.length <= room, None, None, None)

    def _turn(self, params, memory, view, shown, key, stray, **how):
        """(Decision, memory). shown: the view of all lanes. stray: (key, noise) of an expert, or
        None. how: options of `Speaker.reply`."""
        speaker, codec = self.speaker, self.policy.codec
        observed, lane = self._observe(shown, memory), speaker.lanes(shown)
        acting = shown.acting.reshape(-1)
        replied, memory = speaker.reply(params, memory, lane, acting, observed, key, **how)
        said = replied.said

        def understand(state, agent, params, tokens, length):
            text, size = codecs.to_bytes(codec, tokens, length)
            slots = self.world.env.slots_as(state, agent, params)
            parsed = parse(self.policy.grammar, self.world.env.view, slots, text, size)
            return parsed, lower(text), size

        shape = shown.agent.shape
        tokens, length = (x.reshape(*shape, *x.shape[1:]) for x in (said.tokens, said.length))
        parsed, text, size = self._each(understand, shown.state, shown.agent, tokens, length)
        if self.context.branch:
            memory = speaker.fold(memory, lane, replied, text, size)
        ok, known = parsed.valid_format, parsed.known
        record = text_record(self.policy, replied, observed, text, size, format_ok=ok, known=known)
        actions = parsed.actions
        if stray is not None:
            actions = self._strayed(shown, actions, *stray)
        actions = actions[:, 0] if self.policy.grammar.max_actions == 1 else actions
        logp = jnp.sum(said.logp, axis=1)
        full = acting & ~replied.active
        anchor = jnp.where(replied.active[:, None], observed.anchor, 0)
        decision = Decision(actions, logp, replied.value, record, anchor, full)
        return self.speaker.own(view, shown, decision), memory

    def _strayed(self, view, actions, key, noise):
        """Commands i32[n, M], with this chance a random legal action alone instead."""
        legal = self._each(self.world.env.legal_as, view.state, view.agent)
        choose_key, chance_key = jax.random.split(key)
        other = jax.random.categorical(choose_key, jnp.where(legal, 0.0, -jnp.inf))
        other = jnp.full_like(actions, -1).at[:, 0].set(other.astype(actions.dtype))
        strays = jax.random.bernoulli(chance_key, noise, (actions.shape[0], 1))
        return jnp.where(strays, other, actions)


def text_actor(
    policy: LanguagePolicy,
    params: chex.ArrayTree,
    world: World,
    context: Context,
    *,
    greedy: bool = False,
) -> Actor:
    """A trained language policy as an actor, in episodes of at most the environment's limit."""
    turns = int(jnp.max(world.params.max_steps_in_episode))
    return TextActor(policy, world, context, turns=turns).actor(params, greedy=greedy)
