"""Players outside this process by name: `program:COMMAND` and `served:URL#MODEL`."""

from agentrl.players import program, served
from agentrl.players.asked import Asked
from envs.environment import Environment


def outside(name: str, env: Environment, *, timeout_s: float = 10.0) -> Asked:
    """The player of such a name: a program is started, a server is found. `Asked.close` ends it.

    timeout_s: seconds for each answer.

    Raises:
      ValueError: a program that does not start, no server, or a game without words.
    """
    if name.startswith(program.PREFIX):
        return program.Program(name.removeprefix(program.PREFIX), env, timeout_s=timeout_s)
    return served.Served(name, env, timeout_s=timeout_s)
