"""The acting loop: the only one that steps an environment in the graph.

Each step: views of the states, decisions of the actors, `envs.vector.step_agents`, and, where
episodes restart, a new task for each that has ended. The key of step t is fold_in(key, t); of that,
fold_in 0 is for the actors (and k of it for actor k > 0), 1 for the environment, 2 for new tasks, 3
for the other actors' turns before the first one's next turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs.vector
from agentrl.actors.types import Actor, select
from agentrl.rollout.steps import (
    Loop,
    Restart,
    decide,
    ended,
    merge,
    others_act,
    step,
    take_viewed,
    view_of_step,
)
from agentrl.rollout.types import Seating, Start, Trajectory, Turn
from envs.vector import World

_ACT, _STEP, _RESTART, _OTHERS = 0, 1, 2, 3


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
    loop = Loop(
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
        first, _ = others_act(loop, first, jax.random.fold_in(key, length))

    def advance(t, carry):
        now, notes = carry
        number = taken + t
        following, turn = _advance(loop, now, number, jax.random.fold_in(key, number))
        notes, kept = keep(notes, turn)
        return (following, notes), kept

    drive = _while_running if early_exit else _for_length
    (final, notes), turns = drive(advance, (first, notes), length, loop.limit - taken)
    return Trajectory(turns, first, final, notes)


def _for_length(
    advance: Callable, first: chex.ArrayTree, length: int, limit: jax.Array | int
) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """(carry, what each of `length` steps gave)."""
    del limit
    steps = jnp.arange(length, dtype=jnp.int32)
    return jax.lax.scan(lambda carry, t: advance(t, carry), first, steps)


def _while_running(
    advance: Callable, first: chex.ArrayTree, length: int, limit: jax.Array | int
) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """The same, ending when no episode runs; zeros for steps that were not taken."""
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


def _restarted(
    loop: Loop, memory: tuple[chex.ArrayTree, ...], begins: jax.Array
) -> tuple[chex.ArrayTree, ...]:
    """The actors' memory, of episodes that begin as before their first turn."""
    out = []
    for actor, before in zip(loop.actors, memory, strict=True):
        if actor.restart is not None:
            out.append(actor.restart(before, begins))
        else:
            out.append(select(begins, actor.init(*loop.seating.actor.shape), before))
    return tuple(out)


def _advance(loop: Loop, now: Start, t: jax.Array, key: jax.Array) -> tuple[Start, Turn]:
    """One step of all episodes: (next state, the turn)."""
    world, restarts = loop.world, loop.restart is not None
    keys = [jax.random.fold_in(key, i) for i in (_ACT, _STEP, _RESTART, _OTHERS)]
    memory, runs, begins = now.memory, now.running, now.begins
    assert runs is not None and begins is not None  # `unroll` fills them
    running = runs
    if restarts:
        memory = _restarted(loop, memory, begins)
        runs = jnp.ones(runs.shape, bool)
    view = view_of_step(loop, now)
    view = view._replace(acting=runs[:, None] & view.acting)
    decision, action, memory = decide(loop, memory, view, keys[_ACT])
    acting, cut = view.acting, jnp.zeros(runs.shape, bool)
    if decision.full is not None:
        cut = jnp.any(decision.full & acting, axis=1)
        runs, acting = runs & ~cut, acting & ~cut[:, None]
    commands = loop.actors[0].commands
    observation, state, outcome = step(world, keys[_STEP], now, action, runs, commands)
    if loop.hold_ended or decision.full is not None:
        state, observation = select(runs, (state, observation), (now.state, now.observation))
    if loop.skip_others:
        following = Start(state, observation, memory, runs & ~ended(outcome), begins)
        following, more = others_act(loop, following, keys[_OTHERS])
        state, observation, memory, *_ = following
        outcome = merge(outcome, more)
    truncated = outcome.truncated | cut
    if not restarts:
        truncated |= runs & ~outcome.terminated & (t == loop.limit - 1)
    outcome = outcome._replace(truncated=truncated)
    done = outcome.terminated | truncated
    learns = acting & take_viewed(loop, loop.seating.learns, view.agent)
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


def fresh(world: World, keys: jax.Array) -> Start:
    """Episodes at the start of the tasks of the keys, [B]."""
    starts = envs.vector.reset_agents(world, keys)
    return Start(starts.state, starts.observation)


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
