"""A language policy as an actor in games."""

from typing import Any

import chex
import jax.numpy as jnp

from agentrl.actors.types import Actor, Decision, no_memory
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.talk import Talk


def language_player(
    policy: LanguagePolicy,
    params: chex.ArrayTree,
    env: Any,
    env_params: Any,
    *,
    greedy: bool,
    max_new_tokens: int | None = None,
) -> Actor:
    """A trained language policy in a game: each turn is read by itself, and replied to.

    env: the game in the wording that the policy reads; another player's may be another. A reply
    that names no command is an illegal action, one that is cut is not: as in `conversation`.
    max_new_tokens: as there.

    Raises:
      ValueError: a grammar with several commands a reply, which are no move.
    """
    talk = Talk(
        policy,
        env,
        env_params,
        max_turns=1,
        max_new_tokens=max_new_tokens,
        context="window",
        history=0,
        keep_first=False,
        context_tokens=None,
        anchor="observation",
    )

    def act(params, memory, view, key):
        asked = view.acting
        if talk.movers == 1:
            asked = jnp.any(asked, axis=1, keepdims=True)
        action = talk.reply(params, view.state, key, asked, greedy=greedy)
        # In turns one command, of who moves: the others' are not read.
        return Decision(jnp.broadcast_to(action, view.agent.shape)), memory

    return Actor(no_memory, act, params, draws=not greedy, reads_arrays=False)
