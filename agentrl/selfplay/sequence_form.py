"""The sequence form of a tabular game: values, best responses and NashConv as dense sweeps.

A *sequence* is an information state and an action there, or a player's empty sequence. With perfect
recall a player's probability of playing a path is one number per sequence, the realisation plan
x(I, a) = x(parent(I)) pi(a | I), and each end z of the game is reached with chance's probability
times the product of one entry per player:

  u_p = sum_z payoff[z, p] prod_q x_q(sequence of q at z).

So the game tree reduces to a list of ends and one small forest of information states per player,
and all functions below are a gather, a product, a segment sum and a sweep as deep as a player has
moves. All functions are pure, run inside jit (the form is static), may be vmapped over policies and
are differentiable in the policy.

Koller, Megiddo, von Stengel (1996), https://doi.org/10.1006/game.1996.0051; von Stengel (1996),
https://doi.org/10.1006/game.1996.0050.
"""

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceForm:
    """A game of N players with I information states (of all players), A actions and Z ends.

    Sequence I_row * A + a is action a in that row; I * A + p is the empty sequence of player p.
    Policies and plans are tables [I, A]: the rows of all players in one.

    infostates: I strings, the players' one after another.
    player: i32[I], the acting player; legal: bool[I, A].
    parent: i32[I], the player's own sequence that leads to it.
    levels: rows by the number of own actions before, i32[rows] each.
    sequences: i32[Z, N], every player's last sequence; ends with equal ones are merged.
    payoff: f64[Z, N], each player's payoff times chance's probability. states: for each row one
    state of the rules with that information state, arrays [I, ...].
    """

    infostates: tuple[str, ...]
    player: np.ndarray
    legal: np.ndarray
    parent: np.ndarray
    levels: tuple[np.ndarray, ...]
    sequences: np.ndarray
    payoff: np.ndarray
    states: chex.ArrayTree

    @property
    def num_players(self) -> int:
        """N, players of the game, chance not among them."""
        return self.sequences.shape[1]


class BestResponses(NamedTuple):
    """policy [I, A], each player's best response in its rows; value [N], its return."""

    policy: jax.Array
    value: jax.Array


def uniform(form: SequenceForm) -> np.ndarray:
    """The uniform policy over legal actions, f64[I, A]."""
    return form.legal / form.legal.sum(1, keepdims=True)


def plan(form: SequenceForm, policy: jax.Array) -> jax.Array:
    """Realisation plan [I, A] of a policy [I, A]: x(I, a) = x(parent(I)) pi(a | I)."""
    states, actions = form.legal.shape
    parent = np.minimum(form.parent, states * actions - 1)
    root = form.parent >= states * actions
    own = jnp.ones(states, policy.dtype)
    for _ in form.levels[1:]:
        own = jnp.where(root, 1.0, (policy * own[:, None]).reshape(-1)[parent])
    return policy * own[:, None]


def behaviour(form: SequenceForm, plans: jax.Array) -> jax.Array:
    """Policy [I, A] of a realisation plan [I, A]; uniform in rows that the plan does not reach.

    Any mixture of plans is a plan, so policies are averaged as plans: a mixture of their rows would
    weight a policy in rows that it does not reach.
    """
    total = jnp.sum(plans, axis=1, keepdims=True)
    return jnp.where(
        total > 0, plans / jnp.where(total > 0, total, 1.0), uniform(form).astype(plans.dtype)
    )


def reach(form: SequenceForm, plans: jax.Array) -> jax.Array:
    """Each player's own contribution to the probability of each end, [Z, N]."""
    ones = jnp.ones(form.num_players, plans.dtype)
    return jnp.concatenate([plans.reshape(-1), ones])[form.sequences]


def others(reached: jax.Array) -> jax.Array:
    """Contribution of all players but one, [Z, N]: product over q != p of reached [Z, q]."""
    players = range(reached.shape[1])
    return jnp.stack(
        [jnp.prod(reached[:, [q for q in players if q != p]], axis=1) for p in players], axis=1
    )


def _sweep(form: SequenceForm, other: jax.Array, value_of):
    """Sums the ends up the players' forests: (q [I, A], value [N]).

    q(I, a) = sum of others' reach times payoff over the ends at (I, a), plus the values
    value_of(q(I'), rows) of the information states I' that follow (I, a).
    """
    states, actions = form.legal.shape
    ends = other * jnp.asarray(form.payoff, other.dtype)
    size = states * actions + form.num_players
    q = jnp.zeros(size, other.dtype).at[form.sequences.reshape(-1)].add(ends.reshape(-1))
    for rows in reversed(form.levels):
        here = q[rows[:, None] * actions + np.arange(actions)]
        q = q.at[form.parent[rows]].add(value_of(here, rows))
    return q[: states * actions].reshape(states, actions), q[states * actions :]


def action_values(form: SequenceForm, policy: jax.Array, other: jax.Array) -> jax.Array:
    """Counterfactual values q [I, A]: the player's returns after each action, times others' reach.

    other: [Z, N], from `others`; the player itself follows policy [I, A] afterwards.
    """
    q, _ = _sweep(form, other, lambda here, rows: jnp.sum(here * policy[rows], axis=1))
    return q


def returns(form: SequenceForm, policy: jax.Array) -> jax.Array:
    """Expected return of each player when all play policy [I, A], [N]."""
    chance = jnp.prod(reach(form, plan(form, policy)), axis=1)
    return jnp.sum(chance[:, None] * jnp.asarray(form.payoff, chance.dtype), axis=0)


def best_responses(form: SequenceForm, other: jax.Array) -> BestResponses:
    """Best response of every player, given the others' contribution to the probability of the ends.

    other: [Z, N], from `others` for one policy, or a mixture of such for opponents with a joint
    distribution over policies. Among equally good actions the lowest is played, also in rows that
    the others never reach; equal means up to 64 times the rounding unit.
    """
    dtype = other.dtype

    def best(here, rows):
        return jnp.max(jnp.where(form.legal[rows], here, -jnp.inf), axis=1)

    q, value = _sweep(form, other, best)
    q = jnp.where(form.legal, q, -jnp.inf)
    good = q >= jnp.max(q, axis=1, keepdims=True) - 64 * jnp.finfo(dtype).eps
    first = jnp.argmax(good, axis=1)
    return BestResponses((jnp.arange(q.shape[1]) == first[:, None]).astype(dtype), value)


def nash_conv(form: SequenceForm, policy: jax.Array) -> jax.Array:
    """NashConv [] of policy [I, A]: sum over players of the gain of a best response."""
    other = others(reach(form, plan(form, policy)))
    return jnp.sum(best_responses(form, other).value - returns(form, policy))
