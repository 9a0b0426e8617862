"""Debate: an honest debater and a liar learn by self-play what convinces a frozen judge.

Irving, Christiano, Amodei (2018), AI safety via debate, https://arxiv.org/abs/1805.00899, in small;
PPO in both seats where they have tree search. "precommit": the liar first claims a label. "open":
the honest wins only if the judge finds the true label the best of all.

The honest's win rate, one seed, 400 updates (717 and 614 thousand turns, half a minute each on one
busy CPU core): in self-play, from first to last, 0.86 to 0.82 with precommit, where the liar learns
to claim, and 0.60 to 0.81 open, where the honest has more to learn. Against the expert liar the
trained honest wins 0.283 and 0.189 of 512: its partner in self-play was a weak one.

    python -m launchers.train --config=configs/debate.py:precommit --workdir=runs/debate_precommit
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

METHODS = ("precommit", "open")


def get_config(method: str = "precommit") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/debate.py:{method}: expected one of {', '.join(METHODS)}")
    config = base_config()
    config.updates = 400
    config.log_every = 20
    config.env = env_section("Debate-v1", precommit=method == "precommit", max_steps_in_episode=7)
    config.policy = section(policies.mlp, hidden=(128, 128), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=256, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4)
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(every=400, episodes=512, opponent="expert", side="honest")
    return config
