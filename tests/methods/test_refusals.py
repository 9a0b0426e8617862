"""What a component does not fit, and options that depend on its run, are said before it is built.

Numbers and words that an option can never be: tests/test_component_conformance.py.
"""

import pytest
from experiments import lake
from tiny import groups_config, segments_config, talk_config

from agentrl import rewards
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.archer import archer
from agentrl.methods.counts import visit_counts
from agentrl.methods.critic_first import critic_first
from agentrl.methods.curiosity import curiosity
from agentrl.methods.curriculum import curriculum
from agentrl.methods.drift import drift
from agentrl.methods.e3b import e3b
from agentrl.methods.guided import guided
from agentrl.methods.igpo import information_gain
from agentrl.methods.noisy_judge import noisy_judge
from agentrl.methods.routing import router
from agentrl.methods.self_imitation import self_imitation
from agentrl.methods.similar_anchors import similar_anchors
from agentrl.methods.skill_distillation import skill_bank, skill_teacher
from agentrl.methods.success_replay import success_replay
from agentrl.methods.world_model import world_model

GROUPS = "needs groups of whole episodes"
REFUSED = [
    (archer, segments_config, {}, "component 'archer' needs"),
    (critic_first, lake, {}, "'critic_first' needs a critic"),
    (curiosity, segments_config, {"episodic": "first"}, "='first' needs anchors.*'episodes'"),
    (curiosity, talk_config, {}, "'curiosity' needs a policy over arrays"),
    (curriculum, lake, {}, "draws numbers of tasks, which this rollout does not"),
    (drift, talk_config, {"reminder": "||", "turns": (0,)}, "turns"),
    (e3b, segments_config, {}, "'e3b' needs whole episodes"),
    (guided, groups_config, {"guidance": "||"}, "'guided' needs a language policy"),
    (information_gain, talk_config, {}, "environment with `reference_answer`, such as SearchQA"),
    (noisy_judge, lake, {"missed": 1.5}, "missed"),
    (noisy_judge, segments_config, {}, "'noisy_judge' judges whole episodes"),
    (router, lake, {}, "an environment with `offers` and `chances`, such as Dispatch"),
    (self_imitation, segments_config, {}, f"'self_imitation' {GROUPS}"),
    (similar_anchors, groups_config, {}, "'similar_anchors' needs a language policy"),
    (similar_anchors, talk_config, {"threshold": 0.0}, "threshold"),
    (skill_bank, groups_config, {}, "'skill_bank' needs a language policy"),
    (skill_bank, talk_config, {"warning": "avoid"}, "warning='avoid': the lexicon of Frozen.*'O'"),
    (skill_teacher, groups_config, {}, "'skill_teacher' needs a language policy"),
    (success_replay, segments_config, {}, f"'success_replay' {GROUPS}"),
    (visit_counts, lake, {"buckets": 0}, "visit_counts.buckets=0"),
    (visit_counts, segments_config, {}, "'visit_counts' counts anchors"),
    (world_model, talk_config, {}, "'world_model' needs a policy over arrays .here: a language"),
]


@pytest.mark.parametrize(("component", "config_of", "options", "message"), REFUSED)
def test_what_a_component_does_not_fit_is_said(component, config_of, options, message):
    config = config_of()
    config.components[component.__name__] = section(component, **options)
    if component in (curiosity, e3b, visit_counts):
        config.reward.novelty = section(rewards.novelty_bonus, coefficient=0.01)
    with pytest.raises(ValueError, match=message):
        build(config)
