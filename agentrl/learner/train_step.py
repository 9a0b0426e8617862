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

from agentrl.learner.component import Component, Outcome, exposed, own_key
from agentrl.learner.credit import Recipe, credit_of, group_metrics
from agentrl.learner.learner import Learner
from agentrl.learner.state import TrainState, new_if
from agentrl.learner.totals import Totals, summed, totals
from agentrl.learner.update import Batch, update
from agentrl.policies.scoring import split
from agentrl.streams import Rows, Streams

Metrics = dict[str, jax.Array]


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
    of the terms. credited: sources with terms that read advantages. annotations: (policy, params,
    streams, rows, key) -> {name: array}, by name, in addition to those of components. components:
    the active ones, by name.
    """

    name: str
    first: int
    end: int
    learner: Learner
    sources: tuple[str, ...]
    credited: frozenset[str]
    annotations: Mapping[str, Callable[..., Mapping[str, jax.Array]]]
    components: Mapping[str, Component]

    @property
    def collects(self) -> bool:
        """Whether the policy acts in these updates."""
        return "rollout" in self.sources


def keys_of(state: TrainState) -> jax.Array:
    """The four keys of an update: for the next update, collecting, learning, and components."""
    return jax.random.split(state.key, 4)


def make_collect(rollout: Any, components: Mapping[str, Component]) -> Callable[..., Collected]:
    """(TrainState) -> Collected: acts with the policy's parameters, or those of a component."""

    def collect(state: TrainState) -> Collected:
        _, key, _, component_key = keys_of(state)
        params, inputs = state.params, {}
        for name, component in components.items():
            if component.acting_params is not None:
                params = component.acting_params(state.carry[name], params)
            if component.inputs is not None:
                drawn = component.inputs(state.carry[name], own_key(component_key, name))
                inputs |= drawn
        given = {name: inputs[name] for name in rollout.needs}
        return Collected(*rollout.collect(params, state.rollout, key, **given), inputs)

    return collect


def make_learn(
    policy: Any, rollout: Any, phase: Phase
) -> Callable[[TrainState, Collected | None], tuple[TrainState, Metrics]]:
    """(TrainState, Collected) -> (TrainState, metrics): one update on the collected batch."""
    components = phase.components

    def learn(state: TrainState, collected: Collected | None) -> tuple[TrainState, Metrics]:
        key, _, update_key, _ = keys_of(state)
        learner = learner_at(phase, state.carry)
        batches, metrics = batched(policy, learner.recipe, phase, state, collected)
        numbers = exposed(components, state.carry)

        def in_loss(params, rows):
            return numbers | {"progress": progress} | recomputed(components, state, params, rows)

        progress = (state.update - phase.first) / max(phase.end - phase.first, 1)
        params, opt_state, learning, finite = update(
            policy,
            learner,
            state.params,
            state.opt_state,
            batches,
            update_key,
            in_loss=in_loss,
            progress=progress,
            roles=rollout.roles,
        )
        metrics |= learning
        metrics["rejected_updates"] = jnp.stack([~finite * 1.0, jnp.ones(())])
        outcome = Outcome(
            before=state,
            params=params,
            trained=split(params, policy.frozen)[0],
            **_of_rollout(batches.get("rollout"), collected),
            finite=finite,
        )
        carry, told = carried(components, state.carry, outcome)
        state = TrainState(
            params=params,
            opt_state=opt_state,
            rollout=state.rollout if collected is None else collected.state,
            key=key,
            update=state.update + 1,
            carry=carry,
        )
        return state, metrics | told

    return learn


def batched(
    policy: Any, recipe: Recipe, phase: Phase, state: TrainState, collected: Collected | None
) -> tuple[dict[str, Batch], Metrics]:
    """({source: Batch}, metrics of collecting): rows with their annotations and credit."""
    key = keys_of(state)[3]
    components = phase.components
    numbers = exposed(components, state.carry)
    sources, metrics = gathered(phase, state, collected, key)
    batches = {}
    for source, (streams, rows) in sources.items():
        notes = annotated(policy, phase, state, streams, rows, key)
        credit, unit = None, 1
        if source in phase.credited:
            credit = credit_of(recipe, streams, rows, notes | numbers)
        if source != "rollout":
            unit = components[source].unit
            if (notes or credit is not None) and not components[source].aligned:
                check_shapes(source, streams, rows)
        batches[source] = Batch(streams, rows, credit, notes, unit)
    return batches, metrics


def check_shapes(source: str, streams: Streams | None, rows: Rows) -> None:
    """ValueError where an array of a source could be per turn [N, T] or per position [R, L]."""
    shape = rows.loss_mask.shape
    if streams is not None and streams.mask.shape == shape:
        raise ValueError(
            f"source {source!r} has streams {shape} and rows {shape}, so that an annotation could "
            "be per turn or per position: order the streams as the rows, position t being turn t, "
            "and declare Component(aligned=True), or let the source return None for the streams"
        )


def learner_at(phase: Phase, carry: Mapping[str, Any]) -> Learner:
    """The phase's learner with the numbers that components put in place of the config's."""
    learner = phase.learner
    for name, component in phase.components.items():
        if component.options is not None:
            for path, value in component.options(carry[name]).items():
                learner = learner.at(path, value)
    return learner


def gathered(
    phase: Phase, state: TrainState, collected: Collected | None, key: jax.Array
) -> tuple[dict[str, tuple[Streams | None, Rows]], Metrics]:
    """({source: (Streams, Rows)}, metrics of collecting): what an update learns from.

    Source "rollout" is `collected`, amended by components; the others are made by components.
    """
    sources: dict[str, tuple[Streams | None, Rows]] = {}
    metrics: Metrics = {}
    if collected is not None:
        streams, rows, metrics = collected.streams, collected.rows, dict(collected.metrics)
        for name, component in phase.components.items():
            if component.amend is not None:
                own = own_key(key, f"{name}.amend")
                streams, rows, told = component.amend(
                    state.carry[name], state.params, streams, rows, own
                )
                metrics |= told
        if streams.group is not None:
            metrics |= group_metrics(streams)
        sources["rollout"] = streams, rows
    for name in phase.sources:
        if name != "rollout":
            value, source = state.carry[name], phase.components[name].source
            sources[name] = source(value, state.params, sources, own_key(key, f"{name}.source"))
    return sources, metrics


def annotated(
    policy: Any,
    phase: Phase,
    state: TrainState,
    streams: Streams | None,
    rows: Rows,
    key: jax.Array,
) -> dict[str, jax.Array]:
    """Annotations of a source by name, without gradients, computed before credit is given."""
    notes: dict[str, jax.Array] = {}
    for name, annotate in phase.annotations.items():
        notes |= annotate(policy, state.params, streams, rows, own_key(key, f"{name}.annotate"))
    for name, component in phase.components.items():
        if component.annotate is not None:
            own = own_key(key, f"{name}.annotate")
            notes |= component.annotate(state.carry[name], state.params, streams, rows, own)
    return jax.lax.stop_gradient(notes)


def recomputed(
    components: Mapping[str, Component], state: TrainState, params: chex.ArrayTree, rows: Rows
) -> dict[str, jax.Array]:
    """Arrays [R, L] of components at the parameters under training."""
    found: dict[str, jax.Array] = {}
    for name, component in components.items():
        if component.in_loss is not None:
            found |= component.in_loss(state.carry[name], params, rows)
    return found


def carried(
    components: Mapping[str, Component], carry: Mapping[str, Any], outcome: Outcome
) -> tuple[dict[str, Any], Metrics]:
    """The carry after an update, and the components' metrics."""
    carry, metrics = dict(carry), {}
    for name, component in components.items():
        if component.after is None:
            continue
        value, told = component.after(carry[name], outcome)
        if not component.counts_rejected:
            value = new_if(outcome.finite, value, carry[name])
        carry[name] = value
        metrics |= told
    return carry, metrics


def _of_rollout(batch: Batch | None, collected: Collected | None) -> dict[str, Any]:
    if batch is None:
        return {"streams": None, "rows": None, "credit": None, "inputs": {}, "notes": {}}
    return {
        "streams": batch.streams,
        "rows": batch.rows,
        "credit": batch.credit,
        "inputs": collected.inputs,
        "notes": batch.notes,
    }


def make_train(
    policy: Any, rollout: Any, phase: Phase, log_every: int
) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """(TrainState) -> (TrainState, metrics): `log_every` updates, with the components' metrics.

    To be compiled as a whole; for a rollout on the host it is a function in Python that runs
    programs.
    """
    collect = make_collect(rollout, phase.components)
    learn = make_learn(policy, rollout, phase)

    def one_update(state: TrainState, _: None) -> tuple[TrainState, Totals]:
        state, metrics = learn(state, collect(state) if phase.collects else None)
        return state, totals(metrics)

    def reported(state: TrainState) -> Metrics:
        metrics: Metrics = {}
        for name, component in phase.components.items():
            if component.report is not None:
                metrics |= component.report(state.carry[name], state.params)
        return metrics

    if phase.collects and rollout.on_host:
        return _on_host(collect, learn, phase.components, log_every)

    def train(state: TrainState) -> tuple[TrainState, Metrics]:
        state, per_update = jax.lax.scan(one_update, state, length=log_every)
        return state, summed(per_update, (0,)) | reported(state)

    return train


def _on_host(
    collect: Callable, learn: Callable, components: Mapping[str, Component], log_every: int
) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """`log_every` updates, collecting in Python and learning in a program.

    Updates are dispatched asynchronously. Where the parameters that act are older than the newest
    (component "sampler"), the next batch is collected while the learner works: the inputs of
    collecting are then computed ahead, without waiting for the update.
    """
    lagging = {n: c for n, c in components.items() if c.acting_params is not None}
    # Donated buffers cannot be used for sampling while the program runs.
    program = jax.jit(learn, donate_argnums=() if lagging else 0)

    @jax.jit
    def ahead(view: TrainState, params: chex.ArrayTree) -> TrainState:
        carry = {n: c.ahead(view.carry[n], params) for n, c in lagging.items()}
        return view.replace(key=keys_of(view)[0], carry=view.carry | carry)

    def train(state: TrainState) -> tuple[TrainState, Metrics]:
        view, totals = state, None
        for _ in range(log_every):
            collected = collect(view)
            if lagging:
                view = ahead(view, state.params)
            state, metrics = program(state, collected)
            view = view if lagging else state
            totals = metrics if totals is None else jax.tree.map(jnp.add, totals, metrics)
        return state, totals

    return train


def make_batches(
    policy: Any, rollout: Any, phase: Phase
) -> Callable[[TrainState], dict[str, Batch]]:
    """(TrainState) -> {source: Batch}: the batches of the next update, without learning."""
    collect = make_collect(rollout, phase.components)

    def batches(state: TrainState) -> dict[str, Batch]:
        collected = collect(state) if phase.collects else None
        recipe = learner_at(phase, state.carry).recipe
        return batched(policy, recipe, phase, state, collected)[0]

    return batches
