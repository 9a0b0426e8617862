"""Coin-v1 in words, 80 updates of SFT, then credit of turns and tokens: one preset per estimator.

    python -m launchers.train --config=configs/words/turn_credit.py:sft --workdir=runs/credit_sft
    python -m launchers.train --config=configs/words/turn_credit.py:bilevel \
        --workdir=runs/bilevel --config.init_from=runs/credit_sft

"gtr" writes thoughts and starts from "thoughts_sft", "datamind" from random weights; "..._end": the
limit of turns is the end of the task. Five seeds, two busy CPU cores: 3 to 9 minutes each. Success
of 1,024 tasks: SFT 0.10, grpo 0.71, bilevel 0.73, tokens 0.14, tokens_end 0.65, ppo_max 0.78,
decoupled 0.00, decoupled_end 0.76, gtr 0.80 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.critic_first import critic_first
from agentrl.methods.lambda_targets import lambda_targets
from agentrl.methods.reference_penalty import reference_penalty
from agentrl.methods.reward_scaling import reward_scaling
from agentrl.methods.token_values import token_values
from configs._shared import language

WITHOUT_CRITIC = {
    "grpo": lambda: section(advantages.grpo),
    "dual_level": lambda: section(advantages.dual_level),
    "user_rl": lambda: section(advantages.user_rl, credit="equalized", score="discounted"),
    "loop": lambda: section(advantages.rloo),
    "rollout_mean": lambda: section(advantages.grpo),
    "datamind": lambda: section(advantages.grpo),
    "gtr": lambda: section(advantages.grpo),
}
WITH_CRITIC = {
    "turns": lambda: section(advantages.gae, gamma=0.95, lam=0.95),
    "tokens": lambda: section(advantages.token_gae, gamma=1.0, lam=0.95),
    "bilevel": lambda: section(advantages.bilevel_gae, gamma=1.0, turn_gamma=0.95, lam=0.95),
    "decoupled": lambda: section(advantages.length_adaptive_token_gae, alpha=1.0),
}
# As "tokens", "decoupled", and with its critic trained first; the limit is the end of the task.
AT_LIMIT = {
    "tokens_end": "tokens",
    "ppo_max": "tokens",
    "decoupled_end": "decoupled",
    "ui_tars": "decoupled",
}
# What the presets start from.
STARTS = ("sft", "thoughts_sft")
VARIANTS = (*STARTS, *WITHOUT_CRITIC, *WITH_CRITIC, *AT_LIMIT)


def get_config(variant: str = "bilevel") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("Coin-v1")
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    context = section(rollout.contexts.whole)
    estimator = AT_LIMIT.get(variant, variant)
    method = "sft" if variant in STARTS else "ppo" if estimator in WITH_CRITIC else "grpo"
    # All alike: updates of SFT alone, or 200 of RL from its parameters.
    config = language.config_of(method, env, acting, context, warm_updates=0, updates=200)
    config.num_seeds = 5
    if variant in STARTS:
        # Replies with thoughts are longer.
        config.updates = config.warm_start.updates = 80 if variant == "sft" else 400
    else:
        config.advantage = (WITHOUT_CRITIC | WITH_CRITIC)[estimator]()
    config.evaluation.update(every=config.updates, episodes=1024)
    _use_critic(config, variant, estimator)
    if variant == "ppo_max":
        _use_ppo_max(config)
    if variant == "loop":
        config.filters.relevant = section(advantages.relevant)
        config.learner.update(epochs=2, max_kl=20.0, aggregation="row_mean")
        config.learner.normalize_advantage = "none"
        config.objective.policy.update(clip_low=0.1, clip_high=0.1)
    if variant == "datamind":
        # Imitation goes from nine tenths of the loss to a twentieth.
        config.objective.policy = term(losses.mixed_surrogate)
        config.objective.imitation = term(losses.mixed_imitation, source="expert", during="rl")
    if variant in ("thoughts_sft", "gtr"):
        config.policy.grammar = "action"
        config.context.max_new_tokens = 16
        config.expert.thoughts = True
    if variant == "gtr":
        # The expert's source goes on correcting thoughts, off its own path too.
        config.expert.noise = 0.3
        config.objective.policy = term(losses.thought_scaled_surrogate, kappa=0.5)
        config.objective.thoughts = term(losses.thought_cloning, source="expert", during="rl")
    if variant == "rollout_mean":
        config.reweighting.per_rollout_mean = section(advantages.per_rollout_mean)
        config.learner.update(aggregation="constant", normalize_advantage="none")
    return config


def _use_ppo_max(config: ml_collections.ConfigDict) -> None:
    """Sets what PPO-max adds to PPO over tokens; its script has the first three."""
    config.components.reference_penalty = section(reference_penalty, coefficient=0.01)
    config.components.reward_scaling = section(reward_scaling)
    config.reward.scaled_reward = {}
    config.objective.value = term(losses.clipped_token_value_loss, weight=0.5, clip=0.2)
    # Pretraining's loss, of the expert's episodes here, and the critic's warm-up.
    config.objective.imitation = term(
        losses.behaviour_cloning, weight=0.1, source="expert", during="rl"
    )
    config.components.critic_first = section(critic_first, updates=20)


def _use_critic(config: ml_collections.ConfigDict, variant: str, estimator: str) -> None:
    """Sets what presets with a critic of tokens need."""
    if estimator in ("tokens", "bilevel", "decoupled"):
        config.components.token_values = section(token_values)
        config.objective.value = term(losses.token_value_loss, weight=0.5)
    if estimator == "decoupled":
        # UI-TARS-2: the critic's lambda is 1, the policy's grows with the tokens; clip-higher.
        config.components.lambda_targets = section(lambda_targets)
        config.objective.value = term(losses.decoupled_value_loss, weight=0.5)
        config.objective.policy.clip_high = 0.28
    if variant in AT_LIMIT:
        config.advantage.at_limit = "end"
        if estimator == "decoupled":
            config.components.lambda_targets.at_limit = "end"
    if variant == "ui_tars":
        # The critic alone first, on the episodes of a policy that hardly moves.
        config.components.critic_first = section(critic_first, updates=20)
