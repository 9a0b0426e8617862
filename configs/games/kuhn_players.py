r"""Kuhn's poker of three and five players in words: self-play, or against a pool of past selves.

One card more than players, the hand so far in context, replies constrained to commands. "three",
"five": one player meets frozen earlier parameters in all other seats, drawn by who beats it
(https://arxiv.org/abs/1912.06680); "three_self": the newest ones have all seats.

    python -m launchers.train --config=configs/games/kuhn_players.py:three --workdir=runs/three
    python -m launchers.arena --game=KuhnPoker-v1 --options=players=3 \
        --players=random,expert,runs/three

Three seeds. Exploitability of three: 0.144 after 300 updates, three_self 0.107 (README.md).
"""

import ml_collections

from agentrl.config import check_variant, env_section
from configs.games import spiral

PLAYERS = {"three": 3, "three_self": 3, "five": 5}
VARIANTS = tuple(PLAYERS)


def get_config(variant: str = "three") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config, players = spiral.solved("KuhnPoker-v1"), PLAYERS[variant]
    config.num_seeds = 3
    config.env = env_section(
        "KuhnPoker-v1", players=players, max_steps_in_episode=2 * players - 1, **spiral.ILLEGAL
    )
    # Each of four members meets the policy in every seat equally often.
    repeated, config.learner.microbatch = (12, 48) if players == 3 else (3, 60)
    config.rollout.num_groups = 4 * players * repeated
    config.updates, config.log_every = 300 if players == 3 else 200, 20
    config.checkpoint.update(every=100, keep=8)
    if not variant.endswith("_self"):
        config.rollout.update(opponent="pool", members=4)
        config.pool.update(capacity=8, every=25, draw="prioritised")
    return config
