"""Which actions of the environment each turn took, of policies over arrays and in words alike."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentrl.learner.component import Setup
from agentrl.methods.by_turn import to_turns
from agentrl.policies import codec as codecs
from agentrl.streams import SUMMARY, Rows, Streams
from envs.text import parse


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

        def acted(streams, rows):
            return jnp.where(streams.mask, to_turns(rows.tokens, rows, streams.mask.shape), -1)

        return lambda streams, rows: acted(streams, rows)[..., None]

    def slots_of(state):
        # Without slots all agents' are the same.
        return env.slots_as(state, jnp.zeros((), jnp.int32), env_params)

    def changing(key):
        leaves = jax.tree.leaves(slots_of(env.initial(key, env_params)))
        return [x for x in leaves if isinstance(x, jax.core.Tracer)]

    if jax.eval_shape(changing, jax.random.key(0)):
        raise ValueError(
            f"component {component!r} with a language policy in {env.name}: expected commands that "
            "are the same in every state; use a policy over arrays there"
        )
    policy, size = setup.policy, reply_size(setup)

    def understood(tokens, length, state):
        text, count = codecs.to_bytes(policy.codec, tokens, length)
        return parse(policy.grammar, env.view, slots_of(state), text, count).actions

    def said(streams, rows):
        tokens, length = replies(rows, streams.mask.shape, size)
        each = jax.vmap(jax.vmap(understood, (0, 0, None)))
        action = each(tokens, length, streams.first_state)
        taken = streams.mask[..., None] & (action >= 0)
        # A command is a step of the environment.
        order = jnp.cumsum(taken.reshape(taken.shape[0], -1), axis=1).reshape(taken.shape)
        return jnp.where(taken & (order <= env_params.max_steps_in_episode), action, -1)

    return said


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
