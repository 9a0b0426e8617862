"""Replay of own successes: when a group gets one, what is replaced, and what is stored."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from by_hand import context
from experiments import lake

from agentrl import advantages
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.by_turn import stream_rows
from agentrl.methods.success_replay import success_replay


def config_of(**options):
    """Lakes of four cells: a dozen tasks, which come again."""
    config = lake(size=2, max_steps_in_episode=4)
    options = {"tasks": 16, "per_task": 2} | options
    config.components.success_replay = section(success_replay, **options)
    return config


def outcome_of(streams, rows):
    nothing = dict.fromkeys(("before", "params", "trained", "credit", "inputs", "notes"))
    return UpdateResult(**nothing, streams=streams, rows=rows, finite=jnp.ones((), bool))


def made(**options):
    """(experiment, component, its empty buffer)."""
    experiment = build(config_of(**options))
    component = experiment.components["success_replay"]
    return experiment, component, jax.jit(experiment.init)(0).carry["success_replay"]


@functools.cache
def collected():
    """(params, streams, rows) of a first batch without replay: nothing is stored yet."""
    experiment, *_ = made()
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    return state.params, batch.streams, batch.rows


def test_a_failed_group_gets_a_stored_success_of_its_task():
    _, component, empty = made(old_logp="sampled")
    params, streams, rows = collected()
    amend = jax.jit(component.amend)
    key = jax.random.key(0)
    buffer, _ = jax.jit(component.after)(empty, outcome_of(streams, rows))
    reward = np.asarray(streams.reward)
    solved = reward.sum(axis=1).reshape(4, 4) > 0.1
    assert solved.any() and buffer.writes > 0
    # The same tasks, all failed; the first stream of each group did nothing but fail.
    failed = streams.replace(reward=np.zeros_like(streams.reward))
    amended = amend(context(buffer, params, key), failed, rows)
    new, new_rows, metrics = jax.device_get(amended)
    np.testing.assert_array_equal(metrics["replayed_groups"], [solved.any(axis=1).sum(), 4])
    got = np.asarray(new.reward).sum(axis=1).reshape(4, 4)
    np.testing.assert_array_equal(got[:, 0] > 0, solved.any(axis=1))
    assert (got[:, 1:] == 0).all()
    np.testing.assert_array_equal(new.group, streams.group)
    np.testing.assert_array_equal(new.anchor[:, 0], streams.anchor[:, 0])
    # What came is one of the group's own successes, rows and all; the others stay.
    whole = jax.jit(stream_rows)
    before, after = jax.device_get((whole(rows, streams), whole(new_rows, new)))
    for group in range(4):
        place = 4 * group
        if solved[group].any():
            same = [
                np.array_equal(after.tokens[place], before.tokens[place + i])
                and np.array_equal(after.behaviour_logp[place], before.behaviour_logp[place + i])
                for i in np.flatnonzero(solved[group])
            ]
            assert any(same)
        for i in range(1, 4):
            np.testing.assert_array_equal(after.tokens[place + i], before.tokens[place + i])
    # Credit of the worked example: R (1, 0, 0, 0).
    advantage = jax.jit(advantages.grpo)(new.reward, new.mask, new.group)
    group = int(np.flatnonzero(solved.any(axis=1))[0])
    np.testing.assert_allclose(
        advantage[4 * group : 4 * group + 4, 0], [1.5, -0.5, -0.5, -0.5], atol=1e-5
    )
    # A group that did not fail stays as it is.
    kept, _, metrics = amend(context(buffer, params, key), streams, rows)
    np.testing.assert_array_equal(
        np.asarray(kept.reward).reshape(4, 4, -1)[solved.any(axis=1)],
        reward.reshape(4, 4, -1)[solved.any(axis=1)],
    )
    np.testing.assert_array_equal(metrics["replayed_groups"], [0, 4])


def test_recomputed_probabilities_are_those_of_the_policy_before_the_update():
    experiment, component, empty = made()
    params, streams, rows = collected()
    buffer, _ = jax.jit(component.after)(empty, outcome_of(streams, rows))
    params = jax.tree.map(lambda x: x + 0.1, params)
    failed = streams.replace(reward=jnp.zeros_like(streams.reward))
    given = context(buffer, params, jax.random.key(0))
    new, amended, _ = jax.jit(component.amend)(given, failed, rows)
    replayed = np.asarray(new.reward).sum(axis=1) > 0
    assert replayed.any() and not replayed.all()
    logp = jax.jit(experiment.policy.score)(params, amended).logp
    logp = np.where(amended.loss_mask, logp, 0)
    own = replayed[np.asarray(amended.stream)]
    np.testing.assert_allclose(amended.behaviour_logp[own], logp[own], atol=1e-6)
    np.testing.assert_array_equal(amended.behaviour_logp[~own], rows.behaviour_logp[~own])


def test_the_same_success_is_stored_once_and_the_oldest_goes():
    _, component, empty = made(per_task=8)
    _, streams, rows = collected()
    after = jax.jit(component.after)
    once, _ = after(empty, outcome_of(streams, rows))
    twice, _ = after(once, outcome_of(streams, rows))
    np.testing.assert_array_equal(once.count, twice.count)
    assert once.writes == twice.writes == once.count.sum()
    _, small, empty = made(tasks=1, per_task=1)
    one, metrics = jax.jit(small.after)(empty, outcome_of(streams, rows))
    assert metrics["stored_successes"][0] == 1
    # The last task with a success is there.
    solved = np.flatnonzero(np.asarray(streams.reward).sum(axis=1) > 0.1)
    np.testing.assert_array_equal(one.task[0], streams.anchor[solved[-1], 0])


def test_rapo_replaces_a_random_stream_of_a_group_without_a_success():
    """A group with returns of 0.4 has no success above 0.5, and a mean that is too high for
    ARPO's rule; one with a single success has one."""
    options = {"old_logp": "sampled", "success": 0.5, "per_task": 1}
    _, component, empty = made(when="none", replaces="random", **options)
    params, streams, rows = collected()
    buffer, _ = jax.jit(component.after)(empty, outcome_of(streams, rows))
    first = np.asarray(streams.mask) & (np.arange(streams.mask.shape[1]) == 0)
    almost = streams.replace(reward=np.where(first, 0.4, 0.0).astype(np.float32))
    amend = jax.jit(component.amend)
    places = set()
    for seed in range(6):
        new, _, metrics = amend(context(buffer, params, jax.random.key(seed)), almost, rows)
        swapped = np.asarray(new.reward).sum(axis=1).reshape(4, 4) > 0.5
        assert (swapped.sum(axis=1) <= 1).all()
        assert swapped.sum() == metrics["replayed_groups"][0] > 0
        places |= set(np.nonzero(swapped)[1])
    assert len(places) > 1
    _, arpo, _ = made(**options)
    _, _, metrics = jax.jit(arpo.amend)(context(buffer, params, jax.random.key(0)), almost, rows)
    assert metrics["replayed_groups"][0] == 0
    # The latest success of a task is the one that is kept.
    one = streams.replace(reward=np.where(first, 1.0, 0.0).astype(np.float32))
    kept, _ = jax.jit(component.after)(empty, outcome_of(one, rows))
    place = np.asarray(kept.since) > 0
    anchors = np.asarray(streams.anchor)[:, 0]
    for task, tokens in zip(np.asarray(kept.task)[place], kept.rows.tokens[place, 0], strict=True):
        last = np.flatnonzero((anchors == task).all(axis=1))[-1]
        own = np.asarray(rows.tokens)[np.asarray(rows.stream) == last]
        np.testing.assert_array_equal(np.sort(tokens, axis=0), np.sort(own, axis=0))
