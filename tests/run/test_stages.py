"""Stages: one config, runs that begin from each other, and go on where they were stopped."""

import ml_collections
import pytest
import tiny

from agentrl.config.build import build
from agentrl.run import evaluations, loop, stages
from configs.hierarchy import volleyball_stages
from configs.teams import hier_search
from configs.words import mobile_r1, robo_agent, similar, web_dancer, web_dancer_synthesis


def three(**changes):
    """Stages whose names are not in their order; the middle one begins from a part."""
    made = {name: tiny.matches_config(num_seeds=1, updates=2) for name in ("last", "one", "then")}
    for name, init_from in ({"last": "stage:then", "then": "stage:one"} | changes).items():
        made[name].init_from = init_from
    return ml_collections.ConfigDict({"stages": made})


def test_each_begins_from_the_one_before_and_is_resumed(tmp_path, monkeypatch):
    ran = []

    def train(stage, directory, *, command, stop):
        """Told to stop at the second one's first time."""
        ran.append((directory.name, stage.init_from))
        if len(ran) == 2:
            return False
        (directory / "checkpoints" / f"{stage.updates}").mkdir(parents=True)
        return True

    monkeypatch.setattr(loop, "run", train)
    config = three()
    assert not stages.run(config, tmp_path, command="x")
    assert stages.run(config, tmp_path, command="x")
    then = ("then", f"{tmp_path}/one")
    assert ran == [("one", ""), then, then, ("last", f"{tmp_path}/then")]
    assert stages.run(config, tmp_path, command="x") and len(ran) == 4
    config.stages.last.updates = 4
    assert stages.run(config, tmp_path, command="x") and ran[4:] == ran[3:4]


def test_a_stage_whose_last_evaluation_did_not_end_is_resumed(tmp_path, monkeypatch):
    ran = []

    def train(stage, directory, *, command, stop):
        ran.append(directory.name)
        (directory / "checkpoints" / f"{stage.updates}").mkdir(parents=True, exist_ok=True)
        evaluations.forget(directory)
        return True

    monkeypatch.setattr(loop, "run", train)
    assert stages.run(three(), tmp_path, command="x")
    evaluations.keep(tmp_path / "then", evaluations.Pending(2, [], {}))
    assert stages.run(three(), tmp_path, command="x")
    assert ran == ["one", "then", "last", "then"]


def test_a_signal_in_the_last_program_of_a_stage_stops_the_next(tmp_path, monkeypatch):
    ran = []

    def train(stage, directory, *, command, stop):
        ran.append(directory.name)
        stop.requested = len(ran) != 2
        (directory / "checkpoints" / f"{stage.updates}").mkdir(parents=True)
        return True

    monkeypatch.setattr(loop, "run", train)
    assert not stages.run(three(), tmp_path, command="x") and ran == ["one"]
    # In the last program of all there is nothing left to stop.
    assert stages.run(three(), tmp_path, command="x") and ran == ["one", "then", "last"]


def test_wrong_stages():
    with pytest.raises(ValueError, match="there is no stage 'on' .did you mean 'one'"):
        stages.check(three(then="critic=stage:on"))
    with pytest.raises(ValueError, match="last, then wait for each other"):
        stages.check(three(then="stage:last"))
    config = three()
    config.seed = 1
    with pytest.raises(ValueError, match="with seed: expected config.stages alone"):
        stages.check(config)
    config = three()
    config.stages.then.learner.minibatches = 7
    with pytest.raises(ValueError, match="stage 'then': config.learner.minibatches=7"):
        stages.check(config)


def test_hcsps_three_stages():
    assert stages.check(volleyball_stages.get_config("plane")) == ["hit", "planner", "both"]
    scratch = volleyball_stages.get_config("plane_scratch")
    assert stages.check(scratch) == ["goto", "hit", "planner", "both"]
    # No command is scripted.
    assert all(stage.env.residual == 0 for stage in scratch.stages.values())


def test_stages_of_agents_in_words():
    order = ["cold", "rejection", "rl", "scratch", "straight"]
    assert stages.check(web_dancer.get_config()) == order
    made = web_dancer_synthesis.get_config()
    assert stages.check(made) == list(web_dancer_synthesis.STAGES)
    hops = {name: made.stages[name].env.max_hops for name in ("easy_3", "grown_2", "grown_3")}
    assert hops == {"easy_3": 2, "grown_2": 3, "grown_3": 3}
    order = ["bc", "bc_eipo", "dagger", "eipo", "grpo", "patient"]
    assert stages.check(robo_agent.get_config()) == order
    order = ["format", "only_task", "scratch", "step", "task"]
    assert stages.check(mobile_r1.get_config()) == order
    similar_to = [f"similar_{share}" for share in (60, 80, 90, 95)]
    order = ["sft", *similar_to, "state", "equal", "grpo"]
    assert stages.check(similar.get_config()) == order


def test_hiersearchs_two_stages():
    """Local and web agent apart, then the planner over both; and its other presets."""
    assert stages.check(hier_search.get_config()) == ["local", "web", "planner"]
    for variant in ("planner_unrefined", "together"):
        build(hier_search.get_config(variant))
