"""The training state: all data needed to resume a run."""

from typing import Any

import chex
import jax
from flax import struct


@struct.dataclass
class TrainState:
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
