"""How clear the policy gradient of early turns is, under different estimators.

    python -m launchers.gradient_noise --workdir=runs/coin --estimator=rloo \
        --estimator='gigpo;gamma=0.95'
    python -m launchers.gradient_noise --workdir=runs/key_door_hae --update=20 --turns=8

The first compares any estimators on the episodes of any run whose streams have what they read. It
prints noise and signal of an update's gradient for each seed and estimator, their ratio, which is
the number of updates for a mean as long as its error ("unknown" where no signal can be told from
0: take more --batches), and the cosine between the mean and that of the first estimator (see
`agentrl.trained.estimator_gradients`): `rloo` there is without bias.
Without --estimator a run with a planner and a critic, or of Dr. MAS, says which are compared, by
the gradients of single episodes: noise, signal, A^2 (see `agentrl.trained.gradient_noise`), and
the number of episodes for a gradient as long as its error.
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
_BATCHES = flags.DEFINE_integer("batches", 16, "Collections to measure on.", lower_bound=2)


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

    try:
        estimators = _estimators()
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    try:
        lines = _of_updates(run, estimators) if estimators else _of_episodes(run)
    except ValueError as error:
        cli.fail(error)
    print(f"{run.config.env.name}, update {run.update}, turns before {_TURNS.value}")
    for seed, line in enumerate(lines):
        print(f"seed {run.config.seed + seed}   " + "   ".join(line))


def _ratio(noise: float, signal: float) -> str:
    """noise / signal; a signal of 0 (all returns of each group are equal), or one that is too weak
    to be told from it, has none."""
    return f"{noise / signal:.4g}" if signal > 0 else "unknown"


def _of_updates(run: Any, estimators: dict[str, Any]) -> list[list[str]]:
    """For each seed what there is to say of each estimator."""
    from agentrl.trained import estimator_gradients

    found = estimator_gradients.measure(run, estimators, _TURNS.value, _BATCHES.value)
    first, lines = next(iter(found.values())), []
    for seed in range(run.config.num_seeds):
        line = []
        for name, values in found.items():
            noise, signal, along = (float(x[seed]) for x in values)
            lengths = signal * float(first.signal[seed])
            cosine = f"{along / lengths**0.5:.2f}" if lengths > 0 else "unknown"
            ratio = _ratio(noise, signal)
            line.append(
                f"{name}: noise {noise:.4g} signal {signal:.4g} ratio {ratio} cosine {cosine}"
            )
        lines.append(line)
    return lines


def _of_episodes(run: Any) -> list[list[str]]:
    from agentrl.trained.gradient_noise import measure, ways

    # A policy over arrays has no context.
    alone = run.config.context.name.endswith(("window", "none"))
    single = alone and run.experiment.policy.memory(1) is None
    by_run = ways(run)
    if not (single and by_run):
        cli.fail(
            f"{_WORKDIR.value}: expected --estimator, or a run of a planner and an executor with a "
            "critic, such as configs/hierarchy/key_door.py's, or of configs/teams/dr_mas.py, and "
            "then a policy whose rows are single turns (without memory; in words context 'window')"
        )
    found, lines = measure(run, _TURNS.value, _BATCHES.value, by_run), []
    for seed in range(run.config.num_seeds):
        line = []
        for name, values in found.items():
            n, s, square = (float(x[seed]) for x in values)
            ratio = _ratio(n, s)
            line.append(f"{name}: noise {n:.4g} signal {s:.4g} ratio {ratio} A^2 {square:.4g}")
        lines.append(line)
    return lines


if __name__ == "__main__":
    cli.run(main)
