"""Where the text of a language policy comes from, and what its replies mean there.

Letters as in `agentrl.actors.text_agent`.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax

from agentrl.actors.behaviour import Behaviour
from agentrl.actors.contexts import Context
from agentrl.actors.records import ObservationTokens
from agentrl.actors.types import View
from agentrl.policies.generation import Constraint
from agentrl.policies.language import LanguagePolicy
from envs.environment import AnyEnvironment


class Understood(NamedTuple):
    """What replies mean in an environment. action: [n, ...]. format_ok: bool[n], a reply keeps the
    grammar. known: bool[n], or True: it names commands."""

    action: chex.ArrayTree
    format_ok: jax.Array
    known: jax.Array | bool


class Source(NamedTuple):
    """Where the observations of a text agent come from, and what its replies mean there.

    roles: of each of the A agents. observation_tokens, reply_tokens: O and G, bounds.
    observe: (View, own turns i32[B, S]) -> observations of B * S lanes.
    understand: (View, text u8[B * S, W], bytes i32[B * S]) -> what these replies mean.
    constraint: (View, states of the behaviour or None, own turns i32[B * S]) -> the replies that
      may be sampled; None: any.
    behaviour: what the agent's specification says of its turns, if it has one.
    """

    roles: tuple[int, ...]
    observation_tokens: int
    reply_tokens: int
    observe: Callable[[View, jax.Array], ObservationTokens]
    understand: Callable[[View, jax.Array, jax.Array], Understood]
    constraint: Callable[[View, jax.Array | None, jax.Array], Constraint] | None = None
    behaviour: Behaviour | None = None


def check_roles(policy: LanguagePolicy, env: AnyEnvironment, context: Context, roles: int) -> None:
    """ValueError where a language policy has adapters for fewer roles than the environment, or a
    context has rows of several turns that other roles would have to read again."""
    if 1 < policy.config.lora_roles < roles:
        raise ValueError(
            f"policy lora_roles={policy.config.lora_roles} with {env.name}, which has {roles} "
            "roles: set it to as many, or to 1 for one adapter for all"
        )
    if context.stride > 1 and env.speakers > 1:
        raise ValueError(
            f"context stride={context.stride} with {env.name}, where {env.speakers} roles write "
            "one transcript: each of them would have to read a row of several turns; expected "
            "stride=1"
        )
