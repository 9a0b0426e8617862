"""Skills of volleyball drones, learnt as policies over body-rate commands: PPO with GAE."""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

GAMES, SKILLS = ("plane", "1v1", "3v3"), ("goto", "hit")


def get_config(which: str = "plane_hit") -> ml_collections.ConfigDict:
    game, _, skill = which.partition("_")
    if game not in GAMES or skill not in SKILLS:
        raise ValueError(
            f"configs/volleyball_skills.py:{which}: expected GAME_SKILL, a game of "
            f"{', '.join(GAMES)} and a skill of {', '.join(SKILLS)}"
        )
    config = base_config()
    config.num_seeds = 1
    config.updates = 200
    config.log_every = 20
    config.env = env_section("VolleyballSkill-v1", teams=game, skill=skill)
    config.policy = section(policies.mlp, log_std=-1.0)
    config.rollout = section(rollout.segments, num_envs=256, length=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(epochs=4, minibatches=8, normalize_advantage="minibatch")
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(episodes=1024, greedy=True)
    return config
