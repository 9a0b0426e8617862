"""Tabular games: rules of `envs` enumerated once, on the host, into sequence form.

Any rules in the form of `envs.rules_game` that have `deals` are a table. Private cards and all
later chance outcomes are dealt at the root, so the tree below a deal has no chance nodes; outcomes
that no player has seen yet are in no information state and change no value. A player remembers what
it saw and did, so what `information_state` says of a position need not say how it came about. Order
of the rows: a player's information states in the order of a depth-first traversal, in which chance
moves when the players observe it, as OpenSpiel's; so are the strings of its games.
"""

import functools
from types import ModuleType
from typing import Any, NamedTuple

import chex
import jax
import numpy as np

from agentrl.selfplay.sequence_form import SequenceForm
from envs.kuhn_poker import rules as kuhn_poker
from envs.leduc_poker import rules as leduc_poker
from envs.liars_dice import rules as liars_dice
from envs.nim import rules as nim
from envs.trade_comm import rules as trade_comm

GAMES = {
    "KuhnPoker-v1": kuhn_poker,
    "LeducPoker-v1": leduc_poker,
    "LiarsDice-v1": liars_dice,
    "Nim-v1": nim,
    "TradeComm-v1": trade_comm,
}
_CHUNK = 1024
# States of a tree, histories one by one.
_MOST = 200_000


@functools.cache
def sequence_form(name: str, **options: int | tuple[int, ...]) -> SequenceForm:
    """The sequence form of a tabular game by name; the options are those of the rules' `deals`.

    "KuhnPoker-v1" (players=2), "LeducPoker-v1", "LiarsDice-v1" (one die each), "Nim-v1"
    (piles=(3, 4, 5), which is too large), "TradeComm-v1" (num_items=2).

    Raises:
      ValueError: no such game, an option that the rules refuse, or more than 200,000 histories.
    """
    if name not in GAMES:
        raise ValueError(f"no tabular game {name!r}; there are {', '.join(sorted(GAMES))}")
    return enumerate_game(GAMES[name], **options)


class _Node(NamedTuple):
    """A state of the rules, how it came about (number of the deal, actions), and each player's last
    sequence (number of the row, action), None for none."""

    state: chex.ArrayTree
    path: tuple[int, ...]
    last: tuple[tuple[int, int] | None, ...]


class _Row(NamedTuple):
    """An information state: what its player knows now, the player's own sequence before, legal
    actions, place in the traversal, and a state in which the player knows that."""

    player: int
    knows: str
    before: tuple[int, int] | None
    legal: np.ndarray
    place: tuple[int, ...]
    state: chex.ArrayTree


def _expand(rules: ModuleType, num_actions: int):
    """Player, terminal, legal, returns and all successors of a list of states, in one program."""

    @jax.jit
    @jax.vmap
    def look(state):
        after = jax.vmap(lambda action: rules.play(state, action))(np.arange(num_actions))
        return (
            rules.player(state),
            rules.terminal(state),
            rules.legal(state),
            rules.returns(state),
            after,
        )

    def expand(states):
        for start in range(0, len(states), _CHUNK):
            chunk = states[start : start + _CHUNK]
            padded = chunk + chunk[:1] * (_CHUNK - len(chunk))
            facts = jax.device_get(look(jax.tree.map(lambda *x: np.stack(x), *padded)))
            for i in range(len(chunk)):
                yield jax.tree.map(lambda x, i=i: x[i], facts)

    return expand


def enumerate_game(rules: ModuleType, **options: int | tuple[int, ...]) -> SequenceForm:
    """Traverses the tree of the rules level by level and folds it into sequence form.

    ValueError for a tree of more than 200,000 states.
    """
    deals = jax.device_get(rules.deals(**options))
    num_actions = jax.eval_shape(jax.vmap(rules.legal), deals).shape[1]
    num_players = jax.eval_shape(jax.vmap(rules.returns), deals).shape[1]
    count = jax.tree.leaves(deals)[0].shape[0]
    expand = _expand(rules, num_actions)
    nodes = [
        _Node(jax.tree.map(lambda x, i=i: x[i], deals), (i,), (None,) * num_players)
        for i in range(count)
    ]
    numbers: dict[Any, int] = {}
    rows: list[_Row] = []
    ends: dict[Any, np.ndarray] = {}
    visited = 0
    while nodes:
        visited += len(nodes)
        if visited > _MOST:
            raise ValueError(
                f"the tree of {rules.__name__} with options {options} has more than {_MOST:,} "
                "histories; give options of a smaller game, as Nim's piles=(1, 2, 3)"
            )
        below = []
        facts = expand([node.state for node in nodes])
        for node, (player, terminal, legal, paid, after) in zip(nodes, facts, strict=True):
            if terminal:
                ends[node.last] = ends.get(node.last, 0.0) + np.asarray(paid, float)
                continue
            number = _add(rules, numbers, rows, node, int(player), legal)
            for action in np.flatnonzero(legal).tolist():
                last = list(node.last)
                last[player] = (number, action)
                state = jax.tree.map(lambda x, a=action: x[a], after)
                below.append(_Node(state, (*node.path, action), tuple(last)))
        nodes = below
    return _fold(rows, ends, count)


def _add(
    rules: ModuleType,
    numbers: dict,
    rows: list[_Row],
    node: _Node,
    player: int,
    legal: np.ndarray,
) -> int:
    """The number of a node's information state, which joins the rows if it is new."""
    knows, before = rules.information_state(node.state, player), node.last[player]
    place = rules.history(node.state) if hasattr(rules, "history") else node.path
    number = numbers.setdefault((player, knows, before), len(rows))
    row = _Row(player, knows, before, legal, place, node.state)
    if number == len(rows):
        rows.append(row)
    elif not np.array_equal(rows[number].legal, legal):
        raise ValueError(f"player {player}, {knows!r}: expected the same legal actions everywhere")
    elif place < rows[number].place:
        rows[number] = row
    return number


def _names(rows: list[_Row]) -> list[str]:
    """What each row's player knows; behind what it knew and did before, if that is not enough."""
    if len({(row.player, row.knows) for row in rows}) == len(rows):
        return [row.knows for row in rows]
    names: list[str] = []
    for row in rows:
        past = f"{names[row.before[0]]} > {row.before[1]} > " if row.before else ""
        names.append(past + row.knows)
    return names


def _fold(rows: list[_Row], ends: dict, deals: int) -> SequenceForm:
    """Orders rows and sequences, and builds the arrays."""
    names, num_actions = _names(rows), len(rows[0].legal)
    order = sorted(range(len(rows)), key=lambda i: (rows[i].player, rows[i].place))
    index = {number: i for i, number in enumerate(order)}
    depth: list[int] = []
    for row in rows:
        depth.append(1 + depth[row.before[0]] if row.before else 0)
    depths = np.array([depth[i] for i in order])

    def sequence(last, player):
        if last is None:
            return len(rows) * num_actions + player
        return index[last[0]] * num_actions + last[1]

    ordered = [rows[i] for i in order]
    return SequenceForm(
        infostates=tuple(names[i] for i in order),
        player=np.array([row.player for row in ordered], np.int32),
        legal=np.stack([row.legal for row in ordered]),
        parent=np.array([sequence(row.before, row.player) for row in ordered], np.int32),
        levels=tuple(np.flatnonzero(depths == d).astype(np.int32) for d in range(depths.max() + 1)),
        sequences=np.array([[sequence(s, p) for p, s in enumerate(z)] for z in ends], np.int32),
        payoff=np.stack(list(ends.values())) / deals,
        states=jax.tree.map(lambda *x: np.stack(x), *(row.state for row in ordered)),
    )
