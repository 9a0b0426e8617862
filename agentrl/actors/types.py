"""Types of acting: views, decisions, actors.

Letters: B episodes, A agents of an environment, S of them that have a view in one step: the agents
that can act (one in single-agent environments and turn-based games, all in simultaneous games), or
all, S = A, if an actor has to follow the turns of others.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class View(NamedTuple):
    """Views of S agents per episode in one step, leading axes [B, S].

    agent: i32[B, S], index of the agent. acting: bool[B, S], it acts now, in a running episode, and
    this actor has its seat; decisions for others are ignored. observation: [B, S, ...], or None if
    no actor reads arrays. legal: bool[B, S, num_actions]; all True for agents that do not act; None
    where nobody chooses among legal actions. state: [B, ...], the environment's states, for text,
    experts and search.
    """

    agent: jax.Array
    acting: jax.Array
    observation: chex.ArrayTree
    legal: jax.Array | None
    state: chex.ArrayTree


class Decision(NamedTuple):
    """Decisions of an actor for S agents per episode, leading axes [B, S].

    action: i32[B, S]; f32[B, S, num_actions] if actions are continuous; i32[B, S, n] for an actor
    with up to n commands per turn, -1 for none. An illegal action is passed to the
    environment unchanged. logp, value: f32[B, S]; None for actors that are not learnt from.
    anchor: u32[B, S, 2], fingerprint of the observation or state, or None.
    full: bool[B, S], the actor has no room for this turn: the episode is truncated before it. None
    where that cannot happen.
    record: [B, S, ...], further data for the rows of this turn.
    """

    action: jax.Array
    logp: jax.Array | None = None
    value: jax.Array | None = None
    record: chex.ArrayTree = None
    anchor: jax.Array | None = None
    full: jax.Array | None = None


def whole_point(memory: chex.ArrayTree) -> tuple[chex.ArrayTree, None]:
    """`Actor.split` of memory that turns overwrite."""
    return memory, None


def point_alone(point: chex.ArrayTree, past: None) -> chex.ArrayTree:
    """`Actor.join` of such memory."""
    del past
    return point


class Actor(NamedTuple):
    """A way of acting, as pure functions.

    init: (batch, agents) -> memory before an episode's first turn, leaves [B, A, ...]; None without
      memory.
    act: (params, memory, View, key) -> (Decision, memory).
    params: default parameters of `act`. Programs are compiled for `act` and any params.
    remembers: its decisions depend on its own earlier turns.
    follows: it needs views of the others' turns too (S = A). draws: it may choose different actions
      in equal states. reads_arrays: it reads `View.observation`.
    commands: n, if it gives up to n commands per turn; None: one action.
    value: (params, memory, View) -> f32[B, S], the critic's value of what is shown; None without a
      critic.
    restart: (memory, done bool[B]) -> memory in which these episodes begin anew; None: they get the
      memory of `init`.
    split: (memory) -> (point, past), to return to earlier turns: what each turn changes, and what
      turns only add to, of which any later one serves an earlier point as well. By default all of
      it is the first. join: (point, past) -> memory at the point.
    """

    init: Callable[[int, int], chex.ArrayTree]
    act: Callable[..., tuple[Decision, chex.ArrayTree]]
    params: chex.ArrayTree = None
    remembers: bool = False
    follows: bool = False
    draws: bool = True
    reads_arrays: bool = True
    commands: int | None = None
    value: Callable[..., jax.Array] | None = None
    restart: Callable[[chex.ArrayTree, jax.Array], chex.ArrayTree] | None = None
    split: Callable[[chex.ArrayTree], tuple[chex.ArrayTree, chex.ArrayTree]] = whole_point
    join: Callable[[chex.ArrayTree, chex.ArrayTree], chex.ArrayTree] = point_alone


def no_memory(batch: int, agents: int) -> None:
    """`Actor.init` of actors without memory, whose memory is None."""


def flat(tree: chex.ArrayTree) -> chex.ArrayTree:
    """[B, S, ...] as [B * S, ...]."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def beside(flags: jax.Array, values: jax.Array) -> jax.Array:
    """Flags with as many trailing axes of size 1 as broadcasting against `values` needs."""
    return flags.reshape(*flags.shape, *[1] * (values.ndim - flags.ndim))


def select(flags: jax.Array, new: chex.ArrayTree, old: chex.ArrayTree) -> chex.ArrayTree:
    """Leaf by leaf `jnp.where` of flags over the leading axes."""
    return jax.tree.map(lambda a, b: jnp.where(beside(flags, a), a, b), new, old)
