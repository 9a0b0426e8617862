"""SearchQA in words, k questions: the policy's thought is its memory (MEM1), trained at k=2.

Zhou et al. (2025), https://arxiv.org/abs/2506.15841 (code read). "mem1" sees the questions, its
last reply and what came of it; "whole" everything, without thoughts; "forgets" no reply. All
answers are given in one reply at the end, 1 / k each. 400 updates of SFT, then 20 of GRPO.

    python -m launchers.train --config=configs/words/mem1.py:mem1 --workdir=runs/mem1
    python -m launchers.evaluate --workdir=runs/mem1 --options=objectives=8,max_steps_in_episode=18

Five seeds, right answers of 512 tasks at k=2: mem1 0.369, whole 0.634, forgets 0.174;
at k=4 mem1 and whole are at chance: a list of two is not learnt as a list (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

CONTEXTS = {
    "mem1": lambda: section(rollout.contexts.window, history=0, replies=1, keep_first=True),
    "forgets": lambda: section(rollout.contexts.window, history=0, keep_first=True),
    "whole": lambda: section(rollout.contexts.whole),
}
VARIANTS = tuple(CONTEXTS)
SFT, RL = 400, 20


def get_config(variant: str = "mem1") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.env = env_section(
        "SearchQA-v1", objectives=2, entities=32, relations=4, max_hops=1, passages=2,
        show_questions=False, answer_last=True, distinct=True, wording="notes",
    )  # fmt: skip
    thinks = variant != "whole"
    config.policy = section(
        policies.transformer, width=64, layers=2, heads=2, kv_heads=2, hidden=128,
        grammar="answer", think="required" if thinks else "none", max_actions=8,
    )  # fmt: skip
    config.rollout = section(rollout.episodes, num_groups=8, group_size=4)
    config.context = CONTEXTS[variant]()
    config.advantage = section(advantages.grpo)
    config.updates, config.log_every = SFT + RL, 20
    config.warm_start.update(updates=SFT, learning_rate=3e-3)
    config.expert.update(episodes=32, thoughts=thinks)
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-4
    config.checkpoint.every = SFT
    config.evaluation.update(every=SFT, episodes=256)
    return config
