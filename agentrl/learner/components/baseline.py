"""Baselines per task and role, carried from update to update (role-conditioned advantages)."""

import jax.numpy as jnp
import numpy as np

from agentrl.learner.component import Component, Setup


def baseline(setup: Setup) -> Component:
    """Supplies `baseline` f32[tasks, roles]; the estimator returns its new value."""
    tasks, roles = setup.rollout.tasks, setup.rollout.roles

    def after(value, outcome):
        new = outcome.credit.carried["baseline"]
        one = jnp.ones(())
        return new, {
            f"rae_baseline/{tasks[task]}/{role}": jnp.stack(
                [jnp.where(outcome.finite, new, value)[task, role], one]
            )
            for task, role in np.ndindex(len(tasks), roles)
        }

    return Component(
        init=lambda start: jnp.zeros((len(tasks), roles)),
        exposes=lambda value: {"baseline": value},
        after=after,
        supplies=("baseline",),
    )
