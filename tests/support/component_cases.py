"""A small run for every component that a config can name, with one batch to call its hooks on.

Components are found in their packages, and the runs of methods in the configs that name them: a new
component of `agentrl.methods` needs no entry here.
"""

import functools
import importlib
import inspect
import json
import pathlib
import pkgutil
import re
from typing import Any, NamedTuple

import arrays_by_name
import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import tiny

import configs
from agentrl.config import section
from agentrl.config.build import Experiment, build
from agentrl.learner import components
from agentrl.learner.component import Component, Setup, UpdateResult
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import (
    Collected,
    Phase,
    annotated,
    before,
    carried,
    collect,
    credited,
    gathered,
)
from agentrl.policies.scoring import split
from agentrl.streams import PerTurn, Rows, Shared, Streams, fields_of
from launchers.methods_page import listed

# Options of components as they are in small runs, by name.
SMALL = {
    "batch": 8, "buckets": 64, "group_size": 2, "groups": 16, "hidden": 8, "features": 4,
    "least": 1, "explore": 1, "fit": 2, "demonstrations": 4, "num_groups": 2, "pairs": 2,
    "per_task": 2, "size": 16, "steps": 2, "tasks": 8, "updates": 2, "warm_up": 1,
}  # fmt: skip


class Case(NamedTuple):
    """A small run. phase: its last one. state: its first one. collected: from there."""

    experiment: Experiment
    setup: Setup
    phase: Phase
    state: TrainState
    collected: Collected


def factories():
    """Every function that makes a component of a run, by its name."""
    modules = [
        importlib.import_module(f"{components.__name__}.{info.name}")
        for info in pkgutil.iter_modules(components.__path__)
    ]
    found = listed("agentrl.methods")
    found += [
        function
        for module in modules
        for function in vars(module).values()
        if inspect.isfunction(function) and function.__module__ == module.__name__
    ]
    return [f for f in found if makes_component(f)]


def makes_component(function):
    """Whether a function is one that a config can name, (setup, *, options) -> Component."""
    signature = inspect.signature(function)
    first = next(iter(signature.parameters), "")
    made = signature.return_annotation
    hidden = function.__name__.startswith("_")
    return first == "setup" and made in (Component, Component | None) and not hidden


@functools.cache
def configs_of_methods():
    """{path of a component: a config that names it}; those of few environments."""
    functions = set(factories())
    by_world = {}
    for path in sorted(pathlib.Path(configs.__file__).parent.glob("*/*.py")):
        if path.stem == "__init__":
            continue
        module = importlib.import_module(f"configs.{path.parent.name}.{path.stem}")
        imported = {f for f in vars(module).values() if inspect.isfunction(f)}
        if not hasattr(module, "get_config") or not functions & imported:
            continue
        for config in variants(module):
            for values in config.get("components", {}).values():
                of_world = by_world.setdefault(world_of(config), {})
                of_world.setdefault(values["name"], config)
    found = {}
    for of_world in sorted(by_world.values(), key=len, reverse=True):
        found = of_world | found
    return found


def variants(module):
    """The configs of a file, but for those whose arguments are not listed."""
    named = [name for name in getattr(module, "VARIANTS", ()) if not re.search("[A-Z]{3}", name)]
    for name in named:
        yield module.get_config(name)
    if not named:
        yield module.get_config()


def world_of(config):
    """What the cost of collecting depends on."""
    return str(config.env.name), config.policy.name, config.context.name


def shrunk(config):
    """The config as a run of seconds: few short episodes, a small policy."""
    config = config.copy_and_resolve_references()
    config.num_seeds, config.mesh.data, config.log_every, config.updates = 1, 1, 1, 2
    if config.policy.get("lora_rank") or config.policy.get("output_heads"):
        config.init_from = "the parameters that adapters are for"  # nothing is read there
    config.env_steps = 0
    if "max_steps_in_episode" in config.env:
        config.env.max_steps_in_episode = 4
    small = {"hidden": 32, "width": 16, "layers": 1, "heads": 2, "kv_heads": 1}
    if "width" not in config.policy:
        small = {"hidden": (8,)}
    for key, value in small.items():
        if key in config.policy:
            config.policy[key] = value
    config.rollout.update(num_groups=4, group_size=4)
    if "partners" in config.rollout:
        # Each is a loop of its own in the program.
        config.rollout.update(partners=config.rollout.partners[:2], draws=1)
    config.learner.update(epochs=1, minibatches=1, microbatch=None, lengths=1)
    config.warm_start.updates = min(config.warm_start.updates, 1)
    if config.warm_start.updates:
        config.expert.episodes = 4
    config.evaluation.every = 0
    for values in config.components.values():
        for key in values:
            if key in SMALL and isinstance(values[key], int):
                values[key] = SMALL[key]
    return config


def runs_of_the_library():
    """Configs that ask for every component which is asked for by something else than its name."""
    yield tiny.matches_config(
        log_every=1, updates=2, staleness=1, num_seeds=2, reference__every=1, pool__every=1,
        per_seed={"optimizer": {"learning_rate": (1e-3, 1e-2)}},
        population__every=1,
        population__tuned={"objective": {"kl": {"weight": (0.01, 1.0)}}},
    )  # fmt: skip
    yield tiny.talk_config(
        log_every=1, updates=3, warm_start__updates=1, expert__episodes=4,
        objective__imitation__during="both",
    )  # fmt: skip


@functools.cache
def library():
    """The cases of `runs_of_the_library`."""
    return [made(config) for config in runs_of_the_library()]


def makes(factory, component):
    """Whether a component of a run is of a factory of the library: its hooks are of one module."""
    hooks = [hook for hook in component if callable(hook)]
    hooks += [] if component.source is None else [component.source.make]
    return factory.__module__ in {hook.__module__ for hook in hooks}


@functools.cache
def case_of(factory):
    """(a case, the name of the factory's component in it).

    It is of a config of the repository that names the factory, or of a run of the library's, which
    has it, or in which it can be named.
    """
    path = f"{factory.__module__}.{factory.__name__}"
    if path in configs_of_methods():
        case = case_of_config(path)
        named = case.experiment.config.components.items()
        return case, next(name for name, values in named if values["name"] == path)
    for case in library():
        for name, component in case.phase.components.items():
            if makes(factory, component):
                return case, name
    why = []
    for config in runs_of_the_library():
        options = arrays_by_name.options_for(factory)
        config.components[factory.__name__] = {"name": path} | options
        try:
            return made(config), factory.__name__
        except ValueError as error:
            why.append(str(error))
    raise AssertionError(f"no config has {path}: name it in one of configs/. {why}")


@functools.cache
def case_of_config(path):
    return made(shrunk(configs_of_methods()[path]))


_COLLECTED: dict[str, Collected] = {}


def made(config):
    """The case of a config; configs that act in the same way collect once."""
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup, phase = own_pieces.SETUPS.pop(), experiment.phases[-1][0]
    state = jax.jit(experiment.init)(0)
    # What learns from a data set alone gives an annotation to what a policy plays, too.
    plays = phase if phase.collects else phase._replace(sources=("rollout", *phase.sources))
    acting = {k: config.to_dict()[k] for k in ("env", "policy", "rollout", "context", "staleness")}
    key = json.dumps(acting, sort_keys=True, default=repr)
    if key not in _COLLECTED:
        _COLLECTED[key] = jax.jit(lambda state: collect(setup, plays, before(plays, state)))(state)
    return Case(experiment, setup, phase, state, _COLLECTED[key])


class Batch(NamedTuple):
    """What a program is called with beside the state: a batch, and whether the update is finite."""

    streams: Streams
    rows: Rows
    finite: Any = True


class Told(NamedTuple):
    """What one component has said in an update. inputs: of `before`. sources: all batches, amended
    and made; notes: {source: {name: Note}}; metrics: of annotations; measured: after the update;
    report: of the parameters; value: carried on."""

    inputs: Any
    sources: Any
    notes: Any
    metrics: Any
    measured: Any
    report: Any
    value: Any


def update_of(case):
    """(state, Batch) -> ({component: Told}, the next state): an update without its steps.

    Parameters move a little, so that what follows them can be told from what does not.
    """
    setup, phase = case.setup, case.phase

    def update(state, batch):
        start = before(phase, state)
        inputs = start.inputs
        collected = Collected(state.rollout, batch.streams, batch.rows, {}, inputs.arrays)
        sources, amended = gathered(setup, phase, start, collected)
        notes, of_notes, by_name = {name: {} for name in sources}, {}, {}
        for name, component in phase.components.items():
            alone = phase._replace(components={name: component}, annotations={})
            by_name[name], of_notes[name] = annotated(setup, alone, start, sources)
            notes = {k: x | by_name[name][k] for k, x in notes.items()}
        batches = credited(phase, phase.learner.recipe, sources, notes)
        rollout = batches["rollout"]
        params = jax.tree.map(lambda x: x + jnp.asarray(0.01, x.dtype), state.params)
        outcome = UpdateResult(
            before=state, params=params, trained=split(params, setup.policy.frozen)[0],
            streams=rollout.streams, rows=rollout.rows, credit=rollout.credit,
            inputs=inputs.arrays, notes=rollout.notes, finite=jnp.asarray(batch.finite),
        )  # fmt: skip
        told, carry = {}, {}
        for name, component in phase.components.items():
            new, measured = carried({name: component}, {name: state.carry[name]}, outcome)
            carry |= new
            alone = phase._replace(components={name: component})
            told[name] = Told(
                inputs=before(alone, state).inputs._replace(params=None),
                sources=sources, notes=by_name[name], metrics=(amended, of_notes[name]),
                measured=measured, value=new[name],
                report={} if component.report is None else component.report(state.params),
            )  # fmt: skip
        key = jax.random.fold_in(state.key, 1)
        return told, state.replace(params=params, carry=carry, key=key, update=state.update + 1)

    return update


def batch_of(case, seed):
    """The case's batch, of which episodes end earlier, some before they begin, with rewards and
    successes of all kinds."""
    rng = np.random.default_rng(seed)
    streams, rows = jax.device_get((case.collected.streams, case.collected.rows))
    turns = streams.mask.shape[1]
    episode = np.arange(len(streams.mask)) if streams.episode is None else streams.episode
    length = rng.integers(1, turns + 1, episode.max() + 1)
    length[rng.integers(len(length))] = 0
    mask = streams.mask & (np.arange(turns) < length[episode][:, None])
    last = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    cut = streams.mask & ~mask
    reward = np.where(mask, 0.25 * rng.integers(0, 4, mask.shape), 0).astype(np.float32)
    changes = {"mask": mask, "reward": reward, "terminated": last, "truncated": last & False}
    if streams.success is not None:
        changes["success"] = last & (rng.random(mask.shape) < 0.5)
    for name in ("value", "bootstrap", "valid", "well_formed", "cost", "duration", "persuasion"):
        value = getattr(streams, name)
        if value is not None:
            changes[name] = np.where(mask, value, 0).astype(value.dtype)
    gone = (rows.turn >= 0) & cut[rows.stream[:, None], np.maximum(rows.turn, 0)]
    of_rows = {"loss_mask": rows.loss_mask & ~gone, "turn": np.where(gone, -1, rows.turn)}
    of_rows["behaviour_logp"] = np.where(gone, 0, rows.behaviour_logp)
    if rows.span is not None:
        of_rows |= {"span": np.where(gone, -1, rows.span), "tokens": np.where(gone, 0, rows.tokens)}
    if rows.legal is not None:
        of_rows["legal"] = np.where(gone[..., None], True, rows.legal)
    kinds = {name: x.astype(getattr(rows, name).dtype) for name, x in of_rows.items()}
    return Batch(streams.replace(**changes), rows.replace(**kinds), np.ones((), bool))


def poisoned(batch, bad):
    """The batch with numbers `bad` where nobody acted and nothing is written, and flags the other
    way round."""
    streams, rows = batch.streams, batch.rows

    def put(where, value):
        if not isinstance(value, np.ndarray) or value.shape[:2] != where.shape:
            return value
        there = where.reshape(*where.shape, *(1,) * (value.ndim - 2))
        if value.dtype == bool:
            return np.where(there, value, ~value)
        other = bad if np.issubdtype(value.dtype, np.floating) else 3
        return np.where(there, value, np.asarray(other, value.dtype))

    of_streams = {
        name: put(streams.mask, value)
        for name, value in fields_of(streams).items()
        if name not in ("mask", "first_state")
    }
    written = rows.loss_mask if rows.span is None else rows.span >= 0
    of_rows = {
        name: jax.tree.map(functools.partial(put, written), getattr(rows, name))
        for name in ("tokens", "action", "observation")
    }
    of_rows["behaviour_logp"] = put(rows.loss_mask, rows.behaviour_logp)
    if rows.legal is not None:
        # One action at least is legal everywhere.
        last = np.arange(rows.legal.shape[-1]) == rows.legal.shape[-1] - 1
        of_rows["legal"] = np.where(rows.loss_mask[..., None], rows.legal, last)
    return batch._replace(streams=streams.replace(**of_streams), rows=rows.replace(**of_rows))


def permuted(batch, order, of_rows):
    """The batch with streams and rows in other orders."""
    place = np.argsort(order).astype(np.int32)
    streams, rows = jax.tree.map(lambda x: x[order], batch.streams), batch.rows
    if streams.parent is not None:
        parent = np.where(streams.parent < 0, -1, place[streams.parent]).astype(np.int32)
        streams = streams.replace(parent=parent)
    rows = jax.tree.map(lambda x: x[of_rows], rows.replace(stream=place[rows.stream]))
    return batch._replace(streams=streams, rows=rows)


def where_read(told):
    """What is told, with zeros where nobody acted and nothing is learnt: those are free."""

    def of(mask, value):
        if getattr(value, "shape", ())[:2] != mask.shape:
            return value
        return np.where(mask.reshape(*mask.shape, *(1,) * (value.ndim - 2)), value, 0)

    def of_note(note, streams, rows):
        if isinstance(note, Shared):
            return note
        mask = streams.mask if isinstance(note, PerTurn) else rows.loss_mask
        return note.replace(values=of(mask, note.values))

    told = jax.device_get(told)
    sources = {
        name: tuple(
            jax.tree.map(functools.partial(of, mask), whole)
            for mask, whole in ((getattr(streams, "mask", None), streams), (rows.loss_mask, rows))
        )
        for name, (streams, rows) in told.sources.items()
    }
    notes = {
        source: {name: of_note(note, *told.sources[source]) for name, note in own.items()}
        for source, own in told.notes.items()
    }
    return told._replace(sources=sources, notes=notes, value=())
