"""FrozenLake in words with credit of turns and tokens: one preset per estimator.

python -m launchers.train --config=configs/words/turn_credit.py:bilevel --workdir=runs/bilevel

Success of "decoupled" (UI-TARS-2's lambda along the tokens) on 512 tasks, two seeds (num_seeds=2, 2
minutes on two CPU cores): 0.178 [0.147, 0.213] and 0.193 [0.161, 0.230], random play 0.203, expert
1.00. So its 60 updates after SFT do not lift it above chance; the other presets have no result yet.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.drift import drift
from agentrl.methods.lambda_targets import lambda_targets
from agentrl.methods.similar_anchors import similar_anchors
from agentrl.methods.token_values import token_values
from configs._shared import language

WITHOUT_CRITIC = {
    "dual_level": lambda: section(advantages.dual_level),
    "user_rl": lambda: section(advantages.user_rl, credit="equalized", score="discounted"),
    "hgpo": lambda: section(advantages.hgpo),
    "loop": lambda: section(advantages.rloo),
    "artist": lambda: section(advantages.grpo),
    "datamind": lambda: section(advantages.grpo),
    "rollout_mean": lambda: section(advantages.grpo),
    "grpo": lambda: section(advantages.grpo),
    "gtr": lambda: section(advantages.grpo),
    "similar": lambda: section(advantages.gigpo, normalize="mean"),
}
WITH_CRITIC = {
    "tokens": lambda: section(advantages.token_gae, gamma=1.0, lam=0.95),
    "bilevel": lambda: section(advantages.bilevel_gae, gamma=1.0, turn_gamma=0.95, lam=0.95),
    "decoupled": lambda: section(advantages.length_adaptive_token_gae, alpha=1.0),
    "turns": lambda: section(advantages.gae, gamma=0.95, lam=0.95),
}
VARIANTS = (*WITHOUT_CRITIC, *WITH_CRITIC)


def get_config(variant: str = "bilevel") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("FrozenLake-v1", size=4, slippery=False)
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    context = section(rollout.contexts.whole)
    preset = "ppo" if variant in WITH_CRITIC else "grpo"
    config = language.config_of(preset, env, acting, context, warm_updates=40, updates=60)
    config.advantage = (WITHOUT_CRITIC | WITH_CRITIC)[variant]()
    if variant in ("tokens", "bilevel", "decoupled"):
        config.components.token_values = section(token_values)
        config.objective.value = term(losses.token_value_loss, weight=0.5)
    if variant == "decoupled":
        # UI-TARS-2: the critic's lambda is 1, the policy's grows with the tokens; clip-higher.
        config.components.lambda_targets = section(lambda_targets)
        config.objective.value = term(losses.decoupled_value_loss, weight=0.5)
        config.objective.policy.clip_high = 0.28
    if variant == "loop":
        config.filters.relevant = section(advantages.relevant)
        config.learner.update(epochs=2, max_kl=20.0, aggregation="row_mean")
        config.learner.normalize_advantage = "none"
        config.objective.policy.update(clip_low=0.1, clip_high=0.1)
    if variant == "artist":
        config.reward.tool_use_reward = {"format_weight": 0.1, "tool_weight": 0.1}
    if variant == "datamind":
        # No warm start: imitation goes from nine tenths of the loss to a twentieth.
        config.warm_start.updates = 0
        config.objective.policy = term(losses.mixed_surrogate)
        config.objective.imitation = term(losses.mixed_imitation, source="expert", during="rl")
    if variant == "gtr":
        # Thoughts in tags, which the expert's source goes on correcting, off its own path too.
        config.policy.grammar = "action"
        config.context.max_new_tokens = 16
        config.expert.update(thoughts=True, noise=0.3)
        config.objective.policy = term(losses.thought_scaled_surrogate, kappa=0.5)
        config.objective.thoughts = term(losses.thought_cloning, source="expert", during="rl")
    if variant == "similar":
        config.components.similar_anchors = section(similar_anchors, threshold=0.9)
        config.components.drift = section(drift, reminder=language.lake_plan)
    if variant == "rollout_mean":
        config.reweighting.per_rollout_mean = section(advantages.per_rollout_mean)
        config.learner.update(aggregation="constant", normalize_advantage="none")
    return config
