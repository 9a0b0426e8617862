"""Interface between rollouts and a policy that is bound to an environment."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from agentrl.actors.types import Actor
from agentrl.rollout.types import Trajectory, Turn
from agentrl.streams import Rows
from envs.vector import World


class Bound(NamedTuple):
    """A policy bound to an environment, over arrays or over text.

    actor: (World, params, greedy=False) -> Actor. demonstrator: (World, noise, thoughts) -> Actor,
      the environment's expert with the records of this policy.
    rows: (World, Trajectory, learns bool[B, A]) -> Rows.
    num_rows: (batch, turns) -> R.
    fields: (Turn [T, B, S]) -> further fields of `Streams` by name, [T, B, S, ...]; "valid" is
      taken together with the environment's.
    metrics: (Turn, Streams) -> further metrics.
    reads_arrays: it reads observations. early_exit: the loop ends as soon as no episode runs; else
      it has a fixed length. own_turns: see `unroll`. over_members: how members of a pool act, all
      at once or one after the other.
    provides: fields of `Streams` that the policy fills besides those of all rollouts.
    properties: further `Rollout.properties`.
    frozen: entries of the parameters that are not trained.
    """

    actor: Callable[..., Actor]
    demonstrator: Callable[..., Actor]
    rows: Callable[[World, Trajectory, jax.Array], Rows]
    num_rows: Callable[[int, int], int]
    fields: Callable[[Turn], dict[str, jax.Array]] = lambda turns: {}
    metrics: Callable[..., dict[str, jax.Array]] = lambda turns, streams: {}
    reads_arrays: bool = True
    early_exit: bool = False
    own_turns: bool = False
    over_members: Callable = jax.vmap
    provides: frozenset[str] = frozenset()
    properties: frozenset[str] = frozenset()
    frozen: tuple[str, ...] = ()
