"""Policies over observations as tables, and what self-play does to their exploitability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout, selfplay
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.policies.by_role import Network, by_role
from agentrl.selfplay.neural import form_of, make_exploitability, make_table


def policy_of(name, **options):
    env, params = envs.make(name, **options)
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    return policy, env, params


@pytest.mark.parametrize(
    ("name", "uniform"), [("KuhnPoker-v1", 11 / 24), ("LeducPoker-v1", 2.3736111)]
)
def test_tables_are_policies_and_their_exploitability_is_exact(name, uniform):
    policy, env, params = policy_of(name)
    weights = jax.jit(policy.init)(jax.random.key(0))
    table = np.asarray(jax.jit(make_table(policy, env, params))(weights), np.float64)
    assert table.shape == (len(selfplay.infostates(name)), env.num_actions)
    exact = selfplay.exploitability(name, table)
    exploitability = jax.jit(make_exploitability(policy, env, params))
    np.testing.assert_allclose(exploitability(weights), exact, atol=2e-6)
    # All logits alike: the uniform policy.
    flat = jax.tree.map(np.zeros_like, weights)
    np.testing.assert_allclose(exploitability(flat), uniform, atol=1e-5)


def test_a_row_is_what_is_seen_there():
    """Rows of one card and one history, by the strings of the information states."""
    policy, env, params = policy_of("KuhnPoker-v1")

    def by_card(params_, memory, observation, role):
        card = observation[:, :3] @ jnp.arange(3.0)
        return jnp.stack([jnp.zeros_like(card), card], axis=1), card, memory

    table = jax.jit(make_table(policy._replace(step=by_card), env, params))(None)
    for state, row in zip(selfplay.infostates("KuhnPoker-v1"), np.asarray(table), strict=True):
        np.testing.assert_allclose(row[1], 1 / (1 + np.exp(-int(state[0]))), rtol=1e-6)


def test_in_the_table_every_seat_plays_its_own_network():
    policy, env, params = policy_of("KuhnPoker-v1")
    seats = {k: Network(policy, (k,), 0, env.num_actions) for k in (0, 1)}
    init = jax.jit(policy.init)
    weights = jax.device_get({k: init(jax.random.key(k)) for k in seats})
    weights = jax.tree.map(lambda x: 30 * x, weights)
    table = jax.jit(make_table(by_role(seats, train=(0, 1)), env, params))(weights)
    alone = jax.jit(make_table(policy, env, params))
    seat = np.asarray(form_of(env).player)
    expected = np.where(seat[:, None] == 0, alone(weights[0]), alone(weights[1]))
    np.testing.assert_allclose(table, expected, rtol=1e-5)
    assert not np.allclose(alone(weights[0]), alone(weights[1]), atol=0.05)


@pytest.mark.parametrize(
    ("name", "options"),
    [("KuhnPoker-v1", {"rounds": 3}), ("LeducPoker-v1", {"deal": "ranks"}), ("Nim-v1", {})],
)
def test_other_games_have_no_table(name, options):
    assert make_exploitability(*policy_of(name, **options)) is None


def test_self_play_becomes_less_exploitable():
    config = base_config()
    config.updates, config.log_every, config.mesh.data = 150, 75, 1
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=256, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.rae_by_turn)
    config.reference.every = 25
    config.objective.entropy.weight = 0.02
    config.objective.kl.update(weight=1.0, estimator="k2")
    config.optimizer.learning_rate = 3e-3
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    ((_, train),) = experiment.phases
    train = jax.jit(train)
    before = jax.jit(make_exploitability(experiment.policy, experiment.env, experiment.env_params))
    start = float(before(state.params))
    assert state.carry["baseline"].shape == (1, 2)
    for _ in range(2):
        state, metrics = train(state)
    np.testing.assert_allclose(metrics["exploitability"][0], before(state.params), atol=1e-6)
    assert metrics["exploitability"][0] < 0.6 * start
    # Seat 0 loses 1/18 at the equilibrium: the baselines find out who is better off.
    baseline = np.asarray(state.carry["baseline"])[0]
    np.testing.assert_allclose(baseline.sum(), 0, atol=1e-5)
    assert baseline[0] < 0
    # The reference is the policy of the last round update, 150.
    jax.tree.map(np.testing.assert_array_equal, state.carry["reference"], state.params)


def test_a_reference_that_moves_needs_a_pull():
    config = base_config()
    config.env = env_section("FrozenLake-v1")
    config.reference.every = 10
    with pytest.raises(ValueError, match="config.reference.every=10 is not used by anything"):
        build(config)
