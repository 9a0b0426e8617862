"""The update on conversations: what of a row is trained."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from by_hand import context

from agentrl.config.build import build
from agentrl.learner.update import update
from agentrl.run import checkpoint

COMPONENT = "agentrl.learner.components.{0}.{0}"


def component(name, **options):
    """The section of a component of the library."""
    return {"name": COMPONENT.format(name), **options}


@functools.cache
def trained(on_observations):
    """(experiment, state before, state after, metrics) of one update in one step."""
    config = tiny.talk_config(
        updates=6,
        log_every=1,
        warm_start__updates=0,
        learner__minibatches=1,
        # So that episodes differ, and there is something to learn.
        policy__constrained=True,
        objective__kl__weight=0.0,
    )
    if on_observations:
        config.components.train_on_observations = component("train_on_observations")
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    after, metrics = jax.jit(tiny.train_of(experiment))(state)
    return experiment, state, after, metrics


def test_only_replies_are_trained_and_on_demand_what_was_read():
    plain, state, _, metrics = trained(False)
    wide, _, _, widened = trained(True)
    amend = wide.components["train_on_observations"].amend

    @jax.jit
    def collected(state):
        """Rows of the rollout, and as the component amends them."""
        batch = plain.batches(state)["rollout"]
        _, amended, _ = amend(context((), state.params), batch.streams, batch.rows)
        return batch.rows, amended

    rows, wide_rows = collected(state)
    written = int(np.asarray(rows.loss_mask).sum())
    somewhere = np.asarray(rows.turn) >= 0
    assert metrics["entropy"][1] == written
    # Everything but padding and the token that stands first.
    everything = somewhere.sum() - somewhere[:, 0].sum()
    assert widened["entropy"][1] == everything > 2 * written
    assert np.asarray(wide_rows.loss_mask).sum() == everything
    # At ratios to the parameters before the update: none has moved yet.
    for m in (metrics, widened):
        np.testing.assert_allclose(m["approx_kl"][0] / m["approx_kl"][1], 0, atol=1e-5)


def test_what_was_read_teaches_something_else():
    _, state, *_ = trained(False)
    before = state.params
    after, widened = (trained(wide)[2].params for wide in (False, True))
    change = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), before, after)
    differ = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), after, widened)
    assert min(jax.tree.leaves(change)) > 0 and min(jax.tree.leaves(differ)) > 0


@pytest.mark.parametrize("make", [tiny.groups_config, tiny.segments_config])
def test_array_policies_have_nothing_read_to_train(make):
    config = make()
    config.components.train_on_observations = component("train_on_observations")
    with pytest.raises(ValueError, match="'train_on_observations' needs a language policy"):
        build(config)


def test_a_step_on_one_vector_is_the_step_on_the_arrays():
    experiment = build(tiny.segments_config(optimizer__weight_decay=0.01, learner__epochs=2))
    state = jax.jit(experiment.init)(0)
    batches = jax.jit(experiment.batches)(state)
    batches = {name: batch._replace(unit=1) for name, batch in batches.items()}
    learner = experiment.phases[-1][0].learner
    assert learner.optimizer.as_vector
    out = {}
    for as_vector in (True, False):
        optimizer = learner.optimizer._replace(as_vector=as_vector)
        own = learner._replace(optimizer=optimizer)

        @jax.jit
        def updated(params, own=own, optimizer=optimizer):
            start = optimizer.init(params), batches, jax.random.key(1)
            return update(experiment.policy, own, params, *start, progress=0.0)

        out[as_vector] = updated(state.params)
    (params, moments, *told), (other, of_arrays, *metrics) = out[True], out[False]
    size = sum(x.size for x in jax.tree.leaves(params))
    assert {x.shape for x in jax.tree.leaves(moments)} == {(), (size,)}
    chex.assert_trees_all_equal_shapes(params, other)
    chex.assert_trees_all_close((params, told), (other, metrics), rtol=1e-5, atol=1e-6)
    # Adam's moments are the same numbers.
    flat = [x for x in jax.tree.leaves(moments) if x.ndim]
    arrays = np.concatenate([x.ravel() for x in jax.tree.leaves(of_arrays) if x.ndim])
    np.testing.assert_allclose(np.concatenate(flat), arrays, rtol=1e-4, atol=1e-8)
    moved = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), params, state.params)
    assert min(jax.tree.leaves(moved)) > 0


@functools.cache
def tempered(final):
    """Programs of four updates with an entropy bonus of weight 0.4 that goes to `final`."""
    config = tiny.groups_config(
        log_every=1,
        updates=4,
        learner__minibatches=1,
        objective__entropy__weight=0.4,
        objective__entropy__final_weight=final,
    )
    experiment = build(config)
    return jax.jit(experiment.init), jax.jit(tiny.train_of(experiment))


def test_the_entropy_bonus_falls_by_the_same_factor_each_update():
    init, train = tempered(0.025)
    state, bonus = init(0), []
    for _ in range(4):
        state, metrics = train(state)
        bonus.append(float(metrics["weight/entropy"][0]))
    # Half each time; 0.025 is where a fifth update would be.
    np.testing.assert_allclose(bonus, [0.4, 0.2, 0.1, 0.05], rtol=1e-6)
    assert train._cache_size() == 1


def test_the_bonus_goes_on_where_a_checkpoint_left_it(tmp_path):
    init, train = tempered(0.025)
    whole = init(0)
    for number in range(4):
        if number == 2:
            checkpoint.save(tmp_path, number, whole, keep=1)
        whole, _ = train(whole)
    _, resumed = checkpoint.restore(tmp_path, jax.eval_shape(init, 0))
    for _ in range(2):
        resumed, metrics = train(resumed)
    np.testing.assert_allclose(metrics["weight/entropy"][0], 0.05, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, resumed.params, whole.params)


def test_a_bonus_that_goes_nowhere_is_a_constant_one():
    states, trains = [], []
    for final in (None, 0.4):
        init, train = tempered(final)
        state, metrics = train(train(init(0))[0])
        states.append(state.params)
        trains.append("weight/entropy" in metrics)
    assert trains == [False, True]
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7), *states)


def large_steps(**learner):
    """The config of one update with large steps."""
    learner = {f"learner__{name}": value for name, value in learner.items()}
    return tiny.groups_config(
        log_every=1, learner__minibatches=1, optimizer__learning_rate=0.03, **learner
    )


@functools.cache
def updated(weights=None, **learner):
    """(params before, params after, metrics) of one update with large steps.

    weights: options of the component of importance weights, as pairs.
    """
    config = large_steps(**learner)
    if weights:
        config.components.importance = component("importance", **dict(weights))
        config.objective.policy.scale = "importance"
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    after, metrics = jax.jit(tiny.train_of(experiment))(state)
    return state.params, after.params, metrics


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_weights_of_a_sampler_that_is_the_learner_change_nothing(level):
    _, after, plain = updated()
    _, same, weighted = updated((("cap", 2.0), ("level", level)))
    chex.assert_trees_all_close(after, same, atol=1e-6)
    for metrics in (plain, weighted):
        assert abs(tiny.mean(metrics, "kl/rollout_train")) < 1e-6
    np.testing.assert_allclose(tiny.mean(weighted, "importance_weight"), 1, atol=1e-4)
    np.testing.assert_allclose(tiny.mean(weighted, "importance_ess"), 1, atol=1e-4)


def test_a_cap_below_one_makes_the_loss_smaller_by_as_much():
    *_, plain = updated()
    *_, capped = updated((("cap", 0.5),))
    np.testing.assert_allclose(
        tiny.mean(capped, "loss/policy"), tiny.mean(plain, "loss/policy") / 2, atol=1e-6
    )
    np.testing.assert_allclose(tiny.mean(capped, "importance_weight"), 0.5, atol=1e-5)


def test_weights_need_the_component():
    config = tiny.groups_config(objective__policy__scale="importance")
    with pytest.raises(ValueError, match="config.objective.policy .*reads 'importance'"):
        build(config)


def bounded(*bounds):
    """(params after, metrics) of `updated` in three epochs with each of these bounds of KL."""
    config = large_steps(epochs=3, max_kl=1.0)
    config.per_seed.learner = {"max_kl": (1.0,)}
    experiment = build(config)
    state, train = jax.jit(experiment.init)(0), jax.jit(tiny.train_of(experiment))
    for bound in bounds:
        own = {"per_seed": {"learner.max_kl": jnp.float32(bound)}}
        after, metrics = train(state.replace(carry=state.carry | own))
        yield after.params, metrics


def test_steps_above_the_bound_of_kl_are_not_taken():
    _, once, _ = updated()
    _, free, told = updated(epochs=3)
    (stopped, metrics), (wide, all_taken) = bounded(1e-5, 1e6)
    # The first step starts where the batch was collected; the second would be above.
    chex.assert_trees_all_close(stopped, once, atol=1e-6)
    np.testing.assert_allclose(metrics["stopped_steps"], [2, 3])
    assert "stopped_steps" not in told
    # The step above the bound was computed to see that it is; the one after it was not.
    assert metrics["grad_norm"][1] == 2
    chex.assert_trees_all_close(wide, free, atol=1e-6)
    assert all_taken["stopped_steps"][0] == 0


def test_a_step_above_the_bound_is_skipped_and_those_after_it_are_not():
    _, once, _ = updated()
    _, after, metrics = updated(epochs=3, max_kl=1e-5, over_max_kl="skip")
    # Here each of the later steps is above it, and each is computed.
    chex.assert_trees_all_close(after, once, atol=1e-6)
    np.testing.assert_allclose(metrics["stopped_steps"], [2, 3])
    assert metrics["grad_norm"][1] == 3


def test_an_update_above_the_bound_is_rejected_if_the_config_says_so():
    before, after, metrics = updated(epochs=3, max_kl=1e-5, over_max_kl="reject")
    chex.assert_trees_all_equal(before, after)
    assert metrics["kl_rejected"][0] == 1 and metrics["rejected_updates"][0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_kl": 0.0}, "config.learner.max_kl=0.0"),
        ({"over_max_kl": "reject"}, "does nothing without a bound"),
        ({"over_max_kl": "halt", "max_kl": 1.0}, "over_max_kl='halt'.*'stop', 'skip', 'reject'"),
    ],
)
def test_bounds_of_kl_that_mean_nothing_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        updated(**options)
