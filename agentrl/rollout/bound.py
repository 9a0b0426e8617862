"""A policy bound to an environment: how it acts, and what it learns from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax

from agentrl.actors.array import array_actor
from agentrl.actors.scripted import check_expert, expert_actor
from agentrl.actors.types import Actor
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.beliefs import check_beliefs
from agentrl.rollout.pack import array_rows
from agentrl.rollout.types import Trajectory, Turn
from agentrl.streams import Rows
from envs.vector import World


class Bound(NamedTuple):
    """What rollouts need of a policy, whatever it reads and writes.

    actor: (World, params) -> Actor; demonstrator: (World, noise, thoughts) -> Actor, the
      environment's expert with the records of this policy.
    rows: (World, Trajectory, learns bool[B, A]) -> Rows.
    num_rows: (batch, turns) -> R.
    fields: (Turn [T, B, S]) -> further fields of `Streams` by name, [T, B, S, ...]; "valid" is
      taken together with the environment's.
    metrics: (Turn, Streams) -> further metrics.
    reads_arrays: it looks at observations. early_exit: the loop ends as soon as no episode runs;
      else it has a fixed length.
    provides: fields of `Streams` that the policy fills besides those of all rollouts.
    frozen: entries of the parameters that are not trained.
    """

    actor: Callable[[World, chex.ArrayTree], Actor]
    demonstrator: Callable[..., Actor]
    rows: Callable[[World, Trajectory, jax.Array], Rows]
    num_rows: Callable[[int, int], int]
    fields: Callable[[Turn], dict[str, jax.Array]] = lambda turns: {}
    metrics: Callable[..., dict[str, jax.Array]] = lambda turns, streams: {}
    reads_arrays: bool = True
    early_exit: bool = False
    provides: frozenset[str] = frozenset()
    frozen: tuple[str, ...] = ()


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
) -> Bound:
    """A policy of any kind, for episodes of at most `turns` turns.

    Raises:
      ValueError: a policy and an environment that do not fit.
    """
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

    def actor(world, params):
        return array_actor(
            policy,
            params,
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
                "config.warm_start.thoughts=True is for language policies, in whose replies "
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
