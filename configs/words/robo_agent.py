"""A lake in words, RoboAgent's stages: cloning or DAgger, then the expert's advantages (EIPO).

RoboAgent (2026), https://arxiv.org/abs/2604.07774 (from notes; no training code). "bc" and
"dagger" have as many labels of the expert; "eipo", "patient" (a discount of 0.9, not 0.5) and
"grpo" go on from "dagger", "bc_eipo" from "bc". EIPO climbs what the expert who plays on would win,
and cannot outdo an optimal one.

    python -m launchers.train --config=configs/words/robo_agent.py --workdir=runs/robo_agent

Five seeds, 23 minutes on two busy CPU cores: bc 0.61, bc_eipo 0.68, dagger 0.48, eipo 0.58,
patient 0.53, grpo 0.57 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import env_section, section, term
from agentrl.methods.dagger import dagger
from agentrl.methods.eipo import eipo
from configs._shared import language

# Updates of a stage, and the stage that it starts from.
STAGES = {
    "bc": (400, None),
    "dagger": (400, None),
    "eipo": (100, "dagger"),
    "patient": (100, "dagger"),
    "grpo": (100, "dagger"),
    "bc_eipo": (100, "bc"),
}


def get_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"stages": {name: _stage(name) for name in STAGES}})


def _stage(name: str) -> ml_collections.ConfigDict:
    updates, start = STAGES[name]
    config = language.config_of(
        "grpo",
        env_section("FrozenLake-v1", size=4, slippery=False),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=0,
        updates=updates,
    )
    config.num_seeds = 5
    config.reward = ml_collections.ConfigDict()
    config.evaluation.update(every=updates, episodes=512)
    config.learner.update(epochs=1, minibatches=1, microbatch=64, lengths=1)
    if start is not None:
        config.init_from = f"stage:{start}"
        config.learner.update(minibatches=4, microbatch=32)
    if name in ("bc", "dagger"):
        config.objective.policy.weight = 0.0
        config.components.dagger = section(
            dagger, episodes=32, every=100, labels=400, rows=64, size=2048,
            decay=1.0 if name == "bc" else 0.0,
        )  # fmt: skip
        config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
        config.learner.normalize_advantage = "none"
        config.optimizer.learning_rate = 3e-3
    elif name != "grpo":
        # About as many replies as the 64 episodes of "grpo".
        gamma = 0.9 if name == "patient" else 0.5
        config.components.eipo = section(eipo, episodes=16, states=32, samples=8, gamma=gamma)
        config.objective.policy = term(losses.clipped_surrogate, source="eipo")
        config.advantage = section(advantages.grpo, normalize="mean")
        config.learner.normalize_advantage = "none"
    return config
