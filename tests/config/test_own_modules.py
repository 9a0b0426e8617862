"""A user's own functions, by dotted path from a module outside the package, in every place."""

import json

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import own_pieces
import pytest
import tiny
from jax.flatten_util import ravel_pytree

from agentrl import rewards
from agentrl.config import section, term
from agentrl.config.build import build


def config_of(**changes):
    config = tiny.groups_config(log_every=1, learner__minibatches=1)
    config.annotations.surprise = section(own_pieces.surprise, offset=0.25)
    config.reward.bonus = section(own_pieces.bonus, amount=0.5)
    config.reward.at_end = section(rewards.at_end, share=1.0)
    config.filters.even = section(own_pieces.even_streams)
    config.advantage = section(own_pieces.centred, scale=2.0)
    config.reweighting.halved = section(own_pieces.halved)
    config.objective.squared = term(own_pieces.squared, weight=0.01, at=-1.0)
    config.objective.pull = term(own_pieces.pull, weight=0.01)
    config.components.thermostat = section(own_pieces.thermostat, start=2.0)
    return tiny.changed(config, changes)


@pytest.fixture(scope="module")
def updated():
    """(experiment, state, batch, [(state, metrics) after each of two updates])."""
    config = config_of()
    # As it is written into a run's directory, and read back.
    experiment = build(ml_collections.ConfigDict(json.loads(config.to_json())))
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    train = jax.jit(tiny.train_of(experiment))
    first = train(state)
    return experiment, state, batch, [first, train(first[0])]


def test_sections_are_stored_by_dotted_path():
    config = config_of()
    assert config.advantage.name == "own_pieces.centred"
    assert config.components.thermostat.name == "own_pieces.thermostat"
    assert config.objective.squared.to_dict()["at"] == -1.0


def test_credit_is_made_of_them(updated):
    experiment, state, batch, _ = updated
    streams, rows, credit, notes, _ = batch
    logp = experiment.policy.score(state.params, rows).logp
    surprise = np.full(streams.mask.shape, 0.25, np.float32)
    mask = np.asarray(rows.loss_mask)
    where = np.broadcast_to(np.asarray(rows.stream)[:, None], mask.shape)[mask]
    np.subtract.at(surprise, (where, np.asarray(rows.turn)[mask]), np.asarray(logp)[mask])
    np.testing.assert_allclose(notes["surprise"].values, surprise, atol=1e-5)
    acted = np.asarray(streams.mask)
    # At the end comes what the bonus has paid, too: all of it, so that the return stays.
    reward = np.where(acted, streams.reward + 0.5 * surprise, 0)
    total = reward.sum(axis=1, keepdims=True)
    expected = np.where(acted, 2 * (total - total.mean()) + surprise, 0) / 2
    np.testing.assert_allclose(credit.advantage.values, expected, atol=1e-4)
    np.testing.assert_array_equal(credit.keep, acted.any(axis=1) & (np.arange(len(acted)) % 2 == 0))


def test_terms_and_components_report(updated):
    _, _, batch, steps = updated
    streams, rows, credit, *_ = batch
    trained = np.asarray(rows.loss_mask & credit.keep[rows.stream][:, None]).sum()
    for (state, metrics), strength in zip(steps, (2.0, 2.5), strict=True):
        assert tiny.mean(metrics, "strength") == strength
        assert float(state.carry["thermostat"]) == strength + 0.5
    metrics = steps[0][1]
    assert metrics["loss/squared"][1] == metrics["distance"][1] == trained
    logp = np.where(rows.loss_mask & credit.keep[rows.stream][:, None], rows.behaviour_logp, 0)
    away = np.where(logp < 0, np.abs(logp + 1), 0)
    np.testing.assert_allclose(metrics["distance"][0], away.sum(), rtol=1e-4)
    np.testing.assert_allclose(metrics["loss/pull"][0], 2 * np.square(logp).sum(), rtol=1e-4)


def test_the_gradient_is_that_of_the_sum_of_weighted_terms(updated):
    """With plain gradient descent of rate 1 by hand: Adam's first moment is (1 - b1) gradient."""
    experiment, state, batch, steps = updated
    streams, rows, credit, *_ = batch
    mask = rows.loss_mask & credit.keep[rows.stream][:, None]
    count = jnp.sum(mask)
    advantage = credit.advantage.at_positions(rows)

    def loss(params):
        logp = experiment.policy.score(params, rows).logp
        each = -jnp.exp(logp - rows.behaviour_logp) * advantage
        each += 0.01 * jnp.square(logp + 1) + 0.01 * 2 * jnp.square(logp)
        return jnp.sum(jnp.where(mask, each, 0)) / count

    gradient = jax.grad(loss)(state.params)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(steps[0][1]["grad_norm"][0], norm, rtol=1e-4)
    clipped = jax.tree.map(lambda x: 0.1 * x * jnp.minimum(1, 0.5 / norm), gradient)
    moments = steps[0][0].opt_state[1][0].mu  # of one vector
    np.testing.assert_allclose(moments, ravel_pytree(clipped)[0], atol=1e-6)


WRONG = {
    "misspelt option": (
        lambda c: c.advantage.update(scal=3.0),
        r"config.advantage.scal is not an option of 'centred' \(did you mean 'scale'\?\)",
    ),
    "option without a value": (
        lambda c: c.reward.bonus.__delitem__("amount"),
        "config.reward.bonus.amount is missing: 'bonus' has no default",
    ),
    "misspelt function": (
        lambda c: c.advantage.update(name="own_pieces.centered"),
        r"config.advantage.name='own_pieces.centered' does not exist \(did you mean 'centred'\?\)",
    ),
    "misspelt module": (
        lambda c: c.advantage.update(name="own_peaces.centred"),
        "config.advantage.name='own_peaces.centred' does not exist.*no module 'own_peaces' on",
    ),
    "an estimator that reads what nothing fills": (
        lambda c: c.annotations.__delitem__("surprise"),
        "config.reward.bonus needs 'surprise'.*annotation .*or a component .*of that name",
    ),
    "a term that reads what nothing fills": (
        lambda c: c.components.__delitem__("thermostat"),
        r"config.objective.pull \(pull\) reads 'strength', which nothing fills here; it needs an "
        "annotation",
    ),
    "an estimator on streams that it does not fit": (
        lambda c: (
            c.__setattr__("rollout", tiny.segments_config().rollout),
            c.reward.__delitem__("at_end"),
        ),
        "own|centred.*assumes 'whole_episodes'",
    ),
    "a component that nothing reads": (
        lambda c: c.objective.__delitem__("pull"),
        "config.components.thermostat is not used by anything: it fills strength",
    ),
    "a component's own complaint": (
        lambda c: c.components.thermostat.update(step=-1.0),
        "config.components.thermostat.step=-1.0: expected 0 or more",
    ),
    "what is no component": (
        lambda c: c.components.__setitem__("odd", section(own_pieces.not_a_component)),
        "config.components.odd: own_pieces.not_a_component gives int; expected a function",
    ),
    "a term of pairs on rows without any": (
        lambda c: c.objective.__setitem__("dpo", term(own_pieces.preference)),
        r"config.objective.dpo \(preference\) is of pairs of rows, and source 'rollout' has none",
    ),
    "a sampler that the rollout does not take": (
        lambda c: (
            c.__setattr__("rollout", section(own_pieces.whole_episodes)),
            c.__setattr__("sampler", section(own_pieces.one_task, number=3)),
        ),
        "config.sampler.name='own_pieces.one_task' is not used by anything: rollout "
        "'own_pieces.whole_episodes' has no parameter `sampler`; give it one.*'independent'",
    ),
    "a scale of positions on rows": (
        lambda c: c.objective.__setitem__("row", term(own_pieces.row_likelihood, scale="surprise")),
        "config.objective.row.scale='surprise' multiplies values per position, and row_likelihood",
    ),
    "a source that is none": (
        lambda c: c.objective.squared.update(source="thermostat"),
        "config.objective.squared.source='thermostat': expected .*a component that is a source",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_librarys_functions(name):
    change, message = WRONG[name]
    config = config_of()
    config.unlock()
    change(config)
    with pytest.raises(ValueError, match=message):
        build(config)


@pytest.mark.parametrize("microbatch", [None, 4])
def test_a_source_of_pairs_of_a_users_own(microbatch):
    """DPO against the reference that training began with: log 2 per pair before the first step."""
    config = tiny.groups_config(log_every=1, learner__microbatch=microbatch)
    config.components.pairs = section(own_pieces.pairs)
    config.objective.dpo = term(own_pieces.preference, source="pairs", beta=0.1)
    experiment = build(config)
    assert experiment.phases[0][0].sources == ("rollout", "pairs")
    state = jax.jit(experiment.init)(0)
    batches = jax.jit(experiment.batches)(state)
    assert batches["pairs"].unit == 2 and batches["pairs"].credit is None
    after, metrics = jax.jit(tiny.train_of(experiment))(state)
    both = np.asarray(batches["pairs"].rows.loss_mask).any(axis=1).reshape(-1, 2).all(axis=1)
    assert metrics["loss/dpo"][1] == 2 * both.sum() > 0
    # The first of two minibatches is at the reference, the second one step away.
    np.testing.assert_allclose(tiny.mean(metrics, "loss/dpo"), np.log(2), atol=1e-3)
    assert int(after.update) == 1 and metrics["rejected_updates"][0] == 0


def test_pairs_of_an_odd_number_of_rows_are_refused_in_one_minibatch_too():
    config = tiny.groups_config(
        log_every=1,
        env__max_steps_in_episode=5,  # a row per turn
        rollout__num_groups=1,
        rollout__group_size=3,
        learner__minibatches=1,
    )
    config.components.pairs = section(own_pieces.pairs)
    config.objective.dpo = term(own_pieces.preference, source="pairs", beta=0.1)
    with pytest.raises(ValueError, match="the 15 rows of source 'pairs' .of which 2 neigh"):
        build(config)


def test_a_rollout_that_draws_its_tasks_itself():
    config = config_of(rollout=section(own_pieces.whole_episodes, groups=3))
    assert build(config).rollout.num_streams == 12


def test_a_sampler_of_a_users_own():
    experiment = build(config_of(sampler=section(own_pieces.one_task, number=3)))
    streams = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))["rollout"].streams
    assert len(np.unique(streams.anchor[:, 0], axis=0)) == 1
