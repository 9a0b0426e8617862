"""Q-shaping: what heuristic values do and what is left of them, reductions, resuming."""

import jax
import jax.numpy as jnp
import numpy as np
from by_hand import context
from experiments import distance, lake, train, train_and_resume

import envs
from agentrl import losses
from agentrl.config import section, term
from agentrl.methods.networks import Embedding
from agentrl.methods.q_shaping import critic_loss, heuristics, q_shaping
from agentrl.methods.twin_q import TwinQ

SMALL = {
    "examples": 4, "hidden": 8, "steps": 2, "batch": 8, "rows": 16, "size": 64, "shaped": 2,
}  # fmt: skip


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.objective.policy.weight = 0.0
    config.components.q_shaping = section(q_shaping, **SMALL | options)
    config.objective.actor = term(losses.boltzmann_imitation, source="q_shaping")
    return config


def test_a_wrong_heuristic_is_forgotten_once_it_stops_and_biases_while_it_stays():
    """The chain s0, s1, goal with gamma 0.9: after 2 and 0 a sweep backward gives 1 and 0.9. Kept
    with weight 1, Q(s0) settles between 0.9 and 2."""

    def settled(start, targets):
        slope = jax.grad(lambda q: sum(losses.q_loss(q, jnp.float32(y)) for y in targets))
        return jax.lax.fori_loop(0, 200, lambda _, q: q - 0.2 * slope(q), jnp.float32(start))

    over, none = jnp.array(True), jnp.array(False)
    last = settled(0.0, [losses.bootstrap_target(jnp.ones(()), over, jnp.zeros(()), gamma=0.9)])
    target = losses.bootstrap_target(jnp.zeros(()), none, last, gamma=0.9)
    np.testing.assert_allclose(last, 1.0, atol=2e-5)
    np.testing.assert_allclose(settled(2.0, [target]), 0.9, atol=2e-5)
    np.testing.assert_allclose(settled(2.0, [target, 2.0]), 1.45, atol=2e-5)


def turns_of(count):
    return {
        "observation": jnp.arange(2.0 * count).reshape(count, 2),
        "action": jnp.arange(count, dtype=jnp.int32) % 2,
        "following": jnp.ones((count, 2)),
        "reward": jnp.arange(1.0 * count),
        "over": jnp.arange(count) == 1,
        "acted": jnp.ones(count, bool),
    }


def test_the_loss_by_hand_and_without_heuristics():
    twins = TwinQ(Embedding(4, 4, None), 2)
    params = twins.network.init(jax.random.key(0), jnp.zeros((1, 2)))
    slow = twins.network.init(jax.random.key(1), jnp.zeros((1, 2)))
    turns, told = turns_of(3), turns_of(2) | {"value": jnp.float32([1, 0])}
    best = float(jnp.max(twins.lower(slow, jnp.ones((1, 2)))))
    target = np.float32([0.9 * best, 1.0, 2 + 0.9 * best])
    q = np.asarray(twins.of_action(params, turns["observation"], turns["action"]))

    def huber(error):
        error = np.abs(error)
        return np.where(error < 1, error**2 / 2, error - 0.5)

    plain = huber(q - target[:, None]).sum(axis=1).mean()
    shaping = huber(q[:2] - np.float32([[1], [0]])).sum(axis=1).mean()
    got = critic_loss(twins, params, slow, turns, told, 0.5, gamma=0.9)
    np.testing.assert_allclose(got, plain + 0.5 * shaping, rtol=1e-5)
    for none in ((None, 0.5), (told, 0.0)):
        got = critic_loss(twins, params, slow, turns, *none, gamma=0.9)
        np.testing.assert_allclose(got, plain, rtol=1e-5)
    # Nothing is read of empty places.
    there = jnp.array([True, True, False])
    bad = {k: x.at[2].set(jnp.nan) if x.dtype == jnp.float32 else x for k, x in turns.items()}
    got = critic_loss(twins, params, slow, bad | {"acted": there}, None, 0.0, gamma=0.9)
    first = huber(q[:2] - target[:2, None]).sum(axis=1).mean()
    np.testing.assert_allclose(got, first, rtol=1e-5)


def test_heuristics_are_right_wrong_or_between():
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=6)
    options = {"examples": 64, "noise": 0.5, "good": 2.0, "bad": -1.0}

    @jax.jit
    def made(correct):
        return heuristics(env, params, jax.random.key(0), correct=correct, **options)

    right, wrong, half = (jax.device_get(made(x)) for x in (1.0, 0.0, 0.5))
    count = right["acted"].sum()
    assert right["acted"][:count].all() and 0 < count < len(right["acted"])
    assert set(right["value"][:count]) == {2.0, -1.0}
    np.testing.assert_array_equal(right["observation"], wrong["observation"])
    np.testing.assert_allclose(right["value"] + wrong["value"], 1.0)
    assert 0.35 < (half["value"] == right["value"])[:count].mean() < 0.65


def test_a_run_is_shaped_then_learns_without_and_resumes(tmp_path):
    experiment, states, metrics = train_and_resume(config_of(), tmp_path)
    assert [m["q_shaping/weight"] for m in metrics] == [1, 1, 0, 0]
    assert distance(states[2].params, states[3].params) > 0
    component, value = experiment.components["q_shaping"], states[1].carry["q_shaping"]
    shown = {x.tobytes() for x in np.asarray(value.told["observation"])}

    def told(state):
        carry = state.carry["q_shaping"]
        _, rows = component.source.make(context(carry, key=jax.random.key(0)), {})
        return rows

    rows = told(states[1])
    assert {x.tobytes() for x in np.asarray(rows.observation[:8, 0])} <= shown
    later = {x.tobytes() for x in np.asarray(told(states[3]).observation[:8, 0])}
    played = {x.tobytes() for x in np.asarray(states[3].carry["q_shaping"].replay["observation"])}
    assert later <= played


def test_without_heuristics_it_is_the_q_learner():
    _, plain, metrics = train(config_of(examples=0), 3)
    assert plain[3].carry["q_shaping"].told is None and metrics[0]["q_shaping/weight"] == 0
    _, other, _ = train(config_of(weight=0.0, shaped=0), 3)
    _, off, _ = train(config_of(q_init=False, policy_init=False, shaped=0), 3)
    assert distance(off[3].params, other[3].params) < 1e-6
    assert distance(plain[3].params, other[3].params) < 1e-6
    _, shaped, _ = train(config_of(), 3)
    assert distance(shaped[3].params, other[3].params) > 1e-4


def test_the_policy_waits_without_its_start():
    _, states, _ = train(config_of(policy_init=False), 4)
    assert distance(states[0].params, states[2].params) == 0
    assert distance(states[2].params, states[3].params) > 0
