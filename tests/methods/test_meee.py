"""MEEE: its turns and their weights, what it reduces to, the score of actions, and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import distance, lake, train, train_and_resume

from agentrl import losses, policies
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.meee import critic_loss, deviations, imagine, meee, mixed, predictions
from agentrl.methods.networks import Embedding
from agentrl.methods.twin_q import TwinQ, drawn, no_turns
from agentrl.methods.world_model import LearnedEnvironment

SMALL = {
    "models": 3, "imagined": 8, "hidden": 8, "steps": 2, "model_steps": 2, "batch": 16, "rows": 32,
    "size": 64, "warm_up": 1,
}  # fmt: skip


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.policy = section(policies.scored_mlp, hidden=(8,))
    config.objective.policy.weight = 0.0
    config.components.meee = section(meee, **SMALL | options)
    config.objective.actor = term(losses.soft_policy_loss, source="meee", scale="confidence")
    return config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_and_resume(config_of(), tmp_path_factory.mktemp("meee"))


def test_a_run_learns_and_resumes(trained):
    _, states, metrics = trained
    assert distance(states[2].params, states[3].params) > 0
    assert "meee/confidence" in metrics[-1] and 0 < metrics[-1]["meee/confidence"] < 1
    assert all(m["critic_error"] > 0 and m["model_loss"] > 0 for m in metrics)
    # Nothing has been played before the first update, so it has nothing to learn from.
    assert metrics[0]["empty_steps"] == 1 and distance(states[0].params, states[1].params) == 0


def test_half_of_the_turns_are_imagined_and_weigh_what_the_models_agree_on(trained):
    experiment, states, _ = trained
    component, value = experiment.components["meee"], states[-1].carry["meee"]
    _, rows = component.source.make(context(value, key=jax.random.key(1)), {})
    unreal = np.asarray(rows.turn)[:, 0] == 1
    assert unreal.sum() == 16 and np.asarray(rows.loss_mask)[~unreal].all()
    notes = jax.jit(component.annotate)(context(value), None, rows)
    confidence = np.asarray(notes["confidence"].values)[:, 0]
    assert (confidence[~unreal] == 1).all()
    turns = mixed(value, 32, jax.random.key(1))
    np.testing.assert_array_equal(turns["observation"], rows.observation[:, 0])
    there = np.asarray(rows.loss_mask)[:, 0]
    np.testing.assert_allclose(confidence[there], turns["confidence"][there], rtol=1e-5)
    # The weights of the turns that the critics learn from are those of the equation.
    model = LearnedEnvironment(shape=(2, 2), codes=6, actions=("a",) * 4, hidden=8)
    means = predictions(model, value.weights, turns["observation"], turns["action"])
    assert means.shape == (3, 32, 2 * 2 * 6 + 1)
    expected = 2 / (1 + np.exp(20 * np.asarray(means).std(axis=0).mean(axis=1)))
    np.testing.assert_allclose(confidence[unreal & there], expected[unreal & there], rtol=1e-4)
    assert (expected < 1).all()
    # Of all actions in one call.
    every = deviations(model, value.weights, turns["observation"])
    own = np.take_along_axis(np.asarray(every), np.asarray(turns["action"])[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(2 / (1 + np.exp(20 * own)), expected, rtol=1e-4)
    # What the policy does itself has the weight 1.
    state = states[-1]
    batch = jax.jit(experiment.batches)(state)["rollout"]
    told = component.annotate(context(value), batch.streams, batch.rows)
    np.testing.assert_array_equal(told["confidence"].values, 1)


@pytest.mark.parametrize("options", [{"models": 1}, {"models": 3, "trust": 0.0}])
def test_one_model_or_no_trust_is_plain_imagined_data(options):
    _, states, metrics = train(config_of(optimism=0.0, **options), 3)
    assert metrics[-1]["meee/confidence"] == 1
    if options["models"] == 1:
        _, plain, _ = train(config_of(optimism=0.0, models=1, trust=0.0), 3)
        assert distance(plain[3].params, states[3].params) == 0
    _, other, _ = train(config_of(optimism=0.0, imagined=0), 3)
    assert distance(other[3].params, states[3].params) > 0


def test_the_policy_asks_the_score_and_the_learner_does_not():
    """With a score that is for action 2 the rollout takes it, and records how likely that was."""
    policy = policies.scored_mlp((2, 2), 6, 4, candidates=64, hidden=(8,))
    params = policy.init(jax.random.key(0))
    seen = jnp.zeros((5, 2, 2), jnp.uint8)
    plain, _, _ = policy.step(params, None, seen)
    score = lambda values, seen: jnp.broadcast_to(values, (seen.shape[0], 4))  # noqa: E731
    asked = jax.tree_util.Partial(score, jnp.float32([0, 0, 1, 0]))
    logits, _, _ = jax.jit(policy.step)({**params, "score": asked}, None, seen)
    np.testing.assert_allclose(jnp.exp(logits)[:, 2], 1, atol=1e-3)
    equal = jax.tree_util.Partial(score, jnp.zeros(4))
    logits, _, _ = policy.step({**params, "score": equal}, None, seen)
    np.testing.assert_allclose(logits, jax.nn.log_softmax(plain), atol=1e-5)


def test_models_are_asked_where_to_look(trained):
    experiment, states, _ = trained
    component, state = experiment.components["meee"], states[-1]
    value = state.carry["meee"]
    given = component.before(value, state.params, jax.random.key(0)).params
    seen = value.replay["observation"][:3]
    twins = TwinQ(Embedding(8, 8, 6), 4)
    model = LearnedEnvironment(shape=(2, 2), codes=6, actions=("a",) * 4, hidden=8)
    q = twins.lower(value.critic.params, seen)
    expected = losses.upper_confidence(q, deviations(model, value.weights, seen))
    np.testing.assert_allclose(given["score"](seen), expected, rtol=1e-5)
    early = component.before(value.replace(updates=jnp.int32(0)), state.params, jax.random.key(0))
    np.testing.assert_allclose(early.params["score"](seen), q, rtol=1e-5)
    plain = build(config_of(optimism=0.0)).components["meee"]
    assert plain.before(value, state.params, jax.random.key(0)).params is None


def turns_of(count):
    return {
        "observation": jnp.arange(2.0 * count).reshape(count, 2),
        "action": jnp.arange(count, dtype=jnp.int32) % 2,
        "following": jnp.ones((count, 2)),
        "reward": jnp.arange(1.0 * count),
        "over": jnp.arange(count) % 2 == 1,
        "acted": jnp.ones(count, bool),
        "seen": jnp.ones(count, bool),
    }


def test_critics_learn_by_weight_and_read_no_padding():
    """By hand: an end has its reward as target, and a turn that is not there counts nothing."""
    twins = TwinQ(Embedding(4, 4, None), 2)
    params = twins.network.init(jax.random.key(0), jnp.zeros((1, 2)))
    turns = turns_of(3) | {"confidence": jnp.float32([1, 0.5, 1])}
    turns["acted"] = jnp.array([True, True, False])
    turns["over"] = jnp.array([True, True, False])
    turns["following"] = turns["following"] * jnp.nan
    turns["reward"] = turns["reward"].at[2].set(jnp.nan)
    q = np.asarray(twins.of_action(params, turns["observation"], turns["action"]))
    expected = (1.0 * ((q[0] - 0) ** 2).sum() + 0.5 * ((q[1] - 1) ** 2).sum()) / 2
    options = {"gamma": 0.9, "temperature": 0.1}
    got = critic_loss(twins, params, params, turns, jnp.zeros((3, 2)), **options)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    # What goes on is worth gamma times its soft value.
    on = turns | {"over": jnp.zeros(3, bool), "following": jnp.ones((3, 2))}
    low = twins.lower(params, jnp.ones((1, 2)))
    value = losses.soft_value(jnp.zeros((1, 2)), low, temperature=0.1)[0]
    each = ((q[:2] - (np.array([0, 1]) + 0.9 * float(value))[:, None]) ** 2).sum(axis=1)
    got = critic_loss(twins, params, params, on, jnp.zeros((3, 2)), **options)
    np.testing.assert_allclose(got, (each * [1, 0.5]).mean(), rtol=1e-5)


def test_draws_are_of_filled_places_alone():
    replay = no_turns(turns_of(1), 8)
    empty = drawn(replay, 4, jax.random.key(0))
    assert not empty["acted"].any()
    filled = jax.tree.map(lambda all_, x: all_.at[:3].set(x), replay, turns_of(3))
    got = drawn(filled, 64, jax.random.key(0))
    assert got["acted"].all() and set(np.asarray(got["reward"]).tolist()) == {0.0, 1.0, 2.0}


def test_imagined_turns_follow_each_other_until_an_end():
    model = LearnedEnvironment(shape=(2,), codes=None, actions=("a", "b"), hidden=8)
    start = turns_of(4) | {"acted": jnp.array([True, True, True, False])}
    weights = jax.vmap(lambda key: model.network.init(key, start["observation"], start["action"]))(
        jax.random.split(jax.random.key(0), 3)
    )
    policy = policies.mlp((2,), None, 2, hidden=(4,), critic="none")
    acting = policy.init(jax.random.key(1))
    told = imagine(model, weights, policy, acting, start, jax.random.key(2), horizon=3, trust=20.0)
    told = jax.tree.map(lambda x: np.asarray(x).reshape(3, 4, *x.shape[1:]), told)
    np.testing.assert_array_equal(told["observation"][0], start["observation"])
    np.testing.assert_array_equal(told["observation"][1:], told["following"][:-1])
    np.testing.assert_array_equal(told["acted"][0], start["acted"])
    np.testing.assert_array_equal(told["acted"][1:], told["acted"][:-1] & ~told["over"][:-1])
    assert not told["over"][~told["acted"]].any() and told["over"].any()


def test_a_policy_that_takes_no_score_is_refused():
    config = config_of()
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    with pytest.raises(ValueError, match="optimism=1.0 with a policy that takes no score"):
        build(config)
