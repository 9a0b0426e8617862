"""ArCHer: worked numbers, the replay, what critics converge to, and a run that resumes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from by_hand import context
from experiments import distance, lake, train, train_and_resume

from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.archer import archer, put, stored
from agentrl.methods.by_turn import transitions

DATA = recorded.arrays("turn_credit")


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    options = {"hidden": 8, "steps": 4, "batch": 32, "size": 64, "warm_up": 2} | options
    config.components.archer = section(archer, **options)
    config.advantage = section(advantages.twin_critics)
    config.objective.policy = term(losses.reinforce)
    config.learner.normalize_advantage = "none"
    return config


@functools.cache
def collected():
    """(params, streams, rows) of a first batch, which no option of the critics changes."""
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    return state.params, batch.streams, batch.rows


def test_worked_numbers():
    reward, ends = jnp.array([0.0, 0.0, 1.0]), jnp.array([False, False, True])
    value = jnp.array([[0.5, 0.4], [0.6, 0.7], [0.0, jnp.nan]])
    target = advantages.twin_targets(reward, ends, value, gamma=0.95)
    np.testing.assert_allclose(target[:2].T, DATA["archer_Q_targets"][:, :2], atol=1e-6)
    # What stands behind the end is not read.
    np.testing.assert_array_equal(target[2], DATA["archer_Q_targets"][:, 2])
    q = jnp.array([[[0.8, 0.7], [0.2, 0.3], [0.9, 1.0]]])
    v = jnp.array([[[0.5, 0.6], [0.4, 0.3], [0.8, 0.7]]])
    mask = jnp.ones((1, 3), bool)
    np.testing.assert_allclose(
        advantages.twin_critics(mask, q, v)[0], DATA["archer_adv"], atol=1e-6
    )
    # Equal critics leave the plain difference; nothing is read behind the mask.
    less = mask.at[0, 1].set(False)
    got = advantages.twin_critics(less, q.at[0, 1].set(jnp.nan), v)
    np.testing.assert_allclose(got, [[0.2, 0.0, 0.2]], atol=1e-6)
    with pytest.raises(ValueError, match="twin_v has shape"):
        advantages.twin_critics(mask, q, v[..., 0])


def test_whole_transitions_are_stored_in_a_ring():
    experiment = build(config_of(size=7))
    state = jax.jit(experiment.init)(0)
    _, streams, rows = collected()
    new = jax.tree.map(np.asarray, transitions(streams, rows))
    known = new["acted"] & (new["over"] | new["seen"])
    cut = np.asarray(streams.truncated & ~streams.terminated).reshape(-1)
    assert not (known & cut).any() and known.sum() > 7
    here = np.flatnonzero(new["seen"])
    np.testing.assert_array_equal(new["following"][here], new["observation"][here + 1])
    empty = state.carry["archer"]
    few = dict(new) | {"acted": new["acted"] & (np.cumsum(known) <= 5)}
    replay, place = stored(empty.replay, empty.place, few)
    assert place == 5 and replay["acted"].sum() == 5
    np.testing.assert_array_equal(replay["observation"][:5], new["observation"][known][:5])
    replay, place = stored(replay, place, few)
    assert place == 3 and replay["acted"].all()
    np.testing.assert_array_equal(replay["observation"][:3], new["observation"][known][2:5])


def test_a_limit_may_be_the_end():
    """Then turns that it cut are in the replay, too, and nothing follows them."""
    _, streams, rows = collected()
    cut = np.asarray(streams.truncated & ~streams.terminated & streams.mask).reshape(-1)
    assert cut.any()
    for at_limit, more in (("bootstrap", 0), ("end", cut.sum())):
        experiment = build(config_of(size=64, steps=1, at_limit=at_limit))
        component, state = experiment.components["archer"], jax.jit(experiment.init)(0)
        outcome = UpdateResult(None, state.params, streams=streams, rows=rows)
        value, _ = jax.jit(component.after)(state.carry["archer"], outcome)
        known = np.asarray(streams.mask).reshape(-1) & ~cut
        assert value.replay["acted"].sum() == known.sum() + more
        ends = np.asarray(streams.terminated & streams.mask).sum()
        assert value.replay["over"].sum() == ends + more


def test_critics_converge_to_the_values_of_the_policy():
    """In a lake of four cells: Q of a step into the goal is 1, into a hole 0, V the mean of Q."""
    experiment = build(config_of(hidden=32, steps=400, batch=64, size=512, warm_up=0))
    component = experiment.components["archer"]
    state = jax.jit(experiment.init)(0)
    params, streams, rows = collected()
    outcome = UpdateResult(None, params, streams=streams, rows=rows)
    value, after = state.carry["archer"], jax.jit(component.after)
    for _ in range(6):
        value, metrics = after(value, outcome)
    turns = transitions(streams, rows)
    notes = jax.jit(component.annotate)(context(value, params), streams, rows)
    q = np.asarray(notes["twin_q"].values).reshape(-1, 2)
    over, reward = np.asarray(turns["over"]), np.asarray(turns["reward"])
    assert over.any() and (reward[over] == 1).any() and (reward[over] == 0).any()
    np.testing.assert_allclose(q[over], np.repeat(reward[over, None], 2, axis=1), atol=0.1)
    # The advantage of the better end is higher.
    advantage = advantages.twin_critics(
        streams.mask, notes["twin_q"].values, notes["twin_v"].values
    )
    advantage = np.asarray(advantage).reshape(-1)
    assert advantage[over & (reward == 1)].min() > advantage[over & (reward == 0)].max()


def test_the_policy_stays_while_critics_warm_up_and_a_run_resumes(tmp_path):
    _, states, metrics = train_and_resume(config_of(), tmp_path)
    assert distance(states[0].params, states[2].params) == 0
    assert distance(states[2].params, states[3].params) > 0
    assert all(m["critic_error"] > 0 for m in metrics)


def test_actions_drawn_anew_in_the_replay_are_the_policys():
    """The published actor: its own draws at what was seen, one stream and row each."""
    experiment = build(config_of())
    component = experiment.components["archer"]
    state = jax.jit(experiment.init)(0)
    params, streams, rows = collected()
    new = transitions(streams, rows)
    whole = new | {"acted": new["acted"] & (new["over"] | new["seen"])}
    replay, _ = put(state.carry["archer"].replay, jnp.zeros((), jnp.int32), new, whole["acted"])
    value = state.carry["archer"].replace(replay=replay)
    make = jax.jit(lambda value, key: component.source.make(context(value, params, key), {}))
    streams, rows = make(value, jax.random.key(0))
    there = np.asarray(rows.loss_mask)
    assert there.shape == (256, 1) and 0 < there.sum() < there.size
    np.testing.assert_array_equal(there, streams.mask)
    logp = experiment.policy.score(params, rows).logp
    np.testing.assert_allclose(np.where(there, logp, 0), rows.behaviour_logp, atol=1e-6)
    seen = {x.tobytes() for x in np.asarray(replay["observation"])[np.asarray(replay["acted"])]}
    shown = np.asarray(rows.observation)[there]
    assert {x.tobytes() for x in shown} <= seen and len(set(np.asarray(rows.tokens)[there])) == 4
    notes = component.annotate(context(value, params), streams, rows)
    assert notes["twin_q"].values.shape == (256, 1, 2)


def test_a_policy_learns_from_them_alone():
    config = config_of(rows=32)
    config.objective.policy = term(losses.reinforce, source="archer")
    experiment, states, metrics = train(config, updates=4)
    assert experiment.phases[-1][0].collects and "episode_return" in metrics[0]
    assert distance(states[0].params, states[2].params) == 0
    assert distance(states[2].params, states[4].params) > 0
