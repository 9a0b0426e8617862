r"""SmolLM2-135M-Instruct inside of somebody's program: an agent of the package openai, by GRPO.

The agent (`configs/_shared/ezpoints_agent.py`) plays EZPoints and knows nothing of this library;
it calls a server, which the trainer is. DIRECTORY has Hugging Face's files. From a short SFT in
EZPoints-v1 (smollm2.py:sft), whose prompts are those of the agent:

    python -m launchers.train --config=configs/published/smollm2_program.py:models/smollm2 \
        --workdir=runs/smollm2_program --config.init_from=runs/smollm2_sft

One seed, two busy CPU cores, two to four minutes an update: 20 of 64 tasks solved at the start, 47
after 20 updates (the README beside).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.serving.programs import programs
from configs.published import smollm2

VARIANTS = {"DIRECTORY": "of the published model"}


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.env = env_section("program:configs._shared.ezpoints_agent:agent")
    config.policy = section(policies.pretrained, directory=variant, grammar="bare")
    config.context = section(rollout.contexts.whole, max_new_tokens=4, context_tokens=320)
    config.rollout = section(programs, max_turns=8)
    config.host.update(workers=16, timeout_s=600.0)
    for name in ("rollout", "policy", "learner", "optimizer"):
        config[name].update(smollm2.SIZES["cpu"][name])
    config.advantage = section(advantages.grpo)
    config.evaluation.update(every=20, episodes=128, at_start=True)
    config.updates, config.log_every = 20, 1
    return config
