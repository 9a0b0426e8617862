"""Alarms of a run's metrics."""

import re

import pytest

from agentrl.evaluation.alarms import alarms, begun, compares_groups

HEALTHY = {
    "update": 1,
    "approx_kl": 0.01,
    "entropy": 0.9,
    "response_length": 40.0,
    "frac_zero_std_groups": 0.5,
}


def test_a_healthy_record_raises_none():
    assert alarms(HEALTHY, HEALTHY) == {}
    assert alarms({"update": 3, "loss/imitation": 2.0}, {}) == {}


@pytest.mark.parametrize(
    ("change", "name", "text"),
    [
        ({"approx_kl": 2.7}, "KL", "approx_kl is 2.7.*config.learner.max_kl"),
        ({"entropy": 0.007}, "entropy", "from 0.9 to 0.007.*config.optimizer.learning_rate"),
        ({"response_length": 1.0}, "empty replies", "1.0 tokens, 40.0 at first"),
        ({"frac_zero_std_groups": 1.0}, "no spread", "100% of the streams.*group_size"),
    ],
)
def test_each_alarm_names_what_to_change(change, name, text):
    found = alarms(HEALTHY | change, HEALTHY)
    assert list(found) == [name]
    assert re.search(text, found[name])


def test_short_replies_from_the_start_are_no_alarm():
    short = HEALTHY | {"response_length": 1.0}
    assert alarms(short, short) == {}


def test_negative_entropies_of_densities_are_no_alarm():
    assert alarms(HEALTHY | {"entropy": -3.0}, HEALTHY | {"entropy": -1.0}) == {}


def test_alarms_begin_where_they_were_not_before():
    bad = {"approx_kl": 1.0}
    records = [
        {"update": 1, "loss/imitation": 2.0},
        HEALTHY | {"update": 2},
        HEALTHY | {"update": 3} | bad,
        HEALTHY | {"update": 4} | bad,
        HEALTHY | {"update": 5},
        HEALTHY | {"update": 6} | bad,
    ]
    assert [(update, name) for update, name, _ in begun(records)] == [(3, "KL"), (6, "KL")]


ESTIMATORS = {
    "agentrl.advantages.grpo": True,
    "agentrl.advantages.gigpo": True,
    "grpo": True,
    "agentrl.advantages.gae": False,
    "agentrl.advantages.rae_by_turn": False,
    "agentrl.advantages.reinforce_pp": False,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_groups_of_one_are_no_alarm_to_an_estimator_that_does_not_compare_them(name):
    config = {"advantage": {"name": name}, "policy": {"critic": "none"}}
    assert compares_groups(config) == ESTIMATORS[name]
    alone = HEALTHY | {"frac_zero_std_groups": 1.0}
    found = begun([HEALTHY, alone | {"update": 2}], groups=compares_groups(config))
    assert [name for _, name, _ in found] == ["no spread"] * ESTIMATORS[name]


def test_an_estimator_of_a_users_own_is_judged_by_its_critic():
    config = {"advantage": {"name": "my_module.mine"}, "policy": {"name": "mlp"}}
    assert compares_groups(config) and compares_groups({})
    config["policy"]["critic"] = "separate"
    assert not compares_groups(config)
