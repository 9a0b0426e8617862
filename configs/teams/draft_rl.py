r"""DRAFT-RL: three agents write two short drafts each, grade each other's, and one is shown.

Li et al. (2025), DRAFT-RL, https://arxiv.org/abs/2511.20468. Drafts-v1. "draft_rl": the method.
"independent": as many drafts that see none, no peers. "random_peers": any grades. "no_imitation",
"no_twins": without the teacher; without counterfactual twins of the reward model.

    python -m launchers.train --config=configs/teams/draft_rl.py:draft_rl --workdir=runs/draft_rl

Five seeds, 10 minutes beside eleven other jobs on two cores. Right answers shown: 0.839, of
independent drafts 0.816, with random grades 0.795, without imitation 0.817, without twins 0.811
(README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.drafts import by_agent, drafts

VARIANTS = ("draft_rl", "independent", "random_peers", "no_imitation", "no_twins")
WARM = 200


def get_config(variant: str = "draft_rl") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    alone = variant == "independent"
    config = base_config()
    config.num_seeds = 5
    config.log_every = 10
    config.env = env_section("Drafts-v1", sees_first=not alone, reviews=not alone)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
    config.warm_start.update(updates=WARM, learning_rate=3e-3)
    config.updates = WARM + 200
    config.expert.update(episodes=64, noise=0.1)
    config.components.drafts = section(drafts, flipped=variant != "no_twins")
    if variant == "random_peers":
        config.components.drafts.peers = "random"
    if alone:
        config.components.drafts.peer_weight = 0.0
    config.reward.winner = section(rewards.winner_reward)
    config.filters.winner = section(advantages.winner_turns)
    config.reweighting.by_agent = section(by_agent)
    config.objective.value = term(losses.clipped_value_loss, weight=0.1, clip=0.2)
    if variant != "no_imitation":
        config.objective.teacher = term(losses.behaviour_cloning, weight=0.5, source="drafts")
    config.learner.update(epochs=2, minibatches=4)
    config.optimizer.learning_rate = 1e-3
    return config
