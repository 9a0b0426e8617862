"""From a trajectory to Streams and Rows.

Stream b * A + a is agent a of episode b: N = B * A. A reward that an agent receives between one of
its turns and the next belongs to the earlier one; rewards before its first turn are dropped.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import beside, flat
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.types import Outcomes, Trajectory, Turn
from agentrl.streams import Rows, Streams, to_last_turn
from envs.agents import Agents


class Packing(NamedTuple):
    """How the streams and rows of a policy's trajectories are made.

    rows: (Trajectory, learns bool[B, A]) -> Rows. num_rows: (batch, turns) -> R.
    fields: (Turn [T, B, S]) -> further fields of `Streams` by name, [T, B, S, ...]; "valid" is
      taken together with the environment's.
    metrics: (Turn) -> further metrics.
    provides: fields of `Streams` that the policy fills besides those of `filled`.
    properties: further `Rollout.properties`.
    """

    rows: Callable[[Trajectory, chex.Array], Rows]
    num_rows: Callable[[int, int], int]
    fields: Callable[[Turn], dict[str, jax.Array]] = lambda turns: {}
    metrics: Callable[[Turn], dict[str, jax.Array]] = lambda turns: {}
    provides: frozenset[str] = frozenset()
    properties: frozenset[str] = frozenset()


def filled(env: Agents, *, whole: bool) -> frozenset[str]:
    """Fields of `Streams` that are filled for any policy. whole: streams are whole episodes."""
    names = {"reward", "mask", "terminated", "truncated", "valid", "success"}
    if env.timed:
        names |= {"duration"}
    if env.speech[1]:
        names |= {"spoken"}
    if whole:
        names |= {"group", "episode", "anchor"}
        names |= set() if env.callers is None else {"parent", "call_turn"}
    return frozenset(names | ({"role", "task"} if env.num_agents > 1 else set()))


def properties_of(env: Agents, *, whole: bool) -> frozenset[str]:
    """`Rollout.properties` of any policy. whole: streams are whole episodes."""
    names = {"whole_episodes", "one_end"} if whole else set()
    return frozenset(names | ({"team"} if env.cooperative else set()))


def pack(
    env: Agents,
    packing: Packing,
    trajectory: Trajectory,
    learns: chex.Array,
    *,
    group: jax.Array | None = None,
    bootstrap: jax.Array | None = None,
) -> tuple[Streams, Rows]:
    """The streams and rows of a trajectory. learns: bool[B, A], which agents are learnt from.

    group, bootstrap: see `streams_of`.
    """
    turns = trajectory.turns
    fields = packing.fields(turns)
    streams = streams_of(env, turns, group=group, bootstrap=bootstrap, fields=fields)
    return streams, packing.rows(trajectory, learns)


def of_agents(agent: jax.Array, values: jax.Array, agents: int) -> jax.Array:
    """Values [..., S, *rest] of the agents i32[..., S] with a view as [..., A, *rest].

    0 or False for agents without a view.
    """
    axis = agent.ndim - 1
    if agent.shape[axis] == agents:
        return values
    places = agent[..., None] == jnp.arange(agents)
    values = jnp.expand_dims(values, axis + 1)
    chosen = jnp.where(beside(places, values), values, jnp.zeros((), values.dtype))
    if values.dtype == bool:
        return jnp.any(chosen, axis=axis)
    return jnp.sum(chosen, axis=axis, dtype=values.dtype)


def outcomes_of(turns: Turn) -> Outcomes:
    """Results of each agent, [B, A], in T kept turns of B whole episodes.

    A game may end before an agent had a turn, and so without a stream that says how it ended.
    """
    outcome = turns.outcome
    moved = of_agents(turns.agent, turns.acting, outcome.reward.shape[2])
    return Outcomes(
        jnp.sum(outcome.reward, axis=0),
        jnp.sum(moved, axis=0, dtype=jnp.int32),
        jnp.any(outcome.success, axis=0),
    )


def by_stream(values: jax.Array) -> jax.Array:
    """[T, B, A, ...] as [N, T, ...]."""
    turns, batch, agents = values.shape[:3]
    return jnp.moveaxis(values, 0, 2).reshape(batch * agents, turns, *values.shape[3:])


def parents(env: Agents, batch: int) -> jax.Array | None:
    """The stream of the agent that calls each stream's agent, i32[N], -1 for none; or None."""
    if env.callers is None:
        return None
    caller = np.array(env.callers, np.int32)
    first = env.num_agents * np.arange(batch, dtype=np.int32)[:, None]
    return jnp.asarray(np.where(caller < 0, -1, first + caller).reshape(-1))


def call_turns(parent: jax.Array, mask: jax.Array) -> jax.Array:
    """The caller's last turn before the first one of each stream, i32[N]; -1 for none.

    parent: i32[N]. mask: bool[N, T], on one clock for all streams of an episode.
    """
    turn = jnp.arange(mask.shape[1], dtype=jnp.int32)
    began = jnp.where(jnp.any(mask, axis=1), jnp.argmax(mask, axis=1), 0)
    before = mask[parent] & (turn < began[:, None]) & (parent >= 0)[:, None]
    return jnp.max(jnp.where(before, turn, -1), axis=1)


def streams_of(
    env: Agents,
    turns: Turn,
    *,
    group: jax.Array | None,
    bootstrap: jax.Array | None,
    fields: dict[str, jax.Array] | None = None,
) -> Streams:
    """The streams of T steps of B episodes of A agents.

    group: i32[B], episodes of the same task instance; None where streams hold several episodes, and
    these have no numbers and no anchors. bootstrap: the critic's value of what followed, f32[B, A]
    the end of each stream, or f32[T, B, A] where episodes are cut; None without a critic.
    fields: further fields by name, [T, B, S, ...] of those that were shown something; "valid" is
    taken together with the environment's.
    """
    agents, outcome = env.num_agents, turns.outcome
    batch, restarts = turns.running.shape[1], turns.begins is not None
    mask = by_stream(of_agents(turns.agent, turns.learns, agents))
    # One agent acts in every step that its episode has, unless its actor can be without room.
    moves = agents > 1 or turns.decision.full is not None
    if restarts and not moves:
        mask = jnp.ones(mask.shape, bool)
    ended = None
    if restarts:
        ended = jnp.repeat((outcome.terminated | outcome.truncated).T, agents, axis=0)

    def to_turns(x):
        """Values of all agents, [T, B] or [T, B, A], moved to the turn that they belong to."""
        x = x[..., None] if x.ndim == 2 else x
        x = by_stream(jnp.broadcast_to(x, (*x.shape[:2], agents)))
        return to_last_turn(x, mask, ended) if moves else x

    decision, several = turns.decision, agents > 1
    parent = None if restarts else parents(env, batch)
    value = None
    if bootstrap is not None:
        assert decision.value is not None  # there is a critic
        value = by_stream(of_agents(turns.agent, decision.value, agents))
        bootstrap = (
            to_turns(bootstrap)
            if bootstrap.ndim == 3
            else jnp.broadcast_to(bootstrap.reshape(-1, 1), mask.shape)
        )

    def of_stream(x):
        """Values of agents with a view, [T, B, S, ...], as [N, T, ...]."""
        return by_stream(of_agents(turns.agent, x, agents))

    own = {name: of_stream(x) for name, x in (fields or {}).items()}
    valid = by_stream(outcome.valid) & mask & own.pop("valid", True)
    spoken = own.pop("spoken", None)
    if env.speech[1]:
        assert turns.action is not None  # streams are made of turns with their actions
        first, count = env.speech
        said = (turns.action >= first) & (turns.action < first + count)
        # A turn may have several actions.
        said = of_stream(said if said.ndim == 3 else jnp.any(said, axis=3))
        spoken = said if spoken is None else spoken | said
    streams = Streams(
        reward=to_turns(outcome.reward),
        mask=mask,
        group=None if group is None else jnp.repeat(group, agents),
        episode=None if restarts else jnp.repeat(jnp.arange(batch, dtype=jnp.int32), agents),
        role=jnp.tile(jnp.array(env.roles_of_seats, jnp.int32), batch) if several else None,
        task=jnp.zeros(batch * agents, jnp.int32) if several else None,
        anchor=None if restarts or decision.anchor is None else of_stream(decision.anchor),
        value=value,
        bootstrap=bootstrap,
        terminated=to_turns(outcome.terminated),
        truncated=to_turns(outcome.truncated),
        valid=valid,
        success=to_turns(outcome.success),
        duration=to_turns(outcome.seconds) if env.timed else None,
        spoken=None if spoken is None else spoken & mask,
        parent=parent,
        call_turn=None if parent is None else call_turns(parent, mask),
    )
    return streams.replace(**own)


def array_packing(policy: Policy, env: Agents) -> Packing:
    """The packing of a policy over arrays."""
    remembers = policy.memory(1) is not None
    shown = env.num_agents if remembers else env.num_acting

    def rows(trajectory, learns):
        memory = policy.memory(learns.size) if remembers else None
        if remembers and trajectory.first.memory[0] is not None:
            memory = flat(trajectory.first.memory[0])
        return array_rows(env, trajectory.turns, learns, memory)

    return Packing(
        rows=rows,
        num_rows=lambda batch, turns: batch * shown * (1 if remembers else turns),
        provides=frozenset({"value", "bootstrap"} if policy.has_critic else ()),
    )


def array_rows(env: Agents, turns: Turn, learns: chex.Array, memory: chex.ArrayTree | None) -> Rows:
    """Rows of a policy over arrays.

    A policy without memory gets one row per turn of those that were shown something, [T * B * S, 1]
    in the order of the scan; one with memory gets one row per stream, [N, T], with its memory
    before the first turn. learns: bool[B, A], which agents are learnt from. memory: [N, ...].
    """
    record, agents = turns.decision.record, env.num_agents
    steps, batch, shown = turns.agent.shape
    size = (steps, batch * shown)
    agent = turns.agent.reshape(size)
    stream = jnp.arange(batch * shown, dtype=jnp.int32)

    def layout(x):
        if memory is None:
            return x.reshape(steps * batch * shown, 1, *x.shape[3:])
        return jnp.swapaxes(x.reshape(*size, *x.shape[3:]), 0, 1)

    if memory is None:
        if shown < agents:
            stream = jnp.arange(batch, dtype=jnp.int32) * agents + agent
        stream = jnp.broadcast_to(stream, size).reshape(-1)
        turn = jnp.repeat(jnp.arange(steps, dtype=jnp.int32), batch * shown)[:, None]
        role = agent.reshape(-1)
    else:
        turn = jnp.tile(jnp.arange(steps, dtype=jnp.int32), (batch * shown, 1))
        role = agent[0]
    mask = turns.learns
    if turns.begins is None:
        begins = jnp.zeros(mask.shape, bool)
    else:
        begins = jnp.broadcast_to(turns.begins[..., None], mask.shape)
        mask = jnp.ones(mask.shape, bool) if agents == 1 else mask
    start = None if memory is None else layout(begins)
    asked = answer = None
    if record.asked is not None:
        asked = layout(record.asked & turns.running[..., None] & learns)
        answer = layout(record.answer)
    numbered = record.action.ndim == 3
    return Rows(
        tokens=layout(record.action if numbered else jnp.zeros(mask.shape, jnp.int32)),
        action=None if numbered else layout(record.action),
        loss_mask=layout(mask),
        stream=stream,
        turn=turn,
        behaviour_logp=layout(turns.decision.logp),
        observation=jax.tree.map(layout, record.observation),
        legal=None if record.legal is None else layout(record.legal),
        start=start,
        memory=memory,
        asked=asked,
        answer=answer,
        role=role if agents > 1 else None,
    )
