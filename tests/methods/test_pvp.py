"""Proxy values of interventions: worked numbers, the overseer, buffers, reductions, resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import distance, lake, train_and_resume

import envs
from agentrl import losses, policies
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.networks import Embedding
from agentrl.methods.pvp import critic_loss, halves, overseen, pvp, worth_of
from agentrl.methods.twin_q import TwinQ, no_turns

SMALL = {"hidden": 8, "steps": 2, "batch": 8, "rows": 16, "size": 32}
# Two turns in which the overseer acted, in the first of them against the novice.
Q = jnp.float32([[0.2, -0.1, 0.4], [0.5, 0.3, 0.0]])
DONE, NOVICE = jnp.array([0, 1]), jnp.array([2, 1])


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.objective.policy.weight = 0.0
    config.components.pvp = section(pvp, **SMALL | options)
    config.objective.actor = term(losses.boltzmann_imitation, source="pvp")
    return config


def of(actions):
    return jnp.take_along_axis(Q, actions[:, None], axis=1)[:, 0]


def test_worked_numbers():
    """((0.2 - 1)^2 + (0.3 - 1)^2) / 2 = 0.565 and (0.4 + 1)^2 / 2 = 0.98; Huber's loss to 0.594
    and 0 is 0.061309."""
    yes, differs = jnp.ones(2, bool), DONE != NOVICE
    both = losses.proxy_value_loss(of(DONE), of(NOVICE), yes, differs)
    np.testing.assert_allclose(both.mean(), 0.565 + 0.98, atol=2e-5)
    same = losses.proxy_value_loss(of(DONE), of(NOVICE), yes, ~yes)
    np.testing.assert_allclose(same.mean(), 0.565, atol=2e-5)
    over, best = jnp.array([False, True]), jnp.float32([0.6, 0.6])
    target = losses.bootstrap_target(jnp.zeros(2), over, best, gamma=0.99)
    np.testing.assert_allclose(target, [0.594, 0], rtol=1e-6)
    spread = losses.q_loss(of(DONE), target, huber=1.0)
    np.testing.assert_allclose(spread.mean(), 0.061309, atol=2e-5)


def test_labels_are_read_at_interventions_alone():
    takeover, mask = jnp.array([True, False]), jnp.array([True, True])
    done, novice = of(DONE).at[1].set(jnp.nan), of(NOVICE).at[1].set(jnp.nan)

    def total(done, novice):
        loss = losses.proxy_value_loss(done, novice, takeover, DONE != NOVICE, mask)
        return loss.sum(), loss

    (value, each), slopes = jax.value_and_grad(total, (0, 1), has_aux=True)(done, novice)
    np.testing.assert_allclose(value, 0.64 + 1.96, rtol=1e-6)
    np.testing.assert_allclose(slopes, [[-1.6, 0], [2.8, 0]], rtol=1e-6)
    assert each[1] == 0
    none = losses.proxy_value_loss(done, novice, takeover, DONE != NOVICE, ~mask)
    np.testing.assert_array_equal(none, 0)
    with pytest.raises(ValueError, match="bound=0"):
        losses.proxy_value_loss(done, novice, takeover, takeover, bound=0.0)


def turns_of(count, **changes):
    turns = {
        "observation": jnp.arange(2.0 * count).reshape(count, 2),
        "following": jnp.ones((count, 2)),
        "action": jnp.arange(count, dtype=jnp.int32) % 2,
        "novice": jnp.zeros(count, jnp.int32),
        "takeover": jnp.zeros(count, bool),
        "over": jnp.zeros(count, bool),
        "acted": jnp.ones(count, bool),
    }
    return turns | changes


def test_without_interventions_it_is_q_learning_without_rewards():
    twins = TwinQ(Embedding(4, 4, None), 2)
    params = twins.network.init(jax.random.key(0), jnp.zeros((1, 2)))
    slow = twins.network.init(jax.random.key(1), jnp.zeros((1, 2)))
    turns = turns_of(4, over=jnp.array([False, False, True, False]))
    best = jnp.max(twins.lower(slow, turns["following"]), axis=1)
    target = losses.bootstrap_target(jnp.zeros(4), turns["over"], best, gamma=0.9)
    q = twins.of_action(params, turns["observation"], turns["action"])
    expected = losses.q_loss(q, jnp.stack([target, target], axis=1), huber=1.0)
    options = {"gamma": 0.9, "bound": 1.0, "propagation": 1.0}
    got = critic_loss(twins, params, slow, turns, **options)
    np.testing.assert_allclose(got, expected.sum(axis=1).mean(), rtol=1e-5)
    # Of labels alone nothing follows; places that are empty are not read.
    alone = critic_loss(twins, params, slow, turns, **options | {"propagation": 0.0})
    assert alone == 0
    there = jnp.array([True, True, True, False])
    bad = jax.tree.map(
        lambda x: x.at[3].set(jnp.nan) if x.dtype == jnp.float32 else x, turns | {"acted": there}
    )
    bad["takeover"] = bad["takeover"].at[3].set(True)
    got = critic_loss(twins, params, slow, bad, **options)
    np.testing.assert_allclose(got, expected[:3].sum(axis=1).mean(), rtol=1e-5)


def test_half_of_each_draw_is_of_each_buffer():
    empty, human = no_turns(turns_of(1), 4), turns_of(4, takeover=jnp.ones(4, bool))
    novice = turns_of(4)
    both = halves(human, novice, 6, jax.random.key(0))
    np.testing.assert_array_equal(both["takeover"], [True] * 3 + [False] * 3)
    assert not halves(empty, novice, 6, jax.random.key(0))["takeover"].any()
    alone = halves(human, empty, 6, jax.random.key(0))
    assert alone["takeover"].all() and alone["acted"].all()
    assert not halves(empty, empty, 6, jax.random.key(0))["acted"].any()


WORLD, PARAMS = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=6)


@pytest.fixture(scope="module")
def episodes():
    """(release, watched) -> 64 episodes of an untrained policy in lakes."""
    policy = policies.mlp((3, 3), 6, 4, hidden=(4,), critic="none")
    params = policy.init(jax.random.key(0))

    @jax.jit
    def play(release, watched):
        watch = {"watched": watched, "tolerance": 0.01, "release": release, "gamma": 0.9}
        one = lambda key: overseen(WORLD, PARAMS, policy, params, key, **watch)  # noqa: E731
        return jax.vmap(one)(jax.random.split(jax.random.key(1), 64))

    return lambda release, watched: jax.device_get(play(release, watched))


def test_the_overseer_prevents_what_costs_something(episodes):
    told = episodes(0, 1.0)
    acted, takes = told["acted"], told["takeover"]
    differs = told["action"] != told["novice"]
    assert not differs[~takes].any() and differs[takes & acted].all() and takes.any()
    # Nothing else goes wrong: every episode arrives, by a shortest path.
    assert (told["success"] & acted).any(axis=1).all()
    assert not takes[~acted].any() and (acted & ~takes).any()


def test_it_lets_go_after_good_turns_and_may_be_away(episodes):
    held, told = episodes(3, 1.0), episodes(0, 1.0)
    assert (held["takeover"] & (held["action"] == held["novice"])).any()
    assert held["takeover"].sum() > told["takeover"].sum()
    away = episodes(0, 0.0)
    assert not away["takeover"].any() and (away["action"] == away["novice"]).all()
    assert not away["success"].any(axis=1).all()


def test_worth_by_hand():
    """Of the expert's action gamma^(steps - 1), of others less or as much."""
    _, state = WORLD.reset_env(jax.random.key(3), PARAMS)
    worth = jax.jit(worth_of(WORLD, PARAMS, 0.9))
    right = WORLD.expert(state, PARAMS)
    each = np.asarray([worth(state, jnp.int32(a), jax.random.key(0)) for a in range(4)])
    steps = np.log(each.max()) / np.log(0.9) + 1
    np.testing.assert_allclose(steps, round(steps), atol=1e-4)
    assert each[int(right)] == each.max() and each.min() < each.max()


def test_a_run_reads_no_reward_learns_and_resumes(tmp_path):
    experiment, states, metrics = train_and_resume(config_of(), tmp_path)
    assert not experiment.phases[-1][0].collects
    assert distance(states[2].params, states[3].params) > 0
    assert metrics[-1]["pvp/interventions"] >= metrics[0]["pvp/interventions"] > 0
    assert metrics[0]["pvp/success_rate"] == 1
    component, value = experiment.components["pvp"], states[-1].carry["pvp"]
    assert value.asked == value.human["acted"].sum() and "reward" not in value.human
    assert value.human["takeover"][value.human["acted"]].all()
    assert not value.novice["takeover"].any()
    _, rows = component.source.make(context(value, key=jax.random.key(0)), {})
    notes = component.annotate(context(value), None, rows)
    np.testing.assert_array_equal(notes["intervened"].values[:8], 1)
    np.testing.assert_array_equal(notes["intervened"].values[8:], 0)


def test_one_buffer_keeps_all_turns_together():
    experiment = build(config_of(buffers="one"))
    state = jax.jit(experiment.init)(0)
    after, _ = jax.jit(experiment.phases[-1][1])(state)
    value = after.carry["pvp"]
    assert not value.human["acted"].any() and value.novice["takeover"].sum() == value.asked > 0
