"""Support-v1: comfort a user whose needs are hidden until one asks."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

NEEDS = ("worried", "angry", "confused", "lonely")
REPLIES = ("reassure", "apologise", "explain", "stay")
ASK = len(REPLIES)
FARTHEST, LARGEST = 20, 8  # distance, and what one upset adds


@struct.dataclass
class SupportState(EnvState):
    """distance: i32[], from satisfied. need: i32[], what helps now. known: bool[], it is told."""

    distance: jax.Array
    need: jax.Array
    known: jax.Array


@struct.dataclass
class SupportParams(EnvParams):
    """upset: probability per turn that something else upsets the user."""

    max_steps_in_episode: int = 10
    upset: float = 0.1


@dataclasses.dataclass(frozen=True)
class Support(Environment):
    """A user is `distance` (fewest, most) away from satisfied, and in one of four moods.

    The reply that the mood needs takes the distance down by 2, another does nothing; after either
    the mood is drawn anew, and hidden until the agent asks. Each turn, with probability `upset`,
    something else adds a heavy-tailed number, floor(1 / u) of a uniform u and at most 8, up to a
    distance of `FARTHEST`.

    Observation: float32, the mood one-hot [4] (0 if hidden), and distance / FARTHEST. Actions: a
    reply for each mood, then `ask`; always legal. Reward: the decrease of the distance, so that the
    return is the first less the last one. Ends at distance 0, which is success; limit 10 turns.
    Task: first distance and mood, uniform.

    Expert: asks, then replies, which gains 1 per turn; guessing gains half of that.

    Source: the smallest task for MAPO, https://arxiv.org/abs/2603.06194 (a walk of a user's
    distance with noise of heavy tails); moods and asking are ours, so that what pays now is not
    what pays later.
    """

    distance: tuple[int, int] = (6, 8)

    wordings: ClassVar[str] = "envs.support.words"
    costly_reset: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False
    default_params: ClassVar[SupportParams] = SupportParams()
    action_names: ClassVar[tuple[str, ...]] = (*REPLIES, "ask")

    def __post_init__(self):
        low, high = self.distance
        if not 1 <= low <= high <= FARTHEST:
            raise ValueError(
                f"distance {self.distance}: expected (fewest, most) of 1 to {FARTHEST}"
            )

    def initial(self, key: jax.Array, params: SupportParams) -> SupportState:
        distance_key, need_key = jax.random.split(key)
        low, high = self.distance
        return SupportState(
            time=jnp.zeros((), jnp.int32),
            distance=jax.random.randint(distance_key, (), low, high + 1),
            need=jax.random.randint(need_key, (), 0, len(NEEDS)),
            known=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: SupportState, action: jax.Array, params: SupportParams
    ) -> tuple[SupportState, jax.Array]:
        need_key, chance_key, size_key = jax.random.split(key, 3)
        asks, helps = action == ASK, action == state.need
        distance = jnp.maximum(state.distance - 2 * helps, 0)
        size = jnp.minimum(1.0 / jax.random.uniform(size_key, minval=0.01), LARGEST)
        # A satisfied user has left.
        upset = (jax.random.uniform(chance_key) < params.upset) & (distance > 0)
        distance = jnp.minimum(distance + upset * size.astype(jnp.int32), FARTHEST)
        another = jax.random.randint(need_key, (), 0, len(NEEDS))
        following = state.replace(
            distance=distance, need=jnp.where(asks, state.need, another), known=asks
        )
        return following, (state.distance - distance).astype(jnp.float32)

    def observe(self, state: SupportState, params: SupportParams) -> jax.Array:
        mood = (np.arange(len(NEEDS)) == state.need) & state.known
        return jnp.append(mood, state.distance / FARTHEST).astype(jnp.float32)

    def is_terminated(self, state: SupportState, params: SupportParams) -> jax.Array:
        return state.distance == 0

    def is_success(self, state: SupportState, params: SupportParams) -> jax.Array:
        return state.distance == 0

    def expert(self, state: SupportState, params: SupportParams) -> jax.Array:
        return jnp.where(state.known, state.need, ASK).astype(jnp.int32)

    def render(self, state: SupportState, params: SupportParams) -> str:
        """For example `distance 7, angry (hidden)`."""
        hidden = "" if bool(state.known) else " (hidden)"
        return f"distance {int(state.distance)}, {NEEDS[int(state.need)]}{hidden}"
