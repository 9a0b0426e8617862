"""What components carry: rejected updates leave it, and restarts begin it where they should."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import noted, own_key
from agentrl.learner.components import guard, steps
from agentrl.learner.train_step import keys_of
from agentrl.streams import PerPosition, PerTurn, Rows, Shared, Streams


@functools.cache
def matches():
    """(a first state, the update, the batches) with every carried value that updates change."""
    config = tiny.matches_config(
        log_every=1, staleness=1, reference__every=1, pool__every=1, optimizer__learning_rate=1e38
    )
    # Gradients are finite; the first step overflows float32.
    config.optimizer.max_grad_norm = 1e38
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    return state, jax.jit(tiny.train_of(experiment)), jax.jit(experiment.batches)


def equal(a, b):
    def data(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    chex.assert_trees_all_equal(*(jax.tree.map(data, x) for x in (a, b)))


def test_a_rejected_update_leaves_what_is_carried():
    state, train, batches = matches()
    after, metrics = train(state)
    assert tiny.mean(metrics, "rejected_updates") == 1
    carry = {"baseline", "pool", "reference", "sampler"}
    assert carry | {"guard", "steps"} <= state.carry.keys()
    equal((after.params, after.opt_state), (state.params, state.opt_state))
    for name in carry:
        equal(after.carry[name], state.carry[name])
    # What was collected is counted all the same, and the run goes on with other episodes.
    assert int(after.update) == 1
    acted = np.asarray(batches(state)["rollout"].streams.mask).sum()
    assert steps.env_steps(after.carry) == acted > 0
    assert not (jax.random.key_data(after.key) == jax.random.key_data(state.key)).all()


def test_the_guard_remembers_what_a_rejected_update_started_from():
    state, train, batches = matches()
    after, _ = train(state)
    assert int(guard.rejected_in_a_row(after.carry)) == 1
    again = guard.rejected_start(after)
    ours, before = (batches(x)["rollout"][:3] for x in (again, state))
    equal(ours, before)
    twice, _ = train(after)
    assert int(guard.rejected_in_a_row(twice.carry)) == 2
    equal(guard.rejected_start(twice).key, after.key)


def test_keys_of_components_do_not_depend_on_each_other():
    key = jax.random.key(3)
    named = [
        jax.random.key_data(own_key(key, name)) for name in ("pool", "expert", "expert.source")
    ]
    assert len({tuple(np.asarray(k)) for k in named}) == 3
    state, *_ = matches()
    keys = {tuple(np.asarray(jax.random.key_data(k))) for k in keys_of(state)}
    assert len(keys) == 4


@functools.cache
def taught(held_out):
    """The compiled program of a warm start, and its first state."""
    config = tiny.talk_config(log_every=1, expert__held_out=held_out, objective__kl__weight=0.1)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    warm = jax.jit(tiny.train_of(experiment, "warm_start"))
    return experiment, state, warm.lower(state).compile()


def test_the_reference_is_what_the_warm_start_ends_with():
    experiment, state, train = taught(True)
    after, _ = train(state)
    # Components of the later updates take no part in the warm start.
    equal(after.carry["reference"], state.carry["reference"])
    begun = jax.jit(experiment.restart)(after)
    equal(begun.carry["reference"], after.params)
    # Demonstrations belong to the seed, and turns are counted over the whole run.
    equal(begun.carry["expert"], state.carry["expert"])
    equal(begun.carry["steps"], after.carry["steps"])
    assert steps.env_steps(after.carry) == 0
    moments = jax.tree.leaves(begun.opt_state)
    assert not any(np.asarray(x).any() for x in moments)


def flops(held_out):
    *_, program = taught(held_out)
    return program.cost_analysis()["flops"]


def test_the_held_out_loss_costs_a_forward_pass():
    """With log_every=1 it is measured after each update: about a third of one, not another one."""
    update = flops(False)
    measured = flops(True)
    assert 0 < measured - update < 0.5 * update


def test_the_held_out_loss_is_that_of_other_tasks():
    _, state, train = taught(True)
    after, metrics = train(state)
    # The same tasks after each program, whatever was learnt from.
    _, other = train(state.replace(key=jax.random.key(5)))
    assert other["held_out_loss"][1] == metrics["held_out_loss"][1] > 0
    assert other["loss/imitation"][0] != metrics["loss/imitation"][0]
    _, later = train(after)
    assert tiny.mean(later, "held_out_loss") < tiny.mean(metrics, "held_out_loss")


@pytest.mark.long
def test_an_expert_beside_the_rollout():
    """Imitation that goes on under reinforcement learning: a schedule of weights over one sum."""
    config = tiny.talk_config(
        log_every=1,
        warm_start__updates=2,
        updates=6,
        objective__kl__weight=0.0,
        objective__imitation__during="both",
        objective__imitation__weight=0.8,
        objective__imitation__final_weight=0.05,
    )
    experiment = build(config)
    assert [phase.sources for phase, _ in experiment.phases] == [("expert",), ("rollout", "expert")]
    state = experiment.restart(jax.jit(experiment.init)(0)).replace(update=jnp.int32(2))
    train, weights = jax.jit(tiny.train_of(experiment)), []
    for _ in range(4):
        state, metrics = train(state)
        weights.append(tiny.mean(metrics, "weight/imitation"))
        assert metrics["loss/imitation"][1] > 0 and metrics["loss/policy"][1] > 0
    # Half each time; a sixteenth is where a fifth update would be.
    np.testing.assert_allclose(weights, [0.8, 0.4, 0.2, 0.1], rtol=1e-5)


def test_filters_choose_what_is_imitated_of_the_own_episodes():
    """Rejection sampling: no term reads an advantage, and filters hold all the same."""
    changed = []
    for least in (0.0, 1e9):  # everything, nothing
        config = tiny.groups_config(log_every=1, updates=1)
        config.objective.policy.weight = 0.0
        config.objective.imitation = term(losses.behaviour_cloning, source="rollout", during="rl")
        config.filters.some = section(advantages.relevant, least=least)
        experiment = build(config)
        before = jax.jit(experiment.init)(0)
        after, metrics = jax.jit(tiny.train_of(experiment))(before)
        moved = jax.tree.map(lambda a, b: bool((a != b).any()), before.params, after.params)
        changed.append((any(jax.tree.leaves(moved)), tiny.mean(metrics, "empty_steps")))
    assert changed == [(True, 0.0), (False, 1.0)]


def test_rows_of_a_source_that_minibatches_do_not_divide_are_an_error():
    config = tiny.talk_config(objective__imitation__during="both", expert__episodes=5)
    config.learner.minibatches = 8
    with pytest.raises(ValueError, match="minibatches=8 does not divide the 5 rows of source"):
        build(config)


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (jnp.zeros((2, 3)), r"annotation 'mine' gives 'x' as .*: say .*PerTurn\(x\) \[N, T\]"),
        (PerTurn(jnp.zeros((4, 5))), r"'x' PerTurn .*expected \[N, T\], here \(2, 3\)"),
        (PerPosition(jnp.zeros((2, 3, 7))), r"PerPosition .*expected \[R, L\], here \(4, 5\)"),
    ],
)  # fmt: skip
def test_an_annotation_says_what_its_values_are_of(note, message):
    zeros = jnp.zeros((4, 5))
    rows = Rows(zeros, zeros == 1, jnp.zeros(4), zeros, zeros)
    streams = Streams(reward=jnp.zeros((2, 3)), mask=jnp.zeros((2, 3), bool))

    def noted_as(note):
        return noted("mine", lambda *_: {"x": note}, None, streams, rows)

    with pytest.raises(ValueError, match=message):
        noted_as(note)
    shared, metrics = noted_as(Shared({"any": jnp.zeros((9,))}))
    assert shared["x"].values["any"].shape == (9,) and metrics == {}
    assert noted_as(PerTurn(jnp.zeros((2, 3, 8))))[0]["x"].values.shape == (2, 3, 8)
