"""The episodes that a run writes: `trajectories/update_NNNNNN.jsonl` in its directory."""

import pathlib
from collections.abc import Iterator

import jax
import ml_collections

from agentrl.config.build import Experiment
from agentrl.config.trajectories import Writing, tasks_of, writing_of
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import keys_of
from agentrl.run import processes
from agentrl.streams import fields_of
from agentrl.trajectories import files, record
from agentrl.trajectories.schema import Episode


def write(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    state: TrainState,
    update: int,
    workdir: pathlib.Path,
    everywhere: jax.sharding.Sharding,
) -> pathlib.Path | None:
    """Writes episodes of the policy after `update` updates, if they are due, for each seed.
    Returns the file, or None.

    They are those that the next update learns from: the batch is collected here, and the same
    keys collect it again in that update. everywhere: the sharding of what all devices hold.
    """
    writing = writing_of(config, experiment)
    if writing is None or update % writing.every:
        return None
    # Collected by all processes, whatever they write.
    found = [
        list(_of_seed(config, experiment, writing, state, update, i, everywhere))
        for i in range(config.num_seeds)
    ]
    path = workdir / "trajectories" / f"update_{update:06d}.jsonl"
    if processes.is_first():
        files.write(path, (episode for episodes in found for episode in episodes))
    return path


def _of_seed(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    writing: Writing,
    state: TrainState,
    update: int,
    index: int,
    everywhere: jax.sharding.Sharding,
) -> Iterator[Episode]:
    one = jax.tree.map(lambda x: x[index], state)
    batch = experiment.maybe_jit(experiment.batches)(one)["rollout"]
    batch = jax.device_put(batch, everywhere)
    streams, seeds = batch.streams, {}
    if writing.repeatable:
        groups, _ = experiment.rollout.units
        size = experiment.rollout.num_streams // (groups * experiment.rollout.agents)
        of = record.seeds_of if experiment.rollout.runner.traced else record.reset_seeds_of
        seeds["seeds"] = of(keys_of(one).collect, groups, size)
    notes = {name: note.values for name, note in batch.notes.items()}
    score = writing.score(fields_of(streams) | notes)
    held = record.recorded(
        streams,
        batch.rows,
        tasks_of(config, experiment),
        credit=None if batch.credit is None else batch.credit.advantage,
        codec=experiment.policy.codec,
        **seeds,
        seed=config.seed + index,
        update=update,
    )
    return record.episodes_of(held, score, writing.most)
