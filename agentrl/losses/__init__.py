"""Losses over rows: pure functions on arrays [R, L], aggregated last.

A loss of the policy, a divergence or a weight is one value per position. They are multiplied and
added position by position, and `aggregate` turns the sum into a scalar. A loss with diagnostics
returns (values, {metric: one number or bool per position}), whose means over the mask are metrics:

    loss, metrics = clipped_surrogate(logp, old_logp, advantage, mask)
    divergence, _ = kl(logp, reference_logp, mask, estimator="k3")
    loss = aggregate(weight * (loss + 0.01 * divergence), mask, "token_mean")

Only log-probabilities, logits and values under training carry a gradient; advantages, targets and
the log-probabilities of other policies are data, whatever they were computed from. Inputs of any
float type give float32. Where a mask is given, nothing behind it is read: NaN in padding reaches
neither the loss nor the gradient.

Arguments stand in one order: log-probabilities (the policy's first), advantage or target, then the
mask. The array that a loss is averaged over is declared beside it (`agentrl.declarations`).
`approx_kl` and `explained_variance` are means over the mask, f32[], for metrics. Read `policy.py`
first.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy

if TYPE_CHECKING:
    from agentrl.losses.adversarial import airl_logit as airl_logit
    from agentrl.losses.adversarial import discriminator_loss as discriminator_loss
    from agentrl.losses.aggregation import AGGREGATIONS as AGGREGATIONS
    from agentrl.losses.aggregation import aggregate as aggregate
    from agentrl.losses.aggregation import aggregation_weights as aggregation_weights
    from agentrl.losses.balanced import aepo as aepo
    from agentrl.losses.balanced import entropy_weighted as entropy_weighted
    from agentrl.losses.categorical import categorical_entropy as categorical_entropy
    from agentrl.losses.categorical import categorical_kl as categorical_kl
    from agentrl.losses.categorical import categorical_log_prob as categorical_log_prob
    from agentrl.losses.covariance import clip_cov as clip_cov
    from agentrl.losses.covariance import covariances as covariances
    from agentrl.losses.covariance import kl_cov as kl_cov
    from agentrl.losses.divergence import KL_ESTIMATORS as KL_ESTIMATORS
    from agentrl.losses.divergence import approx_kl as approx_kl
    from agentrl.losses.divergence import approx_kl_terms as approx_kl_terms
    from agentrl.losses.divergence import exact_kl as exact_kl
    from agentrl.losses.divergence import kl as kl
    from agentrl.losses.divergence import skill_distillation as skill_distillation
    from agentrl.losses.ensembles import chosen_logits as chosen_logits
    from agentrl.losses.ensembles import confidence_weight as confidence_weight
    from agentrl.losses.ensembles import ensemble_deviation as ensemble_deviation
    from agentrl.losses.ensembles import upper_confidence as upper_confidence
    from agentrl.losses.gaussian import gaussian_entropy as gaussian_entropy
    from agentrl.losses.gaussian import gaussian_kl as gaussian_kl
    from agentrl.losses.gaussian import gaussian_log_prob as gaussian_log_prob
    from agentrl.losses.guidance import shaped_imitation as shaped_imitation
    from agentrl.losses.imitation import behaviour_cloning as behaviour_cloning
    from agentrl.losses.imitation import corrected_behaviour_cloning as corrected_behaviour_cloning
    from agentrl.losses.imitation import observation_loss as observation_loss
    from agentrl.losses.imitation import self_imitation as self_imitation
    from agentrl.losses.imitation import thought_cloning as thought_cloning
    from agentrl.losses.implicit import dual_value_loss as dual_value_loss
    from agentrl.losses.implicit import expectile_value_loss as expectile_value_loss
    from agentrl.losses.implicit import exponential_weight as exponential_weight
    from agentrl.losses.implicit import weighted_imitation as weighted_imitation
    from agentrl.losses.importance import IMPORTANCE_LEVELS as IMPORTANCE_LEVELS
    from agentrl.losses.importance import truncated_importance_weight as truncated_importance_weight
    from agentrl.losses.listening import listening_loss as listening_loss
    from agentrl.losses.listening import listening_loss_in_words as listening_loss_in_words
    from agentrl.losses.mixture import cosine_share as cosine_share
    from agentrl.losses.mixture import mixed_imitation as mixed_imitation
    from agentrl.losses.mixture import mixed_surrogate as mixed_surrogate
    from agentrl.losses.policy import cispo as cispo
    from agentrl.losses.policy import clipped_surrogate as clipped_surrogate
    from agentrl.losses.policy import negative_entropy as negative_entropy
    from agentrl.losses.policy import reinforce as reinforce
    from agentrl.losses.preference import behaviour_dpo as behaviour_dpo
    from agentrl.losses.preference import dpo as dpo
    from agentrl.losses.preference import kto as kto
    from agentrl.losses.preference import refuel as refuel
    from agentrl.losses.preference import rpo as rpo
    from agentrl.losses.preference import simpo as simpo
    from agentrl.losses.preference import weighted_dpo as weighted_dpo
    from agentrl.losses.q_values import bootstrap_target as bootstrap_target
    from agentrl.losses.q_values import conservative_loss as conservative_loss
    from agentrl.losses.q_values import proxy_value_loss as proxy_value_loss
    from agentrl.losses.q_values import q_loss as q_loss
    from agentrl.losses.q_values import recoil_loss as recoil_loss
    from agentrl.losses.sequence import gspo as gspo
    from agentrl.losses.sequence import thought_scaled_surrogate as thought_scaled_surrogate
    from agentrl.losses.smoothing import epo as epo
    from agentrl.losses.soft import boltzmann_imitation as boltzmann_imitation
    from agentrl.losses.soft import soft_policy_loss as soft_policy_loss
    from agentrl.losses.soft import soft_value as soft_value
    from agentrl.losses.value import clipped_token_value_loss as clipped_token_value_loss
    from agentrl.losses.value import clipped_value_loss as clipped_value_loss
    from agentrl.losses.value import decision_value_loss as decision_value_loss
    from agentrl.losses.value import decoupled_value_loss as decoupled_value_loss
    from agentrl.losses.value import explained_variance as explained_variance
    from agentrl.losses.value import token_value_loss as token_value_loss
    from agentrl.losses.value import value_loss as value_loss

__getattr__, __dir__ = lazy(__name__)
