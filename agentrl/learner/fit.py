"""Which runs a method's component fits: one check, which says what is there and what is needed."""

from typing import Any, Literal

from agentrl.learner.component import Setup

_KINDS = {"arrays": "a policy over arrays", "language": "a language policy"}


def fitting(
    setup: Setup,
    component: str,
    policy: Literal["arrays", "language"],
    *members: str,
    example: str = "",
    agents: int | None = None,
    environments: int | None = None,
    discrete: bool = False,
    in_graph: bool = False,
    without_memory: bool = False,
    critic: bool = False,
    whole_episodes: bool = False,
) -> tuple[Any, Any]:
    """The (first) environment of a run that a component fits, and its params.

    Args:
      component: its name, for errors.
      policy: the kind that it needs.
      members: attributes that the environment has to have; example: one that has them.
      agents, environments: how many there have to be; None: any number.
      discrete: actions are numbers. in_graph: the environment is in the graph. without_memory,
        critic: the policy has none, or one. whole_episodes: streams are whole episodes.

    Raises:
      ValueError: something else is there.
    """
    env, params = next(iter(setup.envs.values()))
    acts, count = setup.policy, len(setup.envs)
    needed = " and ".join(f"`{name}`" for name in members)
    kind = "language" if acts.reads_text else "arrays"
    checks = (
        (kind == policy, _KINDS[policy], _KINDS[kind]),
        (not critic or acts.has_critic, "a critic (config.policy.critic='shared')", "none"),
        (not discrete or not env.continuous, "discrete actions", "continuous ones"),
        (environments in (None, count), "one environment", f"{count} environments"),
        (agents in (None, env.num_agents), "one agent", f"{env.num_agents} agents"),
        (not in_graph or not env.in_python, "an environment in the graph", "one in Python"),
        (
            all(hasattr(env, name) for name in members),
            f"an environment with {needed}, such as {example}",
            env.name,
        ),
        (
            not whole_episodes or "whole_episodes" in setup.rollout.properties,
            "whole episodes (config.rollout.name='episodes')",
            "parts of several",
        ),
        (
            not without_memory or kind == "language" or acts.memory(1) is None,
            "a policy without memory",
            "one with memory",
        ),
    )
    missing = [f"{expected}, and here is {given}" for holds, expected, given in checks if not holds]
    if missing:
        raise ValueError(f"component {component!r} needs {'; '.join(missing)}")
    return env, params
