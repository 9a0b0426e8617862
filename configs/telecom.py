"""Telecom: a support desk that has all tools against one that has to ask its user for most.

Barres et al. (2025), tau2-bench, https://arxiv.org/abs/2506.07982, which compares agents in these
two settings; here the desk learns, by PPO from nothing but success. "solo": it has all tools.
"dual": the user is the same policy, in a seat of its own. "scripted", "easy", "hard": the user is a
script of that persona ("scripted" does as asked, always).

Success after 300 updates, one seed, 512 tasks: solo 0.824, easy 0.707, dual 0.660 (417, 442 and 912
thousand turns, some 1.5 minutes each on one busy CPU core); experts solve all but 1 %, random play
10 %. Trained with easy users, tested on 1024 tasks: 0.727 [0.698, 0.753] with users who do as
asked, 0.709 [0.680, 0.736] with easy ones, 0.581 [0.551, 0.611] with hard ones, by

    python -m launchers.train --config=configs/telecom.py:easy --workdir=runs/telecom_easy
    python -m launchers.evaluate --workdir=runs/telecom_easy --options=follow=0.7,precise=0.8
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

# Of each: the user, and its persona in training.
METHODS = {
    "solo": ("solo", "none"),
    "dual": ("learned", "none"),
    "scripted": ("scripted", "none"),
    "easy": ("scripted", "easy"),
    "hard": ("scripted", "hard"),
}


def get_config(method: str = "solo") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/telecom.py:{method}: expected one of {', '.join(METHODS)}")
    user, persona = METHODS[method]
    config = base_config()
    config.updates = 300
    config.log_every = 20
    config.env = env_section("Telecom-v1", user=user, persona=persona)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=320, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 2e-3
    config.evaluation.update(every=300, episodes=512)
    return config
