"""A locked room in words: recoveries spliced from trees (Agent-R), or own successes alone.

Yuan et al. (2025), https://arxiv.org/abs/2501.11425 (from notes). A failure is read up to its first
error, a success learnt from there on. "branch": joined where the two parted, as published; "state":
at a state that both came to, so that all that is read is true; "good": successes alone, "more": of
these twice as many, so that no update trains fewer rows than one with splices.

    python -m launchers.train --config=configs/words/agent_r.py:state --workdir=runs/room_state \
        --config.init_from=runs/room_sft  # configs/words/ipr.py:sft

Five seeds, success of 512 tasks: SFT 0.118, good 0.216, more 0.223, branch 0.292, state 0.287.
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.agent_r import agent_r
from agentrl.methods.trees import trees
from configs._shared import language

ARMS = {
    "good": None,
    "more": None,
    "branch": {},
    "state": {"joins": "state"},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "state") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("KeyDoor-v1", rooms=1, max_steps_in_episode=12),
        section(
            trees, num_groups=8, group_size=8, rule="uct", width=4, exploration=0.25,
            together=4, anchor="state",
        ),
        section(rollout.contexts.whole),
        warm_updates=0,
        updates=30,
    )  # fmt: skip
    config.num_seeds = 5
    config.log_every = 10
    config.evaluation.update(every=10, episodes=512)
    config.objective.policy.weight = 0.0
    config.reward = ml_collections.ConfigDict()
    config.components.good = section(agent_r, cut="none", per_group=8 if variant == "more" else 4)
    config.objective.good = term(losses.behaviour_cloning, source="good", during="rl")
    if ARMS[variant] is not None:
        config.components.agent_r = section(agent_r, per_group=4, **ARMS[variant])
        config.objective.imitation = term(losses.behaviour_cloning, source="agent_r", during="rl")
    config.learner.update(minibatches=2, normalize_advantage="none")
    return config
