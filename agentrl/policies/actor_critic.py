"""Actor-critics over arrays: MLP, CNN and GRU torsos with one set of pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.scoring import Scored, score_logits
from agentrl.streams import Rows

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": nn.tanh,
    "relu": nn.relu,
    "silu": nn.silu,
}


class Policy(NamedTuple):
    """A policy over arrays as pure functions; B episodes, R rows, L positions, A actions.

    init: (key) -> params.
    memory: (B) -> memory before an episode's first turn, or None if the policy has none.
    step: (params, memory, observation [B, ...]) -> (logits f32[B, A], value f32[B], memory).
    unroll: (params, memory, observation [R, L, ...], start bool[R, L]) ->
      (logits f32[R, L, A], value f32[R, L]); memory is cleared before each position with `start`.
    has_critic: whether `value` is learnt (it is 0 otherwise).
    frozen: the entries of params that are not trained.
    num_answers: how many answers it chooses among when asked what it believes; 0: it cannot be
      asked. answer: as unroll, to logits f32[R, L, num_answers]; None if there are no answers.
    """

    init: Callable[[jax.Array], chex.ArrayTree]
    memory: Callable[[int], chex.ArrayTree | None]
    step: Callable[..., tuple[jax.Array, jax.Array, chex.ArrayTree | None]]
    unroll: Callable[..., tuple[jax.Array, jax.Array]]
    has_critic: bool
    frozen: tuple[str, ...] = ()
    num_answers: int = 0
    answer: Callable[..., jax.Array] | None = None

    def score(self, params: chex.ArrayTree, rows: Rows) -> Scored:
        """Scores of the rows' actions, among the legal ones where the rows say which these were."""
        logits, value = self.unroll(params, rows.memory, rows.observation, _starts(rows))
        return score_logits(mask_logits(logits, rows.legal), rows.tokens, value)

    def answers(self, params: chex.ArrayTree, rows: Rows) -> jax.Array:
        """Logits of the answers at every position of the rows, f32[R, L, num_answers]."""
        return self.answer(params, rows.memory, rows.observation, _starts(rows))


def _starts(rows: Rows) -> jax.Array:
    return rows.loss_mask if rows.start is None else rows.start


def orthogonal(gain: float) -> Callable[..., jax.Array]:
    """Initialiser: a random orthogonal matrix (Haar) times `gain`, of the flattened kernel.

    By Gram-Schmidt, twice a column for float32's sake, instead of flax's QR: on a two-core CPU a
    batch of LAPACK decompositions (several seeds side by side) was seen to stall for good inside
    XLA's thread pool.
    """

    def init(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        drawn = jax.random.normal(key, (max(rows, columns), min(rows, columns)))

        def add(i, basis):
            column = jax.lax.dynamic_index_in_dim(drawn, i, axis=1, keepdims=False)
            for _ in range(2):
                column = column - basis @ (basis.T @ column)
            return basis.at[:, i].set(column / jnp.linalg.norm(column))

        basis = jax.lax.fori_loop(0, drawn.shape[1], add, jnp.zeros_like(drawn))
        basis = basis if rows >= columns else basis.T
        return (gain * basis).reshape(shape).astype(dtype)

    return init


def _dense(features: int, gain: float) -> nn.Dense:
    return nn.Dense(features, kernel_init=orthogonal(gain))


def _features(observation: jax.Array, num_codes: int | None) -> jax.Array:
    """Codes become one-hot channels, anything else float32."""
    if num_codes is None:
        return observation.astype(jnp.float32)
    return jax.nn.one_hot(observation, num_codes)


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
    """3x3 convolutions that keep the grid, then dense layers."""

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
    """The head for beliefs, on what actions are chosen from; at first all answers are as likely."""
    if not number:
        return None
    head = nn.Dense(number, kernel_init=orthogonal(0.01), name="answers")
    return head(actor)


class _Heads(nn.Module):
    """Torso(s) and heads of a memoryless actor-critic."""

    torso: Callable[[], nn.Module]
    num_actions: int
    critic: str
    answers: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array | None]:
        actor = self.torso()(x)
        logits = _dense(self.num_actions, 0.01)(actor)
        believed = _answers(self.answers, actor)
        if self.critic == "none":
            return logits, jnp.zeros(logits.shape[:-1]), believed
        critic = actor if self.critic == "shared" else self.torso()(x)
        return logits, _dense(1, 1.0)(critic)[..., 0], believed


class _Recurrent(nn.Module):
    """An MLP encoder, a GRU, and heads on its memory."""

    hidden: tuple[int, ...]
    memory_size: int
    activation: str
    num_actions: int
    critic: str
    answers: int

    @nn.compact
    def __call__(
        self, memory: jax.Array, x: jax.Array, start: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
        """x f32[R, L, F], start bool[R, L] -> (memory, logits, value, logits of answers)."""
        x = _Mlp(self.hidden, self.activation)(x)

        def cell(gru, memory, inputs):
            features, clear = inputs
            return gru(jnp.where(clear[:, None], 0.0, memory), features)

        unroll = nn.scan(
            cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
        )
        gru = nn.GRUCell(self.memory_size, recurrent_kernel_init=orthogonal(1.0))
        memory, out = unroll(gru, memory, (x, start))
        logits = _dense(self.num_actions, 0.01)(out)
        believed = _answers(self.answers, out)
        if self.critic == "none":
            return memory, logits, jnp.zeros(logits.shape[:-1]), believed
        return memory, logits, _dense(1, 1.0)(out)[..., 0], believed


def _memoryless(
    network: nn.Module, prepare: Callable[[jax.Array, int], jax.Array], example: jax.Array
) -> Policy:
    def init(key: jax.Array) -> chex.ArrayTree:
        return network.init(key, prepare(example[None], 1))["params"]

    def step(params, memory, observation):
        logits, value, _ = network.apply({"params": params}, prepare(observation, 1))
        return logits, value, memory

    def unroll(params, memory, observation, start):
        del memory, start
        return network.apply({"params": params}, prepare(observation, 2))[:2]

    def answer(params, memory, observation, start):
        del memory, start
        return network.apply({"params": params}, prepare(observation, 2))[2]

    return _policy(network, init, lambda batch: None, step, unroll, answer)


def _policy(network: nn.Module, init, memory, step, unroll, answer) -> Policy:
    return Policy(
        init,
        memory,
        step,
        unroll,
        network.critic != "none",
        num_answers=network.answers,
        answer=answer if network.answers else None,
    )


def _check(critic: str, activation: str, answers: int) -> None:
    if answers < 0:
        raise ValueError(f"policy option answers={answers}: expected at least 0")
    for name, value, known in (
        ("critic", critic, ("none", "separate", "shared")),
        ("activation", activation, tuple(ACTIVATIONS)),
    ):
        if value not in known:
            raise ValueError(f"policy option {name}={value!r}: expected one of {', '.join(known)}")


def mlp(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    *,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    critic: str = "separate",
    answers: int = 0,
) -> Policy:
    """Dense layers on the flattened observation (codes one-hot).

    hidden: widths. critic: "separate" towers (the usual of control), "shared" torso, or "none".
    answers: of a head for beliefs on the actor's torso, as many as the environment's question has
      (`Game.num_answers`), trained by config.learner.listening_coefficient; 0: no head.
    Initialisation is orthogonal: gain sqrt(2), 0.01 for logits, 1 for the value.
    """
    _check(critic, activation, answers)
    hidden = tuple(hidden)

    def prepare(observation: jax.Array, batch_dims: int) -> jax.Array:
        x = _features(observation, num_codes)
        return x.reshape(*x.shape[:batch_dims], -1)

    network = _Heads(lambda: _Mlp(hidden, activation), num_actions, critic, answers)
    return _memoryless(network, prepare, _example(observation_shape, num_codes))


def cnn(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    *,
    channels: tuple[int, ...] = (16, 32),
    hidden: tuple[int, ...] = (128,),
    activation: str = "relu",
    critic: str = "shared",
    answers: int = 0,
) -> Policy:
    """3x3 convolutions over a grid [H, W] of codes or [H, W, C] of numbers, then dense layers.

    Options as for `mlp`; ValueError for observations that are no grid.
    """
    _check(critic, activation, answers)
    grid_rank = 3 if num_codes is None else 2
    if len(observation_shape) != grid_rank:
        raise ValueError(
            f"policy 'cnn' needs a grid observation of rank {grid_rank}, the environment's has "
            f"shape {observation_shape}; use policy 'mlp'"
        )
    channels, hidden = tuple(channels), tuple(hidden)
    network = _Heads(lambda: _Cnn(channels, hidden, activation), num_actions, critic, answers)
    return _memoryless(
        network,
        lambda observation, batch_dims: _features(observation, num_codes),
        _example(observation_shape, num_codes),
    )


def gru(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    *,
    hidden: tuple[int, ...] = (64,),
    memory_size: int = 64,
    activation: str = "tanh",
    critic: str = "shared",
    answers: int = 0,
) -> Policy:
    """An MLP encoder and a gated recurrent unit: remembers within an episode.

    Options as for `mlp`; memory_size is the width of the unit. The critic reads the same memory,
    so "separate" is not possible.
    """
    _check(critic, activation, answers)
    if critic == "separate":
        raise ValueError("policy 'gru' has one memory: use critic='shared' or critic='none'")
    network = _Recurrent(tuple(hidden), memory_size, activation, num_actions, critic, answers)
    example = _example(observation_shape, num_codes)

    def prepare(observation: jax.Array) -> jax.Array:
        x = _features(observation, num_codes)
        return x.reshape(*x.shape[:2], -1)

    def memory(batch: int) -> jax.Array:
        return jnp.zeros((batch, memory_size))

    def init(key: jax.Array) -> chex.ArrayTree:
        start = jnp.ones((1, 1), bool)
        return network.init(key, memory(1), prepare(example[None, None]), start)["params"]

    def step(params, memory, observation):
        start = jnp.zeros((observation.shape[0], 1), bool)
        x = prepare(observation[:, None])
        memory, logits, value, _ = network.apply({"params": params}, memory, x, start)
        return logits[:, 0], value[:, 0], memory

    def unroll(params, memory, observation, start):
        x = prepare(observation)
        _, logits, value, _ = network.apply({"params": params}, memory, x, start)
        return logits, value

    def answer(params, memory, observation, start):
        return network.apply({"params": params}, memory, prepare(observation), start)[3]

    return _policy(network, init, memory, step, unroll, answer)


def _example(observation_shape: tuple[int, ...], num_codes: int | None) -> np.ndarray:
    return np.zeros(observation_shape, np.float32 if num_codes is None else np.uint8)


POLICIES: dict[str, Callable[..., Policy]] = {"mlp": mlp, "cnn": cnn, "gru": gru}


def mask_logits(logits: jax.Array, legal: jax.Array | None) -> jax.Array:
    """Logits with minus infinity at illegal actions; untouched if `legal` is None."""
    return logits if legal is None else jnp.where(legal, logits, -jnp.inf)


def parameter_count(params: Any) -> int:
    """Number of scalars in a pytree of parameters."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
