"""Options of environments in Python, which are played in processes of their own."""

from typing import NamedTuple

from agentrl.checks import check_range


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
