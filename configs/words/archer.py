"""A locked room in words: SFT, then ArCHer (Zhou et al. 2024), turn PPO or GRPO.

https://arxiv.org/abs/2402.19446; code 7c771a7 (read). "archer": critics of replies from a replay,
the policy on its own new episodes; "replayed", as published: on replies that it draws anew in
observations of the replay. The limit of turns is the end; no penalty for illegal replies.
Five seeds: SFT 0.30, then archer 0.39, replayed 0.41, ppo 0.42, grpo 0.40 (README.md).

    p=configs/words/archer.py
    python -m launchers.train --config=$p:sft --workdir=runs/archer_sft
    python -m launchers.train --config=$p:archer --workdir=runs/archer \
        --config.init_from=runs/archer_sft
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.archer import archer
from configs._shared import language

VARIANTS = ("archer", "replayed", "ppo", "grpo", "sft")
WARM = 60  # updates of SFT


def get_config(variant: str = "archer") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        variant if variant in ("sft", "ppo") else "grpo",
        env_section("KeyDoor-v1", rooms=1, max_steps_in_episode=12),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=WARM if variant == "sft" else 0,
        updates=100,
    )
    config.policy.update(width=32, layers=1, kv_heads=1, hidden=64)
    config.num_seeds = 5
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=None, lengths=1)
    config.optimizer.learning_rate = 3e-4
    # It is not the environment's, and the critics of replies learn from the environment's rewards.
    del config.reward["invalid_action_penalty"]
    if variant == "ppo":
        config.advantage.at_limit = "end"
    if variant not in ("archer", "replayed"):
        return config
    config.components.archer = section(
        archer, hidden=32, steps=50, batch=32, size=1024, warm_up=10, at_limit="end"
    )
    config.advantage = section(advantages.twin_critics)
    if variant == "replayed":
        config.objective.policy = term(losses.clipped_surrogate, source="archer")
    return config
