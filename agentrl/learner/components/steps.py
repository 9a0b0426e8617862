"""How many turns the policy has acted in, counted exactly over the whole run."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.learner.component import Component, Setup, UpdateResult

NAME = "steps"


def steps(setup: Setup) -> Component:
    """The component; every run has it. Its value is u32[2], high and low words."""
    del setup
    return Component(
        init=lambda start: jnp.zeros(2, jnp.uint32),
        after=_count,
        counts_rejected=True,
    )


def _count(value: jax.Array, outcome: UpdateResult) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The value with the turns of an update."""
    if outcome.streams is None:
        return value, {}
    acted = jnp.sum(outcome.streams.mask, dtype=jnp.uint32)
    low = value[1] + acted
    high = value[0] + (low < acted)
    return jnp.stack([high, low]), {}


def env_steps(carry: Mapping[str, Any]) -> np.ndarray:
    """Turns acted so far by each seed, int64 [S]."""
    words = np.asarray(carry[NAME]).astype(np.int64)
    return (words[..., 0] << 32) + words[..., 1]


def are_spent(budget: int, steps: np.ndarray) -> bool:
    """Whether every seed has acted in as many turns as the budget allows; 0: never.

    steps: int64[S], as `env_steps` returns them.
    """
    return bool(0 < budget <= steps.min())
