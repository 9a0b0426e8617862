"""The acting loop: the only one that steps an environment in the graph.

Each step: views of the states, decisions of the actors, `Environment.step_agents`, and, where
episodes restart, a new task for each that has ended. The key of step t is fold_in(key, t); of that,
fold_in 0 is for the actors (and k of it for actor k > 0), 1 for the environment, 2 for new tasks, 3
for the other actors' turns before the first one's next turn.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.actors.types import Actor, Decision, View, beside, select
from agentrl.rollout.types import Seating, Start, Trajectory, Turn
from envs.agents import Outcome
from envs.vector import World

_ACT, _STEP, _RESTART, _OTHERS = 0, 1, 2, 3
Restart = Callable[[jax.Array], envs.vector.Starts]


class _Loop(NamedTuple):
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


def keep_turn(notes: chex.ArrayTree, turn: Turn) -> tuple[chex.ArrayTree, Turn]:
    """Keeps a turn without the states around it and without environment-specific data."""
    outcome = turn.outcome._replace(info=None)
    return notes, turn._replace(before=None, after=None, outcome=outcome)


def unroll(
    world: World,
    actors: Sequence[Actor],
    seating: Seating,
    start: Start,
    key: jax.Array,
    *,
    length: int,
    taken: jax.Array | int = 0,
    limit: jax.Array | int | None = None,
    restart: Restart | None = None,
    early_exit: bool = False,
    skip_others: bool = False,
    keep: Callable[[Any, Turn], tuple[Any, Any]] = keep_turn,
    notes: chex.ArrayTree = None,
) -> Trajectory:
    """Runs actors for `length` steps, T, from the starts of B episodes.

    Args:
      actors: by number in `seating`; the first is the one whose decisions are kept. Each is called
        with its own `params`.
      taken: steps that these episodes have taken before, in calls with the same key: the number
        of a step, which its key and `limit` depend on, counts them too.
      limit: steps that an episode may take, at most `length` (the default), one number for all or
        i32[B]; one that still runs then is truncated.
      restart: (key) -> B fresh tasks; an episode that ends is replaced by one of them, and `limit`
        is not used.
      early_exit: the loop ends when no episode runs, instead of always after `length` steps; steps
        that were not taken are zeros. Of several actors those with nothing to do are skipped then.
        Under `vmap` it runs as long as the longest.
      skip_others: of a game in turns the steps are the turns of the first actor. The others act in
        between, as soon as it is their turn, and the results belong to the first actor's step. So
        all episodes wait for the first actor together, which is called half as often.
      keep, notes: (notes, Turn) -> (notes, kept part of the turn), from `notes` before the first
        step. For `prefix` a turn is kept with `before`.

    Without `restart` an episode that has ended stays as it is.
    """
    shape = seating.actor.shape
    first = start._replace(
        memory=start.memory or tuple(x.init(*shape) for x in actors),
        running=jnp.ones(shape[0], bool) if start.running is None else start.running,
        begins=jnp.ones(shape[0], bool) if start.begins is None else start.begins,
    )
    loop = _Loop(
        world=world,
        actors=actors,
        seating=seating,
        limit=length if limit is None else limit,
        restart=restart,
        view_all=any(actor.follows for actor in actors),
        # Environments absorb: only truncated episodes have to be stopped from continuing.
        hold_ended=start.running is not None or not (early_exit or limit is None),
        skip_idle=early_exit and len(actors) > 1,
        skip_others=skip_others and len(actors) > 1,
    )
    if loop.skip_others:
        # Before the first actor's first turn nothing is brought to it, but episodes may end.
        first, _ = _others_act(loop, first, jax.random.fold_in(key, length))

    def advance(t, carry):
        now, notes = carry
        number = taken + t
        following, turn = _advance(loop, now, number, jax.random.fold_in(key, number))
        notes, kept = keep(notes, turn)
        return (following, notes), kept

    if early_exit:
        (final, notes), turns = _while_running(advance, (first, notes), length, loop.limit - taken)
    else:
        steps = jnp.arange(length, dtype=jnp.int32)
        (final, notes), turns = jax.lax.scan(lambda now, t: advance(t, now), (first, notes), steps)
    return Trajectory(turns, first, final, notes)


def _while_running(
    advance: Callable, first: chex.ArrayTree, length: int, limit: jax.Array | int
) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """(carry, what each step gave), ending when no episode runs; zeros for steps not taken."""
    # Traced once for the shapes and for the loop.
    advance = jax.jit(advance, inline=True)

    def going(carry):
        t, (now, _), _ = carry
        return (t < jnp.max(jnp.asarray(limit))) & jnp.any(now.running)

    def body(carry):
        t, now, turns = carry
        following, turn = advance(t, now)
        put = jax.lax.dynamic_update_index_in_dim
        return t + 1, following, jax.tree.map(lambda all_, one: put(all_, one, t, 0), turns, turn)

    shapes = jax.eval_shape(lambda carry: advance(jnp.int32(0), carry)[1], first)
    turns = jax.tree.map(lambda s: jnp.zeros((length, *s.shape), s.dtype), shapes)
    _, final, turns = jax.lax.while_loop(going, body, (jnp.int32(0), first, turns))
    return final, turns


def _advance(loop: _Loop, now: Start, t: jax.Array, key: jax.Array) -> tuple[Start, Turn]:
    """One step of all episodes: (next state, the turn)."""
    world, restarts = loop.world, loop.restart is not None
    keys = [jax.random.fold_in(key, i) for i in (_ACT, _STEP, _RESTART, _OTHERS)]
    memory, runs, begins = now.memory, now.running, now.begins
    assert runs is not None and begins is not None  # `unroll` fills them
    running = runs
    if restarts:
        # Of episodes that begin as before their first turn.
        memory = tuple(
            select(begins, actor.init(*loop.seating.actor.shape), before)
            if actor.restart is None
            else actor.restart(before, begins)
            for actor, before in zip(loop.actors, memory, strict=True)
        )
        runs = jnp.ones(runs.shape, bool)
    view = _view_of_step(loop, now)
    view = view._replace(acting=runs[:, None] & view.acting)
    decision, action, memory = _decide(loop, memory, view, keys[_ACT])
    acting, cut = view.acting, jnp.zeros(runs.shape, bool)
    if decision.full is not None:
        cut = jnp.any(decision.full & acting, axis=1)
        runs, acting = runs & ~cut, acting & ~cut[:, None]
    commands = loop.actors[0].commands
    observation, state, outcome = _step(world, keys[_STEP], now, action, runs, commands)
    if loop.hold_ended or decision.full is not None:
        state, observation = select(runs, (state, observation), (now.state, now.observation))
    if loop.skip_others:
        following = Start(state, observation, memory, runs & ~_ended(outcome), begins)
        following, more = _others_act(loop, following, keys[_OTHERS])
        state, observation, memory, *_ = following
        outcome = _merge(outcome, more)
    truncated = outcome.truncated | cut
    if not restarts:
        truncated |= runs & ~outcome.terminated & (t == loop.limit - 1)
    outcome = outcome._replace(truncated=truncated)
    done = outcome.terminated | truncated
    learns = acting & _take_viewed(loop, loop.seating.learns, view.agent)
    after = Start(state, observation, memory, running & ~done, done)
    turn = Turn(
        running=runs,
        begins=begins if restarts else None,
        agent=view.agent,
        acting=acting,
        learns=learns,
        decision=decision,
        action=action,
        outcome=outcome,
        before=now,
        after=after,
    )
    if loop.restart is None:
        return after._replace(begins=begins & False), turn
    starts = loop.restart(keys[_RESTART])
    if observation is None:
        starts = starts.replace(observation=None)
    observation, state = envs.vector.restart(done, observation, state, starts)
    return Start(state, observation, memory, running, done), turn


def _view_of_step(loop: _Loop, now: Start) -> View:
    """The view before a step; `acting` whether or not the episode runs."""
    views = envs.vector.views(loop.world, now.state, now.observation, everyone=loop.view_all)
    return View(*views, now.state)


def _ended(outcome: Outcome) -> jax.Array:
    """Episodes that end with this outcome, bool[B]."""
    return outcome.terminated | outcome.truncated


def _others_act(loop: _Loop, now: Start, key: jax.Array) -> tuple[Start, Outcome]:
    """Runs the other actors until it is the first actor's turn in every running episode.

    Turn-based games only. Returns the next state, and the outcome.
    """

    def body(carry):
        i, now, total = carry
        following, outcome = _other_acts(loop, now, jax.random.fold_in(key, i))
        return i + 1, following, _merge(total, outcome)

    shapes = jax.eval_shape(lambda now: _other_acts(loop, now, key)[1], now)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    nobody = jnp.full(zeros.offender.shape, -1, jnp.int32)
    carry = (jnp.int32(0), now, zeros._replace(valid=~zeros.valid, offender=nobody))
    _, now, total = jax.lax.while_loop(lambda c: jnp.any(_waits(loop, c[1])[1]), body, carry)
    return now, total


def _waits(loop: _Loop, now: Start) -> tuple[View, jax.Array]:
    """(the view, running episodes in which it is another actor's turn bool[B])."""
    assert now.running is not None  # `unroll` fills it
    view = _view_of_step(loop, now)
    owner = _take_viewed(loop, loop.seating.actor, view.agent)
    return view, now.running & jnp.any(view.acting & (owner > 0), axis=1)


def _other_acts(loop: _Loop, now: Start, key: jax.Array) -> tuple[Start, Outcome]:
    """One step of the episodes in which it is another actor's turn."""
    assert now.running is not None  # `unroll` fills it
    act_key, step_key = jax.random.split(key)
    view, waits = _waits(loop, now)
    view = view._replace(acting=waits[:, None] & view.acting)
    action, memory = _decide_others(loop, now.memory, view, act_key)
    observation, state, outcome = _step(loop.world, step_key, now, action, waits, None)
    state, observation = select(waits, (state, observation), (now.state, now.observation))
    running = now.running & ~_ended(outcome)
    following = now._replace(state=state, observation=observation, memory=memory, running=running)
    return following, outcome._replace(info=None)


def _decide_others(
    loop: _Loop, memory: tuple[chex.ArrayTree, ...], view: View, key: jax.Array
) -> tuple[jax.Array, tuple[chex.ArrayTree, ...]]:
    """Actions [B, S, ...] of all actors but the first, and the memories of all."""
    owner = _take_viewed(loop, loop.seating.actor, view.agent)
    action, following = None, [memory[0]]
    for k, actor in enumerate(loop.actors[1:], 1):
        own = view._replace(acting=view.acting & (owner == k))
        decision, after = actor.act(actor.params, memory[k], own, jax.random.fold_in(key, k))
        chosen = decision.action
        action = chosen if action is None else jnp.where(beside(owner == k, chosen), chosen, action)
        following.append(after)
    assert action is not None  # there are other actors
    return action, tuple(following)


def _take_viewed(loop: _Loop, values: jax.Array, agent: jax.Array) -> jax.Array:
    """Values of all agents [B, A] for those with a view, [B, S]."""
    if agent.shape == values.shape:
        return values
    return jnp.take_along_axis(values, agent, axis=1)


def _decide(
    loop: _Loop, memory: tuple[chex.ArrayTree, ...], view: View, key: jax.Array
) -> tuple[Decision, jax.Array, tuple[chex.ArrayTree, ...]]:
    """(decision of the first actor, actions of all [B, S, ...], memories)."""
    actors = loop.actors
    if len(actors) == 1:
        decision, after = actors[0].act(actors[0].params, memory[0], view, key)
        return decision, decision.action, (after,)
    owner = _take_viewed(loop, loop.seating.actor, view.agent)
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


def _step(
    world: World, key: jax.Array, now: Start, action: jax.Array, runs: jax.Array, n: int | None
) -> tuple[chex.ArrayTree, chex.ArrayTree, Outcome]:
    """Steps the episodes that run. n: commands per turn, None for one action.

    Returns (observation, state, Outcome); if an episode does not run, its outcome is empty, and its
    state is invalid unless it absorbs.
    """
    if n is not None:
        return _step_commands(world, key, now, action, runs, n)
    observation, state, outcome = _step_agents(world, key, now.state, action)
    return None if now.observation is None else observation, state, _where_runs(runs, outcome)


def _step_agents(
    world: World, key: jax.Array, state: chex.ArrayTree, action: jax.Array
) -> tuple[chex.ArrayTree, chex.ArrayTree, Outcome]:
    """`Environment.step_agents` of B episodes, [B, ...], with actions [B, S, ...]: the current
    player's is copied to all agents."""
    batch = action.shape[0]
    of_all = jnp.broadcast_to(action, (batch, world.env.num_agents, *action.shape[2:]))
    return world.vmap(world.env.step_agents)(jax.random.split(key, batch), state, of_all)


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
        seen, after, outcome = _step_agents(world, jax.random.fold_in(key, i), state, command)
        outcome = _where_runs(takes, outcome)
        state = select(takes, after, state)
        observation = None if observation is None else select(takes, seen, observation)
        total = outcome if total is None else _merge(total, outcome)
        going = going & ~_ended(outcome)
    return observation, state, total


def _merge(first: Outcome, then: Outcome) -> Outcome:
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


def fresh(world: World, keys: jax.Array) -> Start:
    """Episodes at the start of the tasks of the keys, [B]."""
    observation, state = world.vmap(world.env.reset_agents)(keys)
    return Start(state, observation)


def prefix(trajectory: Trajectory, turn: jax.Array) -> Start:
    """Episodes as they were in front of step turn[b], i32[B], T for the end of the trajectory.

    The turns were kept with `before`. Episodes branch by unrolling from here anew.
    """

    def pick(before, final):
        everything = jnp.concatenate([before, final[None]])
        return jax.vmap(lambda x, t: x[t], in_axes=(1, 0))(everything, turn)

    return jax.tree.map(pick, trajectory.turns.before, trajectory.final)


def keep_states(
    notes: chex.ArrayTree, turn: Turn
) -> tuple[chex.ArrayTree, tuple[chex.ArrayTree, jax.Array]]:
    """For `unroll`: keeps of a `Turn` what `states_of` reads."""
    assert turn.before is not None  # `unroll` fills it
    return notes, (turn.before.state, turn.running)


def states_of(turns: tuple[chex.ArrayTree, jax.Array], final: chex.ArrayTree) -> chex.ArrayTree:
    """States before each turn and after the last, [T + 1, B, ...]. turns: what `keep_states` kept;
    final: the last states."""
    before, running = turns
    # The loop may have ended before the last turn.
    taken = jnp.any(running, axis=1)

    def joined(before, last):
        known = jnp.where(taken.reshape(-1, *[1] * last.ndim), before, last)
        return jnp.concatenate([known, last[None]])

    return jax.tree.map(joined, before, final)
