r"""Users in words: UserRL's credit of turns and score of episodes, after SFT.

Qian et al. (2025), UserRL, https://arxiv.org/abs/2509.19736; as credit/user_rl.py. A vague request,
and with `itinerary_` before the variant a traveller, of whose searches every second fails.

    python -m launchers.train --config=configs/words/user_rl.py:sft --workdir=runs/request_sft
    python -m launchers.train --config=configs/words/user_rl.py:equalized_mean \
        --workdir=runs/request --config.init_from=runs/request_sft

Five seeds, two busy CPU cores: 5 minutes each. Return of 1,024 requests: SFT 1.96, grpo 2.38,
equalized_mean 2.41, return_mean 2.24; of the traveller 1.68, 2.11, 1.43 (README.md).
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from configs.credit.user_rl import CREDITS

TRAVELLER = "itinerary_"
VARIANTS = (
    *("sft", "grpo", "equalized_mean", "equalized_discounted", "return_mean"),
    *(TRAVELLER + method for method in ("sft", "grpo", "equalized_mean", "equalized_discounted")),
)


def get_config(variant: str = "equalized_mean") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method = variant.removeprefix(TRAVELLER)
    first = method == "sft"
    env = env_section("Intention-v1")
    if variant.startswith(TRAVELLER):
        # The expert needs nine turns.
        env = env_section("Itinerary-v1", domains=2, slots=2, failing=2, max_steps_in_episode=12)
    config = language.config_of(
        "sft" if first else "grpo",
        env,
        section(rollout.episodes, num_groups=16, group_size=8),
        # What was asked is in the observation.
        section(rollout.contexts.window, history=0),
        warm_updates=0,
        updates=100,
    )
    config.num_seeds = 5
    if first:
        config.updates = config.warm_start.updates = 40
    elif method != "grpo":
        credit, score = method.split("_")
        config.advantage = section(advantages.user_rl, score=score, **CREDITS[credit])
    config.evaluation.update(every=config.updates, episodes=1024)
    return config
