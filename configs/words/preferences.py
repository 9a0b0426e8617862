r"""ToolCalls-v1 in words by preferences between the policy's own episodes, in rounds, or by GRPO.

Multi-turn DPO, KTO: https://arxiv.org/abs/2409.02392. StepORLM's loss, turns called right by the
expert ("weighted"), a scorer that learns ("scored") or not ("frozen"); "steve": of judged turns.

    python -m launchers.train --config=configs/words/preferences.py:sft --workdir=runs/tools_sft
    python -m launchers.train --config=configs/words/preferences.py:dpo --workdir=runs/tools_dpo \
        --config.init_from=runs/tools_sft

Five seeds, two busy CPU cores: two minutes each. Success of 512 tasks: SFT 0.26, GRPO 0.85, RPO
0.78, scored 0.79, frozen 0.76, weighted 0.68, KTO 0.64, DPO 0.62 (a seed 0 each; 0.85, 0.78 with
beta 1), steve 0.87 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.labelled import labelled
from agentrl.methods.pairs import pairs
from agentrl.methods.step_scorer import step_scorer
from configs._shared import language

# Losses of pairs with their options, and the options of the pairs.
OF_PAIRS = {
    "dpo": (losses.dpo, {}, {}),
    "rpo": (losses.rpo, {"alpha": 1.0}, {"rejected": "lower"}),
    "weighted": (losses.weighted_dpo, {}, {"by": "judgement"}),
    "scored": (losses.weighted_dpo, {}, {"by": "judgement"}),
    "frozen": (losses.weighted_dpo, {}, {"by": "judgement"}),
}
OF_LABELS = {"kto": "success", "steve": "judgement"}
# A turn is a row: the request, the calls so far, the reply.
TURNS = ("sft_turns", "grpo_turns", "steve")
VARIANTS = ("sft", "grpo", *OF_PAIRS, "kto", *TURNS)


def get_config(variant: str = "dpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("ToolCalls-v1", tools=3, arguments=3, needed=2, limit=5)
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    turns = variant in TURNS
    context = (
        section(rollout.contexts.window, history=0) if turns else section(rollout.contexts.whole)
    )
    method = "sft" if variant.startswith("sft") else "grpo"
    # So many that a start solves some of the tasks, and not most.
    warm = {"sft": 35, "sft_turns": 50}.get(variant, 0)
    config = language.config_of(method, env, acting, context, warm_updates=warm, updates=120)
    config.num_seeds = 5
    config.log_every = 5 if warm else 10
    config.learner.update(minibatches=1, epochs=2)
    config.evaluation.update(every=config.updates, episodes=512)
    config.reward = {}
    if variant in OF_PAIRS:
        loss, options, of_pairs = OF_PAIRS[variant]
        config.components.pairs = section(pairs, **of_pairs)
        config.objective.preference = term(loss, source="pairs", **options)
    if variant in OF_LABELS:
        config.components.labelled = section(labelled, by=OF_LABELS[variant])
        config.objective.preference = term(losses.kto, source="labelled", balanced=True)
    if variant in ("weighted", "scored", "frozen", "steve"):
        config.rollout.judge = "expert"
    if variant in ("scored", "frozen"):
        # The expert is then only compared with.
        steps = 0 if variant == "frozen" else 8
        config.components.step_scorer = section(step_scorer, steps=steps)
    if variant in (*OF_PAIRS, *OF_LABELS):
        config.objective.policy.weight = 0.0
        # Rounds of five batches: then the policy is the reference.
        config.reference.every = 5
    return config
