"""Networks that methods train beside the policy: an embedding of observations, and its steps."""

from collections.abc import Callable

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from agentrl.streams import Rows


class Embedding(nn.Module):
    """An MLP of two hidden layers on the flattened observation."""

    hidden: int
    features: int
    num_codes: int | None

    @nn.compact
    def __call__(self, observation: jax.Array) -> jax.Array:
        """Features f32[n, features] of observations [n, ...]."""
        if self.num_codes is not None:
            observation = jax.nn.one_hot(observation, self.num_codes)
        x = observation.reshape(observation.shape[0], -1).astype(jnp.float32)
        for width in (self.hidden, self.hidden):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.features)(x)


def observations(rows: Rows) -> tuple[jax.Array, jax.Array]:
    """(observations [R L, ...], bool[R L] whether they were acted from); zeros where not."""
    seen, there = rows.observation, rows.loss_mask.reshape(-1)
    seen = seen.reshape(-1, *seen.shape[2:])
    # A gradient through padding is 0 times its value, which has to be finite.
    return jnp.where(there.reshape(-1, *(1,) * (seen.ndim - 1)), seen, 0), there


def descended(
    loss_of: Callable[[chex.ArrayTree], jax.Array],
    transform: optax.GradientTransformation,
    params: chex.ArrayTree,
    opt_state: chex.ArrayTree,
    steps: int,
) -> tuple[chex.ArrayTree, chex.ArrayTree, jax.Array]:
    """(params, opt_state, losses f32[steps] before each step) after `steps` gradient steps."""

    def step(carry, _):
        params, opt_state = carry
        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt_state = transform.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), loss

    (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), length=steps)
    return params, opt_state, losses


def followed_by_slow(
    loss_of: Callable[..., tuple[jax.Array, chex.ArrayTree]],
    transform: optax.GradientTransformation,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    opt_state: chex.ArrayTree,
    keys: jax.Array,
    rate: float,
) -> tuple[chex.ArrayTree, chex.ArrayTree, chex.ArrayTree, chex.ArrayTree]:
    """(params, slow, opt_state, what each step told) after a gradient step for each of `keys`.

    loss_of: (params, slow, key) -> (loss f32[], what it tells). After each step the slow copies
    follow: slow + rate (params - slow).
    """

    def step(carry, key):
        params, slow, opt_state = carry
        grads, told = jax.grad(loss_of, has_aux=True)(params, slow, key)
        updates, opt_state = transform.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return (params, optax.incremental_update(params, slow, rate), opt_state), told

    (params, slow, opt_state), told = jax.lax.scan(step, (params, slow, opt_state), keys)
    return params, slow, opt_state, told
