"""Several environments in one run, from the config to the checkpoint and to an environment that was
held out."""

import json

import jax
import numpy as np
import pytest
import tiny
from ml_collections.config_flags import config_path

import envs
from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, env_sections, section
from agentrl.config.build import build
from agentrl.config.environments import environments
from agentrl.run import loop, restored
from agentrl.run import metrics as lines
from agentrl.trained import contestants
from configs.games import spiral


def several_config(**changes):
    """A game and an environment of one agent."""
    config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0)
    config.updates, config.log_every = 2, 1
    config.env = env_sections(
        env_section("KuhnPoker-v1", max_steps_in_episode=3),
        env_section("FrozenLake-v1", size=3, max_steps_in_episode=4),
    )
    config.lexicon = ("Nim-v1",)
    config.rollout = section(rollout.episodes, num_groups=4, group_size=2)
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(advantages.rae_by_turn)
    config.evaluation.update(every=2, episodes=6, at_once=2)
    return tiny.changed(config, changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("several") / "run"
    assert loop.run(several_config(), workdir, command="test")
    return workdir, restored.load(workdir)


def test_baselines_metrics_and_evaluations_are_of_each_task(run):
    workdir, found = run
    # Two seats of a game, one role of the other.
    baseline = np.asarray(found.state.carry["baseline"])
    assert baseline.shape == (1, 2, 2) and baseline[0, 1, 1] == 0
    record = lines.read(workdir / "metrics.jsonl")[-1]
    for task, role in (("KuhnPoker-v1", 0), ("KuhnPoker-v1", 1), ("FrozenLake-v1", 0)):
        place = list(found.experiment.tasks).index(task)
        np.testing.assert_allclose(
            record[f"rae_baseline/{task}/{role}"], baseline[0, place, role], atol=1e-6
        )
    for name in ("KuhnPoker-v1", "FrozenLake-v1"):
        for metric in ("episode_return", "evaluation/episode_return", "invalid_action_rate"):
            assert np.isfinite(record[f"{name}/{metric}"])
        written = json.loads((workdir / "eval" / name / "update_000002.json").read_text())
        assert len(written["per_seed"]["0"]["episode_return"]) == 6
    assert "KuhnPoker-v1/win_rate/0/self" in record
    assert "FrozenLake-v1/win_rate/0/self" not in record
    assert record["KuhnPoker-v1/episodes"] + record["FrozenLake-v1/episodes"] == record["episodes"]


def test_a_policy_plays_elsewhere_if_it_knows_the_words(run):
    _, found = run
    (task,) = restored.elsewhere(found, "Nim-v1").values()
    params = jax.tree.map(lambda x: x[0], found.state.params)
    keys = jax.random.split(jax.random.key(0), 4)
    outcomes = jax.eval_shape(lambda p: task.evaluate(p, keys, jax.random.key(1), False), params)
    assert outcomes.episode_return.shape == (4,)
    assert restored.elsewhere(found, "KuhnPoker-v1").keys() == {"KuhnPoker-v1"}
    with pytest.raises(ValueError, match="Maze-v1: codec 'word' has no token for .*config.lexicon"):
        restored.elsewhere(found, "Maze-v1")


def test_rows_of_several_environments_share_no_opening():
    experiment = build(several_config())
    assert not experiment.policy.shares_opening
    assert not any(task.policy.shares_opening for task in experiment.tasks.values())


def test_demonstrations_are_of_all_tasks():
    experiment = build(several_config())
    _, rows = jax.eval_shape(
        experiment.rollout.demonstrate, jax.random.split(jax.random.key(0), 5), jax.random.key(1)
    )
    # Two matches of three turns, three episodes of four.
    assert rows.tokens.shape[0] == 2 * 3 + 3 * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: setattr(c, "policy", section(policies.mlp, critic="none")),
            "plays one environment",
        ),
        (lambda c: c.env.update(name=("KuhnPoker-v1",)), "config.env.FrozenLake-v1 is not used"),
        (lambda c: c.env.update(name=()), "config.env.name is empty"),
        (lambda c: c.env["KuhnPoker-v1"].update(rows=2), "'KuhnPoker-v1' has no option 'rows'"),
        (lambda c: c.policy.update(codec="byte"), "config.lexicon=.* is used by nothing"),
        (lambda c: c.evaluation.update(at_once=3), "at_once=3 in KuhnPoker: expected a multiple"),
        (lambda c: c.evaluation.update(at_once=4), "at_once=4: expected a divisor of .*=6"),
        (lambda c: c.rollout.update(opponent="random"), "FrozenLake, which has one agent"),
    ],
)
def test_what_does_not_fit_is_said(change, message):
    config = several_config()
    config.unlock()
    with config.ignore_type():
        change(config)
    with pytest.raises(ValueError, match=message):
        build(config)


def test_each_environment_is_named_once():
    with pytest.raises(ValueError, match="expected each environment once"):
        env_sections(env_section("Nim-v1"), env_section("Nim-v1"))


@pytest.mark.parametrize("name", ["TicTacToe-v1", "KuhnPoker-v1", "SimpleNegotiation-v1", "Nim-v1"])
def test_textarenas_games_are_built_with_its_forms_of_replies(name):
    experiment = build(spiral.get_config(f"faithful_{name}"))
    assert experiment.policy.grammar.faithful and experiment.env.view.read is not None


def test_a_faithful_grammar_needs_a_game_that_has_one():
    config = tiny.talk_config(warm_start__updates=0)
    config.policy.grammar = "faithful"
    with pytest.raises(ValueError, match="grammar 'faithful': this environment's wording"):
        build(config)


def test_spirals_three_games_make_one_experiment():
    experiment = build(spiral.get_config("three"))
    assert tuple(experiment.tasks) == tuple(spiral.THREE) == experiment.rollout.tasks
    pieces = [np.asarray(task.policy.codec.token_bytes) for task in experiment.tasks.values()]
    for other in pieces[1:]:
        np.testing.assert_array_equal(other, pieces[0])
    assert experiment.rollout.num_rows == sum(
        task.rollout.num_rows for task in experiment.tasks.values()
    )
    # In the arena each game finds its own task; one that was held out, the policy with its words.
    for task in experiment.tasks.values():
        assert contestants._as_trained("a run", experiment, task.env) == (task.env, task.policy)
    nim, _ = envs.make("Nim-v1")
    env, policy = contestants._as_trained("a run", experiment, nim)
    assert env is nim and policy.codec.token_bytes.shape == pieces[0].shape
    with pytest.raises(ValueError, match="'a run' was trained with rounds=5"):
        contestants._as_trained("a run", experiment, envs.make("KuhnPoker-v1")[0])
    with pytest.raises(ValueError, match="'a run' in Hanabi: codec 'word' has no token"):
        contestants._as_trained("a run", experiment, envs.make("Hanabi-v1")[0])


def test_an_option_that_is_also_a_method_of_configs_can_be_set_by_a_flag():
    config = base_config()
    config.env = env_section("KeyDoor-v1", keys=3)
    assert config.env.keys_ == 3
    config_path.set_value("env.keys_", config, 4)
    assert environments(config.env)["KeyDoor-v1"][0].keys == 4
    # Sections of before, in which it stands by its own name.
    assert environments({"name": "KeyDoor-v1", "keys": 2})["KeyDoor-v1"][0].keys == 2
    wrapped = env_section("envs.wrappers.Clock", base=env_section("KeyDoor-v1", keys=4))
    (env, _), *_ = environments(wrapped).values()
    assert wrapped.base.keys_ == 4 and env.base.keys == 4
    together = env_sections(env_section("KeyDoor-v1", keys=3), env_section("Coin-v1"))
    assert environments(together)["KeyDoor-v1"][0].keys == 3
