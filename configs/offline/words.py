r"""Policies in words from a data set of transitions, without an episode of their own.

The data are those of data_sets.py, two locked rooms, with their text: a transformer learns the
commands, weighted by Q and V over arrays (utterance-level). Cloning (all, the best tenth, the
expert's), Monte Carlo returns, IQL, ILQL (https://arxiv.org/abs/2206.11871, LMRL-Gym), f-DVL and
ReCOIL (https://arxiv.org/abs/2302.08560).

    python -m launchers.train --config=configs/offline/words.py:ilql --workdir=runs/words_ilql
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, section
from configs._shared import language
from configs.offline import data_sets

METHODS = ("bc", "filtered", "bc_expert", "mc", "iql", "ilql", "chi2", "recoil")
VARIANTS = METHODS


def get_config(variant: str = "ilql") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = data_sets.get_config(f"rooms_{variant}")
    config.policy = language.policy()
    config.context = section(rollout.contexts.window, history=0)
    config.learner.microbatch = 64
    return config
