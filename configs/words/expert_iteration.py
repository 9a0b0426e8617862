"""A locked room in words by own solved turns: of search trees, of middling likelihood, in rounds.

BFS-Prover-V2, https://arxiv.org/abs/2509.06493; ReST, https://arxiv.org/abs/2312.10003. "rounds"
goes on where the last round ended, "restart" begins at the base parameters.

    p=configs/words/expert_iteration.py
    python -m launchers.train --config=$p:sft --workdir=runs/rounds_sft
    python -m launchers.train --config=$p:trees --workdir=runs/rounds_trees \
        --config.init_from=runs/rounds_sft

Five seeds, success of 256 tasks: after SFT 0.135; sampling 0.287, trees 0.285, GRPO 0.242, rounds
0.211, restart 0.203, window 0.149 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.expert_iteration import expert_iteration
from agentrl.methods.growing_batch import growing_batch
from agentrl.methods.trees import trees
from configs._shared import language

VARIANTS = ("sampling", "trees", "window", "restart", "rounds", "grpo", "sft")
ROUND = 20  # updates


def get_config(variant: str = "trees") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    sizes = {"num_groups": 4, "group_size": 8}
    plain = variant in ("sampling", "grpo", "sft")
    search = section(trees, **sizes, rule="best_first", width=2, together=2)
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("KeyDoor-v1", rooms=1, max_steps_in_episode=12),
        section(rollout.episodes, **sizes) if plain else search,
        section(rollout.contexts.whole),
        warm_updates=60 if variant == "sft" else 0,
        updates=3 * ROUND,
    )
    config.policy.update(width=32, layers=1, kv_heads=1, hidden=64)
    config.num_seeds = 5
    config.evaluation.update(every=60 if variant == "sft" else ROUND, episodes=256)
    config.learner.update(microbatch=None, lengths=1)
    config.optimizer.learning_rate = 1e-3
    if variant in ("sft", "grpo"):
        return config
    config.objective.policy.weight = 0.0
    config.learner.update(epochs=2, minibatches=2, normalize_advantage="none")
    window = {"low": 0.2, "high": 0.9} if variant == "window" else {}
    config.components.growing_batch = section(growing_batch, size=4096, rows=64, **window)
    config.objective.own = term(losses.behaviour_cloning, source="growing_batch", during="rl")
    if variant in ("restart", "rounds"):
        config.components.expert_iteration = section(
            expert_iteration, updates=ROUND, restart=variant == "restart"
        )
    return config
