"""Methods that do not interact, in one run: what each tells and carries, and that it resumes.

In `switched` numbers of the config say how much of each method there is. They are in the state, so
one program is the plain run and the run of each method alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import (
    distance,
    lake,
    program_of,
    run,
    same,
    states_and_resume,
    train,
    train_and_resume,
)
from tiny import talk_config

from agentrl import advantages, losses, rewards
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.methods.branching import branching
from agentrl.methods.curiosity import curiosity
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.drift import drift
from agentrl.methods.epo import entropy_history
from agentrl.methods.igpo import information_gain
from agentrl.methods.noisy_judge import noisy_judge
from agentrl.methods.progress import progress
from agentrl.methods.reward_scaling import reward_scaling
from agentrl.methods.self_imitation import self_imitation
from agentrl.methods.skill_distillation import skill_teacher
from agentrl.methods.stare import stare_weights
from agentrl.methods.success_replay import success_replay

LAKE = {"size": 2, "max_steps_in_episode": 4}
UPDATES, LEAST, STEP = 4, 2, 0.01
GROUPS, TASKS = 32, 6
# How much of each method there is in the shared run.
NUMBERS = {
    "reward": {"novelty": {"coefficient": 1.0}, "call_bonus": {"per_call": 0.1}},
    "objective": {
        "entropy": {"weight": 0.05},
        "epo": {"weight": 0.05, "low": 0.0, "high": 2.0, "smoothing": 0.1},
        "self_imitation": {"weight": 1.0},
    },
}


def switched_config():
    config = lake(**LAKE)
    made = config.components
    made.curiosity = section(curiosity, hidden=16, features=8, steps=20, learning_rate=1e-2)
    # The entropy of four actions is below 2 nats: the gate is open and gains grow.
    made.stare_weights = section(stare_weights, target=2.0, step=STEP, loss=0.9)
    made.entropy_history = section(entropy_history)
    replay = {"size": 8, "least": LEAST, "groups": 16, "replay_until": 2}
    made.self_imitation = section(self_imitation, **replay)
    # No return is as high: nothing is stored.
    made.success_replay = section(success_replay, tasks=16, per_task=2, success=9.0)
    config.reweighting.stare = section(advantages.stare)
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=1.0)
    config.reward.call_bonus = {"per_call": 0.1}
    config.objective.entropy.weight = 0.05
    config.objective.epo = term(losses.epo, weight=0.05, low=0.0, high=2.0)
    config.objective.self_imitation = term(losses.self_imitation, source="self_imitation")
    config.per_seed = jax.tree.map(lambda value: (value,), NUMBERS)
    return config


@pytest.fixture(scope="module")
def switched(tmp_path_factory):
    """(states, metrics) of the shared run, which resumes, and `alone`."""
    experiment = build(switched_config())
    made = program_of(experiment)
    states, metrics = states_and_resume(made, experiment, tmp_path_factory.mktemp("run"), UPDATES)

    def alone(numbers=(), gains=(1.0, 1.0), **carried):
        """States of a run with these weights of STARE and all numbers 0 but these, in which
        each update starts from what is given as carried."""
        given = dict.fromkeys(states[0].carry["per_seed"], jnp.zeros(()))
        given |= {path: jnp.float32(value) for path, value in dict(numbers).items()}
        assert given.keys() == states[0].carry["per_seed"].keys()
        # The controller moves the weights by a step in each update, within [1, 1.5] and [0.5, 1].
        weights = jnp.float32([gains[0] - STEP, gains[1] + STEP])
        carried |= {"per_seed": given, "stare_weights": weights}
        found = [states[0]]
        for _ in range(3):
            start = found[-1].replace(carry=found[-1].carry | carried)
            found.append(run(made[0], start, 1)[0][-1])
        return found

    return states, metrics, alone


@pytest.fixture(scope="module")
def plain():
    """States of a run without any of the methods."""
    return train(lake(**LAKE))[1]


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param("switched", "curiosity", marks=pytest.mark.long),
        *(("switched", name) for name in ("stare_weights", "entropy_history")),
        ("switched", "self_imitation"),
        *(("judged", name) for name in ("curriculum", "success_replay", "progress")),
        ("judged", "reward_scaling"),
    ],
)
def test_what_a_method_carries_changes(made, name, request):
    """Of the runs that resume, so that there is something to go on with."""
    states = request.getfixturevalue(made)[{"switched": 0, "judged": 1}[made]]
    before, after = (jax.tree.leaves(state.carry[name]) for state in (states[0], states[-1]))
    changed = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert any(changed), name


def test_curiosity_known_observations_are_no_longer_new(switched):
    states, metrics, _ = switched
    assert metrics[-1]["prediction_error"] < 0.5 * metrics[0]["prediction_error"]
    assert metrics[-1]["novelty"] < metrics[0]["novelty"]
    # The policy's own gradients do not reach the networks of the component.
    same = states[0].carry["curiosity"].target
    assert distance(same, states[-1].carry["curiosity"].target) == 0


def test_stare_the_controller_follows_the_entropy(switched):
    states, metrics, _ = switched
    weights = [np.asarray(state.carry["stare_weights"]) for state in states]
    np.testing.assert_allclose(weights[-1], [1.14, 0.86], rtol=1e-5)
    assert [m["stare_gate"] for m in metrics] == [1.0] * UPDATES


def test_epo_history_is_the_sum_of_mean_entropies(switched):
    states, metrics, _ = switched
    values = [np.asarray(state.carry["entropy_history"]) for state in states]
    assert [value[1] for value in values] == [0, 1, 2, 3, 4]
    # One row per turn and one position per row: the mean entropy is that of all positions, and
    # before the first step of an update the policy is the one that sampled.
    np.testing.assert_allclose(
        np.diff([value[0] for value in values]), [m["entropy"] for m in metrics], rtol=1e-5
    )
    np.testing.assert_allclose(
        metrics[-1]["entropy_reference"], np.mean([m["entropy"] for m in metrics]), rtol=1e-5
    )


def test_self_imitation_replays(switched):
    _, metrics, _ = switched
    assert max(m["replayed_streams"] for m in metrics) >= LEAST


def test_self_imitation_with_nothing_to_replay_is_the_plain_run(switched, plain):
    states, _, alone = switched
    empty = states[0].carry["self_imitation"].replace(updates=jnp.int32(2))
    nothing = alone({"objective.self_imitation.weight": 1.0}, self_imitation=empty)
    assert distance(plain[-1].params, nothing[-1].params) < 1e-6


def test_success_replay_with_nothing_stored(switched):
    _, metrics, _ = switched
    assert all(m["stored_successes"] == m["replayed_groups"] == 0 for m in metrics)


def test_without_any_of_them_it_is_the_plain_run(switched, plain):
    *_, alone = switched
    # Other programs, so other rounding.
    assert distance(plain[-1].params, alone()[-1].params) < 1e-6


@pytest.mark.parametrize(
    ("numbers", "gains"),
    [
        ({"reward.novelty.coefficient": 1.0}, (1.0, 1.0)),
        ({"reward.call_bonus.per_call": 0.1}, (1.0, 1.0)),
        ({"objective.epo.weight": 0.05}, (1.0, 1.0)),
        ({"objective.self_imitation.weight": 1.0}, (1.0, 1.0)),
        ({}, (3.0, 1.0)),
    ],
    ids=["curiosity", "call bonus", "epo", "self-imitation", "stare"],
)
def test_each_alone_is_another_run(switched, plain, numbers, gains):
    *_, alone = switched
    assert distance(plain[-1].params, alone(numbers, gains)[-1].params) > 1e-4


def epo(low=0.0, high=2.0, smoothing=0.1):
    bounds = {"low": low, "high": high, "smoothing": smoothing, "weight": 0.05}
    return {f"objective.epo.{name}": value for name, value in bounds.items()}


def test_epo_without_penalty_is_the_entropy_bonus(switched):
    *_, alone = switched
    bonus = alone({"objective.entropy.weight": 0.05})
    assert distance(bonus[-1].params, alone(epo(smoothing=0.0))[-1].params) < 2e-5


def test_epo_the_corridor_changes_updates_after_the_first(switched):
    *_, alone = switched
    narrow, none = alone(epo(low=1.0, high=1.0, smoothing=5.0)), alone(epo(smoothing=0.0))
    assert distance(narrow[1].params, none[1].params) < 1e-6
    assert distance(narrow[3].params, none[3].params) > 1e-4


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """`train_and_resume` of a curriculum of lakes, of which a judge errs and successes come back,
    with rewards that are scaled, and then spread as progress."""
    config = lake(**LAKE)
    config.rollout.num_groups = GROUPS
    config.sampler = section(tasks_by_number)
    config.components.curriculum = section(curriculum, tasks=TASKS)
    config.components.noisy_judge = section(noisy_judge, missed=0.1, invented=0.1)
    config.components.success_replay = section(success_replay, tasks=16, per_task=16)
    config.components.reward_scaling = section(reward_scaling)
    config.components.progress = section(progress, steps=20, learning_rate=3e-3)
    config.reward.scaled_reward = {}
    config.reward.progress = section(rewards.progress_reward, beta=0.0)
    return train_and_resume(config, tmp_path_factory.mktemp("judged"), UPDATES)


def test_a_judge_errs(judged):
    _, _, metrics = judged
    assert any(m["judge_error"] > 0 for m in metrics)


def test_successes_are_stored_and_replayed(judged):
    _, _, metrics = judged
    assert metrics[-1]["stored_successes"] > metrics[0]["stored_successes"] > 0
    # Nothing is stored before the first update.
    assert metrics[0]["replayed_groups"] == 0 <= metrics[-1]["replayed_groups"] <= 1


def test_rewards_are_scaled_by_all_returns_so_far(judged):
    _, states, metrics = judged
    counts = [float(state.carry["reward_scaling"].count) for state in states]
    assert counts == [4 * GROUPS * update for update in range(UPDATES + 1)]
    value = states[-1].carry["reward_scaling"]
    np.testing.assert_allclose(metrics[-1]["reward_std"], float(value.std), rtol=1e-6)


def test_progress_learns_the_sums(judged):
    _, _, metrics = judged
    assert metrics[1]["progress_error"] < 0.7 * metrics[0]["progress_error"]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """`train_and_resume` in words: branches, each turn credited with what it told of the answer,
    beside a teacher that is reminded of a skill, and the drift from a policy that is."""
    config = talk_config(updates=8, log_every=1, warm_start__updates=0, objective__kl__weight=0.0)
    config.env = env_section("SearchQA-v1", objectives=1, entities=20, relations=4, max_hops=1)
    options = {"num_groups": 4, "group_size": 4, "initial": 2, "alpha": 0.5, "beta": 0.2}
    config.rollout = section(branching, **options)
    config.policy.constrained = True
    config.learner.minibatches = 1
    config.reweighting.shared_prefix = section(advantages.shared_prefix)
    config.components.information_gain = section(information_gain, cap=2.0)
    config.advantage = section(advantages.igpo)
    config.components.drift = section(drift, reminder="||", turns=(1, 2, 9))
    config.components.skill_teacher = section(skill_teacher, every=3, skill="||")
    config.objective.distillation = term(losses.skill_distillation, weight=0.001)
    return train_and_resume(config, tmp_path_factory.mktemp("spoken"), UPDATES)


def test_episodes_branch(spoken):
    _, _, metrics = spoken
    assert 0 < metrics[0]["branch_rate"] < 1
    assert abs(metrics[0]["kl/rollout_train"]) < 1e-5


def test_information_is_gained(spoken):
    _, _, metrics = spoken
    assert all(m["belief"] < 0 and abs(m["information_gain"]) <= 2 for m in metrics)


def test_the_policy_drifts(spoken):
    _, _, metrics = spoken
    assert all(m["drift/turn_1"] > 0 for m in metrics)


def test_a_teacher_is_copied_now_and_then(spoken):
    _, states, metrics = spoken
    first, third = states[1].carry["skill_teacher"], states[3].carry["skill_teacher"]
    same(first[1], states[0].params)
    same(third[1], states[3].params)
    assert all(np.isfinite(list(m.values())).all() for m in metrics)


def test_the_tasks_that_a_curriculum_draws_are_played(judged):
    experiment, states, metrics = judged
    record = states[-1].carry["curriculum"]
    assert (
        UPDATES <= int(record.seen.sum()) <= UPDATES * TASKS and metrics[-1]["curriculum/seen"] > 0
    )
    # Groups of the same number start from the same state.
    state, given = states[-1], np.tile([3, 1, 3, 0], GROUPS // 4)
    collect = jax.jit(experiment.rollout.collect)
    first, again = (
        jax.device_get(collect(state.params, state.rollout, jax.random.key(seed), tasks=given)[1])
        for seed in (0, 5)
    )
    goal = first.first_state.goal[::4], first.first_state.position[::4]
    assert all(x[0] == x[2] for x in goal)
    np.testing.assert_array_equal(again.first_state.position, first.first_state.position)
