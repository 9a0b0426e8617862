r"""DRAFT-RL: three agents write two short drafts each, grade each other's, and one is shown.

Li et al. (2025), DRAFT-RL, https://arxiv.org/abs/2511.20468. Drafts-v1. "draft_rl": the method.
"independent": as many drafts that see none, no peers. "random_peers": any grades. "no_imitation",
"no_twins": without the teacher; without counterfactual twins of the reward model. "words",
"words_independent": the first two by a transformer, after 60 updates of SFT.

    python -m launchers.train --config=configs/teams/draft_rl.py:draft_rl --workdir=runs/draft_rl

Five seeds, 10 minutes beside eleven other jobs on two cores. Right answers shown: 0.839, of
independent drafts 0.816, with random grades 0.795, without imitation 0.817, without twins 0.811;
in words 0.603, independent 0.772 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.drafts import by_agent, drafts
from configs._shared import language

VARIANTS = (
    "draft_rl", "independent", "random_peers", "no_imitation", "no_twins", "words",
    "words_independent",
)  # fmt: skip
WARM = 200


def get_config(variant: str = "draft_rl") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    alone, in_words = variant.endswith("independent"), variant.startswith("words")
    env = env_section("Drafts-v1", sees_first=not alone, reviews=not alone)
    config = _in_words(env) if in_words else _in_arrays(env)
    config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
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
    config.learner.normalize_advantage = "none"
    return config


def _in_arrays(env: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds = 5
    config.log_every = 10
    config.env = env
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.warm_start.update(updates=WARM, learning_rate=3e-3)
    config.updates = WARM + 200
    config.expert.update(episodes=64, noise=0.1)
    config.learner.update(epochs=2, minibatches=4)
    config.optimizer.learning_rate = 1e-3
    return config


def _in_words(env: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """A transformer of 90,000 parameters, or so; every turn is a row of its own."""
    config = language.config_of(
        "ppo",
        env,
        section(rollout.episodes, num_groups=32, group_size=1),
        section(rollout.contexts.window, history=0),
        warm_updates=60,
        updates=60,
    )
    config.num_seeds, config.log_every = 3, 10
    config.expert.noise = 0.1
    config.evaluation.every = 0
    # Illegal replies are passes, which end a draft: its form is in the reward already.
    del config.reward.invalid_action_penalty
    # A fourth of 32 episodes of three agents, with ten turns each, and four reviews.
    config.learner.update(microbatch=6, lengths=1)
    return config
