"""Constrained decoding: only tokens that continue a currently legal command."""

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import codec as codecs
from agentrl.policies.generation import Constraint
from agentrl.policies.language import LanguagePolicy
from envs.vector import World


def command_constraint(
    policy: LanguagePolicy, world: World, state: chex.ArrayTree, agent: jax.Array, size: int
) -> Constraint:
    """The constraint for agents i32[B, S] of states [B, ...]; one row per agent, B * S in all.

    Replies have at most `size` tokens. The state of the constraint is the set of legal commands
    that start with the reply so far: the tokens of all replies i32[B * S, n, size] with bool[B * S,
    n], and the next position i32[B * S]. The tokens of the remaining commands at that position are
    allowed, so commands need no distinct prefixes, with any tokenizer. Commands longer than `size`
    cannot be sampled.
    """

    env = world.env

    def one(state, agent, params):
        commands = env.commands_as(state, agent, params)
        said = codecs.replies(policy.codec, policy.grammar, commands, size)
        return said.tokens, env.legal_as(state, agent, params) & ~said.cut

    each = jax.vmap(one, in_axes=(None, 0, None))
    tokens, alive = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]), world.vmap(each)(state, agent)
    )
    batch, count = alive.shape
    row = jnp.arange(batch)[:, None]

    def following(state):
        tokens, _, position = state
        at = jnp.minimum(position, size - 1)[:, None, None]
        return jnp.take_along_axis(tokens, jnp.broadcast_to(at, (batch, count, 1)), axis=2)[..., 0]

    def allowed(state):
        _, alive, _ = state
        vocabulary = jnp.zeros((batch, policy.codec.vocab_size), bool)
        return vocabulary.at[row, following(state)].max(alive)

    def advance(state, token):
        tokens, alive, position = state
        return tokens, alive & (following(state) == token[:, None]), position + 1

    return Constraint((tokens, alive, jnp.zeros(batch, jnp.int32)), allowed, advance)
