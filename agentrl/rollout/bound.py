"""A policy bound to an environment: its actor, and how its rows are made."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax

from agentrl.actors.array import array_actor
from agentrl.actors.types import Actor
from agentrl.checks import check_choice
from agentrl.players.scripted import check_expert, expert_actor
from agentrl.policies.actor_critic import Policy
from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.pack import Packing, array_packing
from envs.environment import Environment, EnvParams
from envs.vector import World

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from agentrl.actors.contexts import Context
    from agentrl.policies.language import LanguagePolicy
    from agentrl.rollout.questions import Questions

LISTENERS = ("none", "all", "others")


class BoundPolicy(NamedTuple):
    """A policy bound to an environment, over arrays or over text.

    actor: (World, params, greedy=False) -> Actor. demonstrator: (World, noise, thoughts) -> Actor,
      the environment's expert with the records of this policy.
    packing: how streams and rows are made.
    reads_arrays: it reads observations. early_exit: the loop ends as soon as no episode runs; else
      it has a fixed length. skip_others: see `unroll`. over_members: how members of a pool act, and
      how seeds collect, all at once or one after the other.
    frozen: entries of the parameters that are not trained.
    questions: how a language policy is asked for beliefs; None: it is not.
    """

    actor: Callable[..., Actor]
    demonstrator: Callable[[World, float, bool], Actor]
    packing: Packing
    reads_arrays: bool = True
    early_exit: bool = False
    skip_others: bool = False
    over_members: Callable = jax.vmap
    frozen: tuple[str, ...] = ()
    questions: "Questions | None" = None


def bind(
    policy: EitherPolicy,
    env: Environment,
    env_params: EnvParams,
    context: "Context | None",
    turns: int,
    *,
    mask_illegal: bool,
    anchor: str | None = None,
    listeners: str = "none",
    question: str = "",
    questions: int = 0,
    segments: bool = False,
) -> BoundPolicy:
    """A policy of any kind, for episodes of at most `turns` turns.

    Raises:
      ValueError: a policy and an environment that do not fit.
    """
    if in_words(policy, context):
        from agentrl.rollout.bound_text import bind_text  # imports the decoder

        assert context is not None  # of every language policy
        return bind_text(
            policy, env, env_params, context, turns,
            anchor=anchor, segments=segments,
            listeners=listeners, question=question, questions=questions,
        )  # fmt: skip
    if question:
        raise ValueError(
            f"rollout question={question!r} is for language policies; this policy reads arrays and "
            "answers by a head: set config.policy.answers"
        )
    return bind_arrays(policy, env, mask_illegal=mask_illegal, anchor=anchor, listeners=listeners)


def in_words(policy: EitherPolicy, context: "Context | None") -> "TypeIs[LanguagePolicy]":
    """Whether a policy is a language policy.

    Raises:
      ValueError: a language policy without a context, or a policy over arrays with one.
    """
    words = policy.reads_text
    if words and context is None:
        raise ValueError(
            "a language policy needs a context: set config.context, for example "
            "section(contexts.window, history=0)"
        )
    if context is not None and not words:
        raise ValueError(
            "config.context is for language policies; this policy reads arrays: set "
            "config.context.name='none'"
        )
    return words


def bind_arrays(
    policy: Policy,
    env: Environment,
    *,
    mask_illegal: bool,
    anchor: str | None = None,
    listeners: str = "none",
) -> BoundPolicy:
    """A policy over arrays. ValueError where its head for beliefs does not fit the environment."""
    _check_beliefs(policy, env, listeners)

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
        return expert._replace(follows=policy.memory(1) is not None)

    packing = array_packing(policy, env)
    return BoundPolicy(actor, demonstrator, packing, frozen=policy.frozen)


def _check_beliefs(policy: Policy, env: Environment, listeners: str) -> None:
    """ValueError unless the policy can answer the environment's belief question, and all listen."""
    asks = env.num_answers if env.num_agents > 1 else 0
    if policy.num_answers != asks and policy.num_answers:
        remedy = f"use {asks}, or 0" if asks else "it has no question about beliefs: use 0"
        raise ValueError(f"policy option answers={policy.num_answers} with {env.name}: {remedy}")
    check_choice("rollout listeners", listeners, LISTENERS)
    if listeners != "none" and not policy.num_answers:
        remedy = f"set config.policy.answers={asks}" if asks else "the environment asks nothing"
        raise ValueError(
            f"rollout listeners={listeners!r} with {env.name} and a policy without answers: "
            f"{remedy}, or leave listeners out"
        )
