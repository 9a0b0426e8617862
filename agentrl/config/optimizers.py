"""Optimizers: one for all parameters, or one per entry of the parameters."""

from collections.abc import Mapping
from typing import Any

import jax
import ml_collections
import optax

from agentrl.config.bind import bind, nearest
from agentrl.learner.optimizer import optimizer
from agentrl.policies.scoring import split


def make_transform(
    config: ml_collections.ConfigDict,
    policy: Any,
    total_steps: int,
    rate: Mapping[str, float],
    section: Mapping[str, Any] | None = None,
) -> optax.GradientTransformation:
    """The optimizer of the trained parameters over `total_steps` gradient steps.

    config.optimizers: {entry of the parameters: options that differ from config.optimizer's}. The
    gradients of each entry are then clipped to a norm of their own.
    rate: {"learning_rate": ...} in place of config.optimizer's, or {}. section: numbers in place of
    config.optimizer's.

    Raises:
      ValueError: an entry that is not among the trained parameters, or an unknown option.
    """
    common = bind("optimizer", optimizer, config.optimizer if section is None else section)
    common = common | dict(rate)
    if not config.optimizers:
        return optimizer(total_steps, **common)
    trained, frozen = split(jax.eval_shape(policy.init, jax.random.key(0)), policy.frozen)
    known = list(trained) if isinstance(trained, dict) else []
    transforms = {"": optimizer(total_steps, **common)}
    for entry, values in config.optimizers.items():
        if entry not in known:
            raise ValueError(
                f"config.optimizers.{entry}: the policy has no trained entry of that name"
                f"{nearest(entry, known)}; expected one of {', '.join(known) or 'none'}"
                + (f" (frozen: {', '.join(frozen)})" if frozen else "")
            )
        own = bind(f"optimizers.{entry}", optimizer, values)
        transforms[entry] = optimizer(total_steps, **{**common, **own})

    def labels(params):
        return {name: name if name in config.optimizers else "" for name in params}

    return optax.multi_transform(transforms, labels)
