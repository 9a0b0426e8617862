"""A network per role: each position is scored by, and trains, its role's own network."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.config import base_config, env_section, roles_section, section
from agentrl.config.build import build
from agentrl.policies.by_role import Network, by_role

PLANNER, EXECUTOR = 0, 1


def key_door(**changes):
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 4, 2
    config.env = env_section("PlannedKeyDoor-v1", rooms=2)
    config.policy = roles_section(
        planner=section(policies.mlp, hidden=(8,), critic="none"),
        executor=section(policies.mlp, hidden=(16,), critic="none"),
    )
    config.rollout = section(rollout.episodes, num_groups=4, group_size=2, mask_illegal=True)
    for path, value in changes.items():
        *parents, last = path.split("__")
        functools.reduce(lambda node, key: node[key], parents, config)[last] = value
    return config


@functools.cache
def collected():
    experiment = build(key_door())
    state = jax.jit(experiment.init)(0)
    return experiment, state, jax.jit(experiment.batches)(state)["rollout"]


def test_networks_have_the_actions_of_their_roles():
    experiment, state, batch = collected()
    env = experiment.env
    own, goals = env.base.num_actions, len(env.base.subgoal_names)
    assert state.params["planner"]["Dense_0"]["kernel"].shape == (8, goals)
    assert state.params["executor"]["Dense_0"]["kernel"].shape == (16, own)
    rows = jax.device_get(batch.rows)
    acted, tokens = rows.loss_mask[:, 0], rows.tokens[:, 0]
    plans = rows.role == PLANNER
    assert (tokens[acted & plans] >= own).all() and (tokens[acted & ~plans] < own).all()
    # What the learner scores is what was sampled from.
    scored = jax.device_get(jax.jit(experiment.policy.score)(state.params, rows))
    np.testing.assert_allclose(
        np.where(acted, scored.logp[:, 0], 0),
        np.where(acted, rows.behaviour_logp[:, 0], 0),
        atol=1e-5,
    )


def test_a_role_is_scored_by_its_own_network():
    experiment, state, batch = collected()
    params, rows = jax.device_get((state.params, batch.rows))
    score = jax.jit(experiment.policy.score)
    before = np.asarray(score(params, rows).logp)
    for name, role in (("planner", PLANNER), ("executor", EXECUTOR)):
        other = {**params, name: jax.tree.map(lambda x: x + np.float32(0.1), params[name])}
        after = np.asarray(score(other, rows).logp)
        changed = (before != after)[:, 0] & rows.loss_mask[:, 0]
        # A network with one legal action has nothing to say.
        assert changed.any() and (rows.role[changed] == role).all()


def test_equal_networks_are_one_network():
    env, _ = envs.make("TicTacToe-v1")
    shape = (env.observation_shape, env.num_codes, env.num_actions)
    net = policies.mlp(*shape, hidden=(8,), critic="shared")
    both = by_role(
        {"x": Network(net, (0,), 0, env.num_actions), "o": Network(net, (1,), 0, env.num_actions)},
        train=("x", "o"),
    )
    seen = np.zeros((4, *env.observation_shape), env.observation_dtype)
    role = np.array([0, 1, 1, 0])
    action, legal = np.array([0, 3, 5, 8]), np.ones((4, 9), bool)

    def of(policy, params, *role):
        """(value, log-probability of the action, entropy)."""
        outputs, value, _ = policy.step(params, None, seen, *role)
        head = policy.head
        return value, head.log_prob(outputs, legal, action), head.entropy(outputs, legal)

    @jax.jit
    def both_ways(key):
        params = net.init(key)
        return of(both, {"x": params, "o": params}, role), of(net, params)

    for ours, alone in zip(*both_ways(jax.random.key(0)), strict=True):
        np.testing.assert_allclose(ours, alone)


def trained(**changes):
    experiment = build(key_door(**changes))
    state = jax.jit(experiment.init)(0)
    after, metrics = jax.jit(experiment.phases[-1][1])(state)
    return state.params, after.params, metrics


def moved(before, after):
    before, after = jax.device_get((before, after))
    change = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), before, after)
    return {name: max(jax.tree.leaves(change[name])) for name in change}


@pytest.mark.long
def test_networks_learn_at_their_own_rates_or_stay():
    both = moved(*trained()[:2])
    assert min(both.values()) > 0
    slow = moved(*trained(optimizers={"planner": {"learning_rate": 1e-9}})[:2])
    assert slow["planner"] < 1e-6 and slow["executor"] > 1e-5
    frozen = moved(*trained(policy__train=("executor",))[:2])
    assert frozen["planner"] == 0 and frozen["executor"] > 0


def test_continuous_and_discrete_roles_in_one_policy():
    planner = policies.mlp((3,), None, 4, hidden=(8,), critic="none")
    flyer = policies.mlp((3,), None, 2, True, hidden=(8,), critic="none")
    policy = by_role(
        {"planner": Network(planner, (0,), 0, 4), "flyer": Network(flyer, (1,), 0, 2)},
        train=("planner", "flyer"),
    )
    seen, role = np.ones((6, 3), np.float32), np.array([0, 1] * 3)

    @jax.jit
    def acted(key):
        params = policy.init(key)
        outputs, _, _ = policy.step(params, None, seen, role)
        action = policy.head.draw(outputs, None, jax.random.key(1))
        logits, _, _ = planner.step(params["planner"], None, seen)
        expected = planner.head.log_prob(logits, None, action[:, 0].astype(jnp.int32))
        return action, policy.head.log_prob(outputs, None, action), expected

    action, ours, expected = jax.device_get(acted(jax.random.key(0)))
    assert action.shape == (6, 2) and not policy.head.discrete
    chosen = action[::2]
    assert (chosen[:, 0] == chosen[:, 0].round()).all() and (chosen[:, 1] == 0).all()
    np.testing.assert_allclose(ours[::2], expected[::2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy__train": ("plannr",)}, "train=.*expected one or more of the networks"),
        ({"policy__roles__planner__agents": (1,)}, "expected every agent of the environment once"),
        ({"policy__roles__planner__agents": (5,)}, "agents=\\(5,\\) with PlannedKeyDoor: expected"),
        (
            {"policy__roles__planner__hiden": (8,)},
            "config.policy.roles.planner.hiden is not an opt",
        ),
        ({"optimizers": {"plannr": {}}}, "config.optimizers.plannr.*did you mean 'planner'"),
    ],
)
def test_errors(changes, message):
    with pytest.raises(ValueError, match=message):
        build(key_door(**changes))
