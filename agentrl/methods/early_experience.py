"""Early experience: what follows an agent's own actions in an expert's states, without rewards.

Letters: B states or episodes, A actions, J tried in a state, L positions of a row.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor, View
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.required import required
from agentrl.methods.by_turn import bare
from agentrl.methods.teaching import Classroom, classroom, expert_teacher
from agentrl.rollout.pack import pack
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import unroll
from agentrl.streams import OBSERVATION, PerPosition, Rows, Streams
from envs.vector import World

# Folded into the key of a turn for the actions that are tried in it.
_TRIED = 1002


class Tried(NamedTuple):
    """Actions tried in B states, [B, J, ...].

    action: i32. there: bool, there is one; the others stand behind. expert: bool, it is the
    expert's. after: the states that follow.
    """

    action: jax.Array
    there: jax.Array
    expert: jax.Array
    after: chex.ArrayTree


def tried_actions(
    legal: jax.Array, expert: jax.Array, alternatives: int, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The expert's action and up to so many other legal ones, drawn evenly and each once.

    Args:
      legal: bool[A].
      expert: i32[], the expert's action.
      alternatives: J - 1, less than A.

    Returns:
      (actions i32[J], bool[J] whether there is one), in the order of the environment's actions, so
      that the place of an action does not tell whose it is.
    """
    number = jnp.arange(legal.shape[0], dtype=jnp.int32)
    chance = jnp.where(legal, jax.random.uniform(key, legal.shape), -1.0)
    found, action = jax.lax.top_k(jnp.where(number == expert, 2.0, chance), alternatives + 1)
    order = jnp.argsort(jnp.where(found >= 0, action, legal.shape[0]))
    return action[order], found[order] >= 0


def tried_in(world: World, state: chex.ArrayTree, alternatives: int, key: jax.Array) -> Tried:
    """Tries actions in each of these states, [B]: `tried_actions`, and a step with each."""
    env, count = world.env, jax.tree.leaves(state)[0].shape[0]

    def one(state, key, params):
        agent, (draw_key, step_key) = jnp.int32(0), jax.random.split(key)
        expert = env.expert_as(state, agent, params)
        legal = env.legal_as(state, agent, params)
        action, there = tried_actions(legal, expert, alternatives, draw_key)

        def step(action, key):
            return env.step_env(key, state, action, params)[1]

        after = jax.vmap(step)(action, jax.random.split(step_key, alternatives + 1))
        return Tried(action, there, there & (action == expert), after)

    return world.vmap(one)(state, jax.random.split(key, count))


def early_experience(setup: Setup, *, alternatives: int = 3, states: int = 32) -> Component:
    """Source "early_experience": what follows other actions in the expert's states, to be predicted
    (implicit world modelling).

    The episodes of source "expert", with its `demonstrations`, are played again from their first
    states. In each of up to `states` turns of them, drawn evenly, the expert's action and some
    others are tried. A row is the prompt after such an action: what the expert has read and
    written, the action's command, and the observation that follows. Its trained positions are those
    of this last observation, for `losses.observation_loss`:

      L = -mean log pi(o' | o_<t, a_<t, o_t, a),   a the expert's action or another one.

    Behaviour cloning on source "expert" follows in later updates. In a stochastic environment a
    step is drawn anew each time. After an action that ends the episode the final state is
    described, although no policy reads it while it acts.

    Supplies `observed` bool[R, L], the trained positions that are of observations: none in rows of
    other sources, whose trained positions are replies.

    Args:
      alternatives: other actions per state, fewer where fewer are legal; 0: the expert's alone.
      states: per update.

    Raises:
      ValueError: a policy that does not read text, several environments or agents, one in Python,
        no expert, segments, a context whose prompts do not show the last turn, or an option outside
        its range.

    References:
      Agent Learning via Early Experience (2025), https://arxiv.org/abs/2510.08558, from notes;
      neither text nor code was read. There the alternatives are sampled by the policy before
      training and tried once; here they are drawn evenly among the legal actions, anew in each
      update, and commands are written without thoughts.
    """
    room = _room(setup, "early_experience", alternatives, least=0)
    check_range("config.components.early_experience.states", states, 1)
    context = setup.context
    assert context is not None  # of a language policy
    if context.history == 0 or context.limit is not None:
        raise ValueError(
            f"component 'early_experience' with context {context.name!r}, history="
            f"{context.history}: expected prompts that show the last turn, of context 'whole', or "
            "of 'window' with history=1 or more"
        )

    def make(context, sources):
        streams, _ = sources["expert"]
        return None, _branches(room, streams.first_state, alternatives, states, context.key)

    def annotate(context, streams, rows):
        return {"observed": PerPosition(rows.loss_mask & (rows.span == OBSERVATION))}

    return Component(
        source=Source(make, reads=("expert",)),
        annotate=annotate,
        fills=("observed",),
        in_warm_start=True,
    )


def reflections(setup: Setup, *, alternatives: int = 2) -> Component:
    """Source "reflections": the expert's episodes, with thoughts that compare what actions lead to.

    The tasks of source "expert" are played again from their first states. In each turn the expert's
    action and some others are tried, and the thought in front of the expert's command names each
    command and then the observation that follows it, in the order of the environment's actions. For
    `losses.behaviour_cloning` with source="reflections": the policy learns to foresee what actions
    lead to before it takes one,

      L = -mean log pi(c, a | o_<=t, c_<t, a_<t),   c the thought, a the expert's action.

    In a stochastic environment a thought tells of another draw than the one that follows. A term
    with source="expert" mixes plain episodes with these.

    Args:
      alternatives: other actions per state, fewer where fewer are legal.

    Raises:
      ValueError: as `early_experience`, whatever prompts show; a grammar without thoughts, or
        replies without room for them (config.context.max_new_tokens).

    References:
      Agent Learning via Early Experience (2025), https://arxiv.org/abs/2510.08558, from notes;
      neither text nor code was read. There the policy itself writes, in free words, why the
      expert's action is better, from the observations that follow; what does not end in that action
      is left out, and the rest is mixed with the expert's data. Here the observations stand for the
      reasons, and no rationale is wrong.
    """
    room = _room(setup, "reflections", alternatives, least=1)
    _check_thoughts(room, alternatives)

    def make(context, sources):
        streams, _ = sources["expert"]
        actor = _reflecting(room, alternatives)
        return _played(room, actor, streams.first_state, context.key)

    return Component(source=Source(make, reads=("expert",)), in_warm_start=True)


def _room(setup: Setup, name: str, alternatives: int, least: int) -> Classroom:
    """The expert of a language policy; raises the errors that both components have."""
    required(setup, name, "language")
    room = classroom(setup, name, expert_teacher(), labels=False)
    most = room.world.env.num_actions - 1
    check_range(f"config.components.{name}.alternatives", alternatives, least, most)
    return room


def _view(state: chex.ArrayTree) -> View:
    """The view of the one agent in states [B]."""
    shape = (jax.tree.leaves(state)[0].shape[0], 1)
    return View(jnp.zeros(shape, jnp.int32), jnp.ones(shape, bool), None, None, state)


def _branches(
    room: Classroom, first: chex.ArrayTree, alternatives: int, states: int, key: jax.Array
) -> Rows:
    """Rows of `states` x J branches off the expert's episodes from these states."""
    # They import the decoder, which a policy over arrays starts without.
    from agentrl.actors.text_source import commanded
    from agentrl.actors.transcript import OBSERVED, SPAN_OF_KIND

    world, agent = room.world, room.agent
    assert agent is not None  # of a language policy
    play_key, draw_key, try_key = jax.random.split(key, 3)

    def keep(notes, turn):
        return notes, (turn.before.state, turn.before.memory[0], turn.running)

    seating = seat_all(world.env, jax.tree.leaves(first)[0].shape[0])
    played = unroll(
        world, [room.teacher(room.bound, world)], seating, Start(first, None), play_key,
        length=room.turns, early_exit=True, keep=keep,
    )  # fmt: skip
    turns = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played.turns)
    chance = jnp.where(turns[2], jax.random.uniform(draw_key, turns[2].shape), -1.0)
    found, at = jax.lax.top_k(chance, min(states, chance.shape[0]))
    state, memory = jax.tree.map(lambda x: x[at], turns[:2])
    tried = tried_in(world, state, alternatives, try_key)
    state, memory = jax.tree.map(lambda x: jnp.repeat(x, alternatives + 1, axis=0), (state, memory))
    action, after = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (tried.action, tried.after))
    _, memory = commanded(agent, world, memory, _view(state), action)
    # What follows an episode's last turn is longer than any prompt.
    size = agent.row_tokens + agent.layout.observation_tokens
    read = jax.tree.map(lambda x: x[:, 0], agent.prompt(memory, _view(after), size))
    there = (tried.there & (found >= 0)[:, None]).reshape(-1) & ~read.cut
    last = (read.turn == memory.turn) & (read.kind == OBSERVED)
    span = jnp.asarray(SPAN_OF_KIND, jnp.int32)[jnp.maximum(read.kind, 0)]
    number = jnp.arange(there.shape[0], dtype=jnp.int32)
    return Rows(
        tokens=read.tokens,
        loss_mask=last & there[:, None],
        stream=number,
        turn=read.turn,
        behaviour_logp=jnp.zeros(last.shape),
        span=jnp.where(read.kind >= 0, span, -1),
        role=jnp.zeros_like(number),
    )


def _reflecting(room: Classroom, alternatives: int) -> Actor:
    """The expert, in whose replies thoughts tell what actions lead to."""
    from agentrl.actors.text_source import unsampled
    from agentrl.policies import codec as codecs

    world, agent = room.world, room.agent
    assert agent is not None  # of a language policy
    env, policy, size = world.env, agent.policy, agent.layout.reply_tokens

    def reply(state, tried, params):
        commands = env.commands_as(state, jnp.int32(0), params)
        thought = jnp.concatenate([commands[tried.action], _told(room, tried.after)], axis=-1)
        thought = jnp.where(tried.there[:, None], thought, 0).reshape(-1)
        command = commands[tried.action[jnp.argmax(tried.expert)]]
        return codecs.replies(
            policy.codec, policy.grammar, command, size, thoughts=True, thought=thought
        )

    def act(params, memory, view: View, key):
        tried = tried_in(world, view.state, alternatives, jax.random.fold_in(key, _TRIED))
        said = unsampled(world.vmap(reply)(view.state, tried))
        return agent.act(None, memory, view, key, expert=said)

    return room.teacher(room.bound, world)._replace(act=act)


def _told(room: Classroom, states: chex.ArrayTree) -> jax.Array:
    """The observations in states [J] as fragments, i32[J, K]."""
    env, params, *_ = room.world
    return jax.vmap(lambda state: env.describe_as(state, jnp.int32(0), params).fragments)(states)


def _check_thoughts(room: Classroom, alternatives: int) -> None:
    """ValueError: replies have no thoughts, or no room for a reflection."""
    from agentrl.policies import codec as codecs

    env, params, *_ = room.world
    assert room.agent is not None  # of a language policy
    policy, room_left = room.agent.policy, room.agent.layout.reply_tokens
    if policy.grammar.think == "none":
        raise ValueError(
            f"component 'reflections' with grammar {policy.grammar.name!r} and think='none': "
            "expected thoughts, such as config.policy.grammar='action'"
        )

    def shapes(key):
        state, agent = env.initial(key, params), jnp.int32(0)
        command = env.commands_as(state, agent, params)[0]
        return command, env.describe_as(state, agent, params).fragments

    command, seen = jax.eval_shape(shapes, jax.random.key(0))
    longest = codecs.reply_tokens(
        policy.codec, policy.grammar, env.view, command.size, thoughts=True,
        thought=(alternatives + 1) * (command.size + seen.size),
    )  # fmt: skip
    if longest > room_left:
        raise ValueError(
            f"component 'reflections': replies have room for {room_left} tokens and take up to "
            f"{longest} in {env.name}; set config.context.max_new_tokens={longest}"
        )


def _played(
    room: Classroom, actor: Actor, first: chex.ArrayTree, key: jax.Array
) -> tuple[Streams, Rows]:
    """The actor's episodes from these states."""
    world, packing = room.world, room.bound.packing
    seating = seat_all(world.env, jax.tree.leaves(first)[0].shape[0])
    played = unroll(
        world, [actor], seating, Start(first, None), key, length=room.turns, early_exit=True
    )
    streams, rows = pack(world.env, packing, played, seating.learns)
    return bare(streams), rows
