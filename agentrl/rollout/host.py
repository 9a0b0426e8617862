"""Options of environments in Python, which are played in processes of their own."""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import NamedTuple, ParamSpec

from agentrl.checks import check_range
from agentrl.rollout.types import Rollout

_Options = ParamSpec("_Options")


class Host(NamedTuple):
    """How environments in Python are played; see `processes`."""

    workers: int
    timeout_s: float
    retries: int
    observation_tokens: int
    max_turns: int


def processes(
    *,
    workers: int = 4,
    timeout_s: float = 60.0,
    retries: int = 1,
    observation_tokens: int = 1024,
    max_turns: int = 16,
) -> Host:
    """Options of environments in Python.

    An episode is lost if its environment raises, ends its process, sends nonsense or takes longer
    than `timeout_s` for an answer. It is then played again from its start, up to `retries` times,
    in a new process; after that it is left out: its streams have no turn, and metric
    `failed_episodes` counts it. (This biases the data: behaviour that makes an environment fail is
    never penalised.) In segments a lost episode's turns are masked, and another task follows.

    Args:
      workers: processes, and rows of the compiled programs.
      timeout_s: seconds for an answer.
      observation_tokens: tokens of an observation in words; a longer one loses its beginning.
      max_turns: turns of an episode, of all agents together; longer ones are truncated.
    """
    check_range("host workers", workers, 1)
    check_range("host timeout_s", timeout_s, 0, above=True)
    check_range("host retries", retries, 0)
    check_range("host max_turns", max_turns, 1)
    return Host(workers, timeout_s, retries, observation_tokens, max_turns)


def for_hosts(
    path: str,
) -> Callable[[Callable[_Options, Rollout]], Callable[_Options, Rollout]]:
    """Decorator of a rollout, which may be given an environment in Python, too: of these it is made
    by the function of this path.

    That takes some of the rollout's parameters, by their names; others have to be left alone. It is
    imported when it is called: it imports the decoder.

    Raises:
      ValueError: an option that environments in Python do not use.
    """

    def decorated(in_graph):
        signature = inspect.signature(in_graph)

        @functools.wraps(in_graph)
        def chosen(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            env = given.arguments["env"]
            if not env.in_python:
                return in_graph(*args, **kwargs)
            module, _, name = path.rpartition(".")
            hosted = getattr(importlib.import_module(module), name)
            taken = inspect.signature(hosted).parameters
            for option, value in given.arguments.items():
                if option not in taken and option != "env_params":
                    _check_unused(signature, env.name, option, value)
            given.apply_defaults()
            return hosted(**{option: given.arguments[option] for option in taken})

        return chosen

    return decorated


def _check_unused(signature: inspect.Signature, env: str, option: str, value: object) -> None:
    # A sampler comes with its options bound.
    value, default = getattr(value, "func", value), signature.parameters[option].default
    if value != default:
        value, default = (getattr(x, "__name__", repr(x)) for x in (value, default))
        raise ValueError(
            f"rollout {option}={value} with {env}: environments in Python do not use it; leave it "
            f"at {default}"
        )
