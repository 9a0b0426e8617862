"""Counterfactual runs: nothing replaced is no difference, frozen roles, rewards by hand."""

import functools

import jax
import numpy as np
import pytest
import recorded
from experiments import same, train, train_and_resume

from agentrl import advantages, policies, rewards
from agentrl.config import base_config, env_section, roles_section, section
from agentrl.config.build import build
from agentrl.evaluation.replaced import table_of
from agentrl.methods.counterfactual import counterfactual
from agentrl.methods.trade_off import trade_off

SILENT = "envs.guided_research.env.silent"
SURE = {"right": 1.0, "answers": (1.0, 0.0, 0.0), "facts": (2, 2), "budget": 2}


def config_of(roles=("planner",), **options):
    """Small plans by one network, and another one for the executor, frozen unless in `roles`."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 1
    config.env = env_section("GuidedResearch-v1", facts=(1, 2), budget=3)
    network = section(policies.mlp, hidden=(8,), critic="none")
    config.policy = roles_section(roles, planner=network, executor=network)
    chosen = {"side": "planner", "replacements": (SILENT,), "num_groups": 4, "group_size": 4}
    config.rollout = section(counterfactual, mask_illegal=True, **(chosen | options))
    config.advantage = section(advantages.grpo, normalize="mean")
    config.optimizer.learning_rate = 0.01
    config.learner.minibatches = 1
    return config


def collected(config):
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    found = jax.jit(experiment.rollout.collect)(state.params, state.rollout, jax.random.key(3))
    return jax.device_get(found[1:])


@pytest.mark.parametrize("partners", [("self",), ("expert:0.5", "expert")])
def test_nothing_replaced_is_no_difference(partners):
    config = config_of(partners=partners, replacements=("self", SILENT))
    streams, _, metrics = collected(config)
    np.testing.assert_array_equal(streams.runs[..., 0], streams.runs[..., 1])
    # An untrained executor seldom opens anything.
    assert partners == ("self",) or np.any(streams.runs[..., 0] != streams.runs[..., 2])
    nothing = rewards.difference(streams.reward, streams.mask, streams.runs)
    np.testing.assert_array_equal(nothing.sum(axis=1)[0::2], 0.0)
    np.testing.assert_array_equal(streams.runs[0::2, 0, 0, 0], streams.reward[0::2].sum(axis=1))
    assert not np.any(streams.mask[1::2])  # the partner's turns are not learnt from
    assert metrics[f"runs/{len(partners) - 1}/self"][0] == 0.0


def test_the_report_sees_the_states_that_were_acted_from():
    """And names what a replacement's return is above or below the policy's."""
    experiment = build(config_of(partners=("expert",)))
    rollout, state = experiment.rollout, jax.jit(experiment.init)(0)
    given = state.params, state.rollout, jax.random.key(3)
    streams = jax.device_get(jax.jit(rollout.collect)(*given)[1])
    states = jax.device_get(jax.jit(rollout.states)(*given))
    of_state = jax.jit(lambda s: experiment.env.fingerprint(s, experiment.env_params))
    for i, t in np.argwhere(streams.mask)[::5]:
        marks = of_state(jax.tree.map(lambda x, i=i, t=t: x[t, i // 2], states))
        np.testing.assert_array_equal(marks[i % 2], streams.anchor[i, t])
    runs = np.zeros((3, 1, 2))
    runs[:, 0, 0], runs[:, 0, 1] = (1, 5, 1), (0.25, 8, 0)
    shown = str(table_of(runs, ("expert",), (SILENT,)))
    assert "silent in its place" in shown and "return 0.25 (−0.75), 8 steps, success 0" in shown


def test_runs_by_hand():
    """Two openings suffice for two facts if the plan is right; without one they do not always."""
    config = config_of(partners=("expert",), replacements=("expert", SILENT))
    config.env.update(SURE)
    streams, _, metrics = collected(config)
    assert np.all(streams.runs[:, :, 0, 1] == [1, 5, 1])  # two lines, two openings, the answer
    topic = streams.first_state.question.topic
    # Sources are opened in their order, so only facts of the first one are found at once.
    lucky = np.all(topic == 0, axis=1)
    np.testing.assert_array_equal(streams.runs[:, 2, 0, 2], lucky)
    assert metrics["success/0/expert"][0] == 16 and metrics["success/0/silent"][0] <= lucky.sum()


def test_a_frozen_role_has_no_gradient(tmp_path):
    """Where the executor could learn, its parameters stay the same, and the planner's are those of
    a planner that learns alone; whose run, resumed, equals the uninterrupted one."""
    _, alone, _ = train_and_resume(config_of(), tmp_path, updates=2)
    _, both, _ = train(config_of(("planner", "executor")), updates=2)
    same(both[-1].params, alone[-1].params)
    same(both[-1].params["executor"], both[0].params["executor"])
    weights = [jax.tree.leaves(state.params["planner"]) for state in both]
    assert all(np.any(x != y) for x, y in zip(weights[0], weights[-1], strict=True))


def runs_of(planned, alone, planned_steps, alone_steps):
    """f32[N, 3, E, 2] of returns and steps [N, E]."""
    steps = np.stack([planned_steps, alone_steps], axis=2)
    gained = np.stack([planned, alone], axis=2)
    return np.stack([gained, steps, gained], axis=1).astype(np.float32)


def test_gains_worked_numbers():
    """turn_credit.npz, `eaglet`: shorter by 4; no gain; an expert and a novice."""
    planned = np.array([[1.0, 0.6], [0.6, 0.6], [1.0, 0.4]])
    alone = np.array([[0.0, 0.6], [0.6, 0.6], [0.0, 0.2]])
    runs = runs_of(planned, alone, [[8, 5], [5, 5], [8, 15]], [[12, 5], [9, 5], [12, 14]])
    mask, reward = np.array([[True, True, False]] * 3), np.full((3, 3), 9.0, np.float32)
    gain = functools.partial(rewards.executor_gain, reward, mask, runs, alpha=0.1)
    expected = recorded.arrays("turn_credit")["eaglet_R"]
    np.testing.assert_allclose(gain()[:, 1], expected, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(gain())[:, [0, 2]], 0.0)
    np.testing.assert_allclose(gain(partners=(1,))[:, 1], [0, 0, 1 / 1.1], atol=1e-5)
    keep = advantages.helps_all(mask, runs)
    np.testing.assert_array_equal(keep, True)
    np.testing.assert_array_equal(advantages.helps_all(mask, runs, strict=True), [1, 0, 1])
    harmed = runs.copy()
    harmed[0, 0, 1, 0] = 0.5
    np.testing.assert_array_equal(advantages.helps_all(mask, harmed), [0, 1, 1])
    np.testing.assert_array_equal(advantages.helps_all(mask, harmed, partners=(0,)), True)


def test_answers_worked_numbers():
    """(plan, direct, naive): 1.5, 0.5, 0, 1 and 0.5; and a call that cost 0.1."""
    cases = np.array([[1, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]], np.float32)
    runs = np.repeat(cases[:, None, None], 3, axis=1)
    mask = np.ones((5, 2), bool)
    reward = np.stack([np.full(5, -0.1), cases[:, 0]], axis=1).astype(np.float32)
    gain = rewards.answer_gain(reward, mask, runs).sum(axis=1)
    np.testing.assert_allclose(gain, np.array([1.5, 0.5, 0, 1, 0.5]) - 0.1, atol=1e-6)
    left = rewards.difference(reward, mask, runs, weight=0.5).sum(axis=1)
    np.testing.assert_allclose(left, cases[:, 0] - 0.1 - 0.5 * cases[:, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": "judge"}, "side='judge'.*planner, executor"),
        ({"replacements": ()}, "one or more of each"),
        ({"partners": ("novice",)}, "no player 'novice'"),
        ({"partners": ("expert:2",)}, "no player 'expert:2'"),
        ({"draws": 0}, "rollout draws"),
    ],
)
def test_what_does_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        build(config_of(**options))


def test_runs_of_other_shapes():
    mask, reward = np.ones((2, 1), bool), np.ones((2, 1), np.float32)
    with pytest.raises(ValueError, match="runs is"):
        rewards.executor_gain(reward, mask, np.ones((2, 3, 1, 1), np.float32))
    with pytest.raises(ValueError, match="numbers below 1"):
        rewards.executor_gain(reward, mask, np.ones((2, 3, 1, 2), np.float32), partners=(1,))


def test_prices_of_calls():
    """Each question has a price that its planner is shown; calls and answers by price."""
    config = base_config()
    config.mesh.data = 1
    config.env = env_section("Research-v1", prices=(0.0, 0.25), calls=2, answers=(1.0, 0.0, 0.0))
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(
        counterfactual, side="planner", partners=("expert",), num_groups=8, group_size=2,
        replacements=("envs.research.env.direct", "envs.research.env.naive"), mask_illegal=True,
    )  # fmt: skip
    config.components.trade_off = section(trade_off)
    experiment = build(config)
    streams, rows, _ = collected(config)
    assert np.all(streams.runs[:, :2, 0, 1] == [0, 1])  # at once, and never right
    price = np.array(config.env.prices)[streams.first_state.price]
    asks = streams.runs[:, 1, 0, 2] > 1
    naive = streams.runs[:, 2, 0, 2] - 2 * price * asks
    np.testing.assert_allclose(streams.runs[:, 0, 0, 2], naive, atol=1e-6)
    annotate = experiment.phases[0][0].components["trade_off"].annotate
    _, metrics = annotate(None, streams, rows)
    spent = sum(float(value[0]) for name, value in metrics.items() if "cost" in name)
    counted = metrics["cost/0.0"][1] + metrics["cost/0.25"][1]
    workers = np.isin(rows.tokens, (0, 1)) + 2 * (rows.tokens == 2)
    assert spent == workers[rows.loss_mask].sum() and counted == 16


def test_a_partner_that_is_named_again_draws_anew():
    """The first as before, the second otherwise, after the same plans."""
    alone, *_ = collected(config_of(partners=("expert:0.5",)))
    twice, *_ = collected(config_of(partners=("expert:0.5", "expert:0.5")))
    runs, before = np.asarray(twice.runs), np.asarray(alone.runs)
    np.testing.assert_array_equal(runs[:, :, :1], before)
    assert (runs[:, 1, 0] != runs[:, 1, 1]).any()
