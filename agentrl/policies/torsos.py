"""Networks of actor-critics over arrays: MLP, CNN or GRU torsos, with the heads on them."""

import functools
from collections.abc import Callable

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from agentrl.policies.heads import Normal

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": nn.tanh,
    "relu": nn.relu,
    "silu": nn.silu,
}


def orthogonal(gain: float) -> Callable[..., jax.Array]:
    """Initialiser: a random orthogonal matrix (Haar) times `gain`, of the flattened kernel.

    By Gram-Schmidt, applied twice per column for accuracy in float32, instead of flax's QR: on a
    two-core CPU a batch of LAPACK decompositions (several seeds side by side) deadlocked inside
    XLA's thread pool.
    """

    def init(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> jax.Array:
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        basis = _basis(key, max(rows, columns), min(rows, columns))
        basis = basis if rows >= columns else basis.T
        return (gain * basis).reshape(shape).astype(dtype)

    return init


# Compiled by itself so that it is traced once per size: flax evaluates the shape of an initialiser
# wherever a network is applied.
@functools.partial(jax.jit, static_argnums=(1, 2))
def _basis(key: jax.Array, rows: int, columns: int) -> jax.Array:
    """Orthonormal columns, f32[rows, columns]."""
    drawn = jax.random.normal(key, (rows, columns))

    def add(i, basis):
        column = jax.lax.dynamic_index_in_dim(drawn, i, axis=1, keepdims=False)
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        return basis.at[:, i].set(column / jnp.linalg.norm(column))

    return jax.lax.fori_loop(0, columns, add, jnp.zeros_like(drawn))


def _dense(features: int, gain: float) -> nn.Dense:
    return nn.Dense(features, kernel_init=orthogonal(gain))


class _Mlp(nn.Module):
    """Dense layers on the flattened observation."""

    hidden: tuple[int, ...]
    activation: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.hidden:
            x = ACTIVATIONS[self.activation](_dense(width, np.sqrt(2))(x))
        return x


class _Cnn(nn.Module):
    """3x3 convolutions that keep the grid size, then dense layers."""

    channels: tuple[int, ...]
    hidden: tuple[int, ...]
    activation: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.channels:
            x = nn.Conv(width, (3, 3), kernel_init=orthogonal(np.sqrt(2)))(x)
            x = ACTIVATIONS[self.activation](x)
        x = x.reshape(*x.shape[:-3], -1)
        return _Mlp(self.hidden, self.activation)(x)


def _answers(number: int, actor: jax.Array) -> jax.Array | None:
    """The belief head, on the actor's features; all answers are equally likely at
    initialisation."""
    if not number:
        return None
    head = nn.Dense(number, kernel_init=orthogonal(0.01), name="answers")
    return head(actor)


def _outputs(
    module: nn.Module, num_actions: int, log_std: float | None, actor: jax.Array
) -> jax.Array | Normal:
    """The action head: nearly uniform logits, or with log_std a `Normal` with mean near 0.

    The standard deviations are parameters that do not depend on the observation.
    """
    out = _dense(num_actions, 0.01)(actor)
    if log_std is None:
        return out
    spread = module.param("log_std", nn.initializers.constant(log_std), (num_actions,))
    return Normal(out, jnp.broadcast_to(spread, out.shape))


class _Heads(nn.Module):
    """Torso(s) and heads of a memoryless actor-critic."""

    torso: Callable[[], nn.Module]
    num_actions: int
    log_std: float | None
    critic: str
    answers: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[chex.ArrayTree, jax.Array, jax.Array | None]:
        actor = self.torso()(x)
        outputs = _outputs(self, self.num_actions, self.log_std, actor)
        believed = _answers(self.answers, actor)
        if self.critic == "none":
            return outputs, jnp.zeros(actor.shape[:-1]), believed
        critic = actor if self.critic == "shared" else self.torso()(x)
        return outputs, _dense(1, 1.0)(critic)[..., 0], believed


class _Recurrent(nn.Module):
    """An MLP encoder, a GRU, and heads on its memory."""

    hidden: tuple[int, ...]
    memory_size: int
    activation: str
    num_actions: int
    log_std: float | None
    critic: str
    answers: int

    @nn.compact
    def __call__(
        self, memory: jax.Array, x: jax.Array, start: jax.Array
    ) -> tuple[jax.Array, chex.ArrayTree, jax.Array, jax.Array | None]:
        """x f32[R, L, F], start bool[R, L] -> (memory, outputs, value, logits of answers)."""
        x = _Mlp(self.hidden, self.activation)(x)

        def cell(gru, memory, inputs):
            features, clear = inputs
            return gru(jnp.where(clear[:, None], 0.0, memory), features)

        unroll = nn.scan(
            cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
        )
        gru = nn.GRUCell(self.memory_size, recurrent_kernel_init=orthogonal(1.0))
        memory, out = unroll(gru, memory, (x, start))
        outputs = _outputs(self, self.num_actions, self.log_std, out)
        believed = _answers(self.answers, out)
        if self.critic == "none":
            return memory, outputs, jnp.zeros(out.shape[:-1]), believed
        return memory, outputs, _dense(1, 1.0)(out)[..., 0], believed


def mlp_network(
    hidden: tuple[int, ...],
    activation: str,
    num_actions: int,
    log_std: float | None,
    critic: str,
    answers: int,
) -> nn.Module:
    """An MLP with heads: (x f32[..., F]) -> (outputs, value, logits of answers or None)."""
    return _Heads(lambda: _Mlp(hidden, activation), num_actions, log_std, critic, answers)


def cnn_network(
    channels: tuple[int, ...],
    hidden: tuple[int, ...],
    activation: str,
    num_actions: int,
    log_std: float | None,
    critic: str,
    answers: int,
) -> nn.Module:
    """A CNN with heads: (x f32[..., H, W, C]) -> (outputs, value, logits of answers or None)."""
    return _Heads(lambda: _Cnn(channels, hidden, activation), num_actions, log_std, critic, answers)


def gru_network(
    hidden: tuple[int, ...],
    memory_size: int,
    activation: str,
    num_actions: int,
    log_std: float | None,
    critic: str,
    answers: int,
) -> nn.Module:
    """A GRU with heads: (memory, x f32[R, L, F], start bool[R, L]) -> (memory, outputs, value,
    logits of answers or None)."""
    return _Recurrent(hidden, memory_size, activation, num_actions, log_std, critic, answers)
