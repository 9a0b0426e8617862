"""Actor-critics over arrays: MLP, CNN and GRU torsos with one set of pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.heads import CATEGORICAL, GAUSSIAN, Head, Normal
from agentrl.policies.scoring import Scored
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
    step: (params, memory, observation [B, ...], role=None) -> (outputs [B, ...], value f32[B],
      memory); role: i32[B], which agent acts.
    unroll: (params, memory, observation [R, L, ...], start bool[R, L], role=None) ->
      (outputs [R, L, ...], value f32[R, L]); memory is cleared before each position with `start`.
    has_critic: whether `value` is learnt (it is 0 otherwise).
    head: distribution over actions given outputs, which are logits f32[..., A] for discrete
    actions.
    frozen: entries of params that are not trained.
    num_answers: number of possible answers to the belief question; 0: no head for it. answer: as
      unroll, but returns logits f32[R, L, num_answers]; None without that head.
    """

    init: Callable[[jax.Array], chex.ArrayTree]
    memory: Callable[[int], chex.ArrayTree | None]
    step: Callable[..., tuple[chex.ArrayTree, jax.Array, chex.ArrayTree | None]]
    unroll: Callable[..., tuple[chex.ArrayTree, jax.Array]]
    has_critic: bool
    head: Head = CATEGORICAL
    frozen: tuple[str, ...] = ()
    num_answers: int = 0
    answer: Callable[..., jax.Array] | None = None

    def score(self, params: chex.ArrayTree, rows: Rows) -> Scored:
        """Scores of the rows' actions, among the legal ones if the rows contain a legality mask."""
        outputs, value = self.unroll(
            params, rows.memory, rows.observation, _starts(rows), _roles(rows)
        )
        action = rows.tokens if self.head.numbered else rows.action
        return Scored(
            self.head.log_prob(outputs, rows.legal, action),
            self.head.entropy(outputs, rows.legal),
            value,
        )

    @property
    def reads_text(self) -> bool:
        """Whether it is a language policy."""
        return False

    @property
    def outputs(self) -> dict[str, Callable[..., jax.Array]]:
        """(params, rows) -> [R, L, ...] of what the policy says of rows beside `score`, by name."""
        return {"answer_logits": self.answers} if self.num_answers else {}

    def divergence(
        self, params: chex.ArrayTree, reference: chex.ArrayTree, rows: Rows
    ) -> jax.Array:
        """Exact KL from other parameters of the policy, f32[R, L], with no gradient to those."""
        start = _starts(rows)
        own, _ = self.unroll(params, rows.memory, rows.observation, start, _roles(rows))
        other, _ = self.unroll(reference, rows.memory, rows.observation, start, _roles(rows))
        return self.head.kl(own, other, rows.legal)

    def answers(self, params: chex.ArrayTree, rows: Rows) -> jax.Array:
        """Logits of the answers at every position of the rows, f32[R, L, num_answers]."""
        return self.answer(params, rows.memory, rows.observation, _starts(rows))


def _roles(rows: Rows) -> jax.Array | None:
    """The role of each position, i32[R, L], or None."""
    if rows.role is None:
        return None
    return jnp.broadcast_to(rows.role[:, None], rows.loss_mask.shape)


def _starts(rows: Rows) -> jax.Array:
    return rows.loss_mask if rows.start is None else rows.start


def orthogonal(gain: float) -> Callable[..., jax.Array]:
    """Initialiser: a random orthogonal matrix (Haar) times `gain`, of the flattened kernel.

    By Gram-Schmidt, applied twice per column for accuracy in float32, instead of flax's QR: on a
    two-core CPU a batch of LAPACK decompositions (several seeds side by side) deadlocked inside
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
    """Codes become one-hot channels, other observations float32."""
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


def _memoryless(
    network: nn.Module, prepare: Callable[[jax.Array, int], jax.Array], example: jax.Array
) -> Policy:
    def init(key: jax.Array) -> chex.ArrayTree:
        return network.init(key, prepare(example[None], 1))["params"]

    def step(params, memory, observation, role=None):
        del role
        outputs, value, _ = network.apply({"params": params}, prepare(observation, 1))
        return outputs, value, memory

    def unroll(params, memory, observation, start, role=None):
        del memory, start, role
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
        CATEGORICAL if network.log_std is None else GAUSSIAN,
        num_answers=network.answers,
        answer=answer if network.answers else None,
    )


def _check(
    critic: str, activation: str, answers: int, continuous: bool, log_std: float
) -> float | None:
    """The initial log_std, None for discrete actions. ValueError for invalid options."""
    if log_std and not continuous:
        raise ValueError(
            f"policy option log_std={log_std} has no effect: the environment's actions are "
            "discrete; leave it at 0"
        )
    if answers < 0:
        raise ValueError(f"policy option answers={answers}: expected at least 0")
    for name, value, known in (
        ("critic", critic, ("none", "separate", "shared")),
        ("activation", activation, tuple(ACTIVATIONS)),
    ):
        if value not in known:
            raise ValueError(f"policy option {name}={value!r}: expected one of {', '.join(known)}")
    return log_std if continuous else None


def mlp(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    critic: str = "separate",
    answers: int = 0,
    log_std: float = 0.0,
) -> Policy:
    """Dense layers on the flattened observation (codes one-hot).

    hidden: widths. critic: "separate" towers (usual in control), "shared" torso, or "none".
    answers: outputs of a belief head on the actor's torso, as many as the environment's question
      has answers (`Game.num_answers`), trained by config.learner.listening_coefficient; 0: no head.
    log_std: for continuous actions, the initial logarithm of their standard deviations, which are
      learnt and do not depend on the observation.
    Initialisation is orthogonal: gain sqrt(2), 0.01 for logits and means, 1 for the value.
    """
    spread = _check(critic, activation, answers, continuous, log_std)
    hidden = tuple(hidden)

    def prepare(observation: jax.Array, batch_dims: int) -> jax.Array:
        x = _features(observation, num_codes)
        return x.reshape(*x.shape[:batch_dims], -1)

    network = _Heads(lambda: _Mlp(hidden, activation), num_actions, spread, critic, answers)
    return _memoryless(network, prepare, _example(observation_shape, num_codes))


def cnn(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    channels: tuple[int, ...] = (16, 32),
    hidden: tuple[int, ...] = (128,),
    activation: str = "relu",
    critic: str = "shared",
    answers: int = 0,
    log_std: float = 0.0,
) -> Policy:
    """3x3 convolutions over a grid [H, W] of codes or [H, W, C] of numbers, then dense layers.

    Options as for `mlp`; ValueError if observations are not a grid.
    """
    spread = _check(critic, activation, answers, continuous, log_std)
    grid_rank = 3 if num_codes is None else 2
    if len(observation_shape) != grid_rank:
        raise ValueError(
            f"policy 'cnn' needs a grid observation of rank {grid_rank}, the environment's has "
            f"shape {observation_shape}; use policy 'mlp'"
        )
    channels, hidden = tuple(channels), tuple(hidden)
    network = _Heads(
        lambda: _Cnn(channels, hidden, activation), num_actions, spread, critic, answers
    )
    return _memoryless(
        network,
        lambda observation, batch_dims: _features(observation, num_codes),
        _example(observation_shape, num_codes),
    )


def gru(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    hidden: tuple[int, ...] = (64,),
    memory_size: int = 64,
    activation: str = "tanh",
    critic: str = "shared",
    answers: int = 0,
    log_std: float = 0.0,
) -> Policy:
    """An MLP encoder and a gated recurrent unit, with memory within an episode.

    Options as for `mlp`; memory_size is the width of the unit. The critic uses the same memory, so
    "separate" is not possible.
    """
    spread = _check(critic, activation, answers, continuous, log_std)
    if critic == "separate":
        raise ValueError("policy 'gru' has one memory: use critic='shared' or critic='none'")
    network = _Recurrent(
        tuple(hidden), memory_size, activation, num_actions, spread, critic, answers
    )
    example = _example(observation_shape, num_codes)

    def prepare(observation: jax.Array) -> jax.Array:
        x = _features(observation, num_codes)
        return x.reshape(*x.shape[:2], -1)

    def memory(batch: int) -> jax.Array:
        return jnp.zeros((batch, memory_size))

    def init(key: jax.Array) -> chex.ArrayTree:
        start = jnp.ones((1, 1), bool)
        return network.init(key, memory(1), prepare(example[None, None]), start)["params"]

    def step(params, memory, observation, role=None):
        del role
        start = jnp.zeros((observation.shape[0], 1), bool)
        x = prepare(observation[:, None])
        memory, outputs, value, _ = network.apply({"params": params}, memory, x, start)
        return jax.tree.map(lambda y: y[:, 0], outputs), value[:, 0], memory

    def unroll(params, memory, observation, start, role=None):
        del role
        x = prepare(observation)
        _, outputs, value, _ = network.apply({"params": params}, memory, x, start)
        return outputs, value

    def answer(params, memory, observation, start):
        return network.apply({"params": params}, memory, prepare(observation), start)[3]

    return _policy(network, init, memory, step, unroll, answer)


def _example(observation_shape: tuple[int, ...], num_codes: int | None) -> np.ndarray:
    return np.zeros(observation_shape, np.float32 if num_codes is None else np.uint8)


def parameter_count(params: Any) -> int:
    """Number of scalars in a pytree of parameters."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
