"""Batches of episodes: stepping, and resets from tasks drawn ahead.

All arrays have the batch of B episodes as first axis. (`launchers.benchmark --suite=envs` also
times the batch as last axis, by `vmap(in_axes=-1)`: on a CPU from a quarter faster to twice as
slow, depending on the environment, since vmap moves the batch in front again at many operations.
More important there is a small state, a few scalars or packed words per episode: see
`envs.sokoban.rules.Board`.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from envs.agents import AgentViews
from envs.environment import Environment, EnvParams


class Starts(struct.PyTreeNode):
    """Tasks drawn ahead: observation and state of P fresh episodes."""

    observation: chex.ArrayTree
    state: chex.ArrayTree


def draw(env: Environment, params: EnvParams, keys: jax.Array) -> Starts:
    """Draws one task per key, keys [P]. Equal keys give equal tasks."""
    return Starts(*jax.vmap(env.reset_env, in_axes=(0, None))(keys, params))


def tasks_ahead(env: Environment, batch: int) -> int:
    """Default number of tasks that a segment of `batch` episodes draws ahead; 0: one per restart.

    If drawing a task is costly: an eighth of the batch, but at least 256 or the whole batch. A
    Sokoban level of 10 x 10 costs as much as some thousand steps, so a smaller share is faster, and
    repeats tasks more often within the segment.
    """
    return max(batch // 8, min(batch, 256)) if env.costly_reset else 0


def step(
    env: Environment, params: EnvParams, key: jax.Array, state: chex.ArrayTree, action: jax.Array
) -> tuple[chex.ArrayTree, chex.ArrayTree, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
    """One step of B episodes without reset.

    key: one key, split over the episodes. action: i32[B].
    Returns: (observation, state, reward f32[B], terminated, truncated, info).
    """
    keys = jax.random.split(key, action.shape[0])
    observation, state, reward, terminated, info = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
        keys, state, action, params
    )
    truncated = jax.vmap(env.is_truncated, in_axes=(0, None))(state, params) & ~terminated
    return observation, state, reward, terminated, truncated, info


class World(NamedTuple):
    """An environment and its parameters, for loops over B episodes.

    batched: params have a leading axis of B, one set of parameters per episode.
    """

    env: Environment
    params: EnvParams
    batched: bool = False

    def vmap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method (..., params) of the environment over B episodes, without params."""

        def over(*args):
            axes = (*[0] * len(args), 0 if self.batched else None)
            return jax.vmap(method, in_axes=axes)(*args, self.params)

        return over


def views(
    world: World, state: chex.ArrayTree, observation: chex.ArrayTree, *, everyone: bool
) -> AgentViews:
    """Views of the agents in B states: `Environment.views`, [B, S, ...] each."""

    def one(state, observation, params):
        return world.env.views(state, observation, params, everyone=everyone)

    return world.vmap(one)(state, observation)


def restart(
    done: jax.Array,
    observation: chex.ArrayTree,
    state: chex.ArrayTree,
    starts: Starts,
) -> tuple[chex.ArrayTree, chex.ArrayTree]:
    """Replaces finished episodes (done bool[B]) by starts, which hold B tasks."""
    return jax.tree.map(
        lambda new, old: jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), new, old),
        (starts.observation, starts.state),
        (observation, state),
    )


def pool(starts: Starts, batch: int) -> Starts:
    """Repeats P tasks so that any of P windows of `batch` neighbours can be sliced from them."""
    count = jax.tree.leaves(starts)[0].shape[0]
    copies = -(-(batch + count) // count)
    return jax.tree.map(lambda x: jnp.tile(x, (copies, *[1] * (x.ndim - 1))), starts)


def window(pooled: Starts, offset: jax.Array, batch: int) -> Starts:
    """The window of `batch` tasks at `offset` i32[]: a contiguous slice, cheaper than a gather.

    With a random offset in [0, P) per step, every episode restarts from a random task of the pool,
    and P draws serve a whole segment.
    """
    return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, offset, batch), pooled)
