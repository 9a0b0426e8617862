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

from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import Note, PerTurn, Rows, Shared, Streams
from envs.environment import AnyEnvironment

if TYPE_CHECKING:
    from agentrl.actors import contexts
    from agentrl.learner.credit import Credit
    from agentrl.learner.state import TrainState

Metrics = Mapping[str, jax.Array]  # totals and weights, f32[2] each


class Setup(NamedTuple):
    """Properties of a run from which a component is made.

    envs: {name: (environment, params)}. policy: as it acts in the first of them. updates: (first,
    end) of the updates after the warm start. microbatch: rows per forward pass, or None for all at
    once. lengths: as in config.learner. reads: names of the arrays that the terms of the objective
    read. context: of a language policy.
    """

    envs: Mapping[str, tuple[AnyEnvironment, chex.ArrayTree]]
    policy: EitherPolicy
    rollout: Rollout
    seed: int
    num_seeds: int
    updates: tuple[int, int]
    log_every: int
    microbatch: int | None
    lengths: int = 1
    reads: frozenset[str] = frozenset()
    context: "contexts.Context | None" = None


class InitInputs(NamedTuple):
    """Inputs of a component's `init`.

    The trained parameters, a key, the seed i32[] and the number of updates done i32[].
    """

    params: chex.ArrayTree
    key: jax.Array
    seed: jax.Array
    update: jax.Array


class Restart(NamedTuple):
    """Where due, bool[], an update learns from these trained parameters, with a fresh optimizer."""

    due: jax.Array
    trained: chex.ArrayTree


class Inputs(NamedTuple):
    """What a component has to say before an update.

    arrays: for `collect`, which the rollout takes by name. params: those that collect, in place of
    the state's. numbers: {path in the config: f32[]}, in place of the config's. restart: parameters
    to learn from in place of the state's; what collects is not changed by it.
    """

    arrays: Mapping[str, Any] = {}
    params: chex.ArrayTree | None = None
    numbers: Mapping[str, jax.Array] = {}
    restart: Restart | None = None


class Context(NamedTuple):
    """What an annotation or a source may look at, beside streams and rows.

    setup: the run's. value: the component's carried one. params: all parameters, before the
    update's first step. key: of its own.
    """

    setup: Setup
    value: Any
    params: chex.ArrayTree
    key: jax.Array


Notes = Mapping[str, Note]
# (Context, Streams, Rows) -> {name: Note}, or ({name: Note}, metrics). A source may have no
# streams: what is of turns is not read there.
Annotation = Callable[[Context, Any, Rows], Notes | tuple[Notes, Metrics]]
Batches = Mapping[str, tuple[Streams | None, Rows]]


class Source(NamedTuple):
    """Streams and rows that a component makes, for terms with its name as their source.

    make: (Context, {source: (Streams, Rows)}) -> (Streams or None, Rows). unit: neighbouring rows
    that stay together. reads: the sources that it reads, which are there even if no term is of
    them.
    """

    make: Callable[[Context, Batches], tuple[Streams | None, Rows]]
    unit: int = 1
    reads: tuple[str, ...] = ()


class UpdateResult(NamedTuple):
    """A finished update, as input of components.

    before: the `TrainState` in front of it, and of its `Restart`. params: all parameters after it.
    trained: those of them that are trained. streams, rows, credit: of source "rollout"; None in an
    update that did not collect. inputs: arrays that components gave to `collect`, by name. notes:
    annotations of source "rollout". finite: whether the update was; if not, parameters are as
    before its first step.
    """

    before: "TrainState"
    params: chex.ArrayTree | None = None
    trained: chex.ArrayTree | None = None
    streams: Streams | None = None
    rows: Rows | None = None
    credit: "Credit | None" = None
    inputs: Mapping[str, Any] = {}
    notes: Notes = {}
    finite: jax.Array | bool = True


class Component(NamedTuple):
    """A carried value and its hooks, in the order of an update; those left None are skipped.

    init: its first value; a component without one carries nothing.
    before: (value, params, key) -> Inputs.
    source: rows of the component's own.
    amend: (Context, Streams, Rows) -> (Streams, Rows, metrics): other streams and rows in the place
      of the rollout's, before anything reads them.
    annotate: of the rollout, and of other sources where something reads what it fills. Gradients
      are stopped. Metrics are those of the rollout.
    after: (value, UpdateResult) -> (value, metrics). With environments in Python the `after` of a
      component whose `before` gives parameters reads `outcome.before` alone: the next batch is
      collected while the learner works.
    report: (params) -> metrics, once per program of `log_every` updates.

    fills: names that it fills, in notes or inputs.
    asks: it asks a player outside this process, as `Rollout.asks`.
    restarts: whether `init` is called again after the warm start.
    in_warm_start: whether it is active in supervised updates, too.
    counts_rejected: whether `after` has a say in a non-finite update, which leaves all other values
      as they were. No metric is of such an update.
    """

    init: Callable[[InitInputs], Any] = lambda start: ()
    before: Callable[[Any, chex.ArrayTree, jax.Array], Inputs] | None = None
    source: Source | None = None
    amend: Callable[[Context, Streams, Rows], tuple[Streams, Rows, Metrics]] | None = None
    annotate: Annotation | None = None
    after: Callable[[Any, UpdateResult], tuple[Any, Metrics]] | None = None
    report: Callable[[chex.ArrayTree], Metrics] | None = None
    fills: tuple[str, ...] = ()
    asks: bool = False
    restarts: bool = False
    in_warm_start: bool = False
    counts_rejected: bool = False


def own_key(key: jax.Array, name: str) -> jax.Array:
    """The key of a component, derived from one key by name, independently of their order."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def noted(name: str, annotate: Annotation, context: Context, streams: Streams | None, rows: Rows):
    """({name: Note}, metrics) of an annotation, without gradients.

    Raises:
      ValueError: values of no type, or of other shapes than their type's.
    """
    found = annotate(context, streams, rows)
    notes, metrics = found if isinstance(found, tuple) else (found, {})
    for key, note in notes.items():
        if not isinstance(note, Note):
            raise ValueError(
                f"annotation {name!r} gives {key!r} as {type(note).__name__}: say what its values "
                "are of, agentrl.streams.PerTurn(x) [N, T], PerPosition(x) [R, L] or Shared(x)"
            )
        if isinstance(note, Shared):
            continue
        of_turns = isinstance(note, PerTurn)
        like = streams.mask.shape if of_turns and streams is not None else rows.loss_mask.shape
        if note.values.shape[:2] != like:
            raise ValueError(
                f"annotation {name!r} gives {key!r} {type(note).__name__} with shape "
                f"{note.values.shape}; expected {'[N, T]' if of_turns else '[R, L]'}, here {like}"
            )
    return jax.lax.stop_gradient((notes, metrics))
