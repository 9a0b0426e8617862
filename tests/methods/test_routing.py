"""Routing by LinUCB: tickets that arrive late, who is chosen before and after a change, resume."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import train_and_resume

import envs
from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.methods import linucb
from agentrl.methods.routing import Routing, Tickets, arrived, assigned_tasks, router
from envs.dispatch.env import LATER, SKILL

WORKERS, KINDS = SKILL.shape


def config_of(**options):
    config = base_config()
    config.num_seeds, config.mesh.data, config.log_every = 1, 1, 1
    config.env = env_section("Dispatch-v1", change=2)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=2)
    config.sampler = section(assigned_tasks)
    config.components.router = section(router, **options)
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=1)
    return config


# What a router reads of a run.
SETUP = SimpleNamespace(
    envs={"Dispatch-v1": envs.make("Dispatch-v1", change=2)},
    policy=SimpleNamespace(kind="arrays", reads_text=False),
    rollout=SimpleNamespace(
        needs=("tasks",), units=(8, "config.rollout.num_groups"), properties={"whole_episodes"}
    ),
)


def one(x, outcome, worker):
    given = jnp.int32([worker])
    return Tickets(jnp.float32([x]), given, 0 * given, jnp.float32([outcome]), given >= 0)


def test_an_outcome_counts_once_and_late():
    """Delay 1: the first update's ticket waits, then it counts; x = (0.6, 0.8), outcome 1:
    precision I + x x' and total x; reputation 0.5 * 0.5 + 0.5 * 1."""
    empty = jax.tree.map(jnp.zeros_like, one([0.0, 0.0], 0.0, 0))
    empty = jax.tree.map(lambda x: x[None], empty.replace(real=empty.real > 0))
    value = Routing(linucb.empty(2), jnp.full((2, 1), 0.5), empty, jnp.int32(0))
    numbers = {"keep": 1.0, "regularization": 1.0, "decay": 0.5}
    first, second = one([0.6, 0.8], 1.0, 1), one([1.0, 0.0], 0.0, 0)
    value, now = arrived(value, first, **numbers)
    assert not now.real.any() and int(value.statistics.count) == 0
    np.testing.assert_array_equal(value.statistics.precision, np.eye(2))
    value, now = arrived(value, second, **numbers)
    np.testing.assert_array_equal(now.worker, [1])
    np.testing.assert_allclose(value.statistics.precision, [[1.36, 0.48], [0.48, 1.64]], rtol=1e-6)
    np.testing.assert_allclose(value.statistics.total, [0.6, 0.8])
    np.testing.assert_allclose(value.reputation, [[0.5], [0.75]])
    value, now = arrived(value, second, **numbers)
    assert int(value.statistics.count) == 2 and int(now.worker[0]) == 0
    np.testing.assert_allclose(value.reputation, [[0.25], [0.75]])


@pytest.mark.parametrize(("collections", "skill"), [(0, SKILL), (2, LATER)])
def test_tasks_go_where_the_rule_says(collections, skill):
    """Statistics that know each pair's chance route as the oracle does, before the change and
    after; and the params of each task say who has it, and when."""
    found = {}
    for rule in ("oracle", "linucb", "fixed:3"):
        component = router(
            SETUP, rule=rule, contexts="pairs", alpha=0.0, bound=0.0, candidates=WORKERS
        )
        value = component.init(None)
        precision = 1e6 * jnp.eye(WORKERS * KINDS)
        known = linucb.LinUCB(precision, 1e6 * jnp.float32(skill).reshape(-1), jnp.int32(9))
        value = value.replace(statistics=known, collections=jnp.int32(collections))
        found[rule] = jax.jit(lambda v, k, before=component.before: before(v, None, k).arrays)(
            value, jax.random.key(0)
        )
    routed, tasks = found["oracle"]["routed"], found["oracle"]["tasks"]
    np.testing.assert_array_equal(routed["worker"], found["linucb"]["routed"]["worker"])
    np.testing.assert_array_equal(tasks["params"].worker, routed["worker"])
    np.testing.assert_array_equal(tasks["params"].now, [collections] * 8)
    chances, kind = np.asarray(routed["chances"]), np.asarray(routed["kind"])
    there = chances > 0
    np.testing.assert_allclose(chances[there], skill[:, kind].T[there], rtol=1e-6)
    fixed = np.asarray(found["fixed:3"]["routed"]["worker"])
    assert (fixed[there[:, 3]] == 3).all()


def test_a_run_resumes_and_regret_is_counted(tmp_path):
    experiment, states, metrics = train_and_resume(config_of(delay=1, keep=0.9), tmp_path)
    value = states[-1].carry["router"]
    # Four updates of eight tasks, the last of which wait.
    assert int(value.statistics.count) == 24 and int(value.collections) == 4
    assert value.open.real.all() and metrics[0]["router/open"] == 8
    assert sum(metrics[-1][f"router/share/{w}"] for w in range(WORKERS)) == pytest.approx(1)
    assert all(0 <= m["router/regret"] <= 0.9 for m in metrics)
    assert experiment.components["router"].fills == ("tasks",)


def test_a_worker_attempts_with_its_chance():
    env, params = envs.make("Dispatch-v1", worker=1, change=5)
    keys = jax.random.split(jax.random.key(0), 4096)

    @jax.jit
    def attempts(now):
        own = params.replace(now=now)
        _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, own)
        return state, jax.vmap(env.chances, in_axes=(0, None))(state, own)[:, 1]

    for now, skill in ((4, SKILL), (5, LATER)):
        state, chance = attempts(now)
        for kind in range(KINDS):
            there = np.asarray((state.kind == kind) & ~state.away[:, 1])
            assert np.asarray(state.good)[there].mean() == pytest.approx(skill[1, kind], abs=0.05)
            np.testing.assert_allclose(np.asarray(chance)[there], skill[1, kind], rtol=1e-6)
        assert not np.asarray(state.good & state.away[:, 1]).any()
        right = np.asarray(state.good == state.passed).mean()
        assert right == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "best"}, "rule='best': expected one of linucb, random"),
        ({"rule": "fixed:5"}, "WORKER below 5"),
        ({"contexts": "words"}, "contexts='words'"),
        ({"keep": 0.0}, "keep=0.0"),
        ({"delay": -1}, "delay=-1"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        router(SETUP, **options)
