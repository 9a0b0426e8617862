"""Checks of a launch before anything is submitted: the config of every job resolves and builds."""

import dataclasses
import json
from collections.abc import Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

from launchers import cli
from launchers.cluster.launch import Job, Launch


def resolved(arguments: Sequence[str]) -> ml_collections.ConfigDict:
    """The config of a job's arguments, as `launchers.train` reads it.

    Raises:
      ValueError: no such file, no such key, a value of another type.
    """
    values, line = flags.FlagValues(), ["launchers.train", *arguments]
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    flags.DEFINE_integer("stop_after", None, "As of launchers.train.", flag_values=values)
    left = cli.read(values, line)[1:]
    if left or values.config is None:
        raise ValueError(f"{' '.join(arguments)}: expected --config=FILE --config.key=value")
    try:
        values.config.keys()
    except OSError as error:  # ml_collections reports a missing file at the first access
        raise ValueError(str(error)) from None
    cli.check_trains(values.config)
    return values.config


def keys(configs: Sequence[str]) -> set[str]:
    """All keys of configs, FILE[:PRESET], with dots. ValueError as `resolved`."""
    from agentrl.config import bind

    found = (resolved([f"--config={config}"]).to_dict() for config in configs)
    return {key for config in found for key, _ in bind.flat(config)}


def checked(launch: Launch) -> Launch:
    """The launch with the updates of its runs, after binding every job's config.

    Raises:
      ValueError: a config that `launchers.train` would refuse, with the name of its job.
    """
    known: dict[str, dict[str, int]] = {}
    stages = (
        dataclasses.replace(stage, jobs=tuple(_checked(job, known) for job in stage.jobs))
        for stage in launch.stages
    )
    return dataclasses.replace(launch, stages=tuple(stages))


def _checked(job: Job, known: dict[str, dict[str, int]]) -> Job:
    """known: what was found of configs that differ in their seed alone."""
    from agentrl.config.build import build
    from agentrl.run import stages

    try:
        config = resolved(job.arguments)
        content = {key: value for key, value in config.to_dict().items() if key != "seed"}
        same = json.dumps(content, sort_keys=True, default=repr)
        if same not in known:
            if "stages" in config:
                names = stages.check(config)
                known[same] = {name: config.stages[name].updates for name in names}
            else:
                build(config)
                known[same] = {"": config.updates}
    except ValueError as error:
        raise ValueError(f"{job.name}: {cli.one_line(error)}") from None
    stops = [int(x.partition("=")[2]) for x in job.arguments if x.startswith("--stop_after=")]
    runs = {name: min([updates, *stops]) for name, updates in known[same].items()}
    return dataclasses.replace(job, runs=runs)
