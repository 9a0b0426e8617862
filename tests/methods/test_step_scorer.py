"""StepORLM's scorer: labels that agree with the outcome, what is learnt from them, rounds."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiments import lake, train_and_resume

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.bags import BagModel, Bags
from agentrl.methods.pairs import pairs, right_share
from agentrl.methods.step_scorer import Hooks, agreeing_labels, step_scorer


def logits(chance):
    chance = np.asarray(chance, np.float32)
    return np.log(chance) - np.log1p(-chance)


def test_labels_of_the_worked_example():
    chance = [[0.9, 0.5, 0.8], [0.9, 0.5, 0.8], [0.3, 0.5, 0.5]]
    mask = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 0]], bool)
    logit = np.where(mask, logits(chance), np.nan)
    found = agreeing_labels(logit, mask, np.array([False, True, False]))
    expected = [[0.84375, 0.21875, 0.6875], [1, 1, 1], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    # One that is sure of every turn of a failure, or of all but one.
    sure = np.float32([[40.0, 40.0], [40.0, 0.0]])
    found = agreeing_labels(sure, np.ones((2, 2), bool), np.zeros(2))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], [1, 0], atol=2e-5)


def test_labels_are_means_over_those_that_agree():
    """By all labels of a stream, each with its probability."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.05, 0.95, (6, 4))
    mask = np.arange(4) < rng.integers(1, 5, 6)[:, None]
    outcome = rng.random(6) < 0.5
    expected = np.zeros((6, 4))
    for n in range(6):
        turns, total, right = np.flatnonzero(mask[n]), 0.0, np.zeros(4)
        for label in itertools.product([0, 1], repeat=len(turns)):
            if all(label) == outcome[n]:
                own = chance[n, turns]
                share = np.prod(np.where(label, own, 1 - own))
                total, right[turns] = total + share, right[turns] + share * np.array(label)
        expected[n] = right / total
    found = agreeing_labels(np.where(mask, logits(chance), np.nan), mask, outcome * 1.0)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_turns_that_only_failures_have_are_found_wrong():
    """A turn of kind 2 is wrong, of kinds 0 and 1 right; outcomes alone are known."""
    rng = np.random.default_rng(1)
    kind = rng.choice(3, (128, 3), p=[0.4, 0.4, 0.2])
    mask = np.arange(3) < rng.integers(1, 4, 128)[:, None]
    label = np.all((kind != 2) | ~mask, axis=1)
    features = np.where(mask[..., None], np.eye(3, dtype=np.float32)[kind], 0)
    bags = Bags(jnp.asarray(features), jnp.asarray(mask), jnp.asarray(label, jnp.float32))
    network, adam = BagModel("instance", 8, 1), optax.adam(0.03)
    hooks = Hooks(None, None, network, adam, 1, 1, 1, 1, 128)
    params = network.init(jax.random.key(0), bags.features, bags.mask)

    @jax.jit
    def learn(params):
        def step(carry, _):
            params, state = carry
            grads = jax.grad(hooks._loss_of(params, bags))(params)
            updates, state = adam.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, _), _ = jax.lax.scan(step, (params, adam.init(params)), length=150)
        return jax.nn.sigmoid(network.apply(params, bags.features, bags.mask))

    chance = np.asarray(learn(params))
    assert chance[mask & (kind == 2)].max() < 0.1 and chance[mask & (kind != 2)].min() > 0.9


def scored(**options):
    """Weighted DPO on a lake, with a scorer in the expert's place."""
    config = lake(size=2)
    config.rollout.judge = "expert"
    config.objective.policy.weight = 0.0
    config.learner.minibatches = 1
    small = {"hidden": 8, "explore": 1, "fit": 20, "batch": 8, "every": 2, "steps": 2}
    config.components.step_scorer = section(step_scorer, **(small | options))
    config.components.pairs = section(pairs, by="judgement")
    config.objective.preference = term(losses.weighted_dpo, source="pairs")
    return config


def test_scores_stand_in_the_judgements_place_and_change_with_the_rounds(tmp_path):
    experiment, states, metrics = train_and_resume(scored(), tmp_path)
    batch = jax.device_get(jax.jit(experiment.batches)(states[1]))["pairs"]
    streams = batch.streams
    said = streams.judgement[streams.mask]
    assert len(set(said.tolist())) > 2 and (np.abs(said) < 0.5).all()
    # Weights are of the scorer's shares where returns are equal.
    share = np.asarray(right_share(streams))
    returns = np.where(streams.mask, streams.reward, 0).sum(axis=1)
    weight = np.asarray(batch.notes["pair_weight"].values)[:, 0]
    for n in range(len(share)):
        equal = returns[n] == returns[n ^ 1]
        expected = abs(share[n] - share[n ^ 1]) if equal else 1.0
        np.testing.assert_allclose(weight[n], expected, atol=2e-5)
    carried = [jax.device_get(state.carry["step_scorer"]) for state in states]

    def same(one, other):
        return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))

    # Rounds of two updates; the network learns in each.
    assert same(carried[0].judge, carried[1].judge) and same(carried[2].judge, carried[3].judge)
    assert not same(carried[1].judge, carried[2].judge)
    assert same(carried[2].judge, carried[2].params)
    assert not same(carried[1].params, carried[0].params)
    for told in metrics:
        assert 0 <= told["scorer_agreement"] <= 1 and np.isfinite(told["scorer_error"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judge": "none"}, "config.rollout.judge"),
        ({"options": {"explore": 0}}, "explore"),
        ({"options": {"learning_rate": 0.0}}, "learning_rate"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    config = scored(**change.get("options", {}))
    config.rollout.judge = change.get("judge", "expert")
    with pytest.raises(ValueError, match=message):
        build(config)
