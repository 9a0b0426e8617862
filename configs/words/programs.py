r"""A program of anybody's, which calls the model by HTTP, is trained without a change.

The program (`configs/_shared/guessing.py`) looks for a number from 1 to 7 with three guesses.

    python -m launchers.train --config=configs/words/programs.py --workdir=runs/programs \
      --config.num_seeds=3

Three seeds side by side, two busy CPU cores, 4 to 20 seconds an update: success of training's
episodes rises from 0.27 in the first five updates to 0.33 in updates 31 to 35; not run to the end.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.serving.programs import programs

WORDS = ("guess", "higher", "lower", "digits", *"1234567")


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 100, 5
    config.env = env_section("program:configs._shared.guessing:agent", highest=7, guesses=3)
    config.policy = section(
        policies.transformer, words=WORDS, width=32, layers=2, heads=2, kv_heads=2, hidden=64
    )
    config.context = section(rollout.contexts.whole, max_new_tokens=3, context_tokens=32)
    config.rollout = section(programs, num_groups=8, group_size=8, max_turns=3)
    config.host.update(workers=4, timeout_s=300.0)
    config.advantage = section(advantages.grpo)
    config.learner.update(epochs=2, minibatches=4)
    config.optimizer.learning_rate = 3e-3
    return config
