"""Self-play in Kuhn's and Leduc's poker: policy gradients with a baseline for each seat (RAE).

Plain policy gradients end in play without chance here, or go in circles. What brings the last
policy itself near an equilibrium is a pull, in the loss: in Kuhn's game towards parameters of some
updates ago, and now and then those of today (Perolat et al. 2022, DeepNash,
https://arxiv.org/abs/2206.15378, regularise rewards in this way); in Leduc's, where a pot holds up
to 26 chips, towards uniform play, by an entropy bonus of first 1 and in the end 0.25 chips a nat.
RAE is SPIRAL's: Liu et al. (2025), https://arxiv.org/abs/2506.24119.

`exploitability` is exact, of the policy that is training: NashConv / 2, chips a hand. Uniform play:
0.458 in Kuhn's game, 2.374 in Leduc's. After all updates, seeds 0 to 4 (--config.num_seeds=5):
Kuhn's 0.0067, 0.0159, 0.0077, 0.0137, 0.0056 (2 min 12 s); Leduc's 0.282, 0.256, 0.235, 0.277,
0.222. Kuhn's 2,048 hands an update were chosen on ten other seeds (100 to 109), which end at 0.006
to 0.011; with 1,024 hands and 5,000 updates ten seeds end at 0.005 to 0.026, with 3,000 updates
five at 0.008 to 0.022. Leduc's moves by some 0.1 from line to line until the learning rate is
nearly 0 (of earlier deals the same seeds came to 0.294, 0.260, 0.269, 0.247, 0.228, in 6 min 27 s
of processor time).

    python -m launchers.train --config=configs/poker.py:leduc --workdir=runs/leduc
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config(game: str = "kuhn") -> ml_collections.ConfigDict:
    if game not in ("kuhn", "leduc"):
        raise ValueError(f"configs/poker.py:{game}: expected one of kuhn, leduc")
    config = base_config()
    config.log_every = 50
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=1024, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.rae_by_turn)
    # No momentum: it carries self-play past an equilibrium and around it.
    config.optimizer.update(schedule="linear", b1=0.0)
    if game == "kuhn":
        config.updates = 4000
        config.rollout.num_groups = 2048
        config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
        config.reference.every = 25
        config.objective.kl.update(weight=1.0, estimator="k2")
        config.objective.entropy.update(weight=0.1, final_weight=0.01)
        config.optimizer.learning_rate = 3e-3
    else:
        config.updates = 4000
        config.env = env_section("LeducPoker-v1", max_steps_in_episode=8)
        config.objective.entropy.update(weight=1.0, final_weight=0.25)
        config.optimizer.learning_rate = 1e-2
    return config
