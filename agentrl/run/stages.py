"""Stages: runs that start from each other, as one config, one after the other."""

import pathlib
import re

import ml_collections

from agentrl.config import bind as configs
from agentrl.config.build import build
from agentrl.run import evaluations, files, loop, processes
from agentrl.run.signals import Stop
from agentrl.run.status import STAGES

# In config.init_from: prefix for the run of an earlier stage.
EARLIER = "stage:"


def order(config: ml_collections.ConfigDict) -> list[str]:
    """Names of config.stages, each after those that it starts from.

    Raises:
      ValueError: a stage starts from an unknown one, or there is a cycle.
    """
    known, done = dict(config.stages.items()), []
    for _ in known:
        for name in [name for name in known if name not in done]:
            begins = [re.split("[=*]", word)[-1] for word in known[name].init_from.split(",")]
            earlier = [x.removeprefix(EARLIER) for x in begins if x.startswith(EARLIER)]
            for other in earlier:
                if other not in known:
                    raise ValueError(
                        f"config.stages.{name}.init_from={known[name].init_from!r}: there is no "
                        f"stage {other!r}{configs.nearest(other, known)}"
                    )
            if set(earlier) <= set(done):
                done.append(name)
    if len(done) < len(known):
        raise ValueError(
            f"config.stages: {', '.join(name for name in known if name not in done)} wait for each "
            "other by init_from"
        )
    return done


def check(config: ml_collections.ConfigDict) -> list[str]:
    """The `order` of a config's stages, after binding all of them, before anything compiles.

    Raises:
      ValueError: there are other keys than the stages, or a stage is invalid.
    """
    beside = [key for key in config if key != "stages"]
    if beside or not config.stages:
        raise ValueError(
            f"config of stages with {', '.join(beside) or 'none'}: expected config.stages alone, "
            "configs by name; keys are of a stage, config.stages.NAME.key"
        )
    names = order(config)
    for name in names:
        try:
            build(config.stages[name])
        except ValueError as error:
            raise ValueError(f"stage {name!r}: {error}") from None
    return names


def run(config: ml_collections.ConfigDict, workdir: pathlib.Path, *, command: str) -> bool:
    """Trains config.stages in turn, each as a run of its own in `workdir`/NAME.

    config.stages: configs by name. In init_from "stage:NAME" is the directory of another stage,
    also for parts: "planner=stage:choices,hit=stage:hit". A finished stage is not changed, so the
    same command resumes. `workdir`/stages.json lists the stages, for `status.status`.

    Returns and raises as `loop.run`; ValueError also as in `check`.
    """
    names = check(config)
    files.check(workdir)
    if processes.is_first():
        workdir.mkdir(parents=True, exist_ok=True)
        plan = [{"name": name, "updates": config.stages[name].updates} for name in names]
        files.write_json(workdir / STAGES, {"stages": plan})
    with Stop() as stop:
        for name in names:
            stage, directory = config.stages[name].copy_and_resolve_references(), workdir / name
            if evaluations.finished(directory, stage.updates):
                continue
            if processes.any_of(stop.requested):
                return False
            stage.init_from = stage.init_from.replace(EARLIER, f"{workdir}/")
            if not loop.run(stage, directory, command=command, stop=stop):
                return False
    return True
