"""SPA: a network that spreads an episode's outcome over its turns as progress."""

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.methods.networks import Embedding, descended, observations
from agentrl.streams import PerTurn, Rows, Streams


class Progress(struct.PyTreeNode):
    """params, opt_state: of the network that tells the progress of each action."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree


def progress_error(progress: jax.Array, outcome: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over streams of (sum_t c_t - R)^2, f32[].

    progress: f32[N, T]; outcome: f32[N]; mask: bool[N, T]. Streams without a turn do not count.
    """
    total = jnp.sum(jnp.where(mask, progress, 0.0), axis=1)
    present = jnp.any(mask, axis=1)
    error = jnp.where(present, jnp.square(total - outcome), 0.0)
    return jnp.sum(error) / jnp.maximum(jnp.sum(present), 1)


def progress(
    setup: Setup, *, hidden: int = 64, learning_rate: float = 1e-3, steps: int = 8
) -> Component:
    """Supplies `progress` f32[N, T] for reward term `progress_reward`.

    c_t = f(o_t)[a_t] of a network f that is trained so that the sum of c_t over a stream is its
    return. The sum does not fix how it is spread: actions that successful streams have more often
    get more.

    Metric progress_error, the mean squared error of the sums before the update's steps.

    Args:
      hidden: width of the network's two layers. learning_rate, steps: of Adam, per update, on the
        streams of the batch.

    Raises:
      ValueError: a policy that reads text or has continuous actions, or an option outside its
        range.

    References:
      Wang et al. (2025), SPA-RL, https://arxiv.org/abs/2505.20732; code
      WangHanLinHenry/SPA-RL-Agent ed20087 (read). There f is a head on a language model, fitted
      beforehand to explored episodes; here it is fitted to each batch as it comes. Two defects of
      the release are not copied: its step values are overwritten by a leave-one-out outcome, and
      the last step's is multiplied by 0.
    """
    env, _ = required(setup, "progress", "arrays", discrete=True)
    check_range("config.components.progress.hidden", hidden, 1)
    check_range("config.components.progress.steps", steps, 1)
    check_range("config.components.progress.learning_rate", learning_rate, 0.0, below=True)
    network = Embedding(hidden, env.num_actions, env.num_codes)
    adam = optax.adam(learning_rate)

    def by_turn(params: chex.ArrayTree, streams: Streams, rows: Rows) -> jax.Array:
        seen, _ = observations(rows)
        every = network.apply(params, seen).reshape(*rows.tokens.shape, -1)
        chosen = jnp.take_along_axis(every, rows.tokens[..., None], axis=-1)[..., 0]
        return to_turns(chosen, rows, streams.mask.shape)

    def init(start):
        example = jnp.zeros((1, *env.observation_shape), env.observation_dtype)
        params = network.init(start.key, example)
        return Progress(params, adam.init(params))

    def annotate(context, streams, rows):
        return {"progress": PerTurn(by_turn(context.value.params, streams, rows))}

    def after(value, outcome):
        streams, rows = outcome.streams, outcome.rows
        returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0.0), axis=1)

        def loss_of(params):
            return progress_error(by_turn(params, streams, rows), returns, streams.mask)

        params, opt_state, losses = descended(loss_of, adam, value.params, value.opt_state, steps)
        error = jnp.stack([losses[0], jnp.ones(())])
        return Progress(params, opt_state), {"progress_error": error}

    return Component(init=init, annotate=annotate, after=after, fills=("progress",))
