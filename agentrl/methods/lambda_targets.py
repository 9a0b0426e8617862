"""A critic's target with a lambda of its own, apart from the policy's advantage."""

from typing import get_args

from agentrl.advantages import gae
from agentrl.advantages.temporal import AtLimit
from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup
from agentrl.streams import PerTurn


def lambda_targets(
    setup: Setup, *, gamma: float = 1.0, lam: float = 1.0, at_limit: AtLimit = "bootstrap"
) -> Component:
    """Supplies `critic_target` f32[N, T] for loss `decoupled_value_loss`: gae(gamma, lam) + value.

    With lam=1 the critic is fitted to returns, without bias by its own values, while the policy's
    advantage keeps a smaller lambda. Rewards are the environment's own: reward terms of the config
    come after the annotations.

    Args:
      gamma, lam: discount and trace per turn, in [0, 1].
      at_limit: "bootstrap" or "end", as for `advantages.gae`.

    Raises:
      ValueError: a policy without a critic, or an option outside its range.

    References:
      Yuan et al. (2025), What's behind PPO's collapse in long-CoT?, https://arxiv.org/abs/2503.01491
      (decoupled GAE), which UI-TARS-2 takes over, https://arxiv.org/abs/2509.02544: formulas as
      notes give them.
    """
    if not setup.policy.has_critic:
        raise ValueError(
            "component 'lambda_targets' needs a critic: set config.policy.critic='shared', or "
            "'separate' over arrays"
        )
    check_range("config.components.lambda_targets.gamma", gamma, 0.0, 1.0)
    check_range("config.components.lambda_targets.lam", lam, 0.0, 1.0)
    check_choice("config.components.lambda_targets.at_limit", at_limit, get_args(AtLimit))

    def annotate(context, streams, rows):
        arrays = streams.reward, streams.value, streams.mask, streams.terminated, streams.bootstrap
        advantage = gae(
            *arrays, gamma=gamma, lam=lam, at_limit=at_limit, truncated=streams.truncated
        )
        return {"critic_target": PerTurn(advantage + streams.value * streams.mask)}

    return Component(annotate=annotate, fills=("critic_target",))
