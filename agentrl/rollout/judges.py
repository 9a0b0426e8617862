"""Judges: a score of each turn, given while the episode is played, for policies of any kind.

A judge sees the states around a turn and what was done, so that it can ask the environment's expert
or play on from there. Its scores are `Streams.judgement` f32[N, T]: above 0 a turn is good, below 0
bad, 0 undecided.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor, View
from agentrl.players.scripted import OUTSIDE, check_expert, expert_actions, is_outside, view_of
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import keep_turn, unroll
from envs.environment import Environment, EnvParams, EnvState
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.players.asked import Asked
    from agentrl.policies.protocol import AnyPolicy

JUDGES = ("none", "expert", "progress", "critic", "continuations:NUMBER", "a dotted path", *OUTSIDE)
# More continuations of a turn than anyone waits for.
_MOST = 10_000
# Folded into the key of the episodes' steps: none of them has this number.
_OWN = 1 << 30


class Scene(NamedTuple):
    """What a judge may use besides the turn.

    actors: (World) -> the actors as they play, of as many episodes as that world has. length,
    limit: the most steps of an episode, as compiled and now. key: of the judge alone.
    """

    world: World
    actors: Callable[[World], Sequence[Actor]]
    length: int
    limit: jax.Array | int
    key: jax.Array


class Notes(NamedTuple):
    """Carried from turn to turn. step: i32[], turns taken. value: f32[B], the judge's value of the
    states before the next turn."""

    step: jax.Array
    value: jax.Array


# (Scene, Notes, Turn) -> (f32[B] score, f32[B] value after the turn).
Judge = Callable[[Scene, Notes, Turn], tuple[jax.Array, jax.Array]]


class Judging(NamedTuple):
    """A judge bound to an environment. before: (Scene, Start) -> its value of the first states,
    f32[B]. score: see `Judge`. asked: who gives the scores, if outside this process."""

    before: Callable[[Scene, Start], jax.Array]
    score: Judge
    asked: "Asked | None" = None

    def watch(self, scene: Scene, start: Start) -> tuple[Notes, Callable]:
        """(notes, keep) for `unroll`, whose turns are then (Turn, scores f32[B, 1])."""
        first = Notes(jnp.zeros((), jnp.int32), self.before(scene, start))
        return first, functools.partial(self.keep, scene)

    def keep(self, scene: Scene, notes: Notes, turn: Turn) -> tuple[Notes, tuple[Turn, jax.Array]]:
        """What `unroll` keeps of a turn, and the notes for the next one."""
        score, value = self.score(scene, notes, turn)
        score = jnp.where(turn.running, score, 0.0)
        _, kept = keep_turn(None, turn)
        return Notes(notes.step + 1, value), (kept, score[:, None])


def judging(
    name: str, env: Environment, env_params: EnvParams, policy: "AnyPolicy"
) -> Judging | None:
    """The judge that config.rollout.judge names; None of "none".

    "expert": 1 where the environment's expert would have done the same, -1 elsewhere; of a turn of
      several commands the first.
    "progress": 1 where the expert needs fewer turns to succeed after the turn than before it, else
      -1. Where several actions are as good as the expert's, all of them are right; where success is
      out of reach, none. The expert's turns are played without the environment's chance.
    "continuations:8": r_t + V(s_{t+1}) - V(s_t), V the mean return of eight episodes that the
      policy plays on from a state (Monte Carlo, without a critic): 1 / T of a collection's turns
      times eight for each turn that is judged.
    "critic": r_t + V(s_{t+1}) - V(s_t), V the policy's own critic, as it is when it plays: a scorer
      that is trained beside the policy, by a term such as losses.value_loss. V of what a rule has
      ended is 0; of what a limit cuts it is not.
    "served:URL#MODEL", "program:COMMAND": as "expert", of what a player outside this process would
      have done in the state, of which it knows what the agent reads there, and nothing from before;
      0 where it abstains.
    A dotted path: your own function (World, Turn) -> f32[B], with `Turn.before` and `after`.

    Raises:
      ValueError: an unknown judge, an environment without an expert, a policy without a critic, or
        several agents.
    """
    if name == "none":
        return None
    kind, colon, number = name.partition(":")
    if env.num_agents > 1:
        raise ValueError(
            f"rollout judge={name!r} with {env.name}: judges are for environments of one agent; "
            "set judge='none'"
        )
    if kind == "continuations" and number.isdecimal() and 0 < int(number) <= _MOST:
        value = functools.partial(_continued, int(number))
        return Judging(lambda scene, start: value(scene, start, jnp.int32(0)), _advantage(value))
    if name == "critic":
        if not policy.has_critic:
            raise ValueError(
                "rollout judge='critic' with a policy without a critic: set "
                "config.policy.critic='shared', and a term that trains it"
            )
        return Judging(_of_critic, _advantage_of_critic)
    if is_outside(name):
        from agentrl.players.outside import outside  # few runs need it

        player = outside(name, env)
        return _stateless(functools.partial(_agrees_with, player))._replace(asked=player)
    if kind in ("expert", "progress") and not colon:
        check_expert(env, env_params)
        return _stateless(_agrees) if kind == "expert" else Judging(_distances, _comes_closer)
    module, dot, attribute = name.rpartition(".")
    if not dot:
        raise ValueError(f"rollout judge={name!r}: expected one of {', '.join(JUDGES)}")
    own = getattr(importlib.import_module(module), attribute)
    return _stateless(lambda scene, turn: own(scene.world, turn))


def _stateless(function: Callable[[Scene, Turn], jax.Array]) -> Judging:
    def before(scene, start):
        return jnp.zeros(jax.tree.leaves(start.state)[0].shape[0])

    return Judging(before, lambda scene, notes, turn: (function(scene, turn), notes.value))


def _seen(scene: Scene, turn: Turn) -> View:
    """The states in front of a turn, without observations."""
    assert turn.before is not None  # inside `unroll`
    nothing = jnp.zeros((turn.running.shape[0], scene.world.env.num_agents))
    return view_of(scene.world, turn.before.state, nothing)


def _as(turn: Turn, other: jax.Array) -> jax.Array:
    """1 where the turn's action, or its first one, is the other [B, 1, ...], else -1: f32[B]."""
    assert turn.action is not None  # inside `unroll`
    action = turn.action[:, :, 0] if turn.action.ndim > other.ndim else turn.action
    same = jnp.all((action == other).reshape(other.shape[0], -1), axis=1)
    return jnp.where(same, 1.0, -1.0)


def _agrees(scene: Scene, turn: Turn) -> jax.Array:
    return _as(turn, expert_actions(scene.world, _seen(scene, turn)))


def _agrees_with(player: "Asked", scene: Scene, turn: Turn) -> jax.Array:
    from agentrl.players.asked import asked_actor

    actor, view = asked_actor(player, scene.world, must_play=True), _seen(scene, turn)
    view = view._replace(acting=view.acting & turn.running[:, None])
    memory = actor.init(*view.acting.shape)  # nothing was said before
    decision, _ = actor.act(None, memory, view, scene.key)
    return jnp.where(decision.action[:, 0] < 0, 0.0, _as(turn, decision.action))


def _distances(scene: Scene, start: Start) -> jax.Array:
    """Turns that the expert needs from the states [B], f32[B]."""
    env, most = scene.world.env, scene.length
    return scene.world.vmap(lambda s, p: turns_of_expert(env, s, p, most) * 1.0)(start.state)


def _comes_closer(scene: Scene, notes: Notes, turn: Turn) -> tuple[jax.Array, jax.Array]:
    assert turn.after is not None  # inside `unroll`
    following = _distances(scene, turn.after)
    return jnp.where(following < notes.value, 1.0, -1.0), following


def turns_of_expert(env: Environment, state: EnvState, params: EnvParams, most: int) -> jax.Array:
    """Turns that the environment's expert needs from a state to success (or the end, where there is
    no success), i32[]; most + 1 if it does not get there. Every step has the same chance."""
    there = env.is_success if env.has_success else env.is_terminated

    def step(carry, _):
        state, needed, reached = carry
        action = env.expert(state, params)
        _, state, *_ = env.step_env(jax.random.key(0), state, action, params)
        needed = needed + ~reached
        return (state, needed, reached | there(state, params)), None

    first = state, jnp.zeros((), jnp.int32), there(state, params)
    (_, needed, reached), _ = jax.lax.scan(step, first, length=most)
    return jnp.where(reached, needed, most + 1)


def _continued(number: int, scene: Scene, start: Start, step: jax.Array) -> jax.Array:
    """The mean return f32[B] of `number` episodes that are played on from states in front of a
    turn; 0 of those that have ended. step: i32[], number of that turn."""
    copies = functools.partial(jnp.repeat, repeats=number, axis=0)
    world, start = scene.world, jax.tree.map(copies, start)
    if world.batched:
        world = world._replace(params=jax.tree.map(copies, world.params))
    count = jax.tree.leaves(start.state)[0].shape[0]

    def keep(total, turn):
        return total + turn.outcome.reward[:, 0], ()

    played = unroll(
        world, scene.actors(world), seat_all(world.env, count), start,
        jax.random.fold_in(scene.key, step), length=scene.length, taken=step,
        limit=scene.limit, early_exit=True, keep=keep, notes=jnp.zeros(count),
    )  # fmt: skip
    return jnp.mean(played.notes.reshape(-1, number), axis=1)


def _advantage(value: Callable[[Scene, Start, jax.Array], jax.Array]) -> Judge:
    def score(scene, notes, turn):
        following = value(scene, turn.after, notes.step + 1)
        return turn.outcome.reward[:, 0] + following - notes.value, following

    return score


def _of_critic(scene: Scene, start: Start) -> jax.Array:
    """The critic's value of the states in front of a turn, f32[B]."""
    actor, env = scene.actors(scene.world)[0], scene.world.env
    count = jax.tree.leaves(start.state)[0].shape[0]
    memory = start.memory[0] if start.memory else actor.init(count, env.num_agents)
    assert actor.value is not None  # `judging` has asked for it
    observation = start.observation
    if not actor.reads_arrays:
        observation = jnp.zeros((count, env.num_agents))
    view = view_of(scene.world, start.state, observation)
    return actor.value(actor.params, memory, view)[:, 0]


def _advantage_of_critic(scene: Scene, notes: Notes, turn: Turn) -> tuple[jax.Array, jax.Array]:
    assert turn.after is not None  # inside `unroll`
    following = _of_critic(scene, turn.after)
    following = jnp.where(turn.outcome.terminated, 0.0, following)
    return turn.outcome.reward[:, 0] + following - notes.value, following


def own_key(key: jax.Array) -> jax.Array:
    """The key of a judge, of the key of the episodes that it watches."""
    return jax.random.fold_in(key, _OWN)
