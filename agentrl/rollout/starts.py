"""Tasks: which ones the episodes of a collection start from."""

import inspect
from typing import Protocol

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import along_data
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import fresh
from envs.vector import World


class Sampler(Protocol):
    """Draws tasks: (key, n, given) -> (task keys [n], parameters of each task [n, ...] or None)."""

    def __call__(
        self, key: jax.Array, count: int, /, given: chex.ArrayTree
    ) -> tuple[jax.Array, chex.ArrayTree | None]: ...


def independent(key: jax.Array, count: int, given: chex.ArrayTree = None) -> tuple[jax.Array, None]:
    """The sampler of independent tasks: as many keys, and the environment's own parameters."""
    del given
    return jax.random.split(key, count), None


def takes_tasks(sampler: Sampler) -> bool:
    """Whether a sampler needs the input `tasks` of the rollout: its `given` has no default."""
    return inspect.signature(sampler).parameters["given"].default is inspect.Parameter.empty


def task_keys(seed: int, episodes: int) -> jax.Array:
    """Keys of a fixed set of tasks. Training never draws from this stream of keys.

    A training run starts from `jax.random.key(seed)`; here a constant is folded in first.
    """
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x5EED), episodes)


def start_groups(
    sampler: Sampler,
    world: World,
    key: jax.Array,
    groups: int,
    size: int,
    given: chex.ArrayTree,
) -> tuple[World, Start]:
    """Episodes in groups that share a task: (world of groups * size episodes, start).

    Group g is episodes g * size to (g + 1) * size - 1.
    """
    keys, params = sampler(key, groups, given=given)
    keys = along_data(keys)
    if params is not None:
        world = World(world.env, params, batched=True)
    start = fresh(world, keys)
    state, observation = jax.tree.map(
        lambda x: jnp.repeat(x, size, axis=0), (start.state, start.observation)
    )
    if params is not None:
        repeated = jax.tree.map(lambda x: jnp.repeat(x, size, axis=0), params)
        world = world._replace(params=repeated)
    return world, Start(*along_data((state, observation)))
