"""Policies over observations as tables over a game's information states."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.actor_critic import Policy
from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.sequence_form import SequenceForm
from envs.agents import Agents
from envs.environment import Environment, EnvParams


def form_of(env: Agents) -> SequenceForm | None:
    """The sequence form of an environment, or None if the environment has none."""
    if env.tabular is None:
        return None
    # Imports poker's rules: for tabular games only.
    from agentrl.selfplay.games import sequence_form

    name, options = env.tabular
    return sequence_form(name, **options)


def make_table(
    policy: Policy, env: Environment, env_params: EnvParams
) -> Callable[[chex.ArrayTree], jax.Array] | None:
    """(params) -> policy f32[I, A] of the game's information states, or None.

    None if the game has no sequence form, and for policies with memory, which a single state does
    not determine.
    """
    form = form_of(env)
    if form is None or policy.memory(1) is not None:
        return None
    states = jax.vmap(lambda hand: env.at(hand))(form.states)
    seen = jax.vmap(env.observe_as, in_axes=(0, 0, None))(states, form.player, env_params)
    seen, legal = np.asarray(seen), np.asarray(form.legal)

    def table(params: chex.ArrayTree) -> jax.Array:
        seats = jnp.asarray(form.player)
        outputs, _, _ = policy.step(params, None, jnp.asarray(seen), seats)

        def log_prob(action):
            return policy.head.log_prob(outputs, legal, jnp.full(seats.shape, action))

        return jnp.exp(jax.vmap(log_prob, out_axes=1)(jnp.arange(legal.shape[1])))

    return table


def make_exploitability(
    policy: Policy, env: Environment, env_params: EnvParams
) -> Callable[[chex.ArrayTree], jax.Array] | None:
    """(params) -> exploitability f32[] of the policy in all seats, NashConv / N, in the graph.

    None in the same cases as `make_table`. In float32, within 1e-6 of the exact value on Leduc's
    game.
    """
    table = make_table(policy, env, env_params)
    if table is None:
        return None
    form = form_of(env)
    return lambda params: sf.nash_conv(form, table(params)) / form.num_players
