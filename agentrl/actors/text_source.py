"""Text agents of environments in the graph: what they read, and what their replies mean.

Letters: as in `agentrl.actors.text_agent`.
"""

import jax
import jax.numpy as jnp

import envs
from agentrl.actors.behaviour import Behaviour
from agentrl.actors.constraint import behaviour_constraint, command_constraint, of_agents
from agentrl.actors.contexts import Context
from agentrl.actors.injection import injection, spliced
from agentrl.actors.records import Memory, ObservationTokens
from agentrl.actors.source import Source, Understood, check_roles
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.types import Actor, Decision, View
from agentrl.policies import codec as codecs
from agentrl.policies.generation import Generated
from agentrl.policies.language import LanguagePolicy
from envs.environment import Environment, EnvParams, EnvState
from envs.text import parse
from envs.vector import World

# Folded into the key of a turn for an expert's noise.
_NOISE = 1001


def text_agent(
    policy: LanguagePolicy,
    world: World,
    context: Context,
    *,
    turns: int | None = None,
    anchor: str = "observation",
    segments: bool = False,
) -> TextAgent:
    """A language policy in an environment with a text view.

    turns: T, turns of an episode; default: the environment's limit. anchor: what an observation's
    fingerprint is taken of, "observation" or "state". segments: see `TextAgent`.

    Raises:
      ValueError: a policy, a context and an environment that do not fit.
    """
    if turns is None:
        turns = int(jnp.max(world.params.max_steps_in_episode))
    source = _source(policy, world, context, anchor, turns)
    return TextAgent(policy, context, source, turns=turns, segments=segments)


def _source(
    policy: LanguagePolicy, world: World, context: Context, anchor: str, turns: int
) -> Source:
    env, codec = world.env, policy.codec
    check_roles(policy, env, context, max(env.num_roles, env.speakers))
    if env.num_agents > 1 and policy.grammar.max_actions > 1:
        raise ValueError(
            f"policy max_actions={policy.grammar.max_actions} with {env.name}: in games a "
            "reply is one agent's one move; set it to 1, or use another grammar"
        )
    injected = injection(codec, context, env)
    seen_tokens = codec.observation_tokens(env.view)
    behaviour, size = None, _reply_tokens(policy, world, context.max_new_tokens)
    if policy.behaviour is not None:
        behaviour = Behaviour(policy.behaviour, env, policy.grammar, turns)

    def observe(view: View, turn: jax.Array) -> ObservationTokens:
        def one(state, agent, params, turn):
            text = env.describe_as(state, agent, params)
            seen = codecs.render(codec, text, seen_tokens)
            if injected.size:
                tokens, count = injected.tokens(state, agent, params, turn)
                width = seen_tokens + injected.size
                seen = spliced(seen, tokens, count, len(codec.before), width)
            if anchor == "state":
                fingerprint = env.fingerprint_as(state, agent, params, of="state")
            else:
                fingerprint = envs.fingerprint(text.fragments)
            speaker = env.speaker(state, params) if env.speakers > 1 else None
            return ObservationTokens(*seen, fingerprint, speaker)

        return of_agents(world, one, view.state, view.agent, turn)

    def understand(view: View, text: jax.Array, length: jax.Array) -> Understood:
        def one(state, agent, params, text, length):
            slots = env.slots_as(state, agent, params)
            return parse(policy.grammar, env.view, slots, text, length)

        shape = view.agent.shape
        parsed = of_agents(
            world, one, view.state, view.agent, text.reshape(*shape, -1), length.reshape(shape)
        )
        actions = parsed.actions
        actions = actions[:, 0] if policy.grammar.max_actions == 1 else actions
        return Understood(actions, parsed.valid_format, parsed.known)

    def constraint(view: View, state: jax.Array | None, turn: jax.Array):
        if behaviour is None or not policy.enforce:
            return command_constraint(policy, world, view.state, view.agent, size)
        assert state is not None  # memory holds it where there is a behaviour
        allowed = behaviour.allowed(state, turn)
        return behaviour_constraint(policy, world, view.state, view.agent, size, allowed)

    enforced = behaviour is not None and policy.enforce

    return Source(
        roles=env.roles_of_seats,
        observation_tokens=seen_tokens + injected.size,
        reply_tokens=size,
        observe=observe,
        understand=understand,
        constraint=constraint if policy.constrained or enforced else None,
        behaviour=behaviour,
    )


def expert(agent: TextAgent, world: World, *, thoughts: bool = False, noise: float = 0.0) -> Actor:
    """The environment's expert, writing as the policy should.

    thoughts: replies have thoughts, the view's (`envs.text.View.thought`) or the command once more.
    noise: probability that a random legal action is taken instead of the one in the reply.
    """
    commands = agent.policy.grammar.max_actions

    def act(params: None, memory: Memory, view: View, key: jax.Array) -> tuple[Decision, Memory]:
        said = _expert_reply(agent, world, agent.all_lanes(view), thoughts)
        decision, memory = agent.act(None, memory, view, key, expert=said)
        if noise:
            stray = _strayed(world, view, decision.action, jax.random.fold_in(key, _NOISE), noise)
            decision = decision._replace(action=stray)
        return decision, memory

    return Actor(
        init=lambda batch, agents: agent.init(None, batch),
        act=act,
        reads_arrays=False,
        commands=commands if commands > 1 else None,
    )


def commanded(
    agent: TextAgent, world: World, memory: Memory, view: View, action: jax.Array
) -> tuple[Decision, Memory]:
    """The turn in which the acting agents of a view write the command of an action, i32[B], as
    briefly as the grammar allows: (its record and what was understood, memory). Nothing is computed
    by the policy."""
    shown = agent.all_lanes(view)
    chosen = jnp.broadcast_to(jnp.maximum(action, 0)[:, None], shown.agent.shape)

    def one(state, seat, params, action):
        return _written(agent, world.env.commands_as(state, seat, params)[action])

    said = unsampled(of_agents(world, one, shown.state, shown.agent, chosen))
    return agent.act(None, memory, view, jax.random.key(0), expert=said)


def commands(agent: TextAgent, world: World, view: View) -> codecs.Tokens:
    """The reply of each action for the first agent of a view, [B, num_actions, G]."""

    def one(state, seat, params):
        return _written(agent, world.env.commands_as(state, seat, params))

    return of_agents(world, one, view.state, view.agent[:, :1])


def _written(agent: TextAgent, commands: jax.Array) -> codecs.Tokens:
    size, policy = agent.layout.reply_tokens, agent.policy
    return codecs.replies(policy.codec, policy.grammar, commands, size)


def unsampled(said: codecs.Tokens) -> Generated:
    """Replies [n, G] that nobody sampled."""
    nothing = jnp.zeros(said.tokens.shape)
    return Generated(said.tokens, nothing, nothing, said.length, ~said.cut, None, None, None)


def _expert_tokens(policy: LanguagePolicy, world: World, *, thoughts: bool = False) -> int:
    """Tokens of the longest reply of the environment's commands."""
    env, think = world.env, world.env.view.thought

    def of_start(key):
        params = world.params
        if world.batched:
            params = jax.tree.map(lambda x: x[0], params)
        state = env.initial(key, params)
        said = env.commands_as(state, jnp.int32(0), params)
        return said, None if think is None else think(state, params)

    command, thought = jax.eval_shape(of_start, jax.random.key(0))
    return codecs.reply_tokens(
        policy.codec, policy.grammar, env.view, command.shape[-1], thoughts=thoughts,
        commands=_foreseen(policy, world), thought=None if thought is None else thought.size,
    )  # fmt: skip


def _reply_tokens(policy: LanguagePolicy, world: World, given: int | None) -> int:
    """G, as given, or room for any command, for the thoughts of a view that has some, and, with a
    behaviour of thoughts, for one of a token.

    Raises:
      ValueError: a behaviour is enforced with less.
    """
    thinks = policy.grammar.think != "none"
    least = _expert_tokens(policy, world)
    if policy.behaviour is None:
        if thinks and world.env.view.thought is not None:
            least = _expert_tokens(policy, world, thoughts=True)
        return least if given is None else given
    if thinks:
        tags = policy.codec.tags
        around = len(tags["<think>"]) + len(tags["</think>"])
        least += 1 + (around if policy.grammar.think == "optional" else 0)
    if given is not None and given < least and policy.enforce:
        raise ValueError(
            f"context max_new_tokens={given} with policy behaviour: expected at least {least}, "
            "for any command after a thought of one token"
        )
    return least if given is None else given


def _foreseen(policy: LanguagePolicy, world: World) -> int:
    """Most commands that the expert writes in a reply."""
    return max(1, min(policy.grammar.max_actions, world.env.foresees))


def foreseen_commands(env: Environment, state: EnvState, params: EnvParams, most: int) -> jax.Array:
    """The expert's next commands, as far as it foresees them, with `||` in between: fragments."""
    lexicon = env.view.lexicon
    assert isinstance(lexicon, tuple)  # as a view keeps it
    separator = lexicon.index("||")

    def write(carry, _):
        state, going = carry
        action = env.expert(state, params)
        command = jnp.where(going, env.commands(state, params)[action], 0)
        bars = jnp.where(going, separator, 0)
        state, more = env.foreseen(state, action)
        return (state, going & more), jnp.append(bars, command)

    _, said = jax.lax.scan(write, (state, jnp.ones((), bool)), length=most)
    return said.reshape(-1)[1:]


def _expert_reply(agent: TextAgent, world: World, view: View, thoughts: bool) -> Generated:
    """The expert's commands as replies of G tokens. ValueError: thoughts may not fit."""
    env, policy, room = world.env, agent.policy, agent.layout.reply_tokens
    longest = _expert_tokens(policy, world, thoughts=thoughts)
    if thoughts and longest > room:
        raise ValueError(
            f"context max_new_tokens={room}: the expert's replies with thoughts take up to "
            f"{longest} in {env.name}"
        )

    foreseen = _foreseen(policy, world)

    def one(state, seat, params):
        command = (
            env.commands_as(state, seat, params)[env.expert_as(state, seat, params)]
            if foreseen == 1
            else foreseen_commands(env, state, params, foreseen)
        )
        size, think = max(longest, room), env.view.thought if thoughts else None
        thought = None if think is None else think(state, params)
        return codecs.replies(
            policy.codec, policy.grammar, command, size, thoughts=thoughts, thought=thought
        )

    said = of_agents(world, one, view.state, view.agent)
    length = jnp.minimum(said.length, room)
    return unsampled(codecs.Tokens(said.tokens[:, :room], length, said.length > room))


def _strayed(
    world: World, view: View, action: jax.Array, key: jax.Array, noise: float
) -> jax.Array:
    """Commands i32[B, S] or i32[B, S, M], with this chance a random legal action alone instead."""
    legal = of_agents(world, world.env.legal_as, view.state, view.agent)
    choose_key, chance_key = jax.random.split(key)
    other = jax.random.categorical(choose_key, jnp.where(legal, 0.0, -jnp.inf))
    actions = action.reshape(other.shape[0], -1)
    other = jnp.full_like(actions, -1).at[:, 0].set(other.astype(actions.dtype))
    strays = jax.random.bernoulli(chance_key, noise, (actions.shape[0], 1))
    return jnp.where(strays, other, actions).reshape(action.shape)
