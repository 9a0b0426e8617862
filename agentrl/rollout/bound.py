"""A policy bound to an environment: its actor, and how its rows are made."""

from typing import Any

import jax

from agentrl.actors.array import array_actor
from agentrl.actors.scripted import check_expert, expert_actor
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.beliefs import check_beliefs
from agentrl.rollout.bound_type import Bound
from agentrl.rollout.pack import array_rows


def bind(
    policy: Any,
    env: Any,
    env_params: Any,
    context: Any,
    turns: int,
    *,
    mask_illegal: bool,
    anchor: str | None = None,
    listeners: str = "none",
    segments: bool = False,
) -> Bound:
    """A policy of any kind, for episodes of at most `turns` turns.

    Raises:
      ValueError: a policy and an environment that do not fit.
    """
    if policy.reads_text:
        from agentrl.rollout.bound_text import bind_text  # imports the decoder

        return bind_text(policy, env, env_params, context, turns, anchor=anchor, segments=segments)
    if context is not None:
        raise ValueError(
            "config.context is for language policies; this policy reads arrays: set "
            "config.context.name='none'"
        )
    return bind_arrays(policy, env, mask_illegal=mask_illegal, anchor=anchor, listeners=listeners)


def bind_arrays(
    policy: Policy,
    env: Any,
    *,
    mask_illegal: bool,
    anchor: str | None = None,
    listeners: str = "none",
) -> Bound:
    """A policy over arrays. ValueError where its head for beliefs does not fit the environment."""
    check_beliefs(policy, env, listeners)
    remembers = policy.memory(1) is not None
    shown = env.num_agents if remembers else env.num_acting

    def actor(world, params, greedy=False):
        return array_actor(
            policy,
            params,
            greedy=greedy,
            mask_illegal=mask_illegal,
            records=True,
            anchor=anchor,
            world=world,
            asks=bool(policy.num_answers),
            believes=listeners != "none",
        )

    def demonstrator(world, noise, thoughts):
        if thoughts:
            raise ValueError(
                "config.expert.thoughts=True is for language policies, in whose replies "
                "thoughts stand; set False"
            )
        check_expert(world.env, world.params)
        expert = expert_actor(world, noise=noise, records=True, mask_illegal=mask_illegal)
        return expert._replace(follows=remembers)

    def rows(world, trajectory, learns):
        memory = policy.memory(learns.size) if remembers else None
        if remembers and trajectory.first.memory[0] is not None:
            memory = trajectory.first.memory[0]
            memory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memory)
        return array_rows(world.env, trajectory.turns, learns, memory)

    return Bound(
        actor=actor,
        demonstrator=demonstrator,
        rows=rows,
        num_rows=lambda batch, turns: batch * shown * (1 if remembers else turns),
        provides=frozenset({"value", "bootstrap"} if policy.has_critic else ()),
        frozen=policy.frozen,
    )
