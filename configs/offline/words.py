r"""Policies in words from a data set of transitions, without an episode of their own.

One locked room, the data as in data_sets.py with their text: a transformer learns the commands,
weighted by Q and V of whole replies. Cloning (all, the best tenth), Monte Carlo returns, ILQL
(https://arxiv.org/abs/2206.11871), f-DVL and ReCOIL (https://arxiv.org/abs/2302.08560); VEM
(https://arxiv.org/abs/2502.18906) with --config.init_from of "bc" (README.md).

    python -m launchers.train --config=configs/offline/words.py:ilql --workdir=runs/words_ilql

Five seeds, success of 512 tasks: the data 0.550, filtered 0.548, mc 0.481, chi2 0.361,
recoil 0.353, iql 0.332, ilql 0.329, tokens (ILQL) 0.283, bc 0.272, vem 0.246 (README.md).
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.token_ilql import token_ilql
from configs.offline import data_sets

VARIANTS = (
    "bc",
    "filtered",
    "mc",
    "iql",
    "ilql",
    "chi2",
    "recoil",
    "vem",
    "vem_baseline",
    "tokens",
)


def get_config(variant: str = "ilql") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    tokens = variant == "tokens"
    config = data_sets.get_config(f"rooms_{'ilql' if tokens else variant}")
    config.env = env_section("KeyDoor-v1", rooms=1)
    config.policy = section(
        policies.transformer, width=32, layers=2, heads=2, kv_heads=2, hidden=64
    )
    config.context = section(rollout.contexts.window, history=0)
    if tokens:
        del config.components.offline_values
        config.components.token_ilql = section(token_ilql, expert=16, random=64, mixed=192)
        config.objective.offline.source = "token_ilql"
    else:
        config.components.offline_values.rows = 256
    config.evaluation.episodes = 512
    return config
