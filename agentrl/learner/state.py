"""The training state: all data needed to resume a run."""

from typing import Any

import chex
import jax
from flax import struct


class TrainState(struct.PyTreeNode):
    """Saved, restored and sharded as one.

    params: all parameters, trained or frozen. opt_state: of those that are trained. rollout:
    environments in mid-episode. key: the run's key, split at each update. update: i32[], updates
    done. carry: {component: its value}, see `agentrl.learner.component`.
    """

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    rollout: chex.ArrayTree
    key: jax.Array
    update: jax.Array
    carry: dict[str, Any]


def new_if(flag: jax.Array, new: chex.ArrayTree, old: chex.ArrayTree) -> chex.ArrayTree:
    """`new` where flag, bool[], is True, else `old`.

    A branch and not `jnp.where`: that is a loop to compile per array, and under `jit` another copy
    of both. Under `vmap` over seeds it is the same as `jnp.where`.
    """
    return jax.lax.cond(flag, lambda new, old: new, lambda new, old: old, new, old)
