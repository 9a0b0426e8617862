"""Launches of one or several jobs, for the tests of back ends."""

import dataclasses
import pathlib

from launchers.cluster.launch import Job, Launch, Resources, Stage

GIVEN = {"image": "ghcr.io/me/agentrl:1", "volume": "runs:/mnt/runs"}
ARGUMENTS = ("--config=configs/credit/coin.py:gigpo", "--config.policy.hidden=(32, 32)")


def job(name="coin__gigpo__learning_rate=1e-3", arguments=ARGUMENTS, workdir="runs/coin/a"):
    return Job(name, arguments, pathlib.Path(workdir))


def one(*, retries=10, at_once=0, a_job=None, **resources):
    """A launch of one job with these resources."""
    stage = Stage("train", (a_job or job(),), Resources(**{**GIVEN, **resources}))
    return Launch("coin", pathlib.Path("runs/coin"), (stage,), at_once, retries)


def two_stages(at_once=0):
    """Two jobs, "a" and "b", and a third, "c", after them."""
    stages = (
        Stage("first", (job("a"), job("b")), Resources(**GIVEN)),
        Stage("second", (job("c"),), Resources(**GIVEN), after=("first",)),
    )
    return Launch("coin", pathlib.Path("runs/coin"), stages, at_once)


def two_stages_elsewhere():
    """The same jobs in another directory, with none that waits."""
    stages = tuple(dataclasses.replace(stage, after=()) for stage in two_stages().stages)
    return Launch("other", pathlib.Path("runs/other"), stages)
