"""What policies and environments of a kind do not take, as tables."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import ml_collections

from agentrl.config.bind import bind, check_unused
from agentrl.learner.optimizer import AUTO
from agentrl.policies import LANGUAGE_POLICIES, POLICIES
from agentrl.rollout import processes
from envs.agents import Agents


class Refused(NamedTuple):
    """A setting that is refused. given: (config) -> whether it is there. message: with the config's
    keys as {section.key}, and {processes}, the number of them."""

    given: Callable[[ml_collections.ConfigDict], Any]
    message: str


_CONTEXT = (
    "config.context.name={context.name!r} with config.policy.name={policy.name!r}: language "
    f"policies ({', '.join(LANGUAGE_POLICIES)}, and functions of yours whose first parameter is "
    f"`view`) need a context, such as 'window', the others ({', '.join(POLICIES)}) 'none'"
)

# Of the kinds of policies, before they are bound to anything.
CONTEXTS = {
    "arrays": (Refused(lambda config: config.context.name != "none", _CONTEXT),),
    "language": (Refused(lambda config: config.context.name == "none", _CONTEXT),),
}

_LENGTHS = (
    "config.learner.lengths={learner.lengths} is for language policies in microbatches; set "
    "microbatch, or lengths=1"
)
LENGTHS = {
    "arrays": (Refused(lambda config: config.learner.lengths > 1, _LENGTHS),),
    "language": (
        Refused(
            lambda config: config.learner.lengths > 1 and config.learner.microbatch is None,
            _LENGTHS,
        ),
    ),
}

# Of environments in Python, wherever the policy acts in one.
_IN_PYTHON = (
    Refused(
        lambda config: config.evaluation.at_once is not None,
        "config.evaluation.at_once={evaluation.at_once} is used by nothing: environments in Python "
        "are played by config.host.workers at the same time; leave it out",
    ),
)

# Where the policy learns in them.
_LEARNING_IN_PYTHON = (
    Refused(
        lambda config: config.population.every,
        "config.population.every={population.every} with config.rollout.name={rollout.name!r}, "
        "which trains one seed after the other: set every=0, or use an environment in JAX",
    ),
    Refused(
        lambda config: config.learner.microbatch == AUTO,
        "config.learner.microbatch={learner.microbatch!r}: with environments in Python programs "
        "are compiled as they are met; give a number",
    ),
    Refused(
        lambda config: jax.process_count() > 1,
        "config.rollout.name={rollout.name!r} with {processes} processes: environments in Python "
        "are stepped by one; start one process",
    ),
)


def refuse(config: ml_collections.ConfigDict, rows: Iterable[Refused]) -> None:
    """ValueError for the first of the settings that is there."""
    for row in rows:
        if row.given(config):
            raise ValueError(row.message.format(processes=jax.process_count(), **config))


def check_environment(
    config: ml_collections.ConfigDict, env: Agents, *, learning: bool = False
) -> None:
    """ValueError for settings that are for environments of the other kind. learning: the policy
    learns in it, and does not only act."""
    if env.in_python:
        refuse(config, _LEARNING_IN_PYTHON if learning else _IN_PYTHON)
    else:
        options = bind("host", processes, config.host)
        check_unused("host", processes, options, "use an environment in Python")
