"""Actor-critics over arrays: MLP, CNN or GRU (`torsos`) with one set of pure functions."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range, check_sizes
from agentrl.policies.heads import CATEGORICAL, GAUSSIAN, Head, mask_logits
from agentrl.policies.scoring import Adapters, Scored
from agentrl.policies.torsos import ACTIVATIONS, cnn_network, gru_network, mlp_network
from agentrl.policies.torsos import orthogonal as orthogonal
from agentrl.streams import Rows
from envs.environment import AnyEnvironment


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
    candidates: of how many draws a component's score chooses the action, see `composed.scored_mlp`;
      0: it takes no score.
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
    candidates: int = 0

    def score(self, params: chex.ArrayTree, rows: Rows, needed: jax.Array | None = None) -> Scored:
        """Scores of the rows' actions, among the legal ones if the rows contain a legality mask.

        needed: bool[R, L], positions whose scores are needed; all are computed.
        """
        outputs, value = self.unroll(
            params, rows.memory, rows.observation, _starts(rows), _roles(rows)
        )
        action = rows.tokens if self.head.discrete else rows.action
        return Scored(
            self.head.log_prob(outputs, rows.legal, action),
            self.head.entropy(outputs, rows.legal),
            value,
        )

    @property
    def reads_text(self) -> Literal[False]:
        """False: it reads arrays. A `LanguagePolicy` has True."""
        return False

    @property
    def kind(self) -> Literal["arrays"]:
        """Its kind, as components name those that they need."""
        return "arrays"

    @property
    def codec(self) -> None:
        """None: it has no tokens."""
        return None

    @property
    def grammar(self) -> None:
        """None: its actions are no replies."""
        return None

    @property
    def load(self) -> None:
        """None: there are no published weights."""
        return None

    @property
    def adapters(self) -> Adapters:
        """None: its networks are trained, or frozen, as a whole."""
        return Adapters()

    @property
    def heads(self) -> dict[str, int]:
        """None: it has no heads of attention for tensor parallelism to divide."""
        return {}

    @property
    def attention(self) -> str:
        """It has none, and runs on devices of every kind."""
        return "none"

    def within(self, env: AnyEnvironment) -> "Policy":
        """The policy as it acts in an environment: it is made for its shapes."""
        return self

    def elsewhere(self, env: AnyEnvironment, played: Iterable[str]) -> "Policy":
        """ValueError: it plays nothing but `played`, which it was trained in."""
        raise ValueError(f"a policy over arrays plays {', '.join(played)}, not {env.name}")

    def among_several(self) -> "Policy":
        """The policy whose rows are of several environments: the same."""
        return self

    def shared_positions(self, length: int) -> int:
        """0: its rows share no forward pass."""
        return 0

    def step_counts(self, trained: Iterable[jax.Array]) -> dict[str, jax.Array]:
        """What is counted of an optimizer step beside the step: nothing."""
        return {}

    @property
    def outputs(self) -> dict[str, Callable[..., jax.Array]]:
        """{name: (params, rows, arrays) -> [R, L, ...]}: what it says of rows beside `score`.

        arrays: the terms' other inputs, by name.
        """
        found = {
            "reference_kl": lambda params, rows, arrays: self.divergence(
                params, arrays["reference_params"], rows
            )
        }
        if self.head.discrete:
            found["logits"] = lambda params, rows, arrays: self.logits(params, rows)
        if self.num_answers:
            found["answer_logits"] = lambda params, rows, arrays: self.answers(params, rows)
        return found

    def divergence(
        self, params: chex.ArrayTree, reference: chex.ArrayTree, rows: Rows
    ) -> jax.Array:
        """Exact KL from other parameters of the policy, f32[R, L], with no gradient to those."""
        start = _starts(rows)
        own, _ = self.unroll(params, rows.memory, rows.observation, start, _roles(rows))
        other, _ = self.unroll(reference, rows.memory, rows.observation, start, _roles(rows))
        return self.head.kl(own, other, rows.legal)

    def logits(self, params: chex.ArrayTree, rows: Rows) -> jax.Array:
        """Logits of discrete actions, f32[R, L, A]; -inf for those that could not be drawn."""
        outputs, _ = self.unroll(params, rows.memory, rows.observation, _starts(rows), _roles(rows))
        return mask_logits(outputs, rows.legal)

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


def _features(observation: jax.Array, num_codes: int | None) -> jax.Array:
    """Codes become one-hot channels, other observations float32."""
    if num_codes is None:
        return observation.astype(jnp.float32)
    return jax.nn.one_hot(observation, num_codes)


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
        _as_batch(unroll),
        network.critic != "none",
        CATEGORICAL if network.log_std is None else GAUSSIAN,
        num_answers=network.answers,
        answer=_as_batch(answer) if network.answers else None,
    )


def _as_batch(apply: Callable[..., Any]) -> Callable[..., Any]:
    """A function of (params, ...), computed as a batch of one set of parameters.

    For gradients on a CPU: XLA transposes the operands of batched matrix products to the layout of
    its fast kernel. Without the axis the gradients of an MLP took twice the time.
    """

    def batched(params, *args, **options):
        of_one = jax.vmap(lambda params: apply(params, *args, **options))
        outputs = of_one(jax.tree.map(lambda x: x[None], params))
        return jax.tree.map(lambda x: x[0], outputs)

    return batched


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
      has answers (`Game.num_answers`), trained by losses.listening_loss; 0: no head.
    log_std: for continuous actions, the initial logarithm of their standard deviations, which are
      learnt and do not depend on the observation.
    Initialisation is orthogonal: gain sqrt(2), 0.01 for logits and means, 1 for the value.
    """
    spread = _check(critic, activation, answers, continuous, log_std)
    check_sizes("policy hidden", hidden)
    hidden = tuple(hidden)

    def prepare(observation: jax.Array, batch_dims: int) -> jax.Array:
        x = _features(observation, num_codes)
        return x.reshape(*x.shape[:batch_dims], -1)

    network = mlp_network(hidden, activation, num_actions, spread, critic, answers)
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
    check_sizes("policy channels", channels)
    check_sizes("policy hidden", hidden)
    channels, hidden = tuple(channels), tuple(hidden)
    network = cnn_network(channels, hidden, activation, num_actions, spread, critic, answers)
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
    check_sizes("policy hidden", hidden)
    check_range("policy memory_size", memory_size, 1)
    network = gru_network(
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


def parameter_count(params: chex.ArrayTree) -> int:
    """Number of scalars in a pytree of parameters."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
