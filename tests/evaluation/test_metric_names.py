"""Every metric that runs write has a name for people, a meaning and a unit."""

import jax
import pytest
import tiny

from agentrl.config.build import build
from agentrl.evaluation.metric_names import FAMILIES, METRICS, describe, natural, place
from agentrl.run.metrics import MACHINE_METRICS

CONFIGS = {
    "groups": tiny.groups_config,
    "segments": tiny.segments_config,
    "matches": tiny.matches_config,
    "words": tiny.talk_config,
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_a_run_writes_is_in_the_table(kind):
    experiment = build(CONFIGS[kind]())
    state, found = jax.eval_shape(experiment.init, 0), set(MACHINE_METRICS)
    for _, train in experiment.phases:
        found |= set(jax.eval_shape(train, state)[1])
    found |= {f"evaluation/{name}" for name in found}
    assert len(found) > 40
    assert not [name for name in found if not describe(name).family]


def test_titles_say_what_the_name_says():
    assert describe("win_rate/0/pool").title == "Win rate of role 0 against the pool"
    assert describe("entropy/turn_16").title == "Entropy, turn 16"
    assert describe("evaluation/success_rate").title == "Success rate, evaluation"
    assert describe("KuhnPoker-v1/return/1/self").title == (
        "Return of role 1 against itself, KuhnPoker-v1"
    )
    assert describe("anchor_size/16_up").title == "Anchor groups of 16 and more"
    assert describe("weight/entropy").title == "Weight: entropy"
    assert describe("clip_fraction").bounds == (0.0, 1.0) and describe("entropy").bounds is None


def test_an_unknown_metric_keeps_its_name():
    mine = describe("mine/bonus")
    assert (mine.title, mine.family, mine.unit) == ("mine/bonus", "", "")


def test_numbers_in_names_sort_by_value_and_metrics_by_the_table():
    names = ["my", "entropy/turn_16", "grad_norm", "entropy/turn_2", "success_rate", "entropy"]
    assert sorted(names, key=place) == [
        *("success_rate", "entropy", "entropy/turn_2", "entropy/turn_16", "grad_norm", "my")
    ]
    assert sorted(["a10", "a9", "b1", "a"], key=natural) == ["a", "a9", "a10", "b1"]


def test_titles_differ_and_units_are_few():
    titles = [(metric.family, metric.title) for metric in METRICS]
    assert len(set(titles)) == len(titles) and len(FAMILIES) == len({m.family for m in METRICS})
    assert {"share", "nats", "seconds", "tokens", ""} <= {metric.unit for metric in METRICS}


def test_each_metric_is_found_by_its_own_name():
    for metric in METRICS:
        assert describe(metric.name).meaning == metric.meaning, metric
