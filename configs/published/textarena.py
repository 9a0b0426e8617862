r"""TextArena's own games by self-play, through worker processes: tic-tac-toe, Kuhn's poker, others.

Guertler et al. (2025), TextArena, https://arxiv.org/abs/2504.11442. A transformer from scratch
reads and writes bytes. "sft": SFT in our own TicTacToe-v1; "taught" continues from it in
TextArena's game; "lake" is Gymnasium's FrozenLake-v1 by GRPO.

    pip install textarena
    python -m launchers.train --config=configs/published/textarena.py:sft \
        --workdir=runs/textarena_sft

Expected (one seed, no time stated): 69 % of the first replies are legal after 200 updates of SFT
(random bytes 6 %), 0.66 after 40 updates of self-play. Details: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

# Bytes of the longest observation, and turns of the longest game with an illegal one before each.
SIZES = {"TicTacToe-v0-train": (640, 18), "KuhnPoker-v0-train": (1152, 18)}
REPLIES = {"TicTacToe-v0-train": 1, "KuhnPoker-v0-train": 8}
# Bytes of the longest text in the faithful wording of TicTacToe-v1, and of "[4]" with EOS.
BOARD, MOVE = 155, 4
VARIANTS = {
    "sft": "SFT in our own TicTacToe-v1 in the same words",
    "taught": "from there, self-play in TextArena's game",
    "lake": "Gymnasium's FrozenLake-v1 by GRPO",
    "GAME": "self-play from scratch in a game of TextArena, such as TicTacToe-v0-train",
}


def get_config(variant: str = "TicTacToe-v0-train") -> ml_collections.ConfigDict:
    config = base_config()
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.updates = 100
    config.log_every = 5
    config.learner.update(microbatch=16, lengths=2)
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 1e-3
    config.evaluation.episodes = 32
    config.advantage = section(advantages.rae_by_turn)
    if variant == "sft":
        return _sft(config)
    if variant == "lake":
        return _lake(config)
    taught = variant == "taught"
    variant = "TicTacToe-v0-train" if taught else variant
    observation_tokens, turns = SIZES.get(variant, (2048, 32))
    config.env = env_section(f"textarena:{variant}", num_players=2)
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, max_turns=turns)
    new_tokens = MOVE if taught else REPLIES.get(variant, 16)
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=new_tokens)
    config.host.update(workers=8, observation_tokens=BOARD if taught else observation_tokens)
    if taught:
        config.optimizer.learning_rate = 3e-4
    return config


def _sft(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    config.env = env_section("TicTacToe-v1", wording="faithful")
    config.rollout = section(rollout.episodes, num_groups=8)
    config.context = section(rollout.contexts.window, history=0)
    config.updates, config.log_every = 200, 20
    # The expert's play against itself is a single line; noise adds other boards.
    config.warm_start.update(updates=200, learning_rate=3e-3)
    config.expert.update(episodes=8, noise=0.3)
    return config


def _lake(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The map as printed, and an action's first letter."""
    config.env = env_section(
        "gymnasium:FrozenLake-v1",
        actions=("l", "d", "r", "u"),
        is_slippery=False,
        render_mode="ansi",
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8, max_turns=12)
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=1)
    config.host.update(workers=8, observation_tokens=64)
    config.advantage = section(advantages.grpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.1}
    return config
