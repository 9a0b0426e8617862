"""Tabular games: rules of `envs` enumerated once, on the host, into sequence form.

Private cards and all later chance outcomes are dealt at the root, so the tree below a deal has no
chance nodes; outcomes that no player has seen yet are in no information state and change no value.
Strings and order of the rows are OpenSpiel's: a player's information states in the order of a
depth-first traversal, in which chance moves when the players observe it.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.selfplay.sequence_form import SequenceForm
from envs.kuhn_poker import rules as kuhn
from envs.leduc_poker import rules as leduc
from envs.trade_comm import rules as trade_comm

_CHUNK = 1024


class Rules(NamedTuple):
    """Interface of a game: pure rules of one state, and functions that read a state on the host.

    deals: the arguments of `initial`, all equally likely. infostate: knowledge of the acting
    player. order: the players' actions and chance's moves in the order in which they are observed.
    """

    num_players: int
    num_actions: int
    deals: list[tuple[int, ...]]
    initial: Callable[[Any], Any]
    player: Callable[[Any], jax.Array]
    terminal: Callable[[Any], jax.Array]
    legal: Callable[[Any], jax.Array]
    play: Callable[[Any, Any], Any]
    returns: Callable[[Any], jax.Array]
    infostate: Callable[[Any, int], str]
    order: Callable[[Any], tuple[int, ...]]


def _taken(actions) -> list[int]:
    return [int(a) for a in actions if a >= 0]


def _kuhn(players: int = 2) -> Rules:
    if players < 2:
        raise ValueError(f"KuhnPoker-v1: players={players}; expected at least 2")
    return Rules(
        players,
        kuhn.NUM_ACTIONS,
        list(itertools.permutations(range(players + 1), players)),
        kuhn.initial,
        kuhn.player,
        kuhn.terminal,
        kuhn.legal,
        kuhn.play,
        kuhn.returns,
        lambda s, p: f"{s.cards[p]}" + "".join("pb"[a] for a in _taken(s.actions)),
        lambda s: (*s.cards.tolist(), *_taken(s.actions)),
    )


def _leduc() -> Rules:
    def infostate(s, p):
        public = f"[Public: {s.cards[2]}]" if s.round > 0 else ""
        rounds = "".join(
            f"[Round{i + 1}: {' '.join(map(str, _taken(s.actions[i])))}]" for i in range(2)
        )
        return (
            f"[Observer: {p}][Private: {s.cards[p]}][Round {s.round + 1}][Player: {p}]"
            f"[Pot: {s.paid.sum()}][Money: {100 - s.paid[0]} {100 - s.paid[1]}]{public}{rounds}"
        )

    def order(s):
        public = [int(s.cards[2])] if s.round > 0 else []
        private = s.cards[:2].tolist()
        return (*private, *_taken(s.actions[0]), *public, *_taken(s.actions[1]))

    return Rules(
        2,
        leduc.NUM_ACTIONS,
        list(itertools.permutations(range(leduc.NUM_CARDS), 3)),
        leduc.initial,
        leduc.player,
        leduc.terminal,
        leduc.legal,
        leduc.play,
        leduc.returns,
        infostate,
        order,
    )


def _trade_comm(num_items: int = 2) -> Rules:
    if num_items < 1:
        raise ValueError(f"TradeComm-v1: num_items={num_items}; expected at least 1")

    def infostate(s, p):
        taken = _taken(s.actions)
        said, offers = taken[:2], taken[2:]
        phase = "comm" if len(said) < 2 else "trade"
        return (
            f"Current turn: {p}\nMy item: {s.items[p]}\nPhase: {phase}\n"
            f"Comm history: {''.join(f' {a}' for a in said)}\nTrade history size: {len(offers)}\n"
        )

    return Rules(
        2,
        trade_comm.num_actions(num_items),
        list(itertools.product(range(num_items), repeat=2)),
        trade_comm.initial,
        trade_comm.player,
        trade_comm.terminal,
        lambda s: trade_comm.legal(s, num_items),
        trade_comm.play,
        lambda s: trade_comm.returns(s, num_items),
        infostate,
        lambda s: (*s.items.tolist(), *_taken(s.actions)),
    )


GAMES = {"KuhnPoker-v1": _kuhn, "LeducPoker-v1": _leduc, "TradeComm-v1": _trade_comm}


@functools.cache
def sequence_form(name: str, **options: int) -> SequenceForm:
    """The sequence form of a tabular game by name.

    "KuhnPoker-v1" (players=2), "LeducPoker-v1", "TradeComm-v1" (num_items=2).
    """
    if name not in GAMES:
        raise ValueError(f"no tabular game {name!r}; there are {', '.join(sorted(GAMES))}")
    return enumerate_game(GAMES[name](**options))


class _Node(NamedTuple):
    """A state of the rules, and each player's last sequence (infostate, action) or None."""

    state: Any
    last: tuple


def _expand(rules: Rules):
    """Player, terminal, legal, returns and all successors of a list of states, in one program."""

    @jax.jit
    @jax.vmap
    def look(state):
        after = jax.vmap(lambda action: rules.play(state, action))(np.arange(rules.num_actions))
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


def enumerate_game(rules: Rules) -> SequenceForm:
    """Traverses the tree of the rules level by level and folds it into sequence form."""
    expand = _expand(rules)
    deals = jax.device_get(jax.vmap(rules.initial)(np.array(rules.deals, np.int32)))
    nodes = [
        _Node(jax.tree.map(lambda x, i=i: x[i], deals), (None,) * rules.num_players)
        for i in range(len(rules.deals))
    ]
    # By (player, string): first position in the traversal, legal actions, parent sequence, a
    # state.
    seen, ends = {}, {}
    while nodes:
        below = []
        facts = expand([node.state for node in nodes])
        for node, (player, terminal, legal, paid, after) in zip(nodes, facts, strict=True):
            if terminal:
                ends[node.last] = ends.get(node.last, 0.0) + np.asarray(paid, float)
                continue
            player = int(player)
            key = (player, rules.infostate(node.state, player))
            here = (rules.order(node.state), legal, node.last[player], node.state)
            first = seen.setdefault(key, here)
            if not np.array_equal(first[1], legal) or first[2] != node.last[player]:
                raise ValueError(
                    f"{key}: different legal actions or own moves; expected perfect recall"
                )
            if here[0] < first[0]:
                seen[key] = here
            for action in np.flatnonzero(legal):
                last = list(node.last)
                last[player] = (key, int(action))
                state = jax.tree.map(lambda x, a=action: x[a], after)
                below.append(_Node(state, tuple(last)))
        nodes = below
    return _fold(rules, seen, ends)


def _fold(rules: Rules, seen: dict, ends: dict) -> SequenceForm:
    """Numbers rows and sequences, and builds the arrays."""
    keys = sorted(seen, key=lambda key: (key[0], seen[key][0]))
    row = {key: i for i, key in enumerate(keys)}

    def number(sequence, player):
        if sequence is None:
            return len(keys) * rules.num_actions + player
        return row[sequence[0]] * rules.num_actions + sequence[1]

    depth = {}

    def depth_of(key):
        if key not in depth:
            before = seen[key][2]
            depth[key] = 0 if before is None else 1 + depth_of(before[0])
        return depth[key]

    depths = np.array([depth_of(key) for key in keys])
    return SequenceForm(
        infostates=tuple(key[1] for key in keys),
        player=np.array([key[0] for key in keys], np.int32),
        legal=np.stack([seen[key][1] for key in keys]),
        parent=np.array([number(seen[key][2], key[0]) for key in keys], np.int32),
        levels=tuple(np.flatnonzero(depths == d).astype(np.int32) for d in range(depths.max() + 1)),
        sequences=np.array([[number(s, p) for p, s in enumerate(last)] for last in ends], np.int32),
        payoff=np.stack(list(ends.values())) / len(rules.deals),
        states=jax.tree.map(lambda *x: np.stack(x), *(seen[key][3] for key in keys)),
    )
