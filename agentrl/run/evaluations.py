"""Files of a run's evaluations: the outcomes, and metrics that wait for them.

A checkpoint is saved before the evaluation of its update, so that an evaluation that does not end
loses no updates, and without it when a signal arrives. Until then the metrics of that update are in
`pending.json`: a run that resumes from the checkpoint evaluates first, and completes them.
"""

import pathlib
from typing import Any, NamedTuple

import jax
import ml_collections
import numpy as np

from agentrl.evaluation import play
from agentrl.run import checkpoint, status
from agentrl.run.files import RunError, read_json, write_json

_PENDING = "pending.json"


def path_of(
    workdir: pathlib.Path, config: ml_collections.ConfigDict, name: str, update: int
) -> pathlib.Path:
    """Path of a checkpoint's evaluation.

    In `eval`, or in a subfolder named after the environment if the run has several.
    """
    directory = workdir / "eval" / ("" if config.env.name == name else name)
    return directory / f"update_{update:06d}.json"


def write(
    workdir: pathlib.Path,
    config: ml_collections.ConfigDict,
    name: str,
    update: int,
    outcomes: play.Outcomes,
) -> None:
    """Writes a checkpoint's evaluation: settings, and outcomes [episodes] of each seed."""
    seeds = [config.seed + i for i in range(config.num_seeds)]
    columns = jax.tree.map(np.asarray, outcomes)._asdict()
    path = path_of(workdir, config, name, update)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "update": update,
        "seeds": seeds,
        "episodes": config.evaluation.episodes,
        "greedy": config.evaluation.greedy,
        "per_seed": {
            str(seed): {name: column[i].tolist() for name, column in columns.items()}
            for i, seed in enumerate(seeds)
        },
        "expert": None,
    }
    write_json(path, content)


class Pending(NamedTuple):
    """Metrics of an update, whose evaluation may be due: one record per seed, and the machine's."""

    update: int
    records: list[dict[str, Any]]
    machine: dict[str, float]


def keep(workdir: pathlib.Path, waiting: Pending) -> None:
    """Writes the metrics of an update that is about to be saved, and then evaluated."""
    write_json(workdir / _PENDING, waiting._asdict())


def pending(workdir: pathlib.Path, update: int) -> Pending | None:
    """Metrics of the update, if its evaluation did not end. RunError for another content."""
    path = workdir / _PENDING
    if not path.exists():
        return None
    remedy = "move it away to go on without the metrics and the evaluation that it stands for"
    content = read_json(path, Pending._fields, remedy)
    found = Pending(*(content[name] for name in Pending._fields))
    kinds = (int, list, dict)
    if not all(isinstance(x, kind) for x, kind in zip(found, kinds, strict=True)) or not all(
        isinstance(record, dict) for record in found.records
    ):
        raise RunError(f"{path} holds no update, records and machine of a run; {remedy}")
    return found if found.update == update else None


def forget(workdir: pathlib.Path) -> None:
    """Called when the metrics are written."""
    (workdir / _PENDING).unlink(missing_ok=True)


def finished(workdir: pathlib.Path, updates: int) -> bool:
    """Whether a run of so many updates, or of its `env_steps`, has its last checkpoint and its last
    evaluation."""
    saved = checkpoint.steps(workdir / "checkpoints")
    if updates in saved:
        return pending(workdir, updates) is None
    return bool(saved) and status.is_spent(workdir, saved[-1])
