"""Noise of the policy gradient of early turns, under different estimators.

    python -m launchers.gradient_noise --workdir=runs/key_door_hae --update=20 --turns=8
    python -m launchers.gradient_noise --workdir=runs/coin --estimator=grpo \
        --estimator='gigpo;gamma=0.95'

The second compares any estimators on the episodes of any run whose streams have what they read.
Without --estimator a run with a planner and a critic, or of Dr. MAS, says which are compared.
Prints noise, signal and A^2 for each seed and estimator (see `agentrl.run.gradient_noise`),
and the ratio of the first two: the number of episodes for a gradient as long as its error.
"""

import json
import pathlib
from typing import Any

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_TURNS = flags.DEFINE_integer(
    "turns", 8, "Number of first turns that count as early.", lower_bound=1
)
_ESTIMATORS = flags.DEFINE_multi_string("estimator", [], "NAME[;key=value;...], once for each.")
_BATCHES = flags.DEFINE_integer("batches", 16, "Collections to measure on.", lower_bound=1)


def _estimators() -> dict[str, Any]:
    """The estimators, by what --estimator says. ValueError for unknown ones, or options."""
    from agentrl.config.bind import bound

    found: dict[str, Any] = {}
    for text in _ESTIMATORS.value:
        name, *options = text.split(";")
        values: dict[str, Any] = {"name": name}
        for option in options:
            key, equals, value = option.partition("=")
            if not equals:
                raise ValueError(f"--estimator={text}: expected NAME[;key=value;...]")
            try:
                values[key] = json.loads(value)
            except json.JSONDecodeError:
                values[key] = value
        found[text] = bound("advantage", values)
    return found


def main(argv: list[str]) -> None:
    """Restores, plays, prints."""
    if len(argv) > 1 or _WORKDIR.value is None:
        cli.fail("give --workdir=, the directory of a run")
    cli.use_compilation_cache()
    from agentrl.run import checkpoint, restored
    from agentrl.run.gradient_noise import measure, of_estimators, ways

    try:
        estimators = of_estimators(_estimators())
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    policy = run.experiment.policy
    if policy.reads_text:
        single = run.config.context.name.endswith("window")
    else:
        single = policy.memory(1) is None
    estimators = estimators or ways(run)
    if not (single and estimators):
        cli.fail(
            f"{_WORKDIR.value}: expected a policy whose rows are single turns (without memory; "
            "in words context 'window'), and --estimator, or a run of a planner and an executor "
            "with a critic, such as configs/hierarchy/key_door.py's, or of configs/teams/dr_mas.py"
        )
    try:
        found = measure(run, _TURNS.value, _BATCHES.value, estimators)
    except ValueError as error:
        cli.fail(error)
    print(f"{run.config.env.name}, update {run.update}, turns before {_TURNS.value}")
    for seed in range(run.config.num_seeds):
        line = []
        for name, values in found.items():
            n, s, square = (float(x[seed]) for x in values)
            line.append(f"{name}: noise {n:.4g} signal {s:.4g} ratio {n / s:.4g} A^2 {square:.4g}")
        print(f"seed {run.config.seed + seed}   " + "   ".join(line))


if __name__ == "__main__":
    cli.run(main)
