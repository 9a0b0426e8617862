"""Conversations: a language policy reads, replies and acts over many turns, in one program."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.actors.array import check_anchor
from agentrl.actors.scripted import opponent_named, random_actor, view_of
from agentrl.actors.types import Actor
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.placement import along_data
from agentrl.policies.scoring import join, split
from agentrl.rollout.episodes import check_groups
from agentrl.rollout.pack import parents
from agentrl.rollout.seating import make_slots
from agentrl.rollout.stepping import Act
from agentrl.rollout.talk import Talk
from agentrl.rollout.turns import metrics_of, rows_of, streams_of
from agentrl.rollout.types import Rollout
from envs.vector import World


def conversation(
    policy: LanguagePolicy,
    env: Any,
    env_params: Any,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    opponent: str = "self",
    members: int | None = None,
    max_turns: int | None = None,
    max_new_tokens: int | None = None,
    context: str = "whole",
    history: int | None = None,
    keep_first: bool = False,
    context_tokens: int | None = None,
    anchor: str = "observation",
    horizons: tuple[int, ...] = (),
    horizon_every: int | None = None,
) -> Rollout:
    """Rollout of num_groups * group_size episodes, each a conversation with the environment.

    In a turn, an episode's observation is rendered and read, the reply drawn token by token, its
    bytes parsed, and the environment stepped with the command (with each command, where the grammar
    has lists: unknown ones are dropped then, as in RAGEN). A reply that names no command of the
    environment is an illegal action. All running episodes take their turns together, and the loop
    ends when none is left. Where agents act at once, all of them read and reply in one turn, and
    the environment is stepped with what they say together.

    What a reply names is done, however it is written, as in the code bases of GiGPO and RAGEN: one
    that breaks its grammar and names a command all the same, or that was cut at max_new_tokens
    before its end token, is no illegal action. It is not well formed, and so not `valid`, which
    metrics count and penalties cost. This holds in games too, and for opponents, players of the
    arena and environments in Python.

    Members of a group share the task's key and differ in those of replies and of chance.

    Args:
      opponent, members: of a game, who has the other seats: "self", the policy, which
        learns from all; "random" (legal play), "expert" (the environment's) or another of
        `agentrl.actors.scripted`, for example "mcts:100"; or "pool" (frozen
        parameters of this policy, which `collect` is given, `members` of them in a collection, see
        `agentrl.rollout.seating`): the policy has seat i % A of match i, and learns from that.
      max_turns: turns T; default: the environment's limit of steps. Against others they are the
        policy's own.
      max_new_tokens: tokens G of a reply; default: what the longest command takes.
      context: "whole", "window" or "sliding", see `agentrl.rollout.contexts`. history: turns that
        the last two keep, which need it. keep_first: the first observation always stays.
      context_tokens: tokens of a row; default: enough for everything. An episode whose next turn
        would not fit is truncated.
      anchor: what GiGPO groups turns by: "observation" (the text) or "state".
      horizons: turns that an episode may take in the first `horizon_every` collections, in the
        next, and so on; the last one stays (ScalingInter's curriculum). Default: max_turns always.

    Streams: N = num_groups * group_size, T = max_turns. In a game each turn is read by itself
    (context="window", history=0), and N is A times as many, of stream i seat i % A; those of
    opponents have no turns. For evaluation the policy has seat i % A of match i, against random
    legal play, or all seats where they play together.
    """
    check_anchor(anchor)
    check_groups(num_groups, group_size)
    talk = Talk(
        policy,
        env,
        env_params,
        max_turns=max_turns,
        max_new_tokens=max_new_tokens,
        context=context,
        history=history,
        keep_first=keep_first,
        context_tokens=context_tokens,
        anchor=anchor,
    )
    for horizon in horizons:
        if not 1 <= horizon <= talk.turns:
            raise ValueError(f"rollout horizons={horizons}: expected 1 to max_turns={talk.turns}")
    if bool(horizons) != (horizon_every is not None) or (horizon_every or 1) < 1:
        raise ValueError(
            f"rollout horizons={horizons}, horizon_every={horizon_every}: set both (horizon_every "
            "to 1 or more collections), or neither"
        )
    streams = num_groups * group_size * talk.seats
    if talk.seats == 1 and (opponent != "self" or members is not None):
        raise ValueError(
            f"rollout opponent={opponent!r}, members={members} with {env.name}, which has one "
            "agent: leave them out"
        )
    slots = make_slots(opponent, members, num_groups, group_size, talk.seats)
    player = None
    if opponent not in ("self", "pool"):
        player = opponent_named(opponent, env, env_params)

    def by_player(player: Actor | None) -> Act | None:
        """A player's moves, as `Talk` asks for them."""
        if player is None:
            return None

        def act(state, moving, key):
            view = view_of(World(env, env_params), state)._replace(acting=moving)
            return player.act(player.params, None, view, key)[0].action

        return act

    def by_members(members: chex.ArrayTree, params: chex.ArrayTree) -> Act:
        """The moves of a pool's members, [members, ...] what is trained of their parameters."""
        _, frozen = split(params, policy.frozen)

        def one(slot):
            own, state, moving, key = slot
            return talk.reply(join(own, frozen), state, key, moving, greedy=False)

        def act(state, moving, key):
            # One slot after the other: each stops writing when its own replies have ended.
            keys = jax.random.split(key, slots.members)
            cut = (members, slots.split(state), slots.split(moving), keys)
            return slots.merge(jax.lax.map(one, cut))

        return act

    def horizon_of(collections: jax.Array) -> jax.Array | None:
        if not horizons:
            return None
        stage = jnp.minimum(collections // horizon_every, len(horizons) - 1)
        return jnp.asarray(horizons, jnp.int32)[stage]

    def starts(task_keys: jax.Array) -> chex.ArrayTree:
        return envs.vector.draw(env, env_params, task_keys).state

    def rows(transcript, turns):
        return rows_of(talk.layout, transcript, turns, talk.context_tokens)

    def collect(params, state, key, opponents=None):
        task_key, act_key = jax.random.split(key)
        drawn = starts(along_data(jax.random.split(task_key, num_groups)))
        matches = along_data(jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), drawn))
        # One clock a group, all alike: the state's leaves have the batch first.
        transcript, turns, bootstrap = talk.run(
            params,
            matches,
            act_key,
            horizon=horizon_of(state[0]),
            others=by_player(player) if slots is None else by_members(opponents, params),
        )
        group = jnp.repeat(jnp.arange(num_groups, dtype=jnp.int32), group_size)
        collected = streams_of(turns, group, bootstrap)
        collected = collected.replace(parent=parents(env, num_groups * group_size))
        metrics = metrics_of(collected, turns, env.has_success, opponent)
        return state + 1, collected, rows(transcript, turns), metrics

    def demonstrate(task_keys, key, **how):
        transcript, turns, _ = talk.run(
            None, along_data(starts(task_keys)), key, expert=True, **how
        )
        return streams_of(turns, None, None), rows(transcript, turns)

    def play(params, task_keys, key, greedy):
        alone = talk.seats == 1 or env.cooperative
        others = by_player(None if alone else random_actor(env))
        transcript, turns, bootstrap = talk.run(
            params, starts(task_keys), key, greedy=greedy, others=others
        )
        return streams_of(turns, None, bootstrap), rows(transcript, turns)

    provides = {"reward", "mask", "group", "episode", "anchor", "cost", "well_formed"}
    provides |= {"terminated", "truncated", "valid", "success"}
    if talk.seats > 1:
        provides |= {"role", "task"} | ({"parent"} if env.planner is not None else set())
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    return Rollout(
        init=lambda key: jnp.zeros(num_groups, jnp.int32),
        collect=collect,
        num_streams=streams,
        turns=talk.turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(provides),
        properties=frozenset(
            {"whole_episodes", "one_end", "tokens_as_cost"}
            | ({"team"} if getattr(env, "cooperative", True) else set())
        ),
        needs=("opponents",) if slots else (),
        # Of a game each turn of who moves in it.
        num_rows=streams
        if context == "whole"
        else streams // talk.seats * talk.movers * talk.turns,
        roles=talk.seats,
        slots=slots,
        demonstrate=demonstrate,
        play=play,
    )
