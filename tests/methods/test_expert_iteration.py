"""Expert iteration: rounds that begin at the base parameters, and who collects them."""

import jax
import jax.numpy as jnp
import pytest
from experiments import distance, lake, same, train_and_resume
from tiny import host_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.learner.train_step import before, carried
from agentrl.methods.expert_iteration import expert_iteration
from agentrl.methods.growing_batch import growing_batch


def config_of(updates=2, restart=True, **optimizer):
    config = lake(size=2)
    config.objective.policy.weight = 0.0
    config.learner.minibatches = 1
    config.components.growing_batch = section(growing_batch, size=64, rows=16)
    config.components.expert_iteration = section(expert_iteration, updates=updates, restart=restart)
    config.objective.own = term(losses.behaviour_cloning, source="growing_batch", during="rl")
    config.optimizer.update(optimizer)
    return config


def acting(experiment, state):
    """The parameters that collect for the next update."""
    return before(experiment.phases[-1][0], state).inputs.params


def test_a_round_begins_exactly_at_the_base(tmp_path):
    """Rounds of two updates, 0-1, 2-3, 4-5; and a run that is resumed in the middle of one goes on
    bitwise."""
    experiment, states, metrics = train_and_resume(config_of(), tmp_path, updates=6)
    base = states[0].params
    same(states[6].carry["expert_iteration"].base, base)
    # Each round is collected by what the last one ended with.
    for update, end in enumerate([0, 0, 2, 2, 4, 4]):
        same(acting(experiment, states[update]), states[end].params)
    # Adam's first step has at most the size of its rate, whatever the gradient: after the first
    # update of a round parameters are one such step from the base. (There is nothing to learn from
    # in the first of all.)
    assert [optimizer_steps(state) for state in states] == [0, 0, 1, 1, 2, 1, 2]
    assert [0 < distance(states[i].params, base) <= 0.010001 for i in (2, 3, 5)] == 3 * [True]
    assert distance(states[4].params, base) > 0.011
    # What the rounds made stays.
    counts = [told["growing_batch/rows"] for told in metrics]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def optimizer_steps(state):
    counts = {
        int(x)
        for path, x in jax.tree_util.tree_leaves_with_path(state.opt_state)
        if "count" in jax.tree_util.keystr(path)
    }
    assert len(counts) == 1
    return counts.pop()


def test_without_steps_every_round_ends_at_the_base():
    experiment = build(config_of(learning_rate=0.0))
    program = jax.jit(experiment.phases[-1][1])
    state = jax.jit(experiment.init)(0)
    base = state.params
    away = jax.tree.map(lambda x: x + 1.0, base)
    # Parameters that are elsewhere collect, and are left.
    state = state.replace(params=away)
    same(acting(experiment, state), away)
    after, _ = program(state)
    same(after.params, base)
    same(acting(experiment, after), away)
    same(program(after)[0].params, base)


def test_without_restart_only_the_collecting_is_by_rounds(tmp_path):
    experiment, states, _ = train_and_resume(config_of(restart=False), tmp_path)
    for update, end in enumerate([0, 0, 2, 2]):
        same(acting(experiment, states[update]), states[end].params)
    assert [optimizer_steps(state) for state in states] == [0, 0, 1, 2, 3]


def test_a_round_whose_first_update_is_rejected_has_begun_all_the_same():
    experiment = build(config_of())
    phase, state = experiment.phases[-1][0], jax.jit(experiment.init)(0)
    away = jax.tree.map(lambda x: x + 1.0, state.params)
    outcome = UpdateResult(before=state.replace(params=away), finite=jnp.zeros((), bool))
    components = {"expert_iteration": phase.components["expert_iteration"]}
    carry, _ = carried(components, state.carry, outcome)
    after = state.replace(carry=carry)
    same(acting(experiment, after), away)
    assert before(phase, state).inputs.restart.due
    assert not before(phase, after).inputs.restart.due


def test_environments_in_python_are_refused():
    config = host_config()
    config.components.expert_iteration = section(expert_iteration)
    with pytest.raises(ValueError, match="an environment in the graph"):
        build(config)
