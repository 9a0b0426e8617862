"""Rules that choose the node of a tree of turns from which its next episode continues.

Letters: E episodes of a tree, T turns.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.evaluation.best_first import priority
from agentrl.methods.tree_values import TreeValues


class Tree(NamedTuple):
    """A tree of E episodes, [E, T] each; what is 0 where nobody acted is not read there.

    acted: bool. node, turn: i32, the first episode with the same turns before, and up to, this one.
    node_visits, visits: i32, episodes with these turns. children: i32, different turns from the
    node. node_value, value: f32, mean returns to go from the node, and with this turn. logp: f32 of
    the turn. path: f32, sum of logp over the turns before.
    """

    acted: jax.Array
    node: jax.Array
    turn: jax.Array
    node_visits: jax.Array
    visits: jax.Array
    children: jax.Array
    node_value: jax.Array
    value: jax.Array
    logp: jax.Array
    path: jax.Array


class Options(NamedTuple):
    """width: children of a node. exploration: c of uct and puct. power: alpha of best_first."""

    width: int
    exploration: float
    power: float


# (tree, options, draw f32[] in [0, 1)) -> the node in front of turn i32[] of episode i32[], the
# first that has it.
Rule = Callable[[Tree, Options, jax.Array], tuple[jax.Array, jax.Array]]


def tree_of(found: TreeValues, acted: jax.Array, prefix: jax.Array, logp: jax.Array) -> Tree:
    """A tree from arrays [E, T] of its episodes. prefix: i32, by number in the tree."""
    logp = jnp.where(acted, logp, 0.0)
    before = jnp.concatenate([jnp.zeros_like(prefix[:, :1]), prefix[:, :-1]], axis=1)
    return Tree(
        acted=acted,
        node=before,
        turn=prefix,
        node_visits=found.node_visits,
        visits=found.visits,
        children=found.children,
        node_value=found.node,
        value=found.turn,
        logp=logp,
        path=jnp.cumsum(logp, axis=1) - logp,
    )


def _number(tree: Tree) -> jax.Array:
    return jnp.arange(tree.acted.shape[0], dtype=jnp.int32)


def _shallowest(score: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(episode, turn) of the largest f32[E, T]; of equals the earliest turn, then episode. The root
    where all are -inf."""
    best = jnp.argmax(score.T.reshape(-1)).astype(jnp.int32)
    return best % score.shape[0], best // score.shape[0]


def _nodes(tree: Tree) -> jax.Array:
    """bool[E, T], true at the first episode of each node."""
    return tree.acted & (tree.node == _number(tree)[:, None])


def _of_open(tree: Tree, options: Options, score: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The best of the nodes with fewer than `width` children."""
    return _shallowest(jnp.where(_nodes(tree) & (tree.children < options.width), score, -jnp.inf))


def root(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The start: independent episodes."""
    del tree, options, draw
    return jnp.int32(0), jnp.int32(0)


def uniform(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Any node, each with the same probability: of n nodes in the order of their depth the one at
    floor(draw n). Trees with one draw continue from about the same depth, and end together."""
    del options
    nodes = _nodes(tree)
    rank = jnp.cumsum(nodes.T.reshape(-1)) - 1
    wanted = jnp.minimum(jnp.floor(draw * jnp.sum(nodes)), jnp.sum(nodes) - 1)
    return _shallowest(jnp.where(nodes & (rank.reshape(nodes.T.shape).T == wanted), 0.0, -jnp.inf))


def breadth(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The shallowest open node."""
    del draw
    return _of_open(tree, options, jnp.zeros(tree.acted.shape))


def best_first(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The open node with the largest log-likelihood of its t turns, divided by t^alpha (BFS-Prover,
    https://arxiv.org/abs/2502.03438); 0 at the root."""
    del draw
    turn = jnp.arange(tree.acted.shape[1])
    return _of_open(tree, options, priority(tree.path, turn, options.power))


def best_value(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The open node with the largest mean return to go."""
    del draw
    return _of_open(tree, options, tree.node_value)


def _descend(
    tree: Tree, options: Options, score: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """From the root along the children with the largest score(t, visits of the node, children
    bool[E]) f32[E], to a node that is open or all of whose children have ended."""
    number = _number(tree)
    goes_on = jnp.pad(tree.acted[:, 1:], ((0, 0), (0, 1)))

    def down(carry, t):
        at, turn, there = carry
        kids = tree.acted[:, t] & (tree.node[:, t] == at) & (tree.turn[:, t] == number)
        inner = kids & goes_on[:, t]
        there |= (tree.children[at, t] < options.width) | ~jnp.any(inner)
        best = jnp.where(inner, score(t, tree.node_visits[at, t], kids), -jnp.inf)
        chosen = jnp.argmax(best).astype(jnp.int32)
        return (jnp.where(there, at, chosen), jnp.where(there, turn, t + 1), there), None

    start = (jnp.int32(0), jnp.int32(0), jnp.zeros((), bool))
    (at, turn, _), _ = jax.lax.scan(down, start, jnp.arange(tree.acted.shape[1], dtype=jnp.int32))
    return at, turn


def uct(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Down by Q + c sqrt(ln N / n) to an open node; Q and n of a turn, N of the node in front.

    Kocsis and Szepesvari (2006), Bandit based Monte-Carlo planning. Agent Q has 1 + n, since it
    scores actions that were never played.
    """
    del draw

    def score(t, passed, kids):
        del kids
        seen = jnp.log(jnp.maximum(passed, 1)) / jnp.maximum(tree.visits[:, t], 1)
        return tree.value[:, t] + options.exploration * jnp.sqrt(seen)

    return _descend(tree, options, score)


def puct(tree: Tree, options: Options, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Down by Q + c P sqrt(N) / (1 + n); P is the policy's probability of the turn, normalised over
    the children (Silver et al., 2017, https://arxiv.org/abs/1712.01815)."""
    del draw

    def score(t, passed, kids):
        prior = jax.nn.softmax(jnp.where(kids, tree.logp[:, t], -1e30))
        bonus = prior * jnp.sqrt(passed * 1.0) / (1 + tree.visits[:, t])
        return tree.value[:, t] + options.exploration * bonus

    return _descend(tree, options, score)


RULES: dict[str, Rule] = {
    "root": root,
    "uniform": uniform,
    "breadth": breadth,
    "uct": uct,
    "puct": puct,
    "best_first": best_first,
    "best_value": best_value,
}


def check_rule(rule: str, options: Options) -> None:
    """ValueError for a rule of no name, or options outside their ranges."""
    check_choice("rollout rule", rule, RULES)
    check_range("rollout width", options.width, 1)
    check_range("rollout exploration", options.exploration, 0.0)
    check_range("rollout power", options.power, 0.0)


def chosen(
    tree: Tree, rule: str, options: Options, draw: jax.Array, count: int
) -> tuple[jax.Array, jax.Array]:
    """The nodes of the next K = count episodes, (episode, turn) i32[K] each. draw: f32[], uniform
    in [0, 1); that of episode k is frac(draw + k / n) in a tree of n nodes, a node further.

    Those that are chosen count as visits, without a return, and each as a child of its node, before
    the next is chosen (Liu et al., 2020, WU-UCT, https://arxiv.org/abs/1810.11755).
    """
    nodes = jnp.maximum(jnp.sum(_nodes(tree)), 1)

    def choose(tree, k):
        at, turn = RULES[rule](tree, options, jnp.mod(draw + k / nodes, 1.0))
        t = jnp.arange(tree.acted.shape[1])
        passes = tree.acted & (tree.node == tree.node[at]) & (t <= turn)
        took = tree.acted & (tree.turn == tree.turn[at]) & (t < turn)
        tree = tree._replace(
            node_visits=tree.node_visits + passes,
            visits=tree.visits + took,
            children=tree.children + (passes & (t == turn)),
        )
        return tree, (at, turn)

    return jax.lax.scan(choose, tree, jnp.arange(count))[1]
