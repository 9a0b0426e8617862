"""A language policy bound to an environment in the graph."""

from collections.abc import Callable

import chex
import jax

from agentrl.actors.contexts import Context
from agentrl.actors.text import TextActor
from agentrl.players.scripted import check_expert
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.bound import BoundPolicy
from agentrl.rollout.text_rows import text_packing
from envs.environment import Environment
from envs.vector import World


def bind_text(
    policy: LanguagePolicy,
    env: Environment,
    env_params: chex.ArrayTree,
    context: Context | None,
    turns: int,
    *,
    anchor: str | None = None,
    segments: bool = False,
) -> BoundPolicy:
    """A language policy, for episodes of at most `turns` turns. segments: of segments.

    Raises:
      ValueError: a policy, a context and an environment that do not fit.
    """
    if context is None:
        raise ValueError(
            "a language policy needs a context: set config.context, for example "
            "section(contexts.window, history=0)"
        )

    def bound(world: World) -> TextActor:
        return TextActor(
            policy, world, context, turns=turns, anchor=anchor or "observation", segments=segments
        )

    # Errors before anything compiles.
    speaker = bound(World(env, env_params)).speaker

    def actor(world, params, greedy=False):
        return bound(world).actor(params, greedy=greedy)

    def demonstrator(world, noise, thoughts):
        check_expert(world.env, world.params)
        return bound(world).expert(noise=noise, thoughts=thoughts)

    return BoundPolicy(
        actor=actor,
        demonstrator=demonstrator,
        packing=text_packing(speaker, env),
        reads_arrays=False,
        early_exit=True,
        skip_others=env.in_turns,
        # One member after the other: each stops writing when its own replies have ended.
        over_members=_one_by_one,
        frozen=policy.frozen,
    )


def _one_by_one(function: Callable) -> Callable:
    return lambda *args: jax.lax.map(lambda one: function(*one), args)
