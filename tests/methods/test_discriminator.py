"""Adversarial inverse reinforcement learning over tasks: worked numbers, reductions, resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from experiments import train_and_resume

import envs
from agentrl import losses, rewards
from agentrl.methods.discriminator import Judge
from agentrl.methods.networks import Embedding
from configs.credit import meadow


def test_the_reward_is_the_logit():
    chance = np.float32([[0.5, 0.8, 0.2, 0.9]])
    logit = np.log(chance) - np.log(1 - chance)
    mask = np.array([[1, 1, 1, 0]], bool)
    told = np.where(mask, logit, np.nan)
    known = np.float32([[1, 0, 2, np.nan]])
    ours = rewards.imitation_reward(known, mask, told, known=0.0)
    np.testing.assert_allclose(ours, [[0, 1.386294, -1.386294, 0]], atol=1e-5)
    ours = rewards.imitation_reward(known, mask, told, coefficient=0.5)
    np.testing.assert_allclose(ours, [[1, 0.693147, 1.306853, 0]], atol=1e-5)


def test_the_loss_is_cross_entropy():
    logit = np.float32([0, np.log(4), np.log(4), np.nan])
    expert, mask = np.array([1, 1, 0, 1], bool), np.array([1, 1, 1, 0], bool)
    loss = losses.discriminator_loss(logit, expert, mask)
    np.testing.assert_allclose(loss, [np.log(2), -np.log(0.8), -np.log(0.2), 0], rtol=1e-5)
    smooth = losses.discriminator_loss(logit, expert, mask, smoothing=0.1)
    mixed = -0.9 * np.log(0.8) - 0.1 * np.log(0.2)
    np.testing.assert_allclose(smooth[1], mixed, rtol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(losses.discriminator_loss(x, expert, mask)))(logit)
    np.testing.assert_allclose(slope, [-0.5, -0.2, 0.8, 0], rtol=1e-5)


def test_the_logit_of_airl():
    # (1 + 0.5 * 2 - 3) / 0.5 - log 0.25, and at an end (1 - 3) / 0.5 - log 0.25.
    parts = [np.float32([x, x, np.nan]) for x in (1, 3, 2)]
    over, logp = np.array([0, 1, 0], bool), np.float32([np.log(0.25)] * 3)
    mask = np.array([1, 1, 0], bool)
    found = losses.airl_logit(*parts, over, logp, mask, gamma=0.5, temperature=0.5)
    np.testing.assert_allclose(found, [-2 - np.log(0.25), -4 - np.log(0.25), 0], rtol=1e-5)


def test_what_the_tasks_share_is_found_where_their_rewards_differ():
    """One state, two actions, an expert that is softmax(r_k + c): c is what both tasks say."""
    known, common = jnp.float32([[1, 0], [0, 1]]), jnp.float32([0, -2])
    expert = jax.nn.softmax(known + common)
    uniform = jnp.full((2, 2), np.log(0.5))

    def loss_of(params):
        over = jnp.ones((2, 2), bool)
        potential = jnp.broadcast_to(params["h"][:, None], (2, 2))
        logit = losses.airl_logit(
            known + params["c"], potential, potential, over, uniform, gamma=1.0
        )
        yes, no = (losses.discriminator_loss(logit, jnp.full((2, 2), x)) for x in (True, False))
        return jnp.sum(expert * yes + 0.5 * no)

    params, adam = {"c": jnp.zeros(2), "h": jnp.zeros(2)}, optax.adam(0.05)
    state = adam.init(params)

    def step(carry, _):
        params, state = carry
        updates, state = adam.update(jax.grad(loss_of)(params), state)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.jit(lambda x: jax.lax.scan(step, x, length=500))((params, state))
    np.testing.assert_allclose(params["c"][0] - params["c"][1], 2.0, atol=1e-2)


def judge(heads, goals):
    env, _ = envs.make("Meadow-v1", goals=goals)
    networks = Embedding(8, heads * 4, 7), Embedding(8, 1, 7)
    return Judge(env, *networks, heads, "airl", 0.9, 0.5, 0.0)


def test_of_one_task_a_discriminator_per_task_is_the_shared_one():
    one, several = judge(1, 1), judge(3, 3)
    key = jax.random.key(0)
    seen = jnp.stack([several.env.reset_env(k, several.env.default_params)[0]
                      for k in jax.random.split(key, 8)])  # fmt: skip
    action = jnp.arange(8) % 4
    params = {"common": several.common.init(key, seen[:, 4:])}
    every = several.rewards(params, seen)
    assert every.shape == (8, 3, 4)
    own = every[jnp.arange(8), several.env.task_of(seen), action]
    np.testing.assert_array_equal(several.reward(params, seen, action), own)
    params = {"common": one.common.init(key, seen[:, 4:])}
    alone = one.rewards(params, seen)[jnp.arange(8), 0, action]
    np.testing.assert_array_equal(one.reward(params, seen, action), alone)
    # Neither the place nor the goal is seen.
    moved = seen.at[:, :4].set(0)
    np.testing.assert_array_equal(one.rewards(params, seen), one.rewards(params, moved))


def test_it_learns_and_resumes(tmp_path):
    config = meadow.get_config("shared_4")
    config.num_seeds, config.mesh.data, config.log_every = 1, 1, 1
    config.policy.hidden = (8,)
    config.rollout.num_groups = 16
    config.components.discriminator.update(demonstrations=16, hidden=8, steps=8, batch=32)
    _, states, metrics = train_and_resume(config, tmp_path)
    assert metrics[-1]["discriminator_error"] < metrics[0]["discriminator_error"]
    assert all(0 <= m["transfer/success"] <= 1 for m in metrics)
    data = states[0].carry["discriminator"].data
    assert bool(data.of_way[data.acted].all())
