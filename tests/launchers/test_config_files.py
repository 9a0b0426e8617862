"""--config: which file is meant, beside whose packages, and which variants it has."""

import importlib
import json
import pathlib
import shutil

import pytest
from commands import call, refused
from in_process import call_here

import configs
import launchers
from launchers import cli, config_files

ROOT = pathlib.Path(configs.__file__).parents[1]
LAKE = next(ROOT.glob("configs/**/frozen_lake.py")).relative_to(ROOT)
OWN = """
from {lake} import get_config as lake
from envs.mine import LEVELS
from configs.mine import UPDATES

VARIANTS = {{"short": "some updates", "long": "more", "usual": ""}}

def get_config(variant="usual"):
    config = lake()
    config.updates = UPDATES + LEVELS
    return config
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """An installation whose configs are in folders."""
    monkeypatch.setattr(launchers, "ROOT", tmp_path / "site")
    monkeypatch.setattr(config_files, "CONFIGS", tmp_path / "site" / "configs")
    for name in ("__init__", "credit/coin", "games/poker", "words/poker", "_shared/methods"):
        path = tmp_path / "site" / "configs" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "site"


def test_a_file_here_comes_before_an_installed_one(tree):
    assert config_files.located("configs/credit/coin.py") == tree / "configs/credit/coin.py"
    shutil.copytree(tree / "configs", "configs")
    assert config_files.located("configs/credit/coin.py") == pathlib.Path("configs/credit/coin.py")


def test_only_configs_are_looked_for_in_the_installation(tree):
    (tree / "setup.py").write_text("")
    for outside in ("setup.py", "configs/../setup.py"):
        with pytest.raises(ValueError, match="no such file"):
            config_files.located(outside)


MISSING = {
    "moved": ("configs/coin.py", "configs/coin.py: no such file; it is configs/credit/coin.py"),
    "moved, one of two": ("configs/poker.py", "it is configs/games/poker.py or configs/words/pok"),
    "another folder": ("configs/games/coin.py", "it is configs/credit/coin.py"),
    "misspelt": ("configs/credit/cion.py", "did you mean configs/credit/coin.py?"),
    "misspelt, of one's own": ("experiment_on.py", "did you mean experiment_one.py?"),
    "misspelt, or a part": ("configs/credit/oin.py", "did you mean configs/credit/coin.py?"),
    "far from all": (
        "configs/zebra.py",
        "looked for {here}/configs/zebra.py and {site}/configs/zebra.py",
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_said_of_a_missing_file(tree, case):
    path, words = MISSING[case]
    pathlib.Path("experiment_one.py").write_text("")
    with pytest.raises(ValueError) as error:
        config_files.located(path)
    assert words.format(here=pathlib.Path.cwd(), site=tree) in str(error.value)
    assert ("did you mean" in str(error.value)) == case.startswith("misspelt")


def test_a_module_that_has_moved_is_named(tree):
    assert config_files.moved("coin") == config_files.moved("old.coin") == "configs.credit.coin"
    assert config_files.moved("poker") == config_files.moved("nothing") == ""
    said = cli._of_import(ImportError("cannot import name 'coin' from 'configs' (/x/__init__.py)"))
    assert said.endswith("; it is configs.credit.coin")
    assert cli._of_import(ImportError("No module named 'thing'")).endswith("on PYTHONPATH")


def test_an_installed_config_from_an_empty_directory(tmp_path):
    done = call("train", f"--config={LAKE}", "--dry_run", "--config.updates=70", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "updates: 70" in done.stdout and done.stderr.splitlines() == [f"config: {ROOT / LAKE}"]
    spaced = call_here("train", "--config", LAKE, "--dry_run", "--config.updates=70", cwd=tmp_path)
    assert spaced.stdout == done.stdout
    assert not list(tmp_path.iterdir())
    missing = call_here("train", "--config=none.py", "--dry_run", cwd=tmp_path)
    refused(missing, f"{tmp_path}/none.py")


def own_project(folder):
    """A directory with packages of our names, which a config of one's own imports beside ours."""
    for name, line in (("configs", "UPDATES = 4"), ("envs", "LEVELS = 1")):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('run')\n")
        (folder / name / "mine.py").write_text(line)
    lake = ".".join(LAKE.with_suffix("").parts)
    (folder / "own.py").write_text(OWN.format(lake=lake))


def test_it_works_beside_packages_of_ones_own_called_configs_and_envs(tmp_path):
    own_project(tmp_path)
    (tmp_path / "agentrl").mkdir()  # as a clone of the repository looks from outside
    theirs = call("train", f"--config={LAKE}", "--dry_run", cwd=tmp_path)
    assert theirs.returncode == 0, theirs.stderr
    for name in ("configs", "envs"):
        assert f"{tmp_path / name}/__init__.py is not run" in theirs.stderr
    assert len(theirs.stderr.splitlines()) == 3
    own = call("train", "--config=own.py:long", "--dry_run", "--config.log_every=1", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    assert "updates: 5" in own.stdout


def test_it_works_beside_a_module_called_envs(tmp_path):
    (tmp_path / "envs.py").write_text("raise RuntimeError('run')\n")
    done = call("train", f"--config={LAKE}", "--dry_run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'envs.py'} is not run" in done.stderr


def test_variants_are_listed_without_importing_what_the_file_imports(tmp_path):
    """Nor what is missing: the module of a user who asks before he has installed it."""
    own_project(tmp_path)
    text = '"""Mine: a card.\n\nMore."""\nimport not_there\n' + (tmp_path / "own.py").read_text()
    (tmp_path / "own.py").write_text(text)
    done = call("train", "--config=own.py:?", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Mine: a card.",
        "  own.py:short   some updates",
        "  own.py:long   more",
        "  own.py:usual   the default",
    ]
    none = call_here("train", f"--config={LAKE}:?", cwd=tmp_path)
    assert none.returncode == 0 and none.stdout.endswith(f"{LAKE} has no variants.\n")


def test_variants_that_are_not_there(tmp_path):
    own_project(tmp_path)
    wrong = call("train", "--config=own.py:shrt", "--dry_run", cwd=tmp_path)
    refused(wrong, "own.py:shrt", "did you mean 'short'", "expected one of short, long, usual")
    refused(call_here("train", f"--config={LAKE}:x", "--dry_run", cwd=tmp_path), "has no variants")
    (tmp_path / "own.py").write_text('VARIANTS = ("GAME",)\ndef get_config(variant): return None')
    assert "no such variant" not in call_here("train", "--config=own.py:x", cwd=tmp_path).stderr


def test_an_import_that_fails_in_a_config_is_one_line(tmp_path):
    (tmp_path / "own.py").write_text("from not_there import get_config\n")
    done = call("train", "--config=own.py", "--dry_run", cwd=tmp_path)
    refused(done, "No module named 'not_there'", "on PYTHONPATH")


def test_a_glance_sees_the_variants_of_every_config():
    paths = [path for path in config_files.CONFIGS.rglob("*.py") if path.stem != "__init__"]
    assert len(paths) > 50
    for path in paths:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        whole, seen = importlib.import_module(name), config_files.glance(path)
        names = [list(getattr(module, "VARIANTS", ())) for module in (whole, seen)]
        assert names[0] == names[1], path
        if hasattr(whole, "get_config"):
            assert config_files.explained(name, whole) == config_files.explained(name, seen)


@pytest.mark.parametrize("home", ["", "here", "./here"])
def test_an_empty_or_relative_cache_home_counts_as_none(home, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert cli.cache_home() == tmp_path / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cli.cache_home() == pathlib.Path("/somewhere")


def test_compiled_programs_do_not_go_where_the_command_is_started(tmp_path, monkeypatch):
    monkeypatch.delenv("AGENTRL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
    small = ["--config.updates=1", "--config.log_every=1", "--config.checkpoint.every=0"]
    small += ["--config.num_seeds=1", "--config.policy.hidden=(8,)"]
    small += ["--config.env.max_steps_in_episode=6", "--config.learner.minibatches=1"]
    done = call("train", f"--config={LAKE}", "--workdir=run", *small, cwd=tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["run"]
    assert list((tmp_path / "home/.cache/agentrl").iterdir())
    command = json.loads((tmp_path / "here/run/provenance.json").read_text())["command"]
    assert f"--config={LAKE}" in command
