"""The programs of a run, compiled before the first update, and known to fit into memory."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import ml_collections

from agentrl.config.build import Experiment, build
from agentrl.learner.optimizer import AUTO
from agentrl.run import memory
from agentrl.run.programs import Programs, compile_programs
from agentrl.run.restored import RunError


class Prepared(NamedTuple):
    """A run before its first update.

    config: with a number for config.learner.microbatch="auto". train: by phase, the compiled
      program of `log_every` updates; a function in Python where the environments are. needs: memory
      of the compiled ones. seconds: that compiling took.
    """

    config: ml_collections.ConfigDict
    experiment: Experiment
    programs: Programs
    train: dict[str, Callable[..., Any]]
    evaluate: Callable[..., Any]
    needs: dict[str, memory.Need]
    seconds: float


def prepare(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    programs: Programs,
    device_mesh: jax.sharding.Mesh | None,
) -> Prepared:
    """Compiles an experiment's updates, and its evaluation if there will be one, on the mesh, which
    is in use.

    Raises:
      ValueError: config.learner.microbatch="auto" where memory is not known ahead.
      RunError: a program needs more memory than there is.
    """
    started, allowed = time.perf_counter(), memory.limit()
    if config.learner.microbatch == AUTO:
        ready = _largest(config, experiment, device_mesh, allowed)
    else:
        ready = _compiled(config, experiment, programs)
    for name, need in ready.needs.items():
        if allowed is not None and need.total > allowed:
            raise RunError(memory.too_large(f"phase {name!r}", need, allowed))
    if (config.evaluation.every or config.evaluation.at_start) and hasattr(ready.evaluate, "lower"):
        ready = _with_evaluation(ready, allowed)
    return ready._replace(seconds=time.perf_counter() - started)


def _with_evaluation(ready: Prepared, allowed: int | None) -> Prepared:
    shapes = ready.programs.shapes
    compiled = ready.evaluate.lower(shapes.params).compile()
    # The rest of the state stays where it is.
    need = memory.need(compiled)._replace(state=memory.size(shapes))
    if allowed is not None and need.total > allowed:
        raise RunError(memory.too_large("evaluation", need, allowed, memory.EVALUATION_REMEDY))
    return ready._replace(evaluate=compiled, needs=ready.needs | {"evaluation": need})


def _compiled(
    config: ml_collections.ConfigDict, experiment: Experiment, programs: Programs
) -> Prepared:
    compiled = {
        name: program.lower(programs.shapes).compile()
        for name, program in programs.train.items()
        if hasattr(program, "lower")
    }
    needs = {name: memory.need(program) for name, program in compiled.items()}
    train = programs.train | compiled
    return Prepared(config, experiment, programs, train, programs.evaluate, needs, 0.0)


def _largest(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    device_mesh: jax.sharding.Mesh | None,
    allowed: int | None,
) -> Prepared:
    """`_compiled` with the largest microbatch that fits."""
    label = f"config.learner.microbatch={AUTO!r}"
    if allowed is None:
        raise ValueError(f"{label}: nothing tells how much memory there is; give a number")
    if experiment.rollout.on_host:
        raise ValueError(
            f"{label}: with environments in Python programs are compiled as they are met; give a "
            "number"
        )
    tried: dict[int, Prepared] = {}

    def needed(size: int) -> memory.Need:
        given = ml_collections.ConfigDict(config.to_dict())
        with given.ignore_type():
            given.learner.microbatch = size
        sized = build(given)
        tried[size] = _compiled(given, sized, compile_programs(sized, given, device_mesh))
        return max(tried[size].needs.values(), key=lambda need: need.total)

    rows = experiment.rollout.num_rows // config.learner.minibatches
    parts = 1 if device_mesh is None else device_mesh.shape["data"] * device_mesh.shape["fsdp"]
    return tried[memory.largest(rows, parts, needed, allowed)]
