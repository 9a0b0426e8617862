"""A critic is trained before the policy moves: value pretraining (UI-TARS-2, PPO-max)."""

import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Inputs, Setup


def critic_first(
    setup: Setup,
    *,
    updates: int = 50,
    terms: tuple[str, ...] = ("policy",),
    weights: tuple[float, ...] = (1.0,),
) -> Component:
    """Terms of the objective have the weight 0 in the first updates, and theirs afterwards.

    With a critic apart from the policy (critic="separate") the policy stays as it is meanwhile; a
    critic that shares its layers with the policy moves these.

    Metric policy_waits: 1 in updates in which the terms have no weight.

    Args:
      updates: that the terms wait, counted from the first update of RL.
      terms: names of the terms that wait. weights: theirs, afterwards.

    Raises:
      ValueError: a policy without a critic, a negative number of updates, or another number of
        weights than of terms.

    References:
      UI-TARS-2 (2025), https://arxiv.org/abs/2509.02544, from notes: the value model is trained to
      convergence on a fixed policy's episodes. Zheng et al. (2023), PPO-max,
      https://arxiv.org/abs/2307.04964, code MOSS-RLHF 4865d82 (read), has a warm-up of the critic.
    """
    if not setup.policy.has_critic:
        raise ValueError("component 'critic_first' needs a critic: set config.policy.critic")
    check_range("config.components.critic_first.updates", updates, 0)
    if len(terms) != len(weights):
        raise ValueError(
            f"config.components.critic_first: {len(terms)} terms {tuple(terms)} and {len(weights)} "
            "weights; give one weight per term"
        )

    def before(done, params, key):
        return Inputs(
            numbers={
                f"objective.{name}.weight": jnp.where(done < updates, 0.0, weight)
                for name, weight in zip(terms, weights, strict=True)
            }
        )

    def after(done, outcome):
        waits = jnp.stack([(done < updates) * 1.0, jnp.ones(())])
        return done + 1, {"policy_waits": waits}

    return Component(init=lambda start: jnp.zeros((), jnp.int32), before=before, after=after)
