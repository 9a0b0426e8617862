"""Monte Carlo tree search with random playouts, in the graph, for games in turns.

Upper confidence bounds applied to trees (UCT): each simulation plays the game once from the present
state to its end. Within the tree it takes the action with the largest

    Q(s, a) + c sqrt(ln N(s) / N(s, a)),    actions not tried yet first,

Q the mean return of the current player of s, then one new action, which is added to the tree, and
from there random legal actions. All counts on the path are incremented, and the most visited action
is played.

Kocsis and Szepesvari (2006), Bandit based Monte-Carlo planning; two players as in Browne et al.
(2012), A survey of Monte Carlo tree search methods (both reconstructed). Here each agent maximises
its own return, so that games need not be zero-sum nor turns alternate. The tree is open-loop (Perez
et al., 2015): a node is a sequence of actions and of players after each, not a state. Every
simulation replays its path with its own randomness, so a search never knows future dice; in
deterministic games the two are the same.

The library mctx was considered (0.0.71 ran on our jax; with the same playouts from 256 empty boards
of Tic-tac-toe, 100 simulations each, it took four times as long on two CPU cores). It keeps one
state per node, so chance is either drawn once or modelled separately, expands by a policy's priors,
and gives one reward to two strictly opposed players; little of it would be left after replacing
these.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from envs.environment import Environment
from envs.game import GameParams, TurnGame


class _Tree(NamedTuple):
    """M nodes, node 0 the present state; -1 for none.

    child: i32[M, num_actions, A], by action and next player. visits: i32[M, num_actions].
    total: f32[M, num_actions], returns of the node's current player. mover: i32[M]. size: i32[].
    """

    child: jax.Array
    visits: jax.Array
    total: jax.Array
    mover: jax.Array
    size: jax.Array


class _Playout(NamedTuple):
    """The state of a simulation, without the tree: a loop of many lanes copies its carry.

    node: i32[], its node in the tree, -1 outside. depth: i32[], length of its path: nodes,
    actions i32[D]. next: i32[], the player after the last action of the path. returns: f32[A].
    """

    key: jax.Array
    state: chex.ArrayTree
    node: jax.Array
    depth: jax.Array
    nodes: jax.Array
    actions: jax.Array
    next: jax.Array
    returns: jax.Array


def check_searchable(env: Environment, what: str) -> None:
    """ValueError unless search from an environment's states is possible, and fair."""
    if not env.in_turns:
        raise ValueError(f"{what} with {env.name}: expected a game in turns (envs.game.TurnGame)")
    if not env.perfect_information:
        raise ValueError(
            f"{what} with {env.name}: who searches from the state would see what is hidden from "
            "the seat; only games with perfect_information=True can be searched"
        )


def make_search(
    env: TurnGame, env_params: GameParams, *, simulations: int, exploration: float = math.sqrt(2)
) -> Callable[..., jax.Array]:
    """(state, wanted bool[], key) -> action i32[] of the current player, for one state.

    Args:
      simulations: playouts per move; the tree has as many nodes.
      exploration: c, for returns between -1 and 1; between 1 and 2 it hardly matters (Tic-tac-toe).

    If not `wanted`, nothing is simulated. Ties are broken at random.

    Raises:
      ValueError: the game has hidden information, or its agents do not move in turns.
    """
    check_searchable(env, f"mcts:{simulations}")
    check_range("simulations", simulations, 1)
    rules = _Rules(env, env_params, simulations, exploration)

    def choose(state, wanted, key):
        last_key, key = jax.random.split(key)
        tree = jax.lax.fori_loop(
            0,
            simulations,
            lambda i, tree: _simulate(rules, state, wanted, jax.random.fold_in(key, i), tree),
            _empty(rules, state),
        )
        return any_best(tree.visits[0], env.legal(state, env_params), last_key)

    return choose


class _Rules(NamedTuple):
    """The game that is searched, and how: see `make_search`."""

    env: TurnGame
    params: GameParams
    simulations: int
    exploration: float


def _empty(rules: _Rules, state: chex.ArrayTree) -> _Tree:
    """The tree before the first simulation."""
    env, nodes = rules.env, rules.simulations
    return _Tree(
        child=jnp.full((nodes, env.num_actions, env.num_agents), -1, jnp.int32),
        visits=jnp.zeros((nodes, env.num_actions), jnp.int32),
        total=jnp.zeros((nodes, env.num_actions)),
        mover=jnp.zeros(nodes, jnp.int32).at[0].set(env.mover(state, rules.params)),
        size=jnp.int32(1),
    )


def _bound(rules: _Rules, tree: _Tree, node: jax.Array) -> jax.Array:
    """Upper confidence bounds of a node's actions, f32[num_actions]."""
    visits, total = tree.visits[node], tree.total[node]
    tries = jnp.maximum(visits, 1)
    known = total / tries + rules.exploration * jnp.sqrt(
        jnp.log(jnp.maximum(jnp.sum(visits), 1)) / tries
    )
    return jnp.where(visits > 0, known, jnp.inf)


def _move(rules: _Rules, tree: _Tree, at: _Playout) -> _Playout:
    env, env_params = rules.env, rules.params
    key, pick_key, step_key = jax.random.split(at.key, 3)
    inside = at.node >= 0
    here = jnp.maximum(at.node, 0)
    action = any_best(
        jnp.where(inside, _bound(rules, tree, here), 0.0), env.legal(at.state, env_params), pick_key
    )
    _, state, reward, _, _ = env.step_env(step_key, at.state, action, env_params)
    mover = env.mover(state, env_params)
    place = jnp.where(inside, at.depth, at.nodes.shape[0])  # out of range: dropped
    return _Playout(
        key,
        state,
        jnp.where(inside, tree.child[here, action, mover], -1),
        at.depth + inside,
        at.nodes.at[place].set(here, mode="drop"),
        at.actions.at[place].set(action, mode="drop"),
        jnp.where(inside, mover, at.next),
        at.returns + reward,
    )


def _simulate(
    rules: _Rules, state: chex.ArrayTree, wanted: jax.Array, key: jax.Array, tree: _Tree
) -> _Tree:
    """The tree after one more simulation."""
    env, env_params, simulations = rules.env, rules.params, rules.simulations
    longest = min(int(env_params.max_steps_in_episode), simulations)

    def going(at):
        return wanted & env.is_running(at.state, env_params)

    path = jnp.full(longest, simulations, jnp.int32)
    zero = jnp.int32(0)
    at = _Playout(key, state, zero, zero, path, path, zero, jnp.zeros(env.num_agents))
    at = jax.lax.while_loop(going, functools.partial(_move, rules, tree), at)
    # The end of the path is added to the tree, unless the game ended inside of it.
    last = at.depth - 1
    edge = (at.nodes[last], at.actions[last], at.next)
    joins = wanted & (at.depth > 0) & (tree.child[edge] < 0) & (tree.size < simulations)
    new = jnp.where(joins, tree.size, simulations)
    gained = at.returns[tree.mover[jnp.minimum(at.nodes, simulations - 1)]]
    return _Tree(
        child=tree.child.at[jnp.where(joins, edge[0], simulations), edge[1], edge[2]].set(
            new, mode="drop"
        ),
        visits=tree.visits.at[at.nodes, at.actions].add(1, mode="drop"),
        total=tree.total.at[at.nodes, at.actions].add(gained, mode="drop"),
        mover=tree.mover.at[new].set(at.next, mode="drop"),
        size=tree.size + joins,
    )


def any_best(score: jax.Array, legal: jax.Array, key: jax.Array) -> jax.Array:
    """A uniformly random one of the legal actions with the largest score, i32[]. score, legal:
    [num_actions]."""
    score = jnp.where(legal, score.astype(jnp.float32), -jnp.inf)
    best = legal & (score == jnp.max(score))
    draw = jax.random.uniform(key, best.shape)
    return jnp.argmax(jnp.where(best, draw, -1.0)).astype(jnp.int32)
