"""What a component requires of a run: one check, whose error says what is missing."""

from typing import Literal, TypedDict, Unpack, overload

import chex

from agentrl.learner.component import Setup
from agentrl.policies.protocol import KINDS
from envs.environment import AnyEnvironment, Environment, EnvParams


class Needs(TypedDict, total=False):
    """Keyword options of `required` that do not change the type of what it returns."""

    example: str
    one_agent: bool
    one_environment: bool
    discrete: bool
    without_memory: bool
    critic: bool
    whole_episodes: bool


Kind = Literal["arrays", "language"] | None


@overload
def required(
    setup: Setup, component: str, policy: Kind, *members: str, in_graph: Literal[True],
    **needs: Unpack[Needs],
) -> tuple[Environment, EnvParams]:  # fmt: skip
    """With in_graph=True the environment is one of JAX, and its params are `EnvParams`."""
    ...


@overload
def required(
    setup: Setup, component: str, policy: Kind, *members: str, in_graph: bool = ...,
    **needs: Unpack[Needs],
) -> tuple[AnyEnvironment, chex.ArrayTree]:  # fmt: skip
    """Otherwise it may be one in Python, whose params are any tree of arrays."""
    ...


def required(
    setup: Setup,
    component: str,
    policy: Kind,
    *members: str,
    example: str = "",
    one_agent: bool = False,
    one_environment: bool = False,
    discrete: bool = False,
    in_graph: bool = False,
    without_memory: bool = False,
    critic: bool = False,
    whole_episodes: bool = False,
) -> tuple[AnyEnvironment, chex.ArrayTree]:
    """The (first) environment of a run that a component can learn in, and its params.

    Args:
      component: its name, for errors.
      policy: the kind that it requires; None: either.
      members: attributes that the environment has to have; example: one that has them.
      one_agent, one_environment: no more than one. discrete: no continuous actions. in_graph: no
        environment in Python. without_memory: no recurrent policy. critic: a policy with one.
        whole_episodes: each stream is one episode, not a segment.

    Raises:
      ValueError: the run lacks something of these; the message names all that it lacks.
    """
    env, params = next(iter(setup.envs.values()))
    acts, count = setup.policy, len(setup.envs)
    needed = " and ".join(f"`{name}`" for name in members)
    checks = (
        (policy in (None, acts.kind), KINDS[policy or acts.kind], KINDS[acts.kind]),
        (not critic or acts.has_critic, "a critic (config.policy.critic='shared')", "none"),
        (not discrete or not env.continuous, "discrete actions", "continuous ones"),
        (not one_environment or count == 1, "one environment", f"{count} environments"),
        (not one_agent or env.num_agents == 1, "one agent", f"{env.num_agents} agents"),
        (not in_graph or not env.in_python, "an environment in the graph", "one in Python"),
        (
            all(hasattr(env, name) for name in members),
            f"an environment with {needed}, such as {example}",
            env.name,
        ),
        (
            not whole_episodes or "whole_episodes" in setup.rollout.properties,
            "whole episodes (config.rollout.name='episodes')",
            "segments",
        ),
        (
            not without_memory or acts.memory(1) is None,
            "a policy without memory",
            "one with memory",
        ),
    )
    missing = [f"{expected} (here: {given})" for holds, expected, given in checks if not holds]
    if missing:
        raise ValueError(f"component {component!r} needs {'; '.join(missing)}")
    return env, params
