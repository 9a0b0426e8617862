"""The programs of a run: for all its seeds, on its mesh, compiled and known to fit into memory."""

import time
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import ml_collections
import numpy as np

from agentrl.config.build import Experiment, build
from agentrl.evaluation import play
from agentrl.learner.optimizer import AUTO
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import Train
from agentrl.rollout.runner import only_seed
from agentrl.run import memory, mesh, population

# (parameters) -> {environment: its outcomes on the fixed tasks}
Evaluate = Callable[[chex.ArrayTree], dict[str, play.Outcomes]]


class Programs(NamedTuple):
    """Functions to compile, for all seeds; evaluate on fixed tasks, by environment.

    train: by the name of the phase. seeds: argument of init. shapes: of the state, with shardings.
    """

    init: Callable[[jax.Array], TrainState]
    train: dict[str, Train]
    restart: Callable[[TrainState], TrainState]
    evaluate: Evaluate
    seeds: np.ndarray
    shapes: chex.ArrayTree


class Prepared(NamedTuple):
    """A run before its first update.

    config: with a number for config.learner.microbatch="auto". train: by phase, the compiled
      program of `log_every` updates; a function in Python where the environments are. needs: memory
      of the compiled ones. seconds: that compiling took.
    """

    config: ml_collections.ConfigDict
    experiment: Experiment
    programs: Programs
    train: dict[str, Train]
    evaluate: Evaluate
    needs: dict[str, memory.Need]
    seconds: float


def compile_programs(
    experiment: Experiment, config: ml_collections.ConfigDict, device_mesh: jax.sharding.Mesh | None
) -> Programs:
    """Wraps the experiment's functions for `num_seeds` seeds and the mesh. No program runs yet."""
    seeds = np.arange(config.num_seeds, dtype=np.int32) + config.seed
    together = only_seed if config.num_seeds == 1 else jax.vmap
    init = together(experiment.init)
    shapes = jax.eval_shape(init, seeds)
    # Programs return the state with its input shardings; otherwise the second call would compile
    # again. Metrics are fully replicated, so every process can read them. Without a mesh (None)
    # arrays stay where they are.
    shardings = mesh.state_shardings(device_mesh, shapes)
    everywhere = None if device_mesh is None else mesh.everywhere(device_mesh)
    # The shapes determine where a checkpoint is restored, whatever devices it was saved from.
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    where = jax.tree.map(lambda _: here, shapes) if shardings is None else shardings
    shapes = jax.tree.map(
        lambda s, place: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes, where
    )

    def of_seeds(phase, train):
        # A phase without acting is a program even where the environments are in Python.
        runner = experiment.rollout.runner.of_phase(phase.collects)
        over = only_seed if config.num_seeds == 1 else runner.over_seeds

        def trained(state):
            return population.after_program(experiment.selection, *over(train)(state))

        return runner.compiled(trained, donate_argnums=0, out_shardings=(shardings, everywhere))

    def evaluate(params):
        # Fixed tasks and fixed keys: two evaluations differ in the parameters alone.
        keys = play.task_keys(0, config.evaluation.episodes)
        key, greedy = jax.random.key(1), config.evaluation.greedy
        return {
            name: task.evaluate(params, keys, key, greedy)
            for name, task in experiment.tasks.items()
        }

    return Programs(
        init=jax.jit(init, out_shardings=shardings),
        train={phase.name: of_seeds(phase, train) for phase, train in experiment.phases},
        restart=jax.jit(together(experiment.restart), donate_argnums=0, out_shardings=shardings),
        evaluate=experiment.maybe_jit(experiment.over_seeds(evaluate), out_shardings=everywhere),
        seeds=seeds,
        shapes=shapes,
    )


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
    tried: dict[int, Prepared] = {}

    def needed(microbatch: int) -> memory.Need:
        given = ml_collections.ConfigDict(config.to_dict())
        with given.ignore_type():
            given.learner.microbatch = microbatch
        sized = build(given)
        found = _compiled(given, sized, compile_programs(sized, given, device_mesh))
        tried[microbatch] = found
        return max(found.needs.values(), key=lambda need: need.total)

    if config.learner.microbatch == AUTO:
        label = f"config.learner.microbatch={AUTO!r}"
        if allowed is None:
            raise ValueError(f"{label}: nothing tells how much memory there is; give a number")
        rows = experiment.rollout.num_rows // config.learner.minibatches
        parts = 1 if device_mesh is None else device_mesh.shape["data"] * device_mesh.shape["fsdp"]
        ready = tried[memory.largest(rows, parts, needed, allowed)]
    else:
        ready = _compiled(config, experiment, programs)
    for name, need in ready.needs.items():
        memory.check(f"phase {name!r}", need, allowed)
    if (config.evaluation.every or config.evaluation.at_start) and hasattr(ready.evaluate, "lower"):
        shapes = ready.programs.shapes
        evaluate = ready.evaluate.lower(shapes.params).compile()
        # The rest of the state stays where it is.
        need = memory.need(evaluate)._replace(state=memory.size(shapes))
        memory.check("evaluation", need, allowed, memory.EVALUATION_REMEDY)
        ready = ready._replace(evaluate=evaluate, needs=ready.needs | {"evaluation": need})
    return ready._replace(seconds=time.perf_counter() - started)


def _compiled(
    config: ml_collections.ConfigDict, experiment: Experiment, programs: Programs
) -> Prepared:
    """The updates compiled and measured, where they are programs; the evaluation as it is."""
    train, needs = dict(programs.train), {}
    for name, program in programs.train.items():
        if hasattr(program, "lower"):
            train[name] = program.lower(programs.shapes).compile()
            needs[name] = memory.need(train[name])
    return Prepared(config, experiment, programs, train, programs.evaluate, needs, 0.0)
