r"""Debate: an honest debater and a liar learn by self-play to convince a frozen judge.

Irving, Christiano, Amodei (2018), AI safety via debate, https://arxiv.org/abs/1805.00899, at a
small scale, with PPO in both seats instead of tree search. "precommit": the liar first claims a
label. "open": the honest debater wins only if the judge ranks the true label best of all.

    python -m launchers.train --config=configs/games/debate.py:precommit \
        --workdir=runs/debate_precommit

One CPU core, half a minute. Expected win rate of the honest debater after 400 updates (one seed):
0.82 (precommit) and 0.81 (open) in self-play; 0.283 and 0.189 against the expert liar.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = ("precommit", "open")


def get_config(variant: str = "precommit") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.updates = 400
    config.log_every = 20
    config.env = env_section("Debate-v1", precommit=variant == "precommit", max_steps_in_episode=7)
    config.policy = section(policies.mlp, hidden=(128, 128), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=256, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4)
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(every=400, episodes=512, opponent="expert", side="honest")
    return config
