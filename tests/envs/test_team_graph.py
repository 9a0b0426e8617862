"""TeamGraph-v1: teams by hand, what an edit is worth, the expert's success."""

import jax
import numpy as np
from programs import fetched

import envs
from agentrl import policies, rollout
from agentrl.config.build import build
from configs.teams import team_graph

KEY = jax.random.key(0)


def test_a_team_by_hand():
    env, params = envs.make("TeamGraph-v1", right=1.0, lacking=0.0, price=0.1)
    state = fetched(env.initial)(KEY, params)
    legal, step, chance = fetched(env.legal), fetched(env.step_env), fetched(env.chance)
    needed = np.flatnonzero(env.table[int(state.family)])
    idle = np.flatnonzero(~env.table[int(state.family)])[0]
    course = [*needed, needed[0], idle, idle + env.roles, 2 * env.roles]
    chances, rewards = [], []
    for i, action in enumerate(course):
        assert bool(legal(state, params)[action])
        key = jax.random.fold_in(KEY, i)
        _, state, reward, over, _ = step(key, state, np.int32(action), params)
        chances.append(float(chance(state, params)))
        rewards.append(float(reward))
    assert chances == [0, 0, 1, 1, 1, 1, 1] and bool(over) and bool(state.correct)
    np.testing.assert_allclose(rewards, [0, 0, 0, 0, 0, 0, 1 - 0.4], atol=1e-6)


def test_what_an_edit_is_worth():
    env, params = envs.make("TeamGraph-v1")
    state = fetched(env.initial)(KEY, params)
    needed = np.flatnonzero(env.table[int(state.family)])[0]
    idle = np.flatnonzero(~env.table[int(state.family)])[0]
    # Needed; the same again; useless; deleted; then it is new again; work; a turn not taken.
    actions = [needed, needed, idle, idle + env.roles, idle, 2 * env.roles, needed]
    mask = np.arange(7) < 6
    added, repeated, useless = fetched(env.edit_facts)(state, np.array(actions), mask)
    assert added.tolist() == [True, True, True, False, True, False, False]
    assert repeated.tolist() == [False, True, False, False, False, False, False]
    assert useless.tolist() == [False, False, True, False, True, False, False]


def test_each_family_needs_as_many_roles():
    env, params = envs.make("TeamGraph-v1", families=40, needed=2)
    assert (env.table.sum(axis=1) == 2).all() and len(np.unique(env.table, axis=0)) > 10
    full = fetched(env.initial)(KEY, params).replace(members=np.int32([6, 0, 0, 0, 0, 0]))
    legal = fetched(env.legal)(full, params)
    assert not legal[: env.roles].any() and legal[env.roles] and not legal[env.roles + 1 : -1].any()


def test_the_component_fills_what_the_estimator_needs():
    config = team_graph.get_config("exempt")
    config.num_seeds, config.mesh.data = 1, 1
    config.updates = config.log_every = 1
    config.rollout.update(num_groups=4, group_size=4)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    _, metrics = jax.jit(experiment.phases[-1][1])(state)
    useless = np.asarray(metrics["edits/useless"])
    assert 0 < useless[0] < useless[1]


def test_random_teams_fail_and_the_experts_do_not():
    env, params = envs.make("TeamGraph-v1")
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    sizes = {"num_groups": 256, "group_size": 1, "mask_illegal": True}
    made = rollout.episodes(policy, env, params, **sizes)
    collect = fetched(lambda key: made.collect(policy.init(key), made.init(key), key)[1])
    streams = collect(KEY)
    assert np.any(streams.success & streams.mask, axis=1).mean() < 0.5
    expert, _ = fetched(made.demonstrate)(jax.random.split(KEY, 256), KEY)
    right = np.any(expert.success & expert.mask, axis=1).mean()
    assert abs(right - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 256)
