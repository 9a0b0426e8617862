"""PPO of independent agents (IPPO) in a particle world of JaxMARL, in one compiled program.

de Witt et al. (2020), https://arxiv.org/abs/2011.09533; JaxMARL, https://arxiv.org/abs/2311.10090.
Three agents cover three landmarks (MPE_simple_spread_v3), 26 moves long. Needs
`pip install -e '.[jaxmarl]'`.

    python -m launchers.train --config=configs/teams/mpe.py --workdir=runs/mpe

Three seeds, 4 minutes on two busy CPU cores: a return per agent of -21.9 on 1,024 tasks (-22.7 to
-21.4), random play -27.6 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 10
    config.env = env_section("jaxmarl:MPE_simple_spread_v3", cooperative=True)
    config.policy = section(policies.mlp, hidden=(128, 128))
    config.rollout = section(rollout.segments, num_envs=64, length=26)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95, at_limit="end")
    config.learner.update(epochs=4, minibatches=4, normalize_advantage="minibatch")
    config.objective.entropy.weight = 0.01
    config.objective.value = term(losses.clipped_value_loss, weight=0.5, clip=0.2)
    config.optimizer.update(learning_rate=2.5e-3, schedule="linear")
    config.evaluation.episodes = 512
    return config
