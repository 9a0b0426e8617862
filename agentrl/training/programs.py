"""The compiled programs of a run: an experiment's functions for all seeds, on a mesh."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import ml_collections
import numpy as np

from agentrl.evaluation import play
from agentrl.training import mesh
from agentrl.training.experiment import Experiment, TrainState


@dataclasses.dataclass
class Programs:
    """What a run executes, compiled, for all seeds; evaluate on fixed tasks, by environment.

    seeds: what init takes. shapes: of the state, and where it lies.
    """

    init: Callable[[jax.Array], TrainState]
    train: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]]
    warm: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]] | None
    begin: Callable[[TrainState], TrainState]
    evaluate: Callable[[Any], dict[str, play.Outcomes]]
    seeds: np.ndarray
    shapes: Any


def compile_programs(
    experiment: Experiment, config: ml_collections.ConfigDict, device_mesh: Any
) -> Programs:
    """Wraps the experiment's functions for `num_seeds` seeds and the mesh. Nothing runs yet."""
    seeds = np.arange(config.num_seeds, dtype=np.int32) + config.seed
    population, across = experiment.population, experiment.across_seeds

    def init(seeds):
        state = jax.vmap(experiment.init)(seeds)
        return state if population is None else population.start(state, seeds)

    def trained(state):
        state, metrics = across(experiment.train)(state)
        return (state, metrics) if population is None else population.after(state, metrics)

    shapes = jax.eval_shape(init, seeds)
    shardings = mesh.state_shardings(device_mesh, shapes)
    # The state comes back placed as it went in, or the second call would compile again. The shapes
    # say where a checkpoint goes, whatever devices it was saved from.
    placed = {} if shardings is None else {"out_shardings": shardings}
    train_placed, told = {}, {}
    if shardings is not None:
        # What is told lies on every device, and so in every process.
        told = {"out_shardings": mesh.everywhere(device_mesh)}
        train_placed = {"out_shardings": (shardings, told["out_shardings"])}
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    where = jax.tree.map(lambda _: here, shapes) if shardings is None else shardings
    shapes = jax.tree.map(
        lambda s, place: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes, where
    )

    def evaluate(params):
        # Fixed tasks and fixed chances: two evaluations differ in the parameters alone.
        keys = play.task_keys(0, config.evaluation.episodes)
        key, greedy = jax.random.key(1), config.evaluation.greedy
        return {
            name: task.evaluate(params, keys, key, greedy)
            for name, task in experiment.tasks.items()
        }

    warm, jit = experiment.warm, experiment.jit
    train = jit(trained, donate_argnums=0, **train_placed)
    if experiment.rollout.on_host and shardings is not None:
        train = _back_in_place(train, shardings)
    return Programs(
        init=jax.jit(init, **placed),
        train=train,
        warm=warm and jax.jit(across(warm), donate_argnums=0, **train_placed),
        begin=jax.jit(jax.vmap(experiment.begin), donate_argnums=0, **placed),
        evaluate=jit(across(evaluate), **told),
        seeds=seeds,
        shapes=shapes,
    )


def _back_in_place(train: Callable, shardings: Any) -> Callable:
    """The state as it went in, for what is no program and so cannot be told where."""

    def placed(state):
        state, metrics = train(state)
        return jax.device_put(state, shardings), metrics

    return placed
