"""PPO in the style of PureJaxRL: the whole training loop is one program on gymnax.

Our own writing of what Lu et al. (2022), "Discovered policy optimisation",
https://arxiv.org/abs/2210.05639 published as PureJaxRL (`purejaxrl/ppo.py`, read; the original does
not run on gymnax 1.0). As in the original: gymnax's `step` with automatic reset, `LogWrapper`,
separate towers, `done` as terminal in the advantages whether the rules or the clock ended the
episode, advantages normalised in each minibatch, the clipped value loss, episode infos of all steps
kept until the end, scans unrolled 16 times in the advantages.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct


@struct.dataclass
class Settings:
    """PureJaxRL's, for CartPole. Everything is static."""

    env: str = "CartPole-v1"
    num_envs: int = 4
    length: int = 128
    epochs: int = 4
    minibatches: int = 4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5
    max_grad_norm: float = 0.5
    learning_rate: float = 2.5e-4
    total_updates: int = 960


class Step(NamedTuple):
    """One step of all environments, [num_envs, ...]."""

    observation: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    info: dict[str, jax.Array]


class Batch(NamedTuple):
    """The learner's view of a step, with its advantage and target."""

    observation: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array


class State(NamedTuple):
    """What is carried from update to update: network, optimizer, environments, and a key."""

    params: Any
    opt_state: Any
    env: Any
    observation: jax.Array
    key: jax.Array


class _ActorCritic(nn.Module):
    num_actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def tower(outputs: int, gain: float) -> jax.Array:
            hidden = x
            for _ in range(2):
                hidden = nn.tanh(_dense(64, np.sqrt(2))(hidden))
            return _dense(outputs, gain)(hidden)

        return tower(self.num_actions, 0.01), tower(1, 1.0)[..., 0]


def _dense(features: int, gain: float) -> nn.Dense:
    return nn.Dense(features, kernel_init=nn.initializers.orthogonal(gain))


def _log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def _advantages(steps: Step, last_value: jax.Array, settings: Settings) -> jax.Array:
    def backward(carry, step: Step):
        advantage, following = carry
        alive = 1.0 - step.done
        delta = step.reward + settings.gamma * following * alive - step.value
        advantage = delta + settings.gamma * settings.lam * alive * advantage
        return (advantage, step.value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    return jax.lax.scan(backward, start, steps, reverse=True, unroll=16)[1]


def _loss(apply: Callable, params: Any, batch: Batch, settings: Settings) -> jax.Array:
    logits, value = apply({"params": params}, batch.observation)
    ratio = jnp.exp(_log_prob(logits, batch.action) - batch.logp)
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    low, high = 1 - settings.clip, 1 + settings.clip
    surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, low, high) * advantage)
    moved = batch.value + jnp.clip(value - batch.value, -settings.clip, settings.clip)
    error = jnp.maximum(jnp.square(value - batch.target), jnp.square(moved - batch.target))
    entropy = -jnp.sum(nn.softmax(logits) * nn.log_softmax(logits), axis=-1)
    return (
        -surrogate.mean()
        + settings.value_coefficient * 0.5 * error.mean()
        - settings.entropy_coefficient * entropy.mean()
    )


def _learn(
    apply: Callable,
    transform: optax.GradientTransformation,
    state: State,
    batch: Batch,
    settings: Settings,
) -> State:
    """Epochs of minibatch steps on one batch, [N, ...]."""

    def step(carry, batch: Batch):
        weights, opt_state = carry
        grads = jax.grad(lambda weights: _loss(apply, weights, batch, settings))(weights)
        changes, opt_state = transform.update(grads, opt_state, weights)
        return (optax.apply_updates(weights, changes), opt_state), None

    def epoch(carry, key):
        order = jax.random.permutation(key, batch.action.shape[0])
        order = order.reshape(settings.minibatches, -1)
        return jax.lax.scan(step, carry, jax.tree.map(lambda x: x[order], batch))

    key, epoch_key = jax.random.split(state.key)
    (weights, opt_state), _ = jax.lax.scan(
        epoch, (state.params, state.opt_state), jax.random.split(epoch_key, settings.epochs)
    )
    return state._replace(params=weights, opt_state=opt_state, key=key)


def make(settings: Settings, updates: int) -> tuple[Callable, Callable]:
    """(init, train) for `updates` updates per call.

    init: (key) -> State. train: (State) -> (State, infos [updates, length, num_envs]).
    """
    import gymnax  # slow to import; needed by this suite only
    from gymnax.wrappers import LogWrapper

    env, params = gymnax.make(settings.env)
    env = LogWrapper(env)
    network = _ActorCritic(env.num_actions)
    steps_per_update = settings.epochs * settings.minibatches
    transform = optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.adam(
            optax.linear_schedule(
                settings.learning_rate, 0.0, settings.total_updates * steps_per_update
            ),
            eps=1e-5,
        ),
    )

    def init(key: jax.Array) -> State:
        key, network_key, env_key = jax.random.split(key, 3)
        env_keys = jax.random.split(env_key, settings.num_envs)
        observation, env_state = jax.vmap(env.reset, in_axes=(0, None))(env_keys, params)
        # gymnax initialises its clocks as Python ints, whose arrays are weakly typed.
        env_state = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), env_state)
        weights = network.init(network_key, observation)["params"]
        return State(weights, transform.init(weights), env_state, observation, key)

    def act(state: State, _) -> tuple[State, Step]:
        key, action_key, step_key = jax.random.split(state.key, 3)
        logits, value = network.apply({"params": state.params}, state.observation)
        action = jax.random.categorical(action_key, logits)
        step_keys = jax.random.split(step_key, settings.num_envs)
        observation, env_state, reward, terminated, truncated, info = jax.vmap(
            env.step, in_axes=(0, 0, 0, None)
        )(step_keys, state.env, action, params)
        logp, done = _log_prob(logits, action), terminated | truncated
        info = {name: value for name, value in info.items() if name.startswith("returned_")}
        step = Step(state.observation, action, logp, value, reward, done, info)
        return state._replace(env=env_state, observation=observation, key=key), step

    def update(state: State, _) -> tuple[State, dict[str, jax.Array]]:
        state, steps = jax.lax.scan(act, state, length=settings.length)
        _, last_value = network.apply({"params": state.params}, state.observation)
        advantage = _advantages(steps, last_value, settings)
        batch = Batch(*steps[:4], advantage, advantage + steps.value)
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
        return _learn(network.apply, transform, state, batch, settings), steps.info

    def train(state: State) -> tuple[State, dict[str, jax.Array]]:
        return jax.lax.scan(update, state, length=updates)

    return init, train
