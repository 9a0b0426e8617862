"""Twin critics of discrete actions with slow copies, and a replay of turns that they learn from."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.methods.networks import Embedding
from agentrl.streams import Rows
from envs.environment import Environment


class Critic(struct.PyTreeNode):
    """params, slow: of the twins and of their slow copies. opt_state: of the optimiser."""

    params: chex.ArrayTree
    slow: chex.ArrayTree
    opt_state: chex.ArrayTree


class TwinQ(NamedTuple):
    """Two values of each discrete action, by one network with two outputs per action."""

    network: Embedding
    num_actions: int

    @classmethod
    def of(cls, env: Environment, hidden: int) -> "TwinQ":
        """The twins for an environment's observations and actions."""
        return cls(Embedding(hidden, 2 * env.num_actions, env.num_codes), env.num_actions)

    def all(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """Both values of all actions, f32[n, 2, A]."""
        return self.network.apply(params, observation).reshape(-1, 2, self.num_actions)

    def lower(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """The smaller value of each action, f32[n, A]."""
        return jnp.min(self.all(params, observation), axis=1)

    def of_action(
        self, params: chex.ArrayTree, observation: jax.Array, action: jax.Array
    ) -> jax.Array:
        """Both values of one action i32[n], f32[n, 2]."""
        both = self.all(params, observation)
        return jnp.take_along_axis(both, action[:, None, None], axis=2)[..., 0]

    def created(
        self, key: jax.Array, observation: jax.Array, transform: optax.GradientTransformation
    ) -> Critic:
        """New twins with their optimiser; observation: [1, ...], an example."""
        params = self.network.init(key, observation)
        return Critic(params, params, transform.init(params))


def fitted(
    critic: Critic,
    transform: optax.GradientTransformation,
    loss_of: Callable[[chex.ArrayTree, chex.ArrayTree, jax.Array], jax.Array],
    keys: jax.Array,
    *,
    rate: float,
) -> tuple[Critic, jax.Array]:
    """(the critic after a step per key, losses f32[steps] before each).

    loss_of: (params, slow, key) -> f32[]. rate: by which the slow copies follow after each step.
    """

    def step(critic, key):
        loss, grads = jax.value_and_grad(loss_of)(critic.params, critic.slow, key)
        updates, opt_state = transform.update(grads, critic.opt_state, critic.params)
        params = optax.apply_updates(critic.params, updates)
        slow = optax.incremental_update(params, critic.slow, rate)
        return Critic(params, slow, opt_state), loss

    return jax.lax.scan(step, critic, keys)


def weighted_mean(values: jax.Array, weight: jax.Array, there: jax.Array) -> jax.Array:
    """The sum of weight * values over the entries that are there, by their number, f32[]; 0 if
    there are none. values, weight: f32[n]. there: bool[n]."""
    total = jnp.sum(jnp.where(there, weight * values, 0.0))
    return total / jnp.maximum(jnp.sum(there), 1)


def no_turns(like: Mapping[str, Any], size: int) -> dict[str, Any]:
    """A replay of `size` empty places. like: turns by name, or their shapes and types."""
    return jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), dict(like))


def drawn(replay: Mapping[str, Any], count: int, key: jax.Array) -> dict[str, Any]:
    """`count` turns, each drawn evenly from the places that are filled, of which all are in front;
    an empty replay gives empty turns."""
    filled = jnp.maximum(jnp.sum(replay["acted"]), 1)
    number = jax.random.randint(key, (count,), 0, filled)
    return jax.tree.map(lambda x: x[number], dict(replay))


def rows_of(turns: Mapping[str, Any], number: jax.Array | int = 0) -> Rows:
    """Rows [n, 1] of single turns, `observation`, `action` and `acted`; number: i32[n], their
    `turn`."""
    count = turns["acted"].shape[0]
    return Rows(
        tokens=turns["action"][:, None],
        loss_mask=turns["acted"][:, None],
        stream=jnp.arange(count, dtype=jnp.int32),
        turn=jnp.broadcast_to(jnp.asarray(number, jnp.int32), (count,))[:, None],
        behaviour_logp=jnp.zeros((count, 1)),
        observation=turns["observation"][:, None],
    )
