r"""Social deduction: a crew that learns by reward alone, by listening too, and by speaking too.

Sarkar et al. (2025), Training language models for social deduction with multi-agent reinforcement
learning, https://arxiv.org/abs/2502.06060. "rl": PPO over arrays. "listening": also names the
imposter in meetings. "speaking": messages are paid by their effect. "spoken": listening, without
discount across messages. "words_...": a language policy; "words_world" predicts what it reads.

    python -m launchers.train --config=configs/games/social_deduction.py:listening --workdir=RUN

One CPU core, about four minutes. Expected win rate of the crew after 60 updates: rl 0.59 to 0.83,
listening 0.92 to 0.94, speaking 0.84 to 0.94; a scripted crew 0.20. Words: README.md.
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.observed import observed
from configs._shared import language
from envs.social_deduction.env import COLOURS

VARIANTS = (
    "rl",
    "listening",
    "speaking",
    "spoken",
    "words_rl",
    "words_listening",
    "words_speaking",
    "words_world",
)


def get_config(variant: str = "speaking") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant.startswith("words_"):
        return words(variant.removeprefix("words_"))
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
    if variant == "spoken":
        config.advantage = section(advantages.spoken_gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=400, normalize_advantage="batch")
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=2e-3, schedule="linear")
    config.evaluation.update(every=60, episodes=1024, opponent="expert", side="crew")
    if variant != "rl":
        config.policy.answers = config.env.players
        config.objective.listening = term(losses.listening_loss, weight=0.3)
    if variant == "speaking":
        config.rollout.listeners = "others"
        config.reward.persuasion_reward = section(rewards.persuasion_reward)
    return config


def words(variant: str) -> ml_collections.ConfigDict:
    """Four players in two rooms, in words: a game small enough for a CPU.

    Asked in meetings, the policy continues its prompt by "imposter" and a name. Sides learn in turn
    by --config.rollout.opponent=pool with rollout.side and init_from: the other side is played by
    frozen parameters.
    """
    config = base_config()
    config.updates = 120
    config.log_every = 10
    config.env = env_section(
        "SocialDeduction-v1",
        players=4,
        rows=1,
        cols=2,
        messages=1,
        tasks=2,
        task_steps=3,
        max_steps_in_episode=20,
    )
    config.policy = language.policy(critic="shared")
    config.policy.constrained = True
    config.rollout = section(
        rollout.episodes, num_groups=16, opponent="expert", side="crew", group_size=1
    )
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(advantages.spoken_gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.entropy.weight = 0.02
    config.learner.update(minibatches=2, microbatch=32, lengths=2, normalize_advantage="batch")
    config.optimizer.learning_rate = 2e-3
    config.evaluation.every = 0
    if variant != "rl":
        # Words that answers need as words of their own.
        config.policy.words = ("imposter", *COLOURS[: config.env.players])
        config.rollout.update(question="imposter", questions=12)
        config.objective.listening = term(losses.listening_loss_in_words, weight=0.3)
    if variant == "speaking":
        config.rollout.listeners = "others"
        config.reward.persuasion_reward = section(rewards.persuasion_reward)
    if variant == "world":
        config.components.observed = section(observed)
        config.objective.world = term(losses.observation_loss, weight=0.1)
    return config
