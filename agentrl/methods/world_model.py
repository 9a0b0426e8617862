"""A learned environment: a model of the real one, trained beside the policy that acts in both."""

import dataclasses
import functools
from typing import NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl import rollout as rollouts
from agentrl.checks import check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.by_turn import stream_rows, transitions
from agentrl.methods.networks import descended
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams
from envs.environment import Environment, EnvParams, EnvState


class Dynamics(nn.Module):
    """(observation [n, ...], action i32[n]) -> f32[n, outputs + 2]: the next observation, the
    reward and the logit of an end."""

    num_actions: int
    num_codes: int | None
    outputs: int
    hidden: int

    @nn.compact
    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Predictions for n observations and actions: the next observation (logits per code, or
        numbers), the reward and the logit of an end, f32[n, outputs + 2]."""
        if self.num_codes is not None:
            observation = jax.nn.one_hot(observation, self.num_codes)
        x = observation.reshape(observation.shape[0], -1).astype(jnp.float32)
        x = jnp.concatenate([x, jax.nn.one_hot(action, self.num_actions)], axis=1)
        for _ in range(2):
            x = nn.silu(nn.Dense(self.hidden)(x))
        return nn.Dense(self.outputs + 2)(x)


@struct.dataclass
class LearnedState(EnvState):
    """observation: what the model says is seen. over: bool[], the model has ended the episode."""

    observation: jax.Array
    over: jax.Array


@struct.dataclass
class LearnedParams(EnvParams):
    """weights: of `Dynamics`. starts: [S, ...], observations that episodes start from."""

    weights: chex.ArrayTree = None
    starts: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class LearnedEnvironment(Environment):
    """An environment whose params are a network's weights; of one agent with discrete actions.

    Observation: as the real environment's. Codes are drawn from their predicted distributions, cell
    by cell; numbers are the predicted means. Reward: the predicted mean. Ends: drawn with the
    predicted probability. A start is drawn from `LearnedParams.starts`.
    """

    shape: tuple[int, ...] = ()
    codes: int | None = None
    actions: tuple[str, ...] = ()
    hidden: int = 128

    has_success = False

    @property
    def num_codes(self) -> int | None:
        """Number of codes per observed cell, of the environment that is modelled; None for
        numbers."""
        return self.codes

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions of the environment that is modelled, in its order."""
        return self.actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation of the environment that is modelled."""
        return self.shape

    @property
    def network(self) -> Dynamics:
        """The network of the dynamics, sized by observation and actions."""
        size = 1
        for length in self.shape:
            size *= length
        return Dynamics(len(self.actions), self.codes, size * (self.codes or 1), self.hidden)

    def predicted(
        self, weights: chex.ArrayTree, observation: jax.Array, action: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(next observation: logits [n, ..., codes] or means [n, ...], reward f32[n], logit of an
        end f32[n])."""
        out = self.network.apply(weights, observation, action)
        after = out[:, :-2]
        if self.codes is not None:
            after = after.reshape(-1, *self.shape, self.codes)
        else:
            after = observation + after.reshape(-1, *self.shape)
        return after, out[:, -2], out[:, -1]

    def initial(self, key: jax.Array, params: LearnedParams) -> LearnedState:
        """A state whose observation is drawn uniformly from `params.starts`."""
        number = jax.random.randint(key, (), 0, params.starts.shape[0])
        no = jnp.zeros((), bool)
        return LearnedState(jnp.zeros((), jnp.int32), params.starts[number], no)

    def transition(
        self, key: jax.Array, state: LearnedState, action: jax.Array, params: LearnedParams
    ) -> tuple[LearnedState, jax.Array]:
        """(next state, predicted mean reward f32[]); codes and the end are drawn, see the class."""
        after, reward, end = self.predicted(
            params.weights, state.observation[None], jnp.asarray(action)[None]
        )
        code_key, end_key = jax.random.split(key)
        if self.codes is not None:
            after = jax.random.categorical(code_key, after).astype(self.observation_dtype)
        over = jax.random.bernoulli(end_key, jax.nn.sigmoid(end[0]))
        return state.replace(observation=after[0], over=over), reward[0]

    def observe(self, state: LearnedState, params: LearnedParams) -> jax.Array:
        """The predicted observation, which is the whole state of the model."""
        return state.observation

    def is_terminated(self, state: LearnedState, params: LearnedParams) -> jax.Array:
        """Whether the end was drawn in the last transition, bool[]."""
        return state.over

    def is_success(self, state: LearnedState, params: LearnedParams) -> jax.Array:
        """Always False: the model does not predict success (`has_success` is False)."""
        return jnp.zeros((), bool)


class Model(struct.PyTreeNode):
    """weights, opt_state: of `Dynamics`. starts: [N, ...], first observations of the last real
    episodes. updates: i32[], how many it was trained in."""

    weights: chex.ArrayTree
    opt_state: chex.ArrayTree
    starts: jax.Array
    updates: jax.Array


def model_loss(
    env: LearnedEnvironment,
    weights: chex.ArrayTree,
    observation: jax.Array,
    action: jax.Array,
    following: jax.Array,
    reward: jax.Array,
    over: jax.Array,
    *,
    acted: jax.Array,
    seen: jax.Array,
) -> jax.Array:
    """Mean over acted transitions of (next observation's loss, where it was seen) + squared error
    of the reward + cross-entropy of the end.

    All [n, ...]; acted, seen: bool[n]. Codes have a cross-entropy summed over cells, numbers a
    squared error.
    """
    after, predicted, end = env.predicted(weights, observation, action)
    if env.codes is not None:
        cells = optax.softmax_cross_entropy_with_integer_labels(after, following)
    else:
        cells = jnp.square(after - following)
    cells = jnp.sum(cells.reshape(cells.shape[0], -1), axis=1)
    loss = jnp.where(seen, cells, 0.0) + jnp.square(predicted - reward)
    loss = loss + optax.sigmoid_binary_cross_entropy(end, over * 1.0)
    return jnp.sum(jnp.where(acted, loss, 0.0)) / jnp.maximum(jnp.sum(acted), 1)


class Hooks(NamedTuple):
    """The hooks of `world_model`, with what they are made of."""

    policy: Policy
    rollout: Rollout
    model: LearnedEnvironment
    adam: optax.GradientTransformation
    num_groups: int
    group_size: int
    horizon: int
    steps: int
    warm_up: int

    def init(self, start: InitInputs) -> Model:
        """A model with random weights, and no states from which to imagine."""
        shape = (self.rollout.num_streams, *self.model.shape)
        starts = jnp.zeros(shape, self.model.observation_dtype)
        action = jnp.zeros(shape[0], jnp.int32)
        weights = self.model.network.init(start.key, starts, action)
        return Model(weights, self.adam.init(weights), starts, jnp.zeros((), jnp.int32))

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """Episodes of the policy in the model."""
        del sources
        value, key = context.value, context.key
        inside = LearnedParams(
            max_steps_in_episode=self.horizon, weights=value.weights, starts=value.starts
        )
        acting = rollouts.episodes(
            self.policy, self.model, inside, num_groups=self.num_groups, group_size=self.group_size
        )
        _, streams, rows, _ = acting.collect(context.params, acting.init(key), key)
        return streams, rows.replace(loss_mask=rows.loss_mask & (value.updates >= self.warm_up))

    def after(self, value: Model, outcome: UpdateResult) -> tuple[Model, dict[str, jax.Array]]:
        """The model after its steps on the update's transitions."""
        met = transitions(outcome.streams, outcome.rows)
        weights, opt_state, losses = descended(
            functools.partial(model_loss, self.model, **met),
            self.adam,
            value.weights,
            value.opt_state,
            self.steps,
        )
        rows = stream_rows(outcome.rows, outcome.streams)
        new = Model(weights, opt_state, rows.observation[:, 0], value.updates + 1)
        return new, {"model_loss": jnp.stack([losses[0], jnp.ones(())])}


def world_model(
    setup: Setup,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    horizon: int | None = None,
    hidden: int = 128,
    learning_rate: float = 1e-3,
    steps: int = 8,
    warm_up: int = 10,
) -> Component:
    """Source of its own name: episodes of the policy in a `LearnedEnvironment` (Dyna).

    The model is trained in every update on the real transitions of source "rollout", by `steps`
    Adam steps on all of them. Terms with source="world_model" learn from what the policy does in
    the model, credited like real episodes; they count after `warm_up` updates.

    Metric: model_loss, before the update's first step.

    Metrics (Critic and models):
      model_loss: World model's loss; before the update's first step.

    Args:
      num_groups, group_size: imagined episodes per update; the members of a group share a start.
      horizon: turns of an imagined episode; None: the environment's limit.
      hidden: width of the model. learning_rate, steps: of its optimiser, per update.
      warm_up: updates before imagined rows are trained on.

    Raises:
      ValueError: anything but one agent with discrete actions and a policy over arrays without
        memory in episodes; an option outside its range.

    References:
      Sutton (1991), Dyna (recalled). The combination with group-relative credit is ours.
    """
    env, env_params = required(
        setup, "world_model", "arrays", one_agent=True, discrete=True, whole_episodes=True,
        without_memory=True,
    )  # fmt: skip
    sizes = {"num_groups": num_groups, "group_size": group_size, "horizon": horizon}
    for name, value in (sizes | {"hidden": hidden, "steps": steps}).items():
        check_range(f"config.components.world_model.{name}", value, 1)
    check_range("config.components.world_model.warm_up", warm_up, 0)
    check_range("config.components.world_model.learning_rate", learning_rate, 0.0, below=True)
    limit = int(env_params.max_steps_in_episode) if horizon is None else horizon
    model = LearnedEnvironment(
        shape=tuple(env.observation_shape),
        codes=env.num_codes,
        actions=tuple(env.action_names),
        hidden=hidden,
    )
    hooks = Hooks(
        setup.policy, setup.rollout, model, optax.adam(learning_rate), num_groups, group_size,
        limit, steps, warm_up,
    )  # fmt: skip
    return Component(init=hooks.init, source=Source(hooks.make), after=hooks.after)
