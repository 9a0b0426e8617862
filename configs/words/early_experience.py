"""A lake in words from 32 demonstrations, and what follows other actions in their states.

After Agent Learning via Early Experience (2025), https://arxiv.org/abs/2510.08558 (from notes).
"sft": cloning; "world": 500 updates on what follows each action, then cloning; "shown": on what
follows the expert's alone; "reflect": cloning of thoughts that say what three actions lead to.

    python -m launchers.train --config=configs/words/early_experience.py:world \
        --workdir=runs/early_world

Five seeds, success of 512 tasks: sft 0.336, world 0.216, shown 0.225, reflect 0.203 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.early_experience import early_experience, reflections
from configs._shared import language

VARIANTS = ("sft", "world", "shown", "reflect")
# Of a thousand updates, which all presets have.
_FIRST = 500


def get_config(variant: str = "world") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    reflects = variant == "reflect"
    config = language.config_of(
        "grpo",
        env_section("FrozenLake-v1", size=4, slippery=False),
        # Nothing is learnt from these.
        section(rollout.episodes, num_groups=4, group_size=4),
        # Room for the commands and maps of three actions.
        section(rollout.contexts.window, history=1, max_new_tokens=68 if reflects else None),
        warm_updates=_FIRST,
        updates=500,
    )
    config.num_seeds = 5
    config.policy.grammar = "action"
    config.objective.policy.weight = 0.0
    config.reward = ml_collections.ConfigDict()
    config.expert.update(episodes=16, demonstrations=32, held_out=False)
    config.objective.imitation.during = "both"
    if reflects:
        config.components.reflections = section(reflections, alternatives=2)
        config.objective.imitation.source = "reflections"
    elif variant != "sft":
        alternatives = 3 if variant == "world" else 0
        config.components.early_experience = section(early_experience, alternatives=alternatives)
        config.objective.imitation.during = "rl"
        config.objective.world = term(
            losses.observation_loss, source="early_experience", during="warm_start"
        )
    config.learner.update(
        epochs=1, minibatches=1, microbatch=32, lengths=1, normalize_advantage="none"
    )
    config.optimizer.learning_rate = 3e-3
    config.log_every = 50
    config.evaluation.update(every=config.updates, episodes=512)
    return config
