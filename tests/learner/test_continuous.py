"""Continuous actions from the rollout to the update, in environments of one agent."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import envs
from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.config.build import build
from agentrl.evaluation import play
from agentrl.players.scripted import expert_actor, random_actor
from configs.start import pendulum_ppo
from envs.vector import World


@pytest.fixture(scope="module")
def trained():
    """(experiment, rows, metrics of one update, params before and after): a pull towards a
    reference, and one step of the optimizer."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 2, 1
    config.env = env_section("VolleyballSkill-v1", teams="plane", skill="goto")
    config.policy = section(policies.mlp, hidden=(8,), log_std=-1.0)
    config.rollout = section(rollout.segments, num_envs=8, length=6)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.kl = term(losses.exact_kl, weight=0.5)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    rows = jax.jit(experiment.batches)(state)["rollout"].rows
    train = jax.jit(chex.assert_max_traces(tiny.train_of(experiment), n=1))
    after, metrics = train(state)
    _, later = train(after)
    return experiment, rows, state.params, after.params, metrics, later


def test_the_learner_sees_what_the_sampler_drew(trained):
    experiment, rows, params, _, metrics, _ = trained
    assert rows.action.shape == (48, 1, 2) and rows.action.dtype == jnp.float32
    assert rows.tokens.dtype == jnp.int32 and not rows.tokens.any() and rows.legal is None
    scored = jax.jit(experiment.policy.score)(params, rows)
    np.testing.assert_allclose(scored.logp, rows.behaviour_logp, atol=1e-5)
    # Before the first step all ratios are 1, and nothing is away from the reference.
    for name in ("kl/rollout_train", "kl_ref", "clip_fraction"):
        total, count = metrics[name]
        np.testing.assert_allclose(total / count, 0, atol=1e-5)
    np.testing.assert_allclose(metrics["entropy"][0] / 48, 2 * (1.418939 - 1), atol=1e-4)


def test_the_update_moves_means_and_deviations(trained):
    _, _, before, after, metrics, later = trained
    change = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), before, after)
    assert min(jax.tree.leaves(change)) > 0 and "log_std" in change
    assert float(later["kl_ref"][0]) > 0 and float(metrics["rejected_updates"][0]) == 0


def test_evaluation_takes_the_mean(trained):
    experiment, _, params, *_ = trained
    task = experiment.tasks["VolleyballSkill-v1"]
    keys = play.task_keys(0, 8)
    run = jax.jit(task.evaluate, static_argnums=3)
    best, again = (run(params, keys, jax.random.key(i), True) for i in range(2))
    drawn = run(params, keys, jax.random.key(0), False)
    np.testing.assert_array_equal(best.episode_return, again.episode_return)
    assert (best.episode_return != drawn.episode_return).any()
    env, env_params = task.env, task.env_params
    for player in (random_actor(env), expert_actor(World(env, env_params))):
        out = jax.jit(lambda p=player: play.play(p, env, env_params, keys, jax.random.key(0)))()
        assert np.isfinite(out.episode_return).all()
    assert out.success.mean() > 0.5  # the expert's


def test_bounds_of_gymnax_are_minus_one_and_one():
    env, params = envs.make("Pendulum-v1")
    assert env.continuous and env.action_shape == (1,)
    _, state = env.reset(jax.random.key(0), params)

    def reward(action):
        return float(env.step_env(jax.random.key(0), state, np.float32([action]), params)[2])

    # gymnax: the cost of a torque u is 0.001 u^2, at most 2 in size.
    still = reward(0.0)
    np.testing.assert_allclose(still - reward(1.0), 0.001 * 4, atol=1e-5)
    np.testing.assert_allclose(still - reward(-0.5), 0.001 * 1, atol=1e-5)
    assert reward(7.0) == reward(1.0) and reward(np.nan) == still
    assert not env.step_env(jax.random.key(0), state, np.float32([np.nan]), params)[4]["valid"]
    box = env.action_space(params)
    assert (box.low, box.high, box.shape) == (-1.0, 1.0, (1,))


def test_words_are_for_numbered_actions():
    config = tiny.talk_config()
    config.env = env_section("VolleyballSkill-v1", teams="plane")
    with pytest.raises(ValueError, match="VolleyballSkill"):
        build(config)


def test_the_sanity_check_is_what_its_card_says():
    experiment = build(pendulum_ppo.get_config())
    assert experiment.env.continuous and experiment.rollout.num_rows == 16 * 200
