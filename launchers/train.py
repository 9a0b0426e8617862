"""Trains a config.

    python -m launchers.train --config=configs/credit/coin.py:gigpo --workdir=runs/coin

The same command on the same directory resumes. --dry_run resolves and checks the config, prints it
and stops. Any key can be changed: --config.optimizer.learning_rate=1e-3. A config of stages
(config.stages) trains each in a directory of its own, workdir/NAME, one after the other.

Several processes with devices of their own train together if all are started with the same command
on a shared directory: with --distributed under Slurm, Open MPI, Kubernetes or on TPU, which assign
the process ids, and elsewhere with --coordinator=HOST:PORT --num_processes=N --process_id=I.
"""

import functools
import json
import pathlib
import shlex
import sys

import yaml
from absl import flags
from ml_collections import config_flags

from launchers import cli

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, for example configs/credit/coin.py."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run; created if missing.")
_DISTRIBUTED = flags.DEFINE_bool("distributed", False, "One of several processes; see --help.")
_COORDINATOR = flags.DEFINE_string("coordinator", None, "HOST:PORT of the first process.")
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "Number of processes.", lower_bound=1)
_PROCESS_ID = flags.DEFINE_integer(
    "process_id", None, "Index of this process, from 0.", lower_bound=0
)
_STOPPED_CODE = flags.DEFINE_integer(
    "stopped_code",
    0,
    "Exit code of a run that was told to stop and has saved; 75 (EX_TEMPFAIL), for example, if a "
    "scheduler has to begin it again.",
    lower_bound=0,
    upper_bound=255,
)
_STOP_AFTER = flags.DEFINE_integer(
    "stop_after",
    None,
    "Save and stop after this update; schedules go by config.updates all the "
    "same. Without it the same command goes on.",
    lower_bound=1,
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Check the config, print it, and stop.")


def _join() -> None:
    """Connects to the other processes, if there are any."""
    given = {
        "coordinator_address": _COORDINATOR.value,
        "num_processes": _NUM_PROCESSES.value,
        "process_id": _PROCESS_ID.value,
    }
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == 3 and not _DISTRIBUTED.value:
        return
    if 0 < len(missing) < 3:
        cli.fail(
            "--coordinator=HOST:PORT, --num_processes=N and --process_id=I go together; give all "
            "three, or only --distributed if the cluster assigns them"
        )
    import jax

    try:
        jax.distributed.initialize(**given)
    except (RuntimeError, ValueError) as error:
        cli.fail(
            f"the processes could not connect ({error}); give --coordinator=HOST:PORT, "
            "--num_processes=N and --process_id=I"
        )


def main(argv: list[str]) -> None:
    """Checks everything, then trains."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --config=... --workdir=... --config.key=value")
    config = cli.given(_CONFIG.value)
    if _WORKDIR.value is None and not _DRY_RUN.value:
        cli.fail("--workdir is missing: name the run's directory, for example --workdir=runs/coin")
    cli.use_compilation_cache()
    _join()
    # Imported after the flags are parsed: a typing error is told at once.
    from agentrl.config.build import build
    from agentrl.run import checkpoint, loop, processes, stages
    from envs.hosted import HostError

    if _STOP_AFTER.value is not None and "stages" in config:
        cli.fail("--stop_after is of one run, and this config has stages; leave it out")
    command = shlex.join([sys.executable, "-m", "launchers.train", *sys.argv[1:]])
    try:
        if _DRY_RUN.value:
            (stages.check if "stages" in config else build)(config)
            # As in config.json, without YAML's tags of tuples.
            print(yaml.safe_dump(json.loads(config.to_json())), end="")
            return
        one = functools.partial(loop.run, stop_after=_STOP_AFTER.value)
        train = stages.run if "stages" in config else one
        finished = train(config, pathlib.Path(_WORKDIR.value), command=command)
    except loop.NonFiniteError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
    except (ValueError, HostError, loop.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    except OSError as error:
        if error.filename is None:  # not of files
            raise
        cli.fail(f"{error.filename}: {error.strerror}; the same command resumes when it is mended")
    if processes.is_first():
        done = "finished" if _STOP_AFTER.value is None else f"done to update {_STOP_AFTER.value}"
        print(
            f"{done if finished else 'stopped and saved; the same command resumes'}: "
            f"{_WORKDIR.value}",
            file=sys.stderr,
        )
    if not finished:
        sys.exit(_STOPPED_CODE.value)


if __name__ == "__main__":
    cli.run(main)
