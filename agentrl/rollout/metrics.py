"""Metrics of the episodes that ended in a collection: sums and weights f32[2] by name."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import select
from agentrl.rollout.pack import of_agents
from agentrl.rollout.types import Turn
from agentrl.streams import Streams
from envs.environment import AnyEnvironment


class Ended(NamedTuple):
    """Episodes of A agents; any leading axes [...], for example [B], or [T, B] by step of the end.

    counts: bool[...], an episode ended here. steps: i32[...], turns of agents that are learnt from.
    cut: bool[...], a limit ended it. offended: bool[...], an illegal action ended it.
    won: bool[..., A], of all agents. plays: bool[..., A], the agent is learnt from and had a turn.
    episode_return: f32[..., A]. success: bool[..., A]. seconds: f32[...] of simulated time, or
    None. side: i32[B, A], which of the environment's sides each agent is on, or None.
    """

    counts: jax.Array
    steps: jax.Array
    cut: jax.Array
    offended: jax.Array
    won: jax.Array
    plays: jax.Array
    episode_return: jax.Array
    success: jax.Array
    seconds: jax.Array | None = None
    side: jax.Array | None = None


def mean(x: jax.Array, of: jax.Array) -> jax.Array:
    """Sum and weight of values over those of which the flag is set, f32[2]."""
    total = jnp.sum(jnp.where(of, x, 0), dtype=jnp.float32)
    return jnp.stack([total, jnp.sum(of, dtype=jnp.float32)])


def whole_episodes(turns: Turn, streams: Streams, side: jax.Array | None = None) -> Ended:
    """The episodes of a trajectory in which none restarts."""
    outcome = turns.outcome
    assert streams.success is not None  # of every rollout
    batch, agents = outcome.reward.shape[1:]

    def by_agent(x):
        return x.reshape(batch, agents)

    return Ended(
        counts=jnp.any(turns.running, axis=0),
        steps=jnp.sum(jnp.any(turns.learns, axis=2), axis=0),
        cut=jnp.any(outcome.truncated, axis=0),
        # Steps that were not taken are zeros, which is an agent's number.
        offended=jnp.any(turns.running & (outcome.offender >= 0), axis=0),
        won=jnp.any(outcome.success, axis=0),
        plays=by_agent(jnp.any(streams.mask, axis=1)),
        episode_return=by_agent(jnp.sum(streams.reward, axis=1)),
        success=by_agent(jnp.any(streams.success, axis=1)),
        seconds=None if outcome.seconds is None else jnp.sum(outcome.seconds, axis=0),
        side=side,
    )


class Running(NamedTuple):
    """Running totals of restarting episodes: `notes` of `unroll`.

    episode_return: f32[B, A]. acted: bool[B, A], the agent had a turn and is learnt from. steps:
    i32[B], turns of agents that are learnt from.
    """

    episode_return: jax.Array
    acted: jax.Array
    steps: jax.Array


def no_turns(batch: int, agents: int) -> Running:
    """The totals before the first step of B episodes of A agents: zeros."""
    shape = (batch, agents)
    return Running(jnp.zeros(shape), jnp.zeros(shape, bool), jnp.zeros(batch, jnp.int32))


def count_turn(notes: Running, turn: Turn) -> tuple[Running, Running]:
    """(totals for the next step, totals of this step including its result)."""
    agents = notes.acted.shape[1]
    acted = notes.acted | of_agents(turn.agent, turn.learns, agents)
    steps = notes.steps + jnp.any(turn.learns, axis=1)
    now = Running(notes.episode_return + turn.outcome.reward, acted, steps)
    done = turn.outcome.terminated | turn.outcome.truncated
    return select(done, no_turns(*acted.shape), now), now


def restarted_episodes(turns: Turn, notes: Running) -> Ended:
    """The episodes that ended in a trajectory; notes: [T, ...], what they had gathered then."""
    outcome = turns.outcome
    done = outcome.terminated | outcome.truncated
    return Ended(
        counts=done,
        steps=notes.steps,
        cut=outcome.truncated,
        offended=outcome.offender >= 0,
        won=outcome.success,
        plays=done[..., None] & notes.acted,
        episode_return=notes.episode_return,
        success=outcome.success,
    )


def metrics_of(
    env: AnyEnvironment, ended: Ended, streams: Streams, opponent: str = "self"
) -> dict[str, jax.Array]:
    """The metrics that hold for every way of acting.

    Returns and successes are of the agents that are learnt from; where agents call others, of those
    that nobody calls. Draws, ends by an illegal move, and the results of each role and side
    (against `opponent`) are there of several agents.

    Metrics (Results):
      success_rate: Success rate [share]; episodes whose task was solved; in games, seats that won.
      episode_return: Return; sum of the environment's rewards, per episode and agent.
      win_rate/{role}/{opponent}: Win rate of {role} against {opponent} [share].
      return/{role}/{opponent}: Return of {role} against {opponent}.
      draw_rate: Draws [share]; matches without a winner.

    Metrics (Episodes):
      episode_length: Episode length [turns]; mean over the episodes that ended.
      truncation_rate: Cut by a limit [share]; episodes that a limit of turns or tokens ended.
      invalid_action_rate: Illegal actions [share]; turns whose action was illegal, or whose reply
        named none.
      invalid_end_rate: Ended by an illegal move [share]; matches.
      episode_seconds: Simulated time [seconds]; per episode.
      episodes: Episodes [per collection]; that ended.
    """
    assert streams.valid is not None  # of every rollout
    plays, won = ended.plays, ended.success
    whole = plays
    if env.callers is not None:
        # Those that nobody calls; where they are not learnt from, the first of the others.
        roots = plays & (np.array(env.callers) < 0)
        first = plays & (jnp.cumsum(plays, axis=-1) == 1)
        whole = jnp.where(jnp.any(roots, axis=-1, keepdims=True), roots, first)
    out = {
        "episode_return": mean(ended.episode_return, whole),
        "episode_length": mean(ended.steps, ended.counts),
        "truncation_rate": mean(ended.cut, ended.counts),
        "invalid_action_rate": mean(~streams.valid, streams.mask),
        "episodes": jnp.stack([jnp.sum(ended.counts, dtype=jnp.float32), jnp.float32(1)]),
    }
    if env.has_success:
        out["success_rate"] = mean(won, whole)
    if ended.seconds is not None:
        out["episode_seconds"] = mean(ended.seconds, ended.counts)
    if env.num_agents == 1:
        return out
    drawn = ~jnp.any(ended.won, axis=-1) & ~ended.offended & ~ended.cut
    out["draw_rate"] = mean(drawn, ended.counts)
    out["invalid_end_rate"] = mean(ended.offended, ended.counts)
    for role in range(env.num_roles):
        of_role = plays & (np.array(env.roles_of_seats) == role)
        out[f"win_rate/{role}/{opponent}"] = mean(won, of_role)
        out[f"return/{role}/{opponent}"] = mean(ended.episode_return, of_role)
    if ended.side is not None:
        for number, name in enumerate(env.sides):
            on_side = plays & (ended.side == number)
            out[f"win_rate/{name}/{opponent}"] = mean(won, on_side)
    return out
