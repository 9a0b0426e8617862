"""Tabular games solved from configs: what is found, what is written, what is refused."""

import json

import pytest
from commands import call, refused
from in_process import call_here

from configs.games import jpsro, psro
from launchers import solving


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("solve") / "psro.json"
    done = call("solve", f"--config={psro.__file__}:kuhn", f"--out={out}")
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(out.read_text())


def test_double_oracle_solves_kuhn_and_the_file_says_how(written):
    printed, content = written
    assert "NashConv of each player's marginal: 0.000000" in printed
    assert content["nash_conv"] == pytest.approx(0, abs=1e-9)
    assert content["value"][-1] == pytest.approx([-1 / 18, 1 / 18])
    assert content["config"]["method"] == {
        "name": "agentrl.selfplay.psro.psro",
        "solver": "nash",
        "seed": 0,
    }
    assert sum(content["gap"][0]) == pytest.approx(11 / 12)
    assert len(content["policy"]) == len(content["infostates"]) == 12
    assert len(content["sigma"]) == len(content["policies"][0])


def test_every_config_is_one(written):
    for config in (*map(psro.get_config, psro.VARIANTS), *map(jpsro.get_config, jpsro.VARIANTS)):
        config.iterations = 1
        solution = solving.solve(config)
        assert solution["gap"].shape == solution["value"].shape


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iterations": 0}, "config.iterations=0: expected at least 1"),
        ({"method.solver": "best"}, "no meta-solver"),
        ({"method.name": "pso"}, "config.method.name='pso' does not exist"),
        ({"game.name": "TicTacToe-v1"}, "no tabular game"),
        ({"game.name": "Nim-v1"}, "more than 200,000 histories"),
        ({"seed": 3}, "config.seed is not used"),
    ],
)
def test_what_cannot_be_run_is_an_error(changes, words):
    config = psro.get_config()
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    with pytest.raises(ValueError, match=words):
        solving.solve(config)


def test_bad_flags(tmp_path):
    config = f"--config={psro.__file__}"
    refused(call_here("solve", f"{config}:poker", "--out=x.json"), "expected one of kuhn")
    refused(call_here("solve", config, "--out=no/x.json", cwd=tmp_path), "no/x.json")
