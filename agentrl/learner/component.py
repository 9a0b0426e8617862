"""Components: state carried from update to update, and the hooks that use it.

A component is a value in `TrainState.carry` with pure functions around it. Saving, restoring,
sharding and copying between members of a population follow from the value being a pytree; no code
outside a component reads its fields.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax

from agentrl.streams import Rows, Streams

if TYPE_CHECKING:
    from agentrl.learner.credit import Credit


class Setup(NamedTuple):
    """Properties of a run from which a component is made.

    envs: {name: (environment, params)}. policy: as it acts in the first of them. updates: (first,
    end) of the updates after the warm start. microbatch: rows per forward pass, or None for all at
    once. lengths: as in config.learner. reads: names of the arrays that the terms of the objective
    read. context: of a language policy.
    """

    envs: Mapping[str, tuple[Any, Any]]
    policy: Any
    rollout: Any
    seed: int
    num_seeds: int
    updates: tuple[int, int]
    log_every: int
    microbatch: int | None
    lengths: int = 1
    reads: frozenset[str] = frozenset()
    context: Any = None


class Start(NamedTuple):
    """Inputs of a component's `init`.

    The trained parameters, a key, the seed i32[] and the number of updates done i32[].
    """

    params: chex.ArrayTree
    key: jax.Array
    seed: jax.Array
    update: jax.Array


class Outcome(NamedTuple):
    """A finished update, as input of components.

    before: the `TrainState` that it started from. params: all parameters after it. trained: those
    of them that are trained. streams, rows, credit: of source "rollout"; None in an update that did
    not collect. inputs: arrays that components gave to `collect`, by name. notes: annotations of
    source "rollout". finite: whether the update was; if not, parameters are as before.
    """

    before: Any
    params: chex.ArrayTree
    trained: chex.ArrayTree
    streams: Streams | None
    rows: Rows | None
    credit: "Credit | None"
    inputs: Mapping[str, Any]
    notes: Mapping[str, jax.Array]
    finite: jax.Array


class Component(NamedTuple):
    """A carried value and its hooks; those left None are skipped.

    init: (Start) -> value.
    restarts: whether `init` is called again after the warm start.
    options: (value) -> {path in the config: f32[]}, numbers in place of the config's.
    acting_params: (value, params) -> the parameters that collect. ahead: (value, params before an
      update) -> value for acting_params after it, for collecting while the learner works.
    inputs: (value, key) -> {name: arrays} for `collect`, which the rollout takes by name.
    amend: (value, params, streams, rows, key) -> (streams, rows, metrics), before anything reads
      them.
    source: (value, params, {source: (Streams, Rows)}, key) -> (Streams, Rows) of a source of the
      component's own name; `unit` rows of it, which are neighbours, stay together. made_from:
      sources that it reads, which are there even if no term is of them. aligned: where its streams
      [N, T] and rows [R, L] have the same shape, row n is stream n, and its position t turn t.
    annotate: (value, params, streams, rows, key) -> {name: [N, T] or [R, L]}, of every source.
    in_loss: (value, params, rows) -> {name: [R, L]}, recomputed where the loss is, with gradients.
    exposes: (value) -> {name: array}, carried numbers that terms and estimators take by name.
    after: (value, Outcome) -> (value, metrics). A non-finite update leaves the value unchanged,
      unless `counts_rejected`.
    report: (value, params) -> metrics, once per program of `log_every` updates.
    across: (TrainState of M seeds, metrics) -> the same, once per program, for all seeds together.
    inherits: (own value, parent's) -> value of a member of a population that copies another; None:
      the parent's.
    supplies: names that it fills, in annotations, losses or inputs.
    in_warm_start: whether it is active in supervised updates, too.
    """

    init: Callable[[Start], Any]
    restarts: bool = False
    options: Callable[..., Mapping[str, jax.Array]] | None = None
    acting_params: Callable[..., Any] | None = None
    ahead: Callable[..., Any] | None = None
    inputs: Callable[..., Mapping[str, Any]] | None = None
    amend: Callable[..., tuple[Streams, Rows, Mapping[str, jax.Array]]] | None = None
    source: Callable[..., tuple[Streams | None, Rows]] | None = None
    unit: int = 1
    made_from: tuple[str, ...] = ()
    aligned: bool = False
    annotate: Callable[..., Mapping[str, jax.Array]] | None = None
    in_loss: Callable[..., Mapping[str, jax.Array]] | None = None
    exposes: Callable[..., Mapping[str, jax.Array]] | None = None
    after: Callable[..., tuple[Any, Mapping[str, jax.Array]]] | None = None
    counts_rejected: bool = False
    report: Callable[..., Mapping[str, jax.Array]] | None = None
    across: Callable[..., tuple[Any, Mapping[str, jax.Array]]] | None = None
    inherits: Callable[..., Any] | None = None
    supplies: tuple[str, ...] = ()
    in_warm_start: bool = False


def own_key(key: jax.Array, name: str) -> jax.Array:
    """The key of a component, derived from one key by name, independently of their order."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def exposed(components: Mapping[str, Component], carry: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The carried numbers that terms and estimators take by name."""
    found: dict[str, jax.Array] = {}
    for name, component in components.items():
        if component.exposes is not None:
            found |= component.exposes(carry[name])
    return found
