"""One step of `agentrl.rollout.unroll`: views, decisions of the actors, and the outcome."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.actors.types import Actor, Decision, View, beside, select
from agentrl.rollout.types import Seating, Start
from envs.vector import Outcome, World

Restart = Callable[[jax.Array], envs.vector.Starts]


class Loop(NamedTuple):
    """Constants of all steps; see `unroll`.

    view_all: all agents get a view. hold_ended: states of episodes that do not run are kept.
    skip_idle: actors with nothing to do are not computed.
    """

    world: World
    actors: Sequence[Actor]
    seating: Seating
    limit: jax.Array | int
    restart: Restart | None
    view_all: bool
    hold_ended: bool
    skip_idle: bool
    skip_others: bool


def view_of_step(loop: Loop, now: Start) -> View:
    """The view before a step; `acting` whether or not the episode runs."""
    views = envs.vector.views(loop.world, now.state, now.observation, everyone=loop.view_all)
    return View(*views, now.state)


def ended(outcome: Outcome) -> jax.Array:
    """Episodes that end with this outcome, bool[B]."""
    return outcome.terminated | outcome.truncated


def others_act(loop: Loop, now: Start, key: jax.Array) -> tuple[Start, Outcome]:
    """Runs the other actors until it is the first actor's turn in every running episode.

    Turn-based games only. Returns the next state, and the outcome.
    """

    def body(carry):
        i, now, total = carry
        following, outcome = _other_acts(loop, now, jax.random.fold_in(key, i))
        return i + 1, following, merge(total, outcome)

    shapes = jax.eval_shape(lambda now: _other_acts(loop, now, key)[1], now)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    nobody = jnp.full(zeros.offender.shape, -1, jnp.int32)
    carry = (jnp.int32(0), now, zeros._replace(valid=~zeros.valid, offender=nobody))
    _, now, total = jax.lax.while_loop(lambda c: jnp.any(_waits(loop, c[1])[1]), body, carry)
    return now, total


def _waits(loop: Loop, now: Start) -> tuple[View, jax.Array]:
    """(the view, running episodes in which it is another actor's turn bool[B])."""
    assert now.running is not None  # `unroll` fills it
    view = view_of_step(loop, now)
    owner = take_viewed(loop, loop.seating.actor, view.agent)
    return view, now.running & jnp.any(view.acting & (owner > 0), axis=1)


def _other_acts(loop: Loop, now: Start, key: jax.Array) -> tuple[Start, Outcome]:
    """One step of the episodes in which it is another actor's turn."""
    assert now.running is not None  # `unroll` fills it
    act_key, step_key = jax.random.split(key)
    view, waits = _waits(loop, now)
    view = view._replace(acting=waits[:, None] & view.acting)
    action, memory = _decide_others(loop, now.memory, view, act_key)
    observation, state, outcome = step(loop.world, step_key, now, action, waits, None)
    state, observation = select(waits, (state, observation), (now.state, now.observation))
    running = now.running & ~ended(outcome)
    following = now._replace(state=state, observation=observation, memory=memory, running=running)
    return following, outcome._replace(info=None)


def _decide_others(
    loop: Loop, memory: tuple[chex.ArrayTree, ...], view: View, key: jax.Array
) -> tuple[jax.Array, tuple[chex.ArrayTree, ...]]:
    """Actions [B, S, ...] of all actors but the first, and the memories of all."""
    owner = take_viewed(loop, loop.seating.actor, view.agent)
    action, following = None, [memory[0]]
    for k, actor in enumerate(loop.actors[1:], 1):
        own = view._replace(acting=view.acting & (owner == k))
        decision, after = actor.act(actor.params, memory[k], own, jax.random.fold_in(key, k))
        chosen = decision.action
        action = chosen if action is None else jnp.where(beside(owner == k, chosen), chosen, action)
        following.append(after)
    assert action is not None  # there are other actors
    return action, tuple(following)


def take_viewed(loop: Loop, values: jax.Array, agent: jax.Array) -> jax.Array:
    """Values of all agents [B, A] for those with a view, [B, S]."""
    if agent.shape == values.shape:
        return values
    return jnp.take_along_axis(values, agent, axis=1)


def decide(
    loop: Loop, memory: tuple[chex.ArrayTree, ...], view: View, key: jax.Array
) -> tuple[Decision, jax.Array, tuple[chex.ArrayTree, ...]]:
    """(decision of the first actor, actions of all [B, S, ...], memories)."""
    actors = loop.actors
    if len(actors) == 1:
        decision, after = actors[0].act(actors[0].params, memory[0], view, key)
        return decision, decision.action, (after,)
    owner = take_viewed(loop, loop.seating.actor, view.agent)
    decisions, following = [], []
    for k, (actor, before) in enumerate(zip(actors, memory, strict=True)):
        own = view._replace(acting=view.acting & (owner == k))
        chance = key if k == 0 else jax.random.fold_in(key, k)

        def act(before, k=k, actor=actor, own=own, chance=chance):
            decision, after = actor.act(actor.params, before, own, chance)
            # Only the actions of the other actors are used.
            return decision if k == 0 else Decision(decision.action), after

        if loop.skip_idle:
            # An actor that follows the others' turns is called as long as it has a
            # seat.
            needed = jnp.any(loop.seating.actor == k) if actor.follows else jnp.any(own.acting)
            decision, after = _if(needed, act, before)
        else:
            decision, after = act(before)
        decisions.append(decision)
        following.append(after)
    action = decisions[0].action
    for k, decision in enumerate(decisions[1:], 1):
        action = jnp.where(beside(owner == k, action), decision.action, action)
    return decisions[0], action, tuple(following)


def _if(needed: jax.Array, act: Callable, memory: chex.ArrayTree) -> Any:
    """act(memory) if needed; else a decision of zeros, and the unchanged memory."""

    def rest(memory):
        shapes, _ = jax.eval_shape(act, memory)
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes), memory

    return jax.lax.cond(needed, act, rest, memory)


def step(
    world: World, key: jax.Array, now: Start, action: jax.Array, runs: jax.Array, n: int | None
) -> tuple[chex.ArrayTree, chex.ArrayTree, Outcome]:
    """Steps the episodes that run. n: commands per turn, None for one action.

    Returns (observation, state, Outcome); if an episode does not run, its outcome is empty, and its
    state is invalid unless it absorbs.
    """
    if n is not None:
        return _step_commands(world, key, now, action, runs, n)
    observation, state, outcome = envs.vector.step_agents(
        world, key, now.state, _of_agents(world, action)
    )
    return None if now.observation is None else observation, state, _where_runs(runs, outcome)


def _of_agents(world: World, action: jax.Array) -> jax.Array:
    """Actions [B, S, ...] as [B, A, ...]; the current player's is copied to all agents."""
    return jnp.broadcast_to(action, (action.shape[0], world.env.num_agents, *action.shape[2:]))


def _where_runs(runs: jax.Array, outcome: Outcome) -> Outcome:
    each = runs[:, None]
    return Outcome(
        reward=jnp.where(each, outcome.reward, 0.0),
        terminated=runs & outcome.terminated,
        truncated=runs & outcome.truncated,
        valid=outcome.valid | ~each,
        success=each & outcome.success,
        offender=jnp.where(runs, outcome.offender, -1),
        seconds=None if outcome.seconds is None else jnp.where(runs, outcome.seconds, 0.0),
        info=outcome.info,
    )


def _step_commands(world, key, now, action, runs, n):
    """Steps with up to n commands [B, S, n] one after the other; the first may be missing only
    together with all others, and -1 is skipped.
    """
    observation, state, going, total = now.observation, now.state, runs, None
    for i in range(n):
        command = action[:, :, i]
        takes = going & jnp.all(command >= 0, axis=1)
        seen, after, outcome = envs.vector.step_agents(
            world, jax.random.fold_in(key, i), state, _of_agents(world, command)
        )
        outcome = _where_runs(takes, outcome)
        state = select(takes, after, state)
        observation = None if observation is None else select(takes, seen, observation)
        total = outcome if total is None else merge(total, outcome)
        going = going & ~(outcome.terminated | outcome.truncated)
    return observation, state, total


def merge(first: Outcome, then: Outcome) -> Outcome:
    """The outcome of two steps that count as one turn."""
    return Outcome(
        reward=first.reward + then.reward,
        terminated=first.terminated | then.terminated,
        truncated=first.truncated | then.truncated,
        valid=first.valid & then.valid,
        success=first.success | then.success,
        offender=jnp.maximum(first.offender, then.offender),
        seconds=None
        if first.seconds is None or then.seconds is None
        else first.seconds + then.seconds,
        info=then.info,
    )
