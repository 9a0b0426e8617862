"""A user's own module: an environment, an estimator, a loss and a component, none of them ours."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Component, Setup
from agentrl.streams import Shared
from envs.environment import Environment, EnvParams, EnvState


@struct.dataclass
class CorridorState(EnvState):
    """place i32[]: cells from the left end."""

    place: jax.Array


@dataclasses.dataclass(frozen=True)
class Corridor(Environment):
    """A corridor of `length` cells; 1 for reaching its right end. Actions: left, right."""

    length: int = 4

    @property
    def default_params(self) -> EnvParams:
        """Twice the length."""
        return EnvParams(max_steps_in_episode=2 * self.length)

    @property
    def action_names(self) -> tuple[str, ...]:
        """One step."""
        return ("left", "right")

    @property
    def observation_shape(self) -> tuple[int]:
        """An indicator per cell."""
        return (self.length,)

    def initial(self, key: jax.Array, params: EnvParams) -> CorridorState:
        """At the left end."""
        return CorridorState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def transition(
        self, key: jax.Array, state: CorridorState, action: jax.Array, params: EnvParams
    ) -> tuple[CorridorState, jax.Array]:
        """A step, if there is a cell."""
        place = jnp.clip(state.place + 2 * action - 1, 0, self.length - 1)
        return state.replace(place=place), (place == self.length - 1) * 1.0

    def observe(self, state: CorridorState, params: EnvParams) -> jax.Array:
        """Where the agent is."""
        return jax.nn.one_hot(state.place, self.length)

    def is_terminated(self, state: CorridorState, params: EnvParams) -> jax.Array:
        """At the right end."""
        return state.place == self.length - 1

    def is_success(self, state: CorridorState, params: EnvParams) -> jax.Array:
        """At the right end."""
        return state.place == self.length - 1


def faster_is_better(
    reward: jax.Array, mask: jax.Array, typical: jax.Array, *, price: float = 0.1
) -> jax.Array:
    """An estimator: the return, less a price per turn beyond the typical number of them."""
    turns = jnp.sum(mask, axis=1, keepdims=True)
    total = jnp.sum(jnp.where(mask, reward, 0.0), axis=1, keepdims=True)
    return jnp.where(mask, total - price * (turns - typical), 0.0)


def squared_surrogate(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array,
    *,
    pull: float = 1.0,
) -> jax.Array:
    """A loss: -A log pi, and a square that holds log pi where it was."""
    away = jnp.where(mask, logp - old_logp, 0.0)
    return jnp.where(mask, -advantage * logp, 0.0) + pull * jnp.square(away)


def typical_length(setup: Setup, *, decay: float = 0.9) -> Component:
    """A component: the running mean of the episodes' number of turns."""

    def after(value, outcome):
        now = jnp.mean(jnp.sum(outcome.streams.mask, axis=1) * 1.0)
        new = decay * value + (1 - decay) * now
        return new, {"typical_length": jnp.stack([new, jnp.ones(())])}

    return Component(
        init=lambda start: jnp.float32(0),
        annotate=lambda context, streams, rows: {"typical": Shared(context.value)},
        after=after,
        fills=("typical",),
    )
