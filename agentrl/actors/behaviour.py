"""A specification of an agent's behaviour in one environment: which commands may come next."""

import difflib

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.automaton import automaton
from agentrl.policies.formulas import Formula
from envs.environment import Environment
from envs.text import Grammar

_THINK = "think"


class Behaviour:
    """The automaton of a formula over an environment's commands, as tables.

    A command has the names that its own begins with, word by word: "weather oslo" has `weather` and
    "weather oslo". A turn has those of its command, none if there is none, and `think`.

    step: i32[Q, 2, C + 1], the state after a turn, by whether it thinks and the kind of its
    command, of which there are C, and none. kind: i32[num_actions + 1], of each action and of none.
    distance: i32[Q], fewest turns to the formula's end. dead: the state that nothing leads out of.
    """

    def __init__(self, formula: Formula, env: Environment, grammar: Grammar, turns: int):
        """turns: T, own turns of an agent in an episode.

        Raises:
          ValueError: names that are no commands, or a formula that no episode can keep.
        """
        self.turns = turns
        thoughts = grammar.think != "none"
        names = formula.names - {_THINK}
        _check_names(formula.names, env, grammar)
        each = [frozenset(n for n in names if _begins(a, n)) for a in env.action_names]
        kinds = sorted(set(each), key=sorted)
        self.kind = np.array([*map(kinds.index, each), len(kinds)], np.int32)
        letters = [k | t for t in _thoughts(thoughts) for k in kinds]
        # Replies that are no commands, and thoughts where there are none, cannot be chosen.
        made = automaton(formula, letters, others=[*_thoughts(thoughts)])
        width = len(letters)
        table = made.step[:, :width].reshape(len(made.step), -1, len(kinds))
        table = np.concatenate([table, made.step[:, width:, None]], axis=2)
        self.step = np.broadcast_to(table, (len(table), 2, len(kinds) + 1))
        self.distance, self.dead = made.distance, len(made.step) - 1
        if self.distance[0] > turns:
            raise ValueError(
                f"policy behaviour with {env.name}: no episode of at most {turns} turns with these "
                "commands keeps it"
            )

    def allowed(self, state: jax.Array, turn: jax.Array) -> jax.Array:
        """Commands after which the formula can still be kept by the last turn: bool[n, 2, A].

        state: i32[n], before own turns i32[n]. By whether the turn thinks. Where there is no such
        command (the environment goes on after the formula's end), there is nothing to keep: all.
        """
        after = jnp.asarray(self.step)[state][..., self.kind[:-1]]
        left = self.turns - 1 - turn
        keeps = jnp.asarray(self.distance)[after] <= left[:, None, None]
        return keeps | ~jnp.any(keeps, axis=(1, 2), keepdims=True)

    def advance(self, state: jax.Array, action: jax.Array, thinks: jax.Array) -> jax.Array:
        """The states i32[n] after turns with actions i32[n] and thoughts bool[n]; actions outside
        the environment's are none."""
        count = len(self.kind) - 1
        inside = (action >= 0) & (action < count)
        kind = jnp.asarray(self.kind)[jnp.where(inside, action, count)]
        return jnp.asarray(self.step)[state, thinks.astype(jnp.int32), kind]

    def judged(
        self,
        states: jax.Array,
        lane: jax.Array,
        action: jax.Array,
        thinks: jax.Array,
        acts: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """(states after turns of some lanes, whether one leads from a live state to the dead one,
        bool[n]).

        states: i32 of all lanes, of any shape. lane: i32[n], places in it. acts: bool[n], whether
        the turn takes place; the rest as in `advance`.
        """
        before = states.reshape(-1)[lane]
        after = jnp.where(acts, self.advance(before, action, thinks), before)
        new = states.reshape(-1).at[lane].set(after).reshape(states.shape)
        return new, (after == self.dead) & (before != self.dead)


def _thoughts(there: bool) -> tuple[frozenset[str], ...]:
    return (frozenset(), frozenset({_THINK})) if there else (frozenset(),)


def _begins(action: str, name: str) -> bool:
    return f"{action} ".startswith(f"{name} ")


def _check_names(names: set[str], env: Environment, grammar: Grammar) -> None:
    """ValueError for names that are neither `think` nor the first words of commands."""
    if grammar.think == "none" and _THINK in names:
        raise ValueError(
            f"policy behaviour names 'think', but grammar {grammar.name!r} has no thoughts: set "
            "policy.grammar='action' or 'answer' and policy.think='optional' or 'required'"
        )
    first = list(dict.fromkeys(name.split()[0] for name in env.action_names))
    for name in sorted(names - {_THINK}):
        if any(_begins(action, name) for action in env.action_names):
            continue
        near = difflib.get_close_matches(name, [*env.action_names, *first, _THINK], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        more = ", ..." if len(first) > 12 else ""
        raise ValueError(
            f"policy behaviour names {name!r}, with which no command of {env.name} begins: "
            f"expected some of think, {', '.join(first[:12])}{more}{hint}"
        )
