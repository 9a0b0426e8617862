"""The compiled programs of a run: an experiment's functions for all seeds, on a mesh."""

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax
import ml_collections
import numpy as np

from agentrl.config.build import Experiment, lax_map, only_seed
from agentrl.evaluation import play
from agentrl.learner.state import TrainState
from agentrl.run import mesh, population


@dataclasses.dataclass
class Programs:
    """The compiled programs of a run, for all seeds; evaluate on fixed tasks, by environment.

    train: by the name of the phase. seeds: argument of init. shapes: of the state, with shardings.
    """

    init: Callable[[jax.Array], TrainState]
    train: dict[str, Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]]]
    restart: Callable[[TrainState], TrainState]
    evaluate: Callable[[Any], dict[str, play.Outcomes]]
    seeds: np.ndarray
    shapes: chex.ArrayTree


def compile_programs(
    experiment: Experiment, config: ml_collections.ConfigDict, device_mesh: jax.sharding.Mesh | None
) -> Programs:
    """Wraps the experiment's functions for `num_seeds` seeds and the mesh. No program runs yet."""
    seeds = np.arange(config.num_seeds, dtype=np.int32) + config.seed
    one_at_a_time, together = (
        (only_seed, only_seed) if config.num_seeds == 1 else (lax_map, jax.vmap)
    )
    init = together(experiment.init)
    shapes = jax.eval_shape(init, seeds)
    shardings = mesh.state_shardings(device_mesh, shapes)
    # The state is returned with its input shardings; otherwise the second call would compile
    # again. The shapes determine where a checkpoint is restored, whatever devices it was saved
    # from.
    placed = {} if shardings is None else {"out_shardings": shardings}
    state_and_metrics, replicated = {}, {}
    if device_mesh is not None:
        # Metrics are fully replicated, so every process can read them.
        replicated = {"out_shardings": mesh.everywhere(device_mesh)}
        state_and_metrics = {"out_shardings": (shardings, replicated["out_shardings"])}
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    where = jax.tree.map(lambda _: here, shapes) if shardings is None else shardings
    shapes = jax.tree.map(
        lambda s, place: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes, where
    )

    def of_seeds(phase, train):
        on_host = phase.collects and experiment.rollout.on_host
        # A phase without acting is a program even where the environments are in Python.
        learns_only = experiment.rollout.on_host and not phase.collects
        over = one_at_a_time if learns_only else experiment.over_seeds

        def trained(state):
            return population.after_program(experiment.selection, *over(train)(state))

        if not on_host:
            return jax.jit(trained, donate_argnums=0, **state_and_metrics)
        if shardings is None:
            return trained

        def back_in_place(state):
            # A program returns the state with its input shardings by itself.
            state, totals = trained(state)
            return jax.device_put(state, shardings), totals

        return back_in_place

    def evaluate(params):
        # Fixed tasks and fixed keys: two evaluations differ in the parameters alone.
        keys = play.task_keys(0, config.evaluation.episodes)
        key, greedy = jax.random.key(1), config.evaluation.greedy
        return {
            name: task.evaluate(params, keys, key, greedy)
            for name, task in experiment.tasks.items()
        }

    return Programs(
        init=jax.jit(init, **placed),
        train={phase.name: of_seeds(phase, train) for phase, train in experiment.phases},
        restart=jax.jit(together(experiment.restart), donate_argnums=0, **placed),
        evaluate=experiment.maybe_jit(experiment.over_seeds(evaluate), **replicated),
        seeds=seeds,
        shapes=shapes,
    )
