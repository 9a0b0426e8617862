"""Social deduction: a crew that learns by reward alone, by listening too, and by speaking too.

Sarkar et al. (2025), Training language models for social deduction with multi-agent reinforcement
learning, https://arxiv.org/abs/2502.06060. One policy over arrays has the crew's four seats
against the scripted imposter. "rl": PPO. "listening": besides, in meetings it learns to say who the
imposter is, by a head on what actions are chosen from. "speaking": besides, who sends a message is
paid for what it did to the others' belief in the truth.

Crew's win rate against that imposter, three seeds, 1024 games each; a scripted crew wins 20 %.

                 update 60              update 120             mean of training
    rl           0.684, 0.825, 0.587    0.964, 0.955, 0.764    0.616, 0.692, 0.508
    listening    0.935, 0.932, 0.924    0.960, 0.963, 0.981    0.819, 0.820, 0.828
    speaking     0.837, 0.925, 0.935    0.990, 0.974, 0.995    0.812, 0.853, 0.854

With listening, 89 to 97 % of the training games are won by update 36, without in two seeds by
update 96 and 72, in one not by the end. What speaking adds is not more than the seeds differ. Half
a million turns a seed, about four minutes for the three on one busy CPU core.

Self-play of all seats by "rl" (--config.rollout.opponent=self --config.rollout.side=none
--config.updates=150 --config.log_every=15 --config.evaluation.every=75) ends in a convention: the
crew waits in the first room, imposters kill before witnesses for the reward of the deed, and are
voted out. That crew wins 99.8 to 99.9 % of the games against itself, and 2.3, 4.8 and 0.5 % against
the script, which waits for somebody alone: 76 to 90 % of the games end at the limit.

    python -m launchers.train --config=configs/social_deduction.py:listening --workdir=runs/social
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import base_config, env_section, section, term

METHODS = ("rl", "listening", "speaking")


def get_config(method: str = "speaking") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(
            f"configs/social_deduction.py:{method}: expected one of {', '.join(METHODS)}"
        )
    config = base_config()
    config.num_seeds = 3
    config.updates = 120
    config.log_every = 12
    config.env = env_section("SocialDeduction-v1", task_steps=4, max_steps_in_episode=60)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(
        rollout.episodes,
        num_groups=64,
        opponent="expert",
        side="crew",
        group_size=1,
        mask_illegal=True,
    )
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=400, normalize_advantage="batch")
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=2e-3, schedule="linear")
    config.evaluation.update(every=60, episodes=1024, opponent="expert", side="crew")
    if method != "rl":
        config.policy.answers = config.env.players
        config.objective.listening = term(losses.listening_loss, weight=0.3)
    if method == "speaking":
        config.rollout.listeners = "others"
        config.reward.persuasion_reward = section(rewards.persuasion_reward)
    return config
