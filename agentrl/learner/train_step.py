"""One update: collect, annotate, credit, update, carry. Read this file first.

`agentrl.config.build` assembles everything here from the config before anything compiles. In the
graph `log_every` of these steps are one program; where environments are in Python, `collect` runs
on the host and the rest is a program.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.learner.component import (
    Annotation,
    Batches,
    Component,
    Context,
    Inputs,
    Notes,
    Setup,
    UpdateResult,
    noted,
    own_key,
)
from agentrl.learner.credit import Recipe, credit_of, group_metrics
from agentrl.learner.learner import Learner
from agentrl.learner.state import TrainState, new_if
from agentrl.learner.totals import Totals, totals
from agentrl.learner.update import Batch, update
from agentrl.policies.scoring import join, split
from agentrl.streams import Note, Rows, Streams

Metrics = dict[str, jax.Array]
Train = Callable[[TrainState], tuple[TrainState, Totals]]


class Collected(NamedTuple):
    """Result of collecting for source "rollout". inputs: arrays that components gave to it, by
    name."""

    state: chex.ArrayTree
    streams: Streams
    rows: Rows
    metrics: Metrics
    inputs: Mapping[str, Any]


class Phase(NamedTuple):
    """The updates from `first` to `end` of a run, with the same active terms of the objective.

    learner: with the config's numbers; components may have others in their place. sources: those
    of the terms. credited: sources with terms that read advantages. reads: per source the names
    that its terms and its credit read. annotations: by name, in addition to those of components.
    components: the active ones, by name.
    """

    name: str
    first: int
    end: int
    learner: Learner
    sources: tuple[str, ...]
    credited: frozenset[str]
    reads: Mapping[str, frozenset[str]]
    annotations: Mapping[str, Annotation]
    components: Mapping[str, Component]

    @property
    def collects(self) -> bool:
        """Whether the policy acts in these updates."""
        return "rollout" in self.sources


class Keys(NamedTuple):
    """The keys of an update: for the next one, collecting, learning, and components."""

    following: jax.Array
    collect: jax.Array
    learn: jax.Array
    components: jax.Array


def keys_of(state: TrainState) -> Keys:
    """The keys of the update that a state is before."""
    return Keys(*jax.random.split(state.key, 4))


class Before(NamedTuple):
    """What an update begins with. inputs: what all components together have to say before it."""

    state: TrainState
    keys: Keys
    inputs: Inputs


def before(phase: Phase, state: TrainState) -> Before:
    """The state with the keys and the inputs of its update, which are computed once."""
    arrays: dict[str, Any] = {}
    numbers: Metrics = {}
    restart = None
    params, keys = state.params, keys_of(state)
    for name, component in phase.components.items():
        if component.before is not None:
            key = own_key(keys.components, name)
            own = component.before(state.carry[name], state.params, key)
            arrays |= own.arrays
            numbers |= own.numbers
            params = params if own.params is None else own.params
            restart = restart if own.restart is None else own.restart
    return Before(state, keys, Inputs(arrays, params, numbers, restart))


def begun(setup: Setup, phase: Phase, start: Before) -> Before:
    """With the state that the update learns from: itself, or where a component restarts it."""
    state, inputs = start.state, start.inputs
    if inputs.restart is None:
        return start
    trained, frozen = split(state.params, setup.policy.frozen)
    due, base = inputs.restart
    fresh = phase.learner.optimizer.init(base)
    trained, opt_state = new_if(due, (base, fresh), (trained, state.opt_state))
    state = state.replace(params=join(trained, frozen), opt_state=opt_state)
    return start._replace(state=state)


def collect(setup: Setup, phase: Phase, start: Before) -> Collected | None:
    """A batch of the policy's episodes; None in updates without."""
    if not phase.collects:
        return None
    inputs, rollout = start.inputs, setup.rollout
    given = {name: inputs.arrays[name] for name in rollout.needs}
    new, streams, rows, metrics = rollout.collect(
        inputs.params, start.state.rollout, start.keys.collect, **given
    )
    return Collected(new, streams, rows, metrics, inputs.arrays)


def learn(
    setup: Setup, phase: Phase, start: Before, collected: Collected | None
) -> tuple[TrainState, Totals]:
    """(the next state, metrics): one update on the collected batch.

    Metrics (Objective and optimizer):
      rejected_updates: Rejected, not finite [share]; updates with a step that was not finite, which
        leave the parameters as they were.
    """
    state, keys, policy, learner = start.state, start.keys, setup.policy, phase.learner
    for path, value in start.inputs.numbers.items():
        learner = learner.at(path, value)
    start = begun(setup, phase, start)
    sources, metrics = gathered(setup, phase, start, collected)
    notes, of_notes = annotated(setup, phase, start, sources)
    batches = credited(phase, learner.recipe, sources, notes)
    params, opt_state, of_update, finite = update(
        policy,
        learner,
        start.state.params,
        start.state.opt_state,
        batches,
        keys.learn,
        progress=(state.update - phase.first) / max(phase.end - phase.first, 1),
        roles=setup.rollout.roles,
    )
    outcome = UpdateResult(
        before=state, params=params, trained=split(params, policy.frozen)[0], finite=finite
    )
    if collected is not None:
        batch = batches["rollout"]
        outcome = outcome._replace(
            streams=batch.streams,
            rows=batch.rows,
            credit=batch.credit,
            notes=batch.notes,
            inputs=collected.inputs,
        )
    carry, of_components = carried(phase.components, state.carry, outcome)
    metrics |= of_update
    # A rejected update reports only that it was rejected, and what was collected.
    for name, value in (of_notes | of_components).items():
        metrics[name] = jnp.where(finite, value, 0.0)
    metrics["rejected_updates"] = jnp.stack([~finite * 1.0, jnp.ones(())])
    state = TrainState(
        params=params,
        opt_state=opt_state,
        rollout=state.rollout if collected is None else collected.state,
        key=keys.following,
        update=state.update + 1,
        carry=carry,
    )
    return state, totals(metrics)


def gathered(
    setup: Setup, phase: Phase, start: Before, collected: Collected | None
) -> tuple[dict[str, tuple[Streams | None, Rows]], Metrics]:
    """({source: (Streams, Rows)}, metrics of collecting): what an update learns from.

    Source "rollout" is `collected`, amended by components; the others are made by components.
    """
    sources: dict[str, tuple[Streams | None, Rows]] = {}
    metrics: Metrics = {}
    carry = start.state.carry
    if collected is not None:
        streams, rows, metrics = collected.streams, collected.rows, dict(collected.metrics)
        for name, component in phase.components.items():
            if component.amend is not None:
                context = _context(setup, start, f"{name}.amend", carry[name])
                streams, rows, measured = component.amend(context, streams, rows)
                metrics |= measured
        metrics |= group_metrics(streams)
        sources["rollout"] = streams, rows
    for name in phase.sources:
        made = None if name == "rollout" else phase.components[name].source
        if made is not None:
            context = _context(setup, start, f"{name}.source", carry[name])
            sources[name] = made.make(context, sources)
    return sources, metrics


def annotated(
    setup: Setup, phase: Phase, start: Before, sources: Batches
) -> tuple[dict[str, Notes], Metrics]:
    """({source: notes}, metrics): what looks at the model before credit is given.

    Of the rollout every annotation is taken, of other sources those that something reads there.
    """
    given: list[tuple[str, Annotation, tuple[str, ...], Any]] = [
        (name, annotate, (name,), ()) for name, annotate in phase.annotations.items()
    ]
    given += [
        (name, component.annotate, component.fills, start.state.carry[name])
        for name, component in phase.components.items()
        if component.annotate is not None
    ]
    notes: dict[str, Notes] = {}
    metrics: Metrics = {}
    for source, (streams, rows) in sources.items():
        of_source: dict[str, Note] = {}
        for name, annotate, fills, value in given:
            if source == "rollout" or phase.reads[source] & set(fills):
                context = _context(setup, start, f"{name}.annotate", value)
                own, measured = noted(name, annotate, context, streams, rows)
                of_source |= own
                metrics |= measured if source == "rollout" else {}
        notes[source] = of_source
    return notes, metrics


def credited(
    phase: Phase, recipe: Recipe, sources: Batches, notes: Mapping[str, Notes]
) -> dict[str, Batch]:
    """The batch of each source: its streams and rows, with credit where terms read it."""
    batches = {}
    for source, (streams, rows) in sources.items():
        credit = None
        if source in phase.credited and streams is not None:
            arrays = {name: note.values for name, note in notes[source].items()}
            credit = credit_of(recipe, streams, rows, arrays)
        made = None if source == "rollout" else phase.components[source].source
        unit = 1 if made is None else made.unit
        batches[source] = Batch(streams, rows, credit, notes[source], unit)
    return batches


def _context(setup: Setup, start: Before, name: str, value: Any) -> Context:
    return Context(setup, value, start.state.params, own_key(start.keys.components, name))


def carried(
    components: Mapping[str, Component], carry: Mapping[str, Any], outcome: UpdateResult
) -> tuple[dict[str, Any], Metrics]:
    """The carry after an update, and the components' metrics."""
    carry = dict(carry)
    metrics: Metrics = {}
    for name, component in components.items():
        if component.after is None:
            continue
        value, measured = component.after(carry[name], outcome)
        if not component.counts_rejected:
            value = new_if(jnp.asarray(outcome.finite), value, carry[name])
        carry[name] = value
        metrics |= measured
    return carry, metrics


def make_train(setup: Setup, phase: Phase) -> Train:
    """`log_every` updates, as one function of the state.

    To be compiled as a whole; for an environment in Python it is a function in Python that runs
    programs.
    """
    if not setup.rollout.runner.of_phase(phase.collects).traced:
        return _OnHost(setup, phase).train

    def one_update(state: TrainState, _: None) -> tuple[TrainState, Totals]:
        start = before(phase, state)
        return learn(setup, phase, start, collect(setup, phase, start))

    reports = [one.report for one in phase.components.values() if one.report is not None]

    def train(state: TrainState) -> tuple[TrainState, Totals]:
        state, per_update = jax.lax.scan(one_update, state, length=setup.log_every)
        metrics = per_update.summed((0,))
        for report in reports:
            metrics = totals({**metrics, **report(state.params)})
        return state, metrics

    return train


class _OnHost:
    """`log_every` updates, collecting in Python and learning in a program.

    Updates are dispatched asynchronously. Where the parameters that act are older than the newest
    (component "sampler"), the next batch is collected while the learner works: what the component
    carries is then computed ahead, without waiting for the update.
    """

    def __init__(self, setup: Setup, phase: Phase):
        self.setup, self.phase = setup, phase

        def program(state: TrainState, collected: Collected | None) -> tuple[TrainState, Totals]:
            return learn(setup, phase, before(phase, state), collected)

        # Donated buffers cannot be used for sampling while the program runs.
        self._donating, self._keeping = jax.jit(program, donate_argnums=0), jax.jit(program)
        self._ahead = jax.jit(self.ahead)

    def lags(self, state: TrainState, name: str) -> bool:
        hook, key = self.phase.components[name].before, keys_of(state).components
        if hook is None:
            return False
        inputs = jax.eval_shape(hook, state.carry[name], state.params, key)
        return inputs.params is not None

    def ahead(self, view: TrainState, carry: dict[str, Any], params: chex.ArrayTree) -> TrainState:
        outcome = UpdateResult(before=view.replace(params=params))
        new, _ = carried({name: self.phase.components[name] for name in carry}, carry, outcome)
        return view.replace(key=keys_of(view).following, carry=view.carry | new)

    def train(self, state: TrainState) -> tuple[TrainState, Totals]:
        view = state
        sums: Any = None
        lagging = [name for name in self.phase.components if self.lags(state, name)]
        for _ in range(self.setup.log_every):
            collected = collect(self.setup, self.phase, before(self.phase, view))
            if lagging:
                carry = {name: view.carry[name] for name in lagging}
                view = self._ahead(view, carry, state.params)
            state, metrics = (self._keeping if lagging else self._donating)(state, collected)
            view = view if lagging else state
            sums = metrics if sums is None else jax.tree.map(jnp.add, sums, metrics)
        return state, sums


def next_batches(setup: Setup, phase: Phase, state: TrainState) -> dict[str, Batch]:
    """{source: Batch}: the batches of the next update, without learning."""
    start = before(phase, state)
    collected = collect(setup, phase, start)
    start = begun(setup, phase, start)
    sources, _ = gathered(setup, phase, start, collected)
    notes, _ = annotated(setup, phase, start, sources)
    return credited(phase, phase.learner.recipe, sources, notes)
