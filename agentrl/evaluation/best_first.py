"""Best-first search over a policy's turns: from B states at once, each to a goal of its own.

Letters: B searches; W replies of an expansion; N expansions at most; M = 1 + N W slots, slot 0 for
the state that the search begins at, slots 1 + i W to (i + 1) W for what expansion i leads to.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor
from agentrl.checks import check_range
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import unroll
from envs.vector import World


class Found(NamedTuple):
    """What B searches ended with, [B, ...].

    reached: bool, the goal, or the end of the task. success: bool, the task is solved. steps: i32,
    turns from the first state. nodes: i32, states that were expanded. code: u32[B, 2], fingerprint
    of the last state. point: state and observation there; where not reached, those at the start.
    """

    reached: jax.Array
    success: jax.Array
    steps: jax.Array
    nodes: jax.Array
    code: jax.Array
    point: Start


class _Tree(NamedTuple):
    """Slots of B searches, [B, M, ...]. score: f32, -inf unless the state can be expanded. path:
    f32, log-probability of the replies that led there; steps: i32, their number. code: u32[.., 2].
    """

    point: Start
    score: jax.Array
    path: jax.Array
    steps: jax.Array
    code: jax.Array


class _Progress(NamedTuple):
    """The state of B searches. number: i32[], expansions so far of those that go on. slot: i32[B],
    where the goal was reached, -1 for not yet. success: bool[B]. nodes: i32[B]."""

    number: jax.Array
    tree: _Tree
    slot: jax.Array
    success: jax.Array
    nodes: jax.Array


def code_of(world: World, state: chex.ArrayTree, of: str) -> jax.Array:
    """Fingerprints of states [B, ...], or of their observations, u32[B, 2]."""
    return world.vmap(functools.partial(world.env.fingerprint, of=of))(state)[:, 0]


def priority(path: jax.Array, turns: jax.Array, power: float) -> jax.Array:
    """Log-probability of a path divided by its length to the power alpha; 0 of no turns.

    Args:
      path: sum of the log-probabilities of its turns. turns: their number, of the same shape.
      power: alpha; 0: the likeliest path is first, 1: the one with the likeliest turns.

    Returns:
      An array of their shape; larger is expanded earlier.

    References:
      Xin et al. (2025), BFS-Prover, https://arxiv.org/abs/2502.03438, from notes; no code.
    """
    return path / jnp.maximum(turns, 1) ** power


@dataclasses.dataclass(frozen=True, eq=False)
class BestFirst:
    """Search for a state in which a goal holds, with a policy that proposes turns.

    The open state with the largest priority is expanded: the policy is asked for W replies, and the
    states that they lead to are open, unless the search has met them before or the episode ends
    there. Of equals the one that was met first. The priority of a state is

        sum_i log pi(reply_i | state_i) / t^alpha

    over the t replies that led to it (`priority`). A search ends at its goal, at the end of a
    solved task, when no state is open, or when its nodes are spent. Replies are to the state alone,
    as at the first turn of an episode: that is how a prover reads a proof state.

    States are kept, not played again, so a path is a solution where steps draw nothing at random.

    world: without parameters per episode. actor: (params) -> the policy. nodes: N. width: W. power:
    alpha.

    References:
      Xin et al. (2025), BFS-Prover-V2, https://arxiv.org/abs/2509.06493, from notes; no code.
    """

    world: World
    actor: Callable[[chex.ArrayTree], Actor]
    nodes: int
    width: int
    power: float

    def __call__(
        self,
        params: chex.ArrayTree,
        point: Start,
        goal: jax.Array,
        budget: jax.Array,
        key: jax.Array,
    ) -> Found:
        """Searches from the points [B, ...].

        Args:
          params: of the policy. point: states, and observations where the policy reads them.
          goal: u32[B, 2], fingerprint of the observation to be reached; zeros: a solved task alone.
          budget: i32[B], states that may be expanded, at most N; 0: nothing is searched.
          key: randomness of replies.
        """
        actor = self.actor(params)
        first = self._start(point, goal)

        def going(now):
            return (now.number < self.nodes) & jnp.any(self._goes(now, budget))

        def body(now):
            chance = jax.random.fold_in(key, now.number)
            return self._expand(actor, goal, now, self._goes(now, budget), chance)

        end = jax.lax.while_loop(going, body, first)
        slot = jnp.maximum(end.slot, 0)
        return Found(
            reached=end.slot >= 0,
            success=end.success,
            steps=_at(end.tree.steps, slot),
            nodes=end.nodes,
            code=_at(end.tree.code, slot),
            point=jax.tree.map(lambda x: _at(x, slot), end.tree.point),
        )

    def _start(self, point: Start, goal: jax.Array) -> _Progress:
        """Searches that have expanded nothing."""
        env, count, room = self.world.env, goal.shape[0], self.nodes * self.width
        success = self.world.vmap(env.is_success)(point.state)
        met = success | jnp.all(code_of(self.world, point.state, "observation") == goal, axis=1)
        over = self.world.vmap(env.is_terminated)(point.state)
        over |= self.world.vmap(env.is_truncated)(point.state)

        def with_room(x):
            return jnp.concatenate([x[:, None], jnp.zeros((count, room, *x.shape[1:]), x.dtype)], 1)

        zeros, none = jnp.zeros((count, 1 + room)), jnp.zeros(count, jnp.int32)
        tree = _Tree(
            point=jax.tree.map(with_room, point),
            score=(zeros - jnp.inf).at[:, 0].set(jnp.where(over, -jnp.inf, 0.0)),
            path=zeros,
            steps=zeros.astype(jnp.int32),
            code=with_room(code_of(self.world, point.state, "state")),
        )
        return _Progress(jnp.int32(0), tree, jnp.where(met, 0, -1), success, none)

    def _goes(self, now: _Progress, budget: jax.Array) -> jax.Array:
        """Searches that go on, bool[B]."""
        is_open = jnp.any(now.tree.score > -jnp.inf, axis=1)
        return (now.slot < 0) & (now.nodes < budget) & is_open

    def _expand(
        self, actor: Actor, goal: jax.Array, now: _Progress, goes: jax.Array, key: jax.Array
    ) -> _Progress:
        """One expansion of each search that goes on."""
        tree, first = now.tree, 1 + now.number * self.width
        best = jnp.argmax(tree.score, axis=1)
        point = jax.tree.map(lambda x: _at(x, best), tree.point)
        logp, success, over, point = self._tried(actor, point, goes, key)
        path = _at(tree.path, best)[:, None] + logp
        steps = jnp.broadcast_to(_at(tree.steps, best)[:, None] + 1, path.shape)
        state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), point.state)
        code, shown = (
            code_of(self.world, state, of).reshape(*path.shape, 2)
            for of in ("state", "observation")
        )
        met = goes[:, None] & (success | jnp.all(shown == goal[:, None], axis=2))
        is_open = goes[:, None] & ~over & ~self._known(tree.code, code, first)
        score = jnp.where(is_open, priority(path, steps, self.power), -jnp.inf)
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=1)
        here = jnp.arange(tree.score.shape[1]) == best[:, None]
        tree = tree._replace(score=jnp.where(here & goes[:, None], -jnp.inf, tree.score))
        found, which = jnp.any(met, axis=1), jnp.argmax(met, axis=1)
        return _Progress(
            number=now.number + 1,
            tree=jax.tree.map(put, tree, _Tree(point, score, path, steps, code)),
            slot=jnp.where(found, first + which, now.slot).astype(jnp.int32),
            success=now.success | (found & _at(success, which)),
            nodes=now.nodes + goes,
        )

    def _tried(
        self, actor: Actor, point: Start, goes: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, Start]:
        """W turns from each of the points [B, ...]: (log-probability f32[B, W], whether the task is
        solved and whether the episode is over bool[B, W], points [B, W, ...])."""
        batch = goes.shape[0] * self.width
        start = jax.tree.map(lambda x: jnp.repeat(x, self.width, axis=0), point)
        played = unroll(
            self.world,
            [actor],
            seat_all(self.world.env, batch),
            start._replace(running=jnp.repeat(goes, self.width)),
            key,
            length=1,
            limit=2,  # the turn is not the episode's last one because the loop ends
            keep=_kept,
        )
        logp, success, over = (x[0] for x in played.turns)
        end = Start(played.final.state, played.final.observation)
        return jax.tree.map(
            lambda x: x.reshape(goes.shape[0], self.width, *x.shape[1:]),
            (logp, success, over, end),
        )

    def _known(self, known: jax.Array, code: jax.Array, first: jax.Array) -> jax.Array:
        """Whether states u32[B, W, 2] are in the slots before `first`, or occur earlier among
        themselves, bool[B, W]."""
        there = jnp.arange(known.shape[1]) < first
        before = jnp.all(code[:, :, None] == known[:, None], axis=3) & there
        earlier = jnp.tril(jnp.ones((self.width, self.width), bool), -1)
        beside = jnp.all(code[:, :, None] == code[:, None], axis=3) & earlier
        return jnp.any(before, axis=2) | jnp.any(beside, axis=2)


def _at(x: jax.Array, slot: jax.Array) -> jax.Array:
    """Of x [B, M, ...] each search's own slot i32[B]: x[b, slot[b]], [B, ...]."""
    return jax.vmap(lambda row, i: row[i])(x, slot)


def _kept(notes: chex.ArrayTree, turn: Turn) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """For `unroll`: what a search reads of a turn, [B] each."""
    outcome = turn.outcome
    assert turn.decision.logp is not None  # it is a policy's
    over = outcome.terminated | outcome.truncated
    return notes, (turn.decision.logp[:, 0], outcome.success[:, 0], over)


def best_first(
    world: World,
    actor: Callable[[chex.ArrayTree], Actor],
    *,
    nodes: int,
    width: int = 4,
    power: float = 1.0,
) -> BestFirst:
    """A `BestFirst` search, to be compiled.

    Raises:
      ValueError: several agents, an environment in Python, a policy that needs its earlier turns,
        or an option outside its range.
    """
    check_range("search nodes", nodes, 1)
    check_range("search width", width, 1)
    check_range("search power", power, 0.0)
    if world.env.in_python or world.env.num_agents > 1:
        raise ValueError(
            f"search in {world.env.name}: it needs an environment in the graph with one agent; "
            "play it with --attempts"
        )
    if actor(None).remembers:
        raise ValueError(
            "search with a policy that remembers its earlier turns: it replies to the state alone; "
            "train it without memory, in words with config.context=section(contexts.window, "
            "history=0)"
        )
    return BestFirst(world, actor, nodes, width, power)
