"""TextArena's own games by self-play, through worker processes: tic-tac-toe, Kuhn's poker, others.

A transformer of 123,392 parameters that knows nothing reads a game's messages byte by byte and
writes its reply likewise, for both seats, with a baseline for each (RAE, as in SPIRAL). The games
are Guertler et al. (2025), TextArena, https://arxiv.org/abs/2504.11442, as installed; a reply that
is no legal action is forgiven once and then loses. The `-train` names show prompt, events and board
instead of the whole log of messages.

From random bytes the policy finds a game's words only where they are as short as a digit: of the
replies in tic-tac-toe 4 % are legal at first, in Kuhn's poker none was in four updates of eight
games. Games with longer actions need a policy that was taught to write.

    pip install textarena
    python -m launchers.train --config=configs/textarena.py:KuhnPoker-v0-train \
        --workdir=runs/textarena
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.training import credit
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

# Bytes of the longest observation, and turns of the longest game with an illegal one before each.
SIZES = {"TicTacToe-v0-train": (640, 18), "KuhnPoker-v0-train": (1152, 18)}
REPLIES = {"TicTacToe-v0-train": 1, "KuhnPoker-v0-train": 8}


def get_config(game: str = "TicTacToe-v0-train") -> ml_collections.ConfigDict:
    observation_tokens, turns = SIZES.get(game, (2048, 32))
    config = base_config()
    config.updates = 100
    config.log_every = 5
    config.env = env_section(f"textarena:{game}", num_players=2)
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.rollout = section(
        rollout.host,
        num_groups=64,
        group_size=1,
        max_turns=turns,
        max_new_tokens=REPLIES.get(game, 16),
        observation_tokens=observation_tokens,
        workers=8,
    )
    config.advantage = section(credit.rae)
    config.learner.update(microbatch=16, lengths=2, entropy_coefficient=0.003)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.episodes = 32
    return config
