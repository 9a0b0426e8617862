"""Baselines per task and role, carried from update to update (role-conditioned advantages)."""

import jax.numpy as jnp
import numpy as np

from agentrl.learner.component import Component, Setup
from agentrl.streams import Shared


def baseline(setup: Setup) -> Component:
    """Supplies `baseline` f32[tasks, roles]; the estimator returns its new value.

    Metrics (Credit):
      rae_baseline/{task}/{role}: RAE's baseline of {role}, task {task}; running mean of the returns
        of a role.
    """
    tasks, roles = setup.rollout.tasks, setup.rollout.roles

    def after(value, outcome):
        new = outcome.credit.carried["baseline"]
        return new, {
            f"rae_baseline/{tasks[task]}/{role}": jnp.stack([new[task, role], jnp.ones(())])
            for task, role in np.ndindex(len(tasks), roles)
        }

    return Component(
        init=lambda start: jnp.zeros((len(tasks), roles)),
        annotate=lambda context, streams, rows: {"baseline": Shared(context.value)},
        after=after,
        fills=("baseline",),
    )
