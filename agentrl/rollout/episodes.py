"""Whole episodes in groups that share a task, for GRPO, RLOO, GiGPO and self-play."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.array import check_anchor
from agentrl.actors.scripted import random_actor, view_of
from agentrl.devices.placement import along_data
from agentrl.rollout.beliefs import persuasion
from agentrl.rollout.bound import Bound, bind
from agentrl.rollout.metrics import metrics_of, whole_episodes
from agentrl.rollout.opposition import Opposition, make_opposition
from agentrl.rollout.pack import by_stream, streams_of
from agentrl.rollout.seating import seat_all, seat_teams, sides, teams
from agentrl.rollout.starts import Sampler, independent, start_groups, takes_tasks
from agentrl.rollout.types import Rollout, Seating, Trajectory
from agentrl.rollout.unroll import fresh, keep_turn, unroll
from agentrl.streams import Rows, Streams
from envs.vector import World


def episodes(
    policy: Any,
    env: Any,
    env_params: Any,
    context: Any = None,
    host: Any = None,
    sampler: Sampler = independent,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    opponent: str = "self",
    members: int | None = None,
    side: str = "none",
    max_turns: int | None = None,
    anchor: str = "observation",
    mask_illegal: bool = False,
    listeners: str = "none",
    horizons: tuple[int, ...] = (),
    horizon_every: int | None = None,
) -> Rollout:
    """Rollout of num_groups * group_size episodes from their start to their end.

    The members of a group share the task and differ in the keys of actions and of the environment's
    own chance. Every agent of every episode is a stream, with its seat as role. An episode that
    reaches max_turns is truncated, not terminated.

    Args:
      sampler: which tasks are played, see `agentrl.rollout.starts`.
      opponent: the player of the other seats, if there are several agents. "self": the policy has
        all of them and learns from all. "random" (legal play), "expert" (the environment's) or
        another of `agentrl.actors.scripted`, for example "mcts:100", or "pool" (frozen parameters
        of this policy, which `collect` is given as `opponents`): the policy has seat i % A of
        episode i (of teams: all seats of team i % 2), and learns from that.
      members: number of pool members per collection, see `agentrl.rollout.seating`.
      side: the policy has all seats of this one of the environment's `sides` instead, or "none".
      max_turns: T; default: the environment's limit.
      anchor: basis of GiGPO's anchors: "observation" or "state".
      mask_illegal: a policy over arrays chooses among legal actions only.
      listeners: the beliefs that count in `Streams.persuasion`: "all" of the policy's agents that
        are asked, or those of "others" than the speaker; "none": not filled. See `rollout.beliefs`.
      horizons: turns that an episode may take in the first `horizon_every` collections, in the
        next, and so on; the last one stays (ScalingInter's curriculum). Default: max_turns always.

    Streams: N = num_groups * group_size * A, of stream i agent i % A.
    """
    check_anchor(anchor)
    check_groups(num_groups, group_size)
    if env.in_python:
        from agentrl.rollout.hosted import host_episodes  # imports the decoder

        sizes = {"num_groups": num_groups, "group_size": group_size, "max_turns": max_turns}
        return host_episodes(policy, env, context, host, **sizes)
    turns = turn_limit(env_params, max_turns)
    check_horizons(horizons, horizon_every, turns)
    bound = bind(
        policy, env, env_params, context, turns,
        anchor=anchor, mask_illegal=mask_illegal, listeners=listeners,
    )  # fmt: skip
    opposition = make_opposition(
        env, env_params, opponent,
        members=members, side=side, num_groups=num_groups, group_size=group_size,
    )  # fmt: skip
    world, clock = World(env, env_params), (horizons, horizon_every)
    return _rollout(
        _Plan(world, bound, opposition, sampler, num_groups, group_size, turns, clock, listeners)
    )


class _Plan(NamedTuple):
    """What `episodes` was asked for, bound and checked. clock: (horizons, horizon_every)."""

    world: World
    bound: Bound
    opposition: Opposition
    sampler: Sampler
    num_groups: int
    group_size: int
    turns: int
    clock: tuple[tuple[int, ...], int | None]
    listeners: str


def _rollout(plan: _Plan) -> Rollout:
    world, bound, turns = plan.world, plan.bound, plan.turns
    env, count = world.env, plan.num_groups * plan.group_size

    def collect(params, state, key, **given):
        return _collect(plan, params, state, key, given)

    def states(params, state, key, **given):
        return _states(plan, params, state, key, given)

    def demonstrate(task_keys, key, *, thoughts=False, noise=0.0):
        return demonstration(bound, world, task_keys, key, turns, noise, thoughts)

    def play(params, task_keys, key, greedy):
        return evaluation(bound, world, params, task_keys, key, turns, greedy)

    return Rollout(
        # One clock per group, all alike: the state's leaves have the batch first.
        init=lambda key: jnp.zeros(plan.num_groups, jnp.int32) if plan.clock[0] else None,
        collect=collect,
        num_streams=count * env.num_agents,
        turns=turns,
        units=(plan.num_groups, "config.rollout.num_groups"),
        provides=bound.provides | _provided(env, plan.listeners),
        num_rows=bound.num_rows(count, turns),
        roles=env.num_agents,
        slots=plan.opposition.slots,
        demonstrate=demonstrate,
        play=None if bound.reads_arrays else play,
        states=states,
        needs=_needs(plan),
        properties=properties_of(env) | bound.properties,
    )


def _needs(plan: _Plan) -> tuple[str, ...]:
    """`Rollout.needs`."""
    opponents = () if plan.opposition.slots is None else ("opponents",)
    return (*opponents, *(("tasks",) if takes_tasks(plan.sampler) else ()))


def _act(
    plan: _Plan, params: Any, state: Any, key: jax.Array, given: dict[str, Any], keep: Callable
) -> tuple[World, Seating, Trajectory]:
    """The episodes of a collection; keep: see `unroll`."""
    task_key, act_key = jax.random.split(key)
    world, start = start_groups(
        plan.sampler, plan.world, task_key, plan.num_groups, plan.group_size, given.get("tasks")
    )
    seating = plan.opposition.seating(world, start.state, plan.num_groups * plan.group_size)
    if not plan.opposition.reads_arrays(plan.bound):
        start = start._replace(observation=None)
    trajectory = unroll(
        world,
        plan.opposition.actors(plan.bound, world, params, given.get("opponents")),
        seating,
        start,
        act_key,
        length=plan.turns,
        limit=horizon_of(state[0], *plan.clock) if plan.clock[0] else None,
        early_exit=plan.bound.early_exit,
        own_turns=plan.bound.own_turns,
        keep=keep,
    )
    return world, seating, trajectory


def _collect(plan: _Plan, params: Any, state: Any, key: jax.Array, given: dict[str, Any]) -> tuple:
    """`Rollout.collect`."""
    world, seating, trajectory = _act(plan, params, state, key, given, keep_turn)
    group = jnp.repeat(jnp.arange(plan.num_groups, dtype=jnp.int32), plan.group_size)
    streams, rows = packed(plan.bound, world, trajectory, seating, params, group)
    first = trajectory.first.state
    own = jax.tree.map(lambda x: jnp.repeat(x, world.env.num_agents, axis=0), first)
    streams = streams.replace(first_state=own)
    turns, side_of = trajectory.turns, sides(world, first)
    if plan.listeners != "none":
        record = turns.decision.record
        asked = record.asked & turns.running[..., None] & seating.learns
        moved = persuasion(asked, record.belief, turns.acting, side_of != 0, among=plan.listeners)
        streams = streams.replace(persuasion=by_stream(moved))
    ended = whole_episodes(turns, streams, side_of)
    metrics = metrics_of(world.env, ended, streams, plan.opposition.name)
    metrics |= plan.bound.metrics(turns, streams)
    return (state + 1 if plan.clock[0] else state), streams, rows, metrics


def _states(
    plan: _Plan, params: Any, state: Any, key: jax.Array, given: dict[str, Any]
) -> chex.ArrayTree:
    """`Rollout.states`."""

    def keep(notes, turn):
        return notes, (turn.before.state, turn.running)

    _, _, trajectory = _act(plan, params, state, key, given, keep)
    before, running = trajectory.turns
    # The loop may have ended before the last turn.
    taken = jnp.any(running, axis=1)

    def joined(before, last):
        filled = jnp.where(taken.reshape(-1, *[1] * last.ndim), before, last)
        return jnp.concatenate([filled, last[None]])

    return jax.tree.map(joined, before, trajectory.final.state)


def packed(
    bound: Bound,
    world: World,
    trajectory: Trajectory,
    seating: Seating,
    params: Any,
    group: jax.Array | None,
) -> tuple[Streams, Rows]:
    """Streams and rows of a trajectory of whole episodes."""
    actor, bootstrap = bound.actor(world, params), None
    if actor.value is not None:
        # Only states in which an episode was cut are read; those that ended absorb.
        final = trajectory.final
        view = view_of(world, final.state, final.observation, follows=True)
        bootstrap = actor.value(params, final.memory[0], view)
    fields = bound.fields(trajectory.turns)
    streams = streams_of(
        world.env, trajectory.turns, group=group, bootstrap=bootstrap, fields=fields
    )
    return streams, bound.rows(world, trajectory, seating.learns)


def demonstration(
    bound: Bound,
    world: World,
    task_keys: jax.Array,
    key: jax.Array,
    turns: int,
    noise: float,
    thoughts: bool,
) -> tuple[Streams, Rows]:
    """Episodes of the environment's expert in all seats, for `Rollout.demonstrate`.

    noise: probability that a random action is played instead of the one in the expert's row.
    """
    expert = bound.demonstrator(world, noise, thoughts)
    start = fresh(world, along_data(task_keys))
    seating = seat_all(world.env, task_keys.shape[0])
    trajectory = unroll(
        world, [expert], seating, start, key, length=turns, early_exit=bound.early_exit
    )
    fields = bound.fields(trajectory.turns)
    streams = streams_of(world.env, trajectory.turns, group=None, bootstrap=None, fields=fields)
    return streams, bound.rows(world, trajectory, seating.learns)


def evaluation(
    bound: Bound,
    world: World,
    params: Any,
    task_keys: jax.Array,
    key: jax.Array,
    turns: int,
    greedy: bool,
) -> tuple[Streams, Rows]:
    """Episodes of tasks [B], for `Rollout.play`.

    The policy has seat i % A of episode i, against random legal play, or all seats of cooperative
    games.
    """
    env, count = world.env, task_keys.shape[0]
    actors = [bound.actor(world, params, greedy)]
    if env.num_agents == 1 or env.cooperative:
        seating = seat_all(env, count)
    else:
        actors.append(random_actor(env))
        number = jnp.arange(count, dtype=jnp.int32) % (teams(env).max() + 1)
        seating = seat_teams(env, number)
    start = fresh(world, along_data(task_keys))
    if not bound.reads_arrays:
        start = start._replace(observation=None)
    trajectory = unroll(
        world,
        actors,
        seating,
        start,
        key,
        length=turns,
        early_exit=bound.early_exit,
        own_turns=bound.own_turns,
    )
    return packed(bound, world, trajectory, seating, params, None)


def _provided(env: Any, listeners: str) -> frozenset[str]:
    """Fields of `Streams` that whole episodes fill, whatever the policy."""
    names = {"reward", "mask", "group", "episode", "anchor"}
    names |= {"terminated", "truncated", "valid", "success"}
    if env.num_agents > 1:
        names |= {"role", "task"} | (set() if env.callers is None else {"parent"})
    return frozenset(names | (set() if listeners == "none" else {"persuasion"}))


def turn_limit(env_params: Any, max_turns: int | None) -> int:
    """T of whole episodes. ValueError if the environment's limit is smaller."""
    limit = int(env_params.max_steps_in_episode)
    turns = limit if max_turns is None else max_turns
    if not 1 <= turns <= limit:
        raise ValueError(
            f"rollout max_turns={turns}: expected 1 to the environment's own limit {limit}; "
            f"raise env.max_steps_in_episode for more"
        )
    return turns


def check_groups(num_groups: int, group_size: int) -> None:
    """ValueError unless there is a group, and an episode in it."""
    for name, given in (("num_groups", num_groups), ("group_size", group_size)):
        if given < 1:
            raise ValueError(f"rollout {name}={given}: expected at least 1")


def check_horizons(horizons: tuple[int, ...], every: int | None, turns: int) -> None:
    """ValueError unless horizons are turns of an episode, and both options are set or neither."""
    for horizon in horizons:
        if not 1 <= horizon <= turns:
            raise ValueError(f"rollout horizons={horizons}: expected 1 to max_turns={turns}")
    if bool(horizons) != (every is not None) or (every or 1) < 1:
        raise ValueError(
            f"rollout horizons={horizons}, horizon_every={every}: set both (horizon_every "
            "to 1 or more collections), or neither"
        )


def horizon_of(collections: jax.Array, horizons: tuple[int, ...], every: int) -> jax.Array:
    """Turns that an episode may take after so many collections, i32[]."""
    stage = jnp.minimum(collections // every, len(horizons) - 1)
    return jnp.asarray(horizons, jnp.int32)[stage]


def properties_of(env: Any) -> frozenset[str]:
    """`Rollout.properties` of whole episodes."""
    team = {"team"} if env.cooperative else set()
    return frozenset({"whole_episodes", "one_end"} | team)
