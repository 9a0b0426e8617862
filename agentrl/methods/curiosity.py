"""Curiosity: an intrinsic reward by random network distillation, with a network of its own."""

import functools
from typing import NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.by_turn import ended, to_turns
from agentrl.methods.networks import Embedding, descended, observations
from agentrl.rewards.novelty import Episodic, episodic_novelty, novelty_gain, of_next_turn
from agentrl.streams import PerTurn, Rows, Streams
from envs.environment import Environment


class Curiosity(struct.PyTreeNode):
    """target: parameters of the fixed random network. predictor, opt_state: of the network that is
    trained to give the same. moments: f32[3], number, sum and sum of squares of the bonuses."""

    target: chex.ArrayTree
    predictor: chex.ArrayTree
    opt_state: chex.ArrayTree
    moments: jax.Array


def prediction_error(predicted: jax.Array, target: jax.Array) -> jax.Array:
    """|predicted - target|_2 over the last axis; its gradient at 0 is 0."""
    square = jnp.sum(jnp.square(predicted - target), axis=-1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def deviation(moments: jax.Array) -> jax.Array:
    """Standard deviation of all bonuses so far, 1 before there are any."""
    count, total, square = moments
    mean = total / jnp.maximum(count, 1.0)
    variance = square / jnp.maximum(count, 1.0) - mean**2
    return jnp.where(variance > 1e-12, jnp.sqrt(jnp.maximum(variance, 1e-12)), 1.0)


def predictor_loss(
    network: Embedding,
    predictor: chex.ArrayTree,
    seen: jax.Array,
    target: jax.Array,
    there: jax.Array,
) -> jax.Array:
    """Mean squared distance of what is predicted of the observations `seen` [n, ...] to the target
    f32[n, F], over those that are `there` bool[n], f32[]."""
    error = jnp.sum(jnp.square(network.apply(predictor, seen) - target), axis=-1)
    return jnp.sum(jnp.where(there, error, 0.0)) / jnp.maximum(jnp.sum(there), 1)


class Hooks(NamedTuple):
    """The hooks of `curiosity`, with what they are made of."""

    env: Environment
    network: Embedding
    adam: optax.GradientTransformation
    steps: int
    known_scale: float
    episodic: Episodic
    ridge: float

    def init(self, start: InitInputs) -> Curiosity:
        """A random target and a predictor that starts apart from it."""
        target_key, key = jax.random.split(start.key)
        example = jnp.zeros((1, *self.env.observation_shape), self.env.observation_dtype)
        predictor = self.network.init(key, example)
        target = self.network.init(target_key, example)
        return Curiosity(target, predictor, self.adam.init(predictor), jnp.zeros(3))

    def bonus(self, value: Curiosity, streams: Streams, rows: Rows) -> jax.Array:
        """The bonus of each turn, f32[N, T], before it is divided; see `curiosity`."""
        network, (seen, _) = self.network, observations(rows)
        phi = network.apply(value.target, seen)
        error = prediction_error(network.apply(value.predictor, seen), phi)
        shape, size = streams.mask.shape, rows.tokens.shape
        error = to_turns(error.reshape(size), rows, shape)
        phi = to_turns(phi.reshape(*size, -1), rows, shape)
        mask, ends = streams.mask, ended(streams)
        factor = episodic_novelty(self.episodic, phi, streams.anchor, mask, ends, ridge=self.ridge)
        gain = novelty_gain(of_next_turn(error, mask, ends), error, scale=self.known_scale)
        return jnp.where(mask, gain * of_next_turn(factor, mask, ends), 0.0)

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """`novelty` f32[N, T], the bonus over the deviation of all bonuses before this update."""
        value = context.value
        return {"novelty": PerTurn(self.bonus(value, streams, rows) / deviation(value.moments))}

    def after(
        self, value: Curiosity, outcome: UpdateResult
    ) -> tuple[Curiosity, dict[str, jax.Array]]:
        """The predictor after its steps, and the moments with the update's bonuses."""
        seen, there = observations(outcome.rows)
        target = self.network.apply(value.target, seen)
        loss_of = functools.partial(
            predictor_loss, self.network, seen=seen, target=target, there=there
        )
        predictor, opt_state, losses = descended(
            loss_of, self.adam, value.predictor, value.opt_state, self.steps
        )
        raw = self.bonus(value, outcome.streams, outcome.rows)
        count = jnp.sum(outcome.streams.mask) * 1.0
        added = jnp.stack([count, jnp.sum(raw), jnp.sum(raw**2)])
        metrics = {
            "novelty": added[1::-1],
            "prediction_error": jnp.stack([losses[0], jnp.ones(())]),
        }
        return Curiosity(value.target, predictor, opt_state, value.moments + added), metrics


def _check(setup: Setup, episodic: Episodic, **sizes: int) -> None:
    required(setup, "curiosity", "arrays")
    if episodic == "first" and "anchor" not in setup.rollout.provides:
        raise ValueError(
            "config.components.curiosity.episodic='first' needs anchors, which this rollout does "
            "not give: use config.rollout.name='episodes', or episodic='elliptical'"
        )
    check_choice("config.components.curiosity.episodic", episodic, get_args(Episodic))
    for name, value in sizes.items():
        check_range(f"config.components.curiosity.{name}", value, 1)


def curiosity(
    setup: Setup,
    *,
    hidden: int = 64,
    features: int = 32,
    learning_rate: float = 1e-3,
    steps: int = 1,
    known_scale: float = 0.0,
    episodic: Episodic = "none",
    ridge: float = 0.1,
) -> Component:
    """Supplies `novelty` f32[N, T] for reward term `novelty_bonus`.

    e(s) is the error of a network that is trained, in every update, to give what a fixed random
    network gives of the observations. A turn from s to s' has

      novelty = relu(e(s') - known_scale e(s)) * episodic(s') / deviation,

    divided by the standard deviation of all such products so far. The last turn of an episode has
    0: no turn is acted from its final state.

    Metrics (Credit):
      novelty: Novelty; intrinsic reward, mean per turn, before it is scaled.

    Metrics (Critic and models):
      prediction_error: Prediction error; curiosity: of the predictor.

    Args:
      hidden, features: widths of both networks. learning_rate, steps: Adam steps per update on all
        observations of the batch.
      known_scale: 0 is random network distillation, 0.1 NovelD.
      episodic: a factor per episode: "none"; "first", 1 at the first visit of an anchor and else 0;
        "elliptical", E3B's bonus with ridge `ridge`, of the random network's features (E3B's own
        are those of an inverse model: `agentrl.methods.e3b`).

    Raises:
      ValueError: a policy that reads text, a rollout without anchors for episodic="first", or an
        option outside its range.

    References:
      Burda et al. (2018), random network distillation, https://arxiv.org/abs/1810.12894 (recalled,
      not read; there observations are normalised and returns of two critics added). Henaff et al.
      (2023), https://arxiv.org/abs/2306.03236, for the product (code facebookresearch/e3b edd2cce
      read, which has e, NovelD and the product).
    """
    _check(setup, episodic, hidden=hidden, features=features, steps=steps)
    check_range("config.components.curiosity.learning_rate", learning_rate, 0.0, below=True)
    check_range("config.components.curiosity.known_scale", known_scale, 0.0)
    check_range("config.components.curiosity.ridge", ridge, 0.0, above=True)
    env, _ = next(iter(setup.envs.values()))
    network = Embedding(hidden, features, env.num_codes)
    hooks = Hooks(env, network, optax.adam(learning_rate), steps, known_scale, episodic, ridge)
    return Component(
        init=hooks.init, annotate=hooks.annotate, after=hooks.after, fills=("novelty",)
    )
