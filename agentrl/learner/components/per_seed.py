"""Numbers of the config that differ between the seeds of one run, in one compiled program."""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp

from agentrl.learner.component import Component, InitInputs, Inputs, Setup

NAME = "per_seed"


def per_seed(setup: Setup, values: Mapping[str, Sequence[float]]) -> Component:
    """The component that puts values of a seed's own in place of the config's.

    A seed learns as a run of its own with these values would: a grid over learning rates costs one
    compilation. The values are in the state, and a run goes on with them.

    Metrics (Opponents, buffers, tasks):
      per_seed/{option}: Own {option}; of a seed, see config.per_seed.

    Args:
      values: by path in the config, for example "optimizer.learning_rate", one for each seed.
    """

    def init(start: InitInputs):
        place = start.seed - setup.seed
        return {path: jnp.asarray(row, jnp.float32)[place] for path, row in values.items()}

    def after(own, outcome):
        return own, {f"{NAME}/{path}": jnp.stack([value, 1.0]) for path, value in own.items()}

    return Component(init=init, before=lambda own, params, key: Inputs(numbers=own), after=after)
