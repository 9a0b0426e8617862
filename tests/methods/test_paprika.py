"""PAPRIKA: learning potential, the bandit over groups of tasks, and what is played."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake, train_and_resume

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.pairs import pairs
from agentrl.methods.paprika import Arms, arms_by_bound, learning_potential, paprika, upper_bounds
from agentrl.methods.paprika import updated as moved
from agentrl.methods.routing import assigned_tasks

# No holes; holes; and a single step.
ICE = {
    "parameters": ("frozen", "max_steps_in_episode"),
    "values": ((1.0, 0.7, 0.7), (6, 6, 1)),
}


def test_the_published_potentials():
    score = jnp.array([0, 1, 0, 0, 1, 0.9, 1, 1, 0.95, 1, 0, 0, jnp.nan])
    group = jnp.array([0] * 5 + [1] * 5 + [2] * 2 + [0])
    present = jnp.isfinite(score)
    found = jax.jit(learning_potential, static_argnums=3)(score, group, present, 4)
    np.testing.assert_allclose(found, [1.224745, 0.041237, 0, 0], atol=1e-6)
    # In another order, and of a task alone, the same.
    order = jnp.array([12, 3, 11, 9, 0, 7, 5, 1, 10, 2, 8, 4, 6])
    again = learning_potential(score[order], group[order], present[order], 4)
    np.testing.assert_allclose(again, found, atol=1e-6)
    assert learning_potential(-jnp.ones(2), jnp.zeros(2, int), jnp.ones(2, bool), 1)[0] == 0
    # A share p of successes has sqrt((1 - p) / p).
    one = (jnp.arange(8) < 2) * 1.0
    alone = learning_potential(one, jnp.zeros(8, int), jnp.ones(8, bool), 1)
    np.testing.assert_allclose(alone, [np.sqrt(3)], rtol=1e-6)


def test_the_published_bounds():
    arms = Arms(jnp.array([6 * 1.224745, 4 * 0.041237]), jnp.array([6.0, 4.0]))
    np.testing.assert_allclose(upper_bounds(arms), [2.100832, 1.11422], atol=1e-5)
    fresh = upper_bounds(Arms(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0])))
    assert np.isfinite(fresh[0]) and np.isinf(fresh[1:]).all()


def test_tasks_of_a_collection_are_drawn_as_if_one_after_another():
    """Each counts at once, with the mean of its group."""
    arms = Arms(jnp.array([6 * 0.5, 4 * 0.4, 0.0]), jnp.array([6.0, 4.0, 0.0]))
    drawn = jax.jit(arms_by_bound, static_argnums=1)(arms, 12)
    total, count, expected = np.array(arms.total), np.array(arms.count), []
    for _ in range(12):
        seen = np.maximum(count, 1e-9)
        bound = total / seen + np.sqrt(2 * np.log(count.sum()) / seen)
        k = int(np.argmax(np.where(count > 0, bound, np.inf)))
        total[k] += total[k] / seen[k] if count[k] else 0.0
        count[k] += 1
        expected.append(k)
    assert expected[0] == 2
    np.testing.assert_array_equal(drawn, expected)
    np.testing.assert_array_equal(arms_by_bound(Arms(jnp.zeros(1), jnp.zeros(1)), 4), [0] * 4)


def test_arms_are_discounted():
    arms = Arms(jnp.array([2.0, 3.0]), jnp.array([2.0, 6.0]))
    arms = moved(arms, jnp.array([1, 1]), jnp.array([1.0, 0.5]), keep=0.5)
    np.testing.assert_allclose(arms.total, [1.0, 3.0])
    np.testing.assert_allclose(arms.count, [1.0, 5.0])
    with pytest.raises(ValueError, match="keep=0"):
        moved(arms, jnp.array([0]), jnp.array([1.0]), keep=0.0)


def config_of(rule="ucb", **options):
    """RPO of the best and a lower one of each task, on lakes with more or less ice."""
    config = lake()
    config.rollout.update(num_groups=6, group_size=4)
    config.sampler = section(assigned_tasks)
    config.components.paprika = section(paprika, rule=rule, tasks=5, **options)
    config.components.pairs = section(pairs, rejected="lower")
    config.objective.policy.weight = 0.0
    config.objective.rpo = term(losses.rpo, source="pairs")
    return config


def test_potentials_are_of_the_groups_that_were_played_and_resume(tmp_path):
    experiment, states, metrics = train_and_resume(config_of(**ICE), tmp_path, 4)
    for told in metrics:
        shares = [told[f"task_group/share/{k}"] for k in range(3)]
        np.testing.assert_allclose(sum(shares), 1.0, rtol=1e-6)
    # Every group has been tried in the first collection; what is told is what is counted.
    arms = states[-1].carry["paprika"]
    assert all(metrics[0][f"task_group/share/{k}"] for k in range(3))
    for k in range(3):
        drawn = [6 * told[f"task_group/share/{k}"] for told in metrics]
        potential = [told.get(f"task_group/potential/{k}", 0.0) for told in metrics]
        np.testing.assert_allclose(arms.count[k], sum(drawn), rtol=1e-5)
        np.testing.assert_allclose(arms.total[k], np.dot(drawn, potential), rtol=1e-5)
    assert arms.total.any()
    assert metrics[0]["task_group/success/2"] < metrics[0]["task_group/success/0"]
    streams = jax.device_get(jax.jit(experiment.batches)(states[0]))["rollout"].streams
    assert streams.first_state is not None and len(np.unique(streams.group)) == 6


def test_one_group_is_rpo_on_uniform_tasks():
    """Whatever the rule: the same tasks, the same pairs, the same step."""
    found = []
    for rule in ("ucb", "uniform"):
        experiment = build(config_of(rule))
        state, told = jax.jit(experiment.phases[-1][1])(jax.jit(experiment.init)(0))
        found.append((state.params, told["loss/rpo"], told["success_rate"]))
    jax.tree.map(np.testing.assert_array_equal, *found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": ("ice",), "values": ((1.0,),)}, "has no 'ice'"),
        ({"parameters": ("frozen",)}, r"values=\(\): expected a value per group for each of fro"),
        ({"parameters": ("frozen", "success_rate"), "values": ((1.0,), (1.0, 0.5))}, "values="),
        ({"keep": 0.0}, "keep=0.0"),
        ({"by": "score"}, "by='score'"),
    ],
)
def test_groups_that_there_are_not_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build(config_of(**options))


def test_a_rollout_that_takes_no_tasks_is_refused():
    config = config_of()
    config.sampler = {"name": "independent"}
    with pytest.raises(ValueError, match="set its task sampler to agentrl.methods.routing.assig"):
        build(config)
