"""EPO's history over updates: what it holds, and that the loss reads it."""

import functools

import numpy as np
from experiments import distance, lake, train, train_and_resume

from agentrl import losses
from agentrl.config import section, term
from agentrl.methods.epo import entropy_history


def config_of(**options):
    config = lake()
    config.components.entropy_history = section(entropy_history)
    config.objective.epo = term(losses.epo, weight=0.05, **options)
    return config


@functools.cache
def unpenalised():
    """States of a run without a penalty."""
    return train(config_of(smoothing=0.0))[1]


def test_history_is_the_sum_of_mean_entropies_and_resumes(tmp_path):
    experiment, states, metrics = train_and_resume(config_of(), tmp_path)
    values = [np.asarray(state.carry["entropy_history"]) for state in states]
    assert [value[1] for value in values] == [0, 1, 2, 3, 4]
    # One row per turn and one position per row: the mean entropy is that of all positions, and
    # before the first step of an update the policy is the one that sampled.
    np.testing.assert_allclose(
        np.diff([value[0] for value in values]), [m["entropy"] for m in metrics], rtol=1e-5
    )
    np.testing.assert_allclose(
        metrics[-1]["entropy_reference"], np.mean([m["entropy"] for m in metrics]), rtol=1e-5
    )


def test_without_penalty_it_is_the_entropy_bonus():
    bonus = lake()
    bonus.objective.entropy.weight = 0.05
    _, plain, _ = train(bonus)
    assert distance(plain[-1].params, unpenalised()[-1].params) < 2e-5


def test_the_corridor_changes_updates_after_the_first():
    _, narrow, _ = train(config_of(low=1.0, high=1.0, smoothing=5.0))
    none = unpenalised()
    assert distance(narrow[1].params, none[1].params) < 1e-6
    assert distance(narrow[3].params, none[3].params) > 1e-4
