"""Mazes in words: errors that the expert corrects, with the erroneous turns masked or not.

After AgentRefine (2025), https://arxiv.org/abs/2501.01702, and STeP (2025),
https://arxiv.org/abs/2505.20023 (from notes). "refine": a fifth of the turns is a random command,
read and not trained; "unmasked": trained; "clean": none; "step": the policy's own errors.

    python -m launchers.train --config=configs/words/corrections.py:refine --workdir=runs/refine

Five seeds, success of 512 tasks: refine 0.698, unmasked 0.585, clean 0.772, step 0.646.
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.corrections import corrections
from configs._shared import language

ARMS = {
    "refine": {},
    "unmasked": {"turns": "all"},
    "clean": {"errors": 0.0},
    "step": {"pupil": "policy", "errors": 0.0},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "refine") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("Maze-v1", size=(5, 5), sight="position", max_steps_in_episode=16),
        section(rollout.episodes, num_groups=8, group_size=4),
        section(rollout.contexts.whole),
        warm_updates=0,
        updates=150,
    )
    config.num_seeds = 5
    config.objective.policy.weight = 0.0
    config.reward = ml_collections.ConfigDict()
    config.components.corrections = section(corrections, episodes=16, **ARMS[variant])
    config.objective.imitation = term(losses.behaviour_cloning, source="corrections", during="rl")
    config.learner.update(
        epochs=1, minibatches=1, microbatch=16, lengths=2, normalize_advantage="none"
    )
    config.optimizer.learning_rate = 3e-3
    config.log_every = 50
    config.evaluation.update(every=150, episodes=512)
    return config
