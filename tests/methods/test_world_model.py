"""A learned environment: what it learns, that policies act in it, and the whole as training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import distance, lake, train, train_and_resume

import envs.vector
from agentrl import advantages, losses, policies
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.methods.world_model import LearnedEnvironment, LearnedParams, model_loss, world_model

LAKE = {"size": 2, "max_steps_in_episode": 4}


def config_of(config=None, weight=1.0, **options):
    config = lake(**LAKE) if config is None else config
    options = {"num_groups": 4, "group_size": 4, "hidden": 32, "warm_up": 1} | options
    config.components.world_model = section(world_model, **options)
    config.objective.imagined = term(losses.clipped_surrogate, source="world_model", weight=weight)
    return config


def learned(observation, codes=None, starts=None):
    env = LearnedEnvironment(shape=observation.shape[1:], codes=codes, actions=("a", "b"), hidden=8)
    actions = jnp.zeros(observation.shape[0], jnp.int32)
    weights = jax.jit(env.network.init)(jax.random.key(0), observation, actions)
    return env, LearnedParams(max_steps_in_episode=5, weights=weights, starts=starts)


def plain_config():
    """Many lakes per update; of a few, the model would learn those and forget others."""
    config = lake(**LAKE)
    config.rollout.update(num_groups=32, group_size=2)
    return config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """`train_and_resume`, in which imagined rows wait for two updates."""
    many = {"num_groups": 32, "group_size": 2}
    config = config_of(plain_config(), steps=30, learning_rate=3e-3, warm_up=2, **many)
    return train_and_resume(config, tmp_path_factory.mktemp("world_model"))


@pytest.fixture(scope="module")
def batches(trained):
    """The batches of an update of this run, as a program."""
    return jax.jit(trained[0].batches)


def test_the_model_learns_the_lake_and_a_run_resumes(trained, batches):
    experiment, states, metrics = trained
    assert metrics[-1]["model_loss"] < 0.5 * metrics[0]["model_loss"]
    found = batches(states[-1])
    real, imagined = found["rollout"], found["world_model"]
    # The same contract: groups, credit, and log-probabilities of the policy that acted.
    assert imagined.streams.mask.shape == real.streams.mask.shape
    assert imagined.credit.advantage.values.shape == imagined.streams.mask.shape
    logp = jax.jit(experiment.policy.score)(states[-1].params, imagined.rows).logp
    there = np.asarray(imagined.rows.loss_mask)
    assert there.any()
    np.testing.assert_allclose(
        logp[there], np.asarray(imagined.rows.behaviour_logp)[there], atol=1e-5
    )
    # Episodes begin from real starts.
    first = np.asarray(imagined.rows.turn)[:, 0] == 0
    starts = {x.tobytes() for x in np.asarray(states[-1].carry["world_model"].starts)}
    shown = np.asarray(imagined.rows.observation)[first]
    assert {x.tobytes() for x in shown[:, 0]} <= starts


def test_imagined_rows_wait_for_the_model(trained, batches):
    _, states, _ = trained
    assert not np.asarray(batches(states[0])["world_model"].rows.loss_mask).any()
    _, plain, _ = train(plain_config(), 3)
    assert distance(plain[2].params, states[2].params) < 1e-6
    assert distance(plain[3].params, states[3].params) > 1e-4


def test_parameters_are_the_networks_weights_and_may_be_traced():
    starts = jnp.float32([[1, 0, 0], [0, 1, 0]])
    env, params = learned(starts, starts=starts)

    @jax.jit
    def episode(params, key):
        drawn = envs.vector.draw(env, params, jax.random.split(key, 2))
        return envs.vector.step(env, params, key, drawn.state, jnp.array([0, 1]))

    observation, state, reward, terminated, truncated, _ = episode(params, jax.random.key(1))
    assert observation.shape == (2, 3) and (state.time == 1).all() and reward.shape == (2,)
    other = params.replace(weights=jax.tree.map(lambda x: x + 1, params.weights))
    assert (episode(other, jax.random.key(1))[0] != observation).any()
    total = lambda p: episode(p, jax.random.key(1))[0].sum()  # noqa: E731
    slope = jax.jit(jax.grad(total, allow_int=True))(params)
    assert any((np.asarray(x) != 0).any() for x in jax.tree.leaves(slope.weights))


def test_loss_reads_only_what_was_acted_and_seen():
    observation = jnp.float32([[0.5, 1], [2, 3], [9, 9]])
    env, params = learned(observation)
    batch = {
        "observation": observation,
        "action": jnp.array([0, 1, 0]),
        "following": jnp.float32([[1, 1], [np.nan, np.nan], [np.nan, 0]]),
        "reward": jnp.float32([1, 2, np.nan]),
        "over": jnp.array([False, True, False]),
        "acted": jnp.array([True, True, False]),
        "seen": jnp.array([True, False, False]),
    }
    loss = model_loss(env, params.weights, **batch)
    after, reward, end = env.predicted(params.weights, observation, batch["action"])
    expected = [
        jnp.sum((after[0] - 1) ** 2) + (reward[0] - 1) ** 2 + jnp.logaddexp(0, end[0]),
        (reward[1] - 2) ** 2 + jnp.logaddexp(0, -end[1]),
    ]
    np.testing.assert_allclose(loss, np.mean(expected), rtol=1e-5)


def test_other_kinds_of_policy_and_environment_are_refused():
    config = config_of()
    config.env = env_section("Pendulum-v1", max_steps_in_episode=4)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.advantage = section(advantages.grpo)
    with pytest.raises(ValueError, match="discrete actions"):
        build(config)
