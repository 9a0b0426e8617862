"""One update of rows that a test made, by terms and an optimizer of the test."""

from typing import NamedTuple

import optax

from agentrl import advantages
from agentrl.learner.credit import Recipe
from agentrl.learner.function import Function
from agentrl.learner.learner import Learner
from agentrl.learner.optimizer import UpdateOptions
from agentrl.learner.update import update


class Given(NamedTuple):
    """An optimizer that is any transformation of gradients."""

    made: optax.GradientTransformation

    def transform(self):
        return self.made

    def stepped(self, params):
        return params, lambda same: same


def stepper(policy, transform, terms, **options):
    """(params, opt_state, {source: Batch}, key, progress=0) -> what `update` returns."""
    recipe = Recipe(Function(advantages.grpo, {}))
    learner = Learner(recipe, terms, UpdateOptions(**options), Given(transform))

    def step(params, opt_state, batches, key, progress=0.0):
        return update(
            policy,
            learner,
            params,
            opt_state,
            batches,
            key,
            progress=progress,
        )

    return step
