r"""SmolLM2-135M-Instruct, or another published model, as an agent: SFT, then GiGPO and others.

Allal et al. (2025), SmolLM2, https://arxiv.org/abs/2502.02737. METHOD,WORLD,DIRECTORY: METHODS and
WORLDS are below, DIRECTORY holds Hugging Face's files (launchers.import_gguf writes them).

    python -m launchers.train --config=configs/smollm2.py:sft,ezpoints,models/smollm2 \
        --workdir=runs/smollm2_sft

The other methods start from it: --config.init_from=runs/smollm2_sft. Not trained to an end yet: six
updates of SFT bring the loss from 5.0 to 1.4, 12 to 18 s each on two shared CPU cores.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, env_section, section
from configs import methods

METHODS = ("sft", "gigpo", "grpo", "rloo", "ppo")
WORLDS = {
    # Every turn appends one token to the formula: the conversation is one row.
    "ezpoints": (env_section("EZPoints-v1", wording="faithful"), rollout.contexts.whole, {}),
    "household": (
        env_section(
            "Household-v1",
            wording="faithful",
            receptacles=5,
            objects=4,
            max_steps_in_episode=12,
            expert_sees_all=False,
        ),
        rollout.contexts.whole,
        {},
    ),
    "wordle": (env_section("Wordle-v1", wording="faithful"), rollout.contexts.whole, {}),
}


def get_config(argument: str = "sft,ezpoints,") -> ml_collections.ConfigDict:
    method, world, directory = (*argument.split(",", 2), "", "")[:3]
    if method not in METHODS or world not in WORLDS:
        raise ValueError(
            f"configs/smollm2.py:{argument}: expected METHOD,WORLD,DIRECTORY with a method of "
            f"{', '.join(METHODS)} and a world of {', '.join(WORLDS)}"
        )
    config = base_config()
    config.env, context, options = WORLDS[world]
    config.policy = section(
        policies.pretrained,
        directory=directory,
        grammar="bare",
        dtype="float32",
        critic="shared" if method == "ppo" else "none",
    )
    config.context = section(context, **options)
    config.rollout = section(rollout.episodes, num_groups=4, group_size=4)
    methods.use(config, "smollm2.py", "grpo" if method == "sft" else method, "std")
    config.learner.update(minibatches=2, microbatch=4, lengths=6, max_kl=0.05)
    config.optimizer.update(learning_rate=5e-6, max_grad_norm=1.0)
    config.updates, config.log_every = 60, 1
    config.evaluation.update(every=20, episodes=128)
    if method == "sft":
        config.expert.update(episodes=16)
        config.warm_start.update(updates=60, learning_rate=2e-5)
        config.evaluation.at_start = True
    return config
