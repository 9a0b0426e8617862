"""The section of trajectories: which episodes of a run are written, and what was played in them."""

import dataclasses
import json
from typing import TYPE_CHECKING, NamedTuple

import ml_collections

from agentrl import rollout as rollouts
from agentrl.checks import check_range
from agentrl.config.base import TRAJECTORIES
from agentrl.config.bind import bound
from agentrl.learner.function import Function
from agentrl.rollout import starts

if TYPE_CHECKING:
    from agentrl.config.build import Experiment

# Keys of the section beside the options of its function, with their defaults.
KEYS = {key: value for key, value in TRAJECTORIES.items() if key != "name"}


class Writing(NamedTuple):
    """What is written. score: f32[N] of the streams, from arrays of `Streams` by name. every: in
    updates. most: episodes of each seed, 0 for all. repeatable: keys tell what was played."""

    score: Function
    every: int
    most: int
    repeatable: bool


def writing_of(config: ml_collections.ConfigDict, experiment: "Experiment") -> Writing | None:
    """What a run writes; None for nothing.

    Raises:
      ValueError: options that nothing uses, a function that reads what the rollout does not give,
        or a rollout without whole episodes.
    """
    values, rollout = config.trajectories, experiment.rollout
    score = bound("trajectories", values, beside=KEYS)
    check_range("config.trajectories.every", values.every, 0)
    check_range("config.trajectories.most", values.most, 0)
    if values.every == 0:
        changed = [k for k, x in TRAJECTORIES.items() if values.get(k) != x]
        if changed:
            raise ValueError(
                f"config.trajectories.{changed[0]} is not used by anything: set "
                "config.trajectories.every, or leave it out"
            )
        return None
    missing = [name for name in score.inputs if name not in rollout.provides]
    if "whole_episodes" not in rollout.properties:
        raise ValueError(
            f"config.trajectories.every={values.every}: the streams of rollout "
            f"{config.rollout.name!r} are no whole episodes; use rollout 'episodes', or every=0"
        )
    if not experiment.phases[-1][0].collects:
        raise ValueError(
            f"config.trajectories.every={values.every}: no update of this run collects episodes; "
            "set every=0"
        )
    if missing:
        raise ValueError(
            f"config.trajectories.name={values.name!r} needs {', '.join(map(repr, missing))}, "
            f"which rollout {config.rollout.name!r} does not give here"
        )
    played = bound("rollout", config.rollout).function is rollouts.episodes
    drawn = bound("sampler", config.sampler).function is starts.independent
    amended = any(part.amend is not None for part in experiment.components.values())
    alone = isinstance(config.env.name, str)
    return Writing(score, values.every, values.most, played and drawn and alone and not amended)


def tasks_of(config: ml_collections.ConfigDict, experiment: "Experiment") -> list:
    """What the run plays, as `agentrl.trajectories.schema.Task`, by `Streams.task`."""
    from agentrl.trajectories.schema import Task  # imported by runs that write

    several, anchor = not isinstance(config.env.name, str), config.rollout.get("anchor")
    found = []
    for name, task in experiment.tasks.items():
        values = config.env[name] if several else config.env
        options = {key: x for key, x in values.to_dict().items() if key != "name"}
        policy = task.policy
        found.append(
            Task(
                environment=name,
                options=json.loads(json.dumps(options)),
                turns=task.rollout.turns,
                anchor=anchor if anchor in task.env.anchors else None,
                grammar=None if policy.grammar is None else dataclasses.asdict(policy.grammar),
            )
        )
    return found
