"""The program that the environment suite times: an environment with a random policy and resets."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp


class Simulator(NamedTuple):
    """A batch of episodes under a uniformly random legal policy.

    init: (key) -> (observation, state).
    prepare: (key) -> data shared by the steps of one call (tasks drawn ahead), or None.
    advance: (prepared, state, key) -> (observation, state, reward f32[B], done bool[B]), with
      finished episodes already restarted.
    drawn: number of tasks that `prepare` draws.
    """

    init: Callable[[jax.Array], tuple[chex.ArrayTree, chex.ArrayTree]]
    prepare: Callable[[jax.Array], Any]
    advance: Callable[..., tuple[chex.ArrayTree, chex.ArrayTree, jax.Array, jax.Array]]
    drawn: int


def random_actions(
    key: jax.Array, batch: int, num_actions: int, legal: jax.Array | None = None
) -> jax.Array:
    """Uniform actions i32[B] among the legal ones, bool[num_actions, B] (None: all of them).

    One random word per action: a categorical draw would cost more than most of these steps. The
    remainder's bias, below num_actions / 2**32, does not matter here.
    """
    words = jax.random.bits(key, (batch,), jnp.uint32)
    if legal is None:
        return (words % jnp.uint32(num_actions)).astype(jnp.int32)
    rank = jnp.cumsum(legal, axis=0, dtype=jnp.uint32)
    count = jnp.maximum(rank[-1], 1)
    # The action is the number of actions whose rank among the legal ones is at most the choice.
    return jnp.sum(rank <= words % count, axis=0, dtype=jnp.int32)
