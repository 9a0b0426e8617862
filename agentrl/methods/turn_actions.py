"""Which actions of the environment each turn took, of policies over arrays and in words alike."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.learner.component import Setup
from agentrl.methods.by_turn import to_turns
from agentrl.policies import codec as codecs
from agentrl.streams import SUMMARY, Rows, Streams
from envs.environment import Environment, EnvParams
from envs.text import parse

if TYPE_CHECKING:
    from agentrl.policies.language import LanguagePolicy


def turn_actions(setup: Setup, component: str) -> Callable[[Streams, Rows], jax.Array]:
    """(streams, rows) -> actions of whole episodes' turns, i32[N, T, M] in their order; -1: none.

    Over arrays a turn is one action (M = 1). A reply is parsed as in the rollout and has up to M =
    `policy.grammar.max_actions` commands; those that are not the environment's, and those behind
    its limit of steps, are none.

    Args:
      component: whose name errors have.

    Raises:
      ValueError: a language policy in an environment whose commands have slots that its state
        fills: the state of each turn is not recorded.
    """
    env, env_params = next(iter(setup.envs.values()))
    if not setup.policy.reads_text:
        return array_actions
    words = Words(setup.policy, env, env_params, reply_size(setup))
    if jax.eval_shape(words.changing, jax.random.key(0)):
        raise ValueError(
            f"component {component!r} with a language policy in {env.name}: expected commands that "
            "are the same in every state; use a policy over arrays there"
        )
    return words.actions


def array_actions(streams: Streams, rows: Rows) -> jax.Array:
    """The actions of a policy over arrays, i32[N, T, 1]; -1 where nobody acted."""
    action = to_turns(rows.tokens, rows, streams.mask.shape)
    return jnp.where(streams.mask, action, -1)[..., None]


class Words(NamedTuple):
    """How replies of a language policy, of up to `size` tokens, are understood."""

    policy: "LanguagePolicy"
    env: Environment
    env_params: EnvParams
    size: int

    def slots(self, state: chex.ArrayTree) -> chex.ArrayTree:
        """What the state fills the slots of commands with; without slots all agents' are the
        same."""
        return self.env.slots_as(state, jnp.zeros((), jnp.int32), self.env_params)

    def changing(self, key: jax.Array) -> list[jax.Array]:
        """The slots that depend on the state; to be traced."""
        leaves = jax.tree.leaves(self.slots(self.env.initial(key, self.env_params)))
        return [x for x in leaves if isinstance(x, jax.core.Tracer)]

    def understood(self, tokens: jax.Array, length: jax.Array, state: chex.ArrayTree) -> jax.Array:
        """The actions of one reply i32[size], i32[M]; -1 where it has none."""
        policy = self.policy
        text, count = codecs.to_bytes(policy.codec, tokens, length)
        return parse(policy.grammar, self.env.view, self.slots(state), text, count).actions

    def actions(self, streams: Streams, rows: Rows) -> jax.Array:
        """The actions of turns, i32[N, T, M], see `turn_actions`."""
        tokens, length = replies(rows, streams.mask.shape, self.size)
        each = jax.vmap(jax.vmap(self.understood, (0, 0, None)))
        action = each(tokens, length, streams.first_state)
        taken = streams.mask[..., None] & (action >= 0)
        # A command is a step of the environment.
        order = jnp.cumsum(taken.reshape(taken.shape[0], -1), axis=1).reshape(taken.shape)
        limit = self.env_params.max_steps_in_episode
        return jnp.where(taken & (order <= limit), action, -1)


def reply_size(setup: Setup) -> int:
    """Tokens of the longest reply of a language policy in the run's (first) environment."""
    env, env_params = next(iter(setup.envs.values()))
    policy, size = setup.policy, setup.context.max_new_tokens
    if size is not None:
        return size

    def commands(key):
        return env.commands(env.initial(key, env_params), env_params)

    longest = jax.eval_shape(commands, jax.random.key(0)).shape[-1]
    return codecs.reply_tokens(policy.codec, policy.grammar, env.view, longest)


def replies(rows: Rows, shape: tuple[int, int], size: int) -> tuple[jax.Array, jax.Array]:
    """(tokens i32[N, T, size], length i32[N, T]) of the replies in rows, without summaries."""
    there = rows.loss_mask & (rows.turn >= 0) & (rows.span != SUMMARY)
    position = jnp.broadcast_to(jnp.arange(there.shape[1]), there.shape)
    stream = jnp.where(there, rows.stream[:, None], shape[0])  # dropped
    turn = jnp.maximum(rows.turn, 0)
    begins = jnp.full(shape, there.shape[1]).at[stream, turn].min(position, mode="drop")
    offset = position - begins[jnp.minimum(stream, shape[0] - 1), turn]
    empty = jnp.zeros((*shape, size), jnp.int32)
    offset = jnp.where(there, offset, size)
    tokens = empty.at[stream, turn, offset].set(rows.tokens, mode="drop")
    length = jnp.zeros(shape, jnp.int32).at[stream, turn].add(1, mode="drop")
    return tokens, length
