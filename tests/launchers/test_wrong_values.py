"""Values of flags and files that cannot be: one line, before anything is played or compiled."""

import pathlib

import pytest
from commands import refused
from in_process import call_here

import configs

CONFIGS = pathlib.Path(configs.__file__).parent
COIN = CONFIGS / "credit/coin.py"
KUHN = CONFIGS / "games/psro.py"
HUGE = 10**30
GAME = ("arena", "--game=TicTacToe-v1")
PLAY = ("play", "--env=FrozenLake-v1", "--players=random")
SEARCH = ("sweep", "--workdir=w", f"--configs={COIN}:gigpo", "--dry_run")
RANDOM = (*SEARCH, "--search=random", "--trials=2")
CURVES = ("figure", "--workdirs=x")

FLAGS = [
    *(
        ((*command, f"--seed={seed}"), [f"--seed={seed}", "range [0, 2147483647]"])
        for command in (("evaluate",), ("chat",), ("new_model",), GAME, PLAY)
        for seed in (-1, 2**32, HUGE)
    ),
    (("evaluate", "--episodes=1000000000000"), ["--episodes", "range [2, 10000000]"]),
    (("chat", "--task=1000000000000"), ["--task", "range [0, 10000000]"]),
    (("serve",), ["--workdir=", "--model="]),
    (("serve", "--workdir=w", "--port=70000"), ["--port", "range [0, 65535]"]),
    ((*GAME, "--matches=1000000000000"), ["--matches", "<= 10000000"]),
    ((*GAME, f"--players=random,mcts:{HUGE}"), [f"mcts:{HUGE}", "expected mcts:1 to mcts:1000000"]),
    ((*GAME, f"--players=random,minimax:{HUGE}"), ["expected minimax:1 to minimax:1000000"]),
    ((*GAME, "--players=random"), ["--players=random: expected two or more", "--exhaustive"]),
    ((*GAME, "--players=random,expert", "--timeout_s=nan"), ["timeout_s=nan: expected more than"]),
    ((*PLAY, "--timeout_s=nan"), ["timeout_s=nan: expected more than 0, and a finite number"]),
    ((*PLAY, "--timeout_s=0"), ["timeout_s=0.0: expected more than 0"]),
    (("new_model", "--out=m", "--envs="), ["--envs=: expected one name", "Household-v1"]),
    (("new_model", "--out=m", "--vocab_size=100000000"), ["--vocab_size", "[259, 1000000]"]),
    (("new_model", "--out=m", f"--vocab_size={HUGE}"), ["--vocab_size", "[259, 1000000]"]),
    *(
        (("new_model", "--out=m", f"--{size}={HUGE}"), [f"--{size}={HUGE}", "in the range"])
        for size in ("width", "layers", "heads")
    ),
    (("compile", f"--config={COIN}:gigpo", "--programs="), ["--programs=: expected one name"]),
    ((*CURVES, "--out=a.svg", "--metric="), ["--metric=: expected one name", "success_rate"]),
    ((*CURVES, "--out="), ["--out is empty: name a file"]),
    ((*SEARCH, "--grid=../../x=1,2"), ["'../../x=1,2' is not an axis", "keys of the config"]),
    ((*SEARCH, "--grid=advantage.gama=1,2"), ["gama=1", "no 'gama'. Did you mean \"gamma\""]),
    ((*SEARCH, "--grid=policy.hidden=(0,),(-3,)"), ["hidden=(0,)", "sizes of at least 1"]),
    ((*SEARCH, "--seeds=4294967296"), ["config.seed=4294967296: expected an integer"]),
    ((*RANDOM, "--space=../../x=1,2"), ["'../../x=1,2' is not an axis", "keys of the config"]),
    ((*RANDOM, "--space=advantage.gama=uniform(0,1)"), ["no 'gama'. Did you mean \"gamma\""]),
    (
        (*RANDOM, "--space=optimizer.learning_rate=uniform(-1,1)"),
        ["config.optimizer.learning_rate=-1.0: expected at least 0"],
    ),
    (
        (*SEARCH, "--search=grid", "--space=learner.minibatches=7,11"),
        ["minibatches=7", "does not divide"],
    ),
    (("sweep", "--workdir=w", "--configs=none.py", "--dry_run"), ["none.py: no such file"]),
    (
        (
            "sweep",
            "--workdir=w",
            "--configs=none.py",
            "--dry_run",
            *RANDOM[4:],
            "--space=advantage.gamma=0,1",
        ),
        ["none.py: no such file"],
    ),
]


@pytest.mark.parametrize(("arguments", "words"), FLAGS, ids=lambda x: str(x[-1])[:60])
def test_a_value_that_a_flag_cannot_have(arguments, words, tmp_path):
    refused(call_here(*arguments, cwd=tmp_path), *words)
    assert not list(tmp_path.iterdir()), "something was written"


OUTPUTS = [
    ((*CURVES, "--out=a.xyz"), ["--out=a.xyz: expected a name that ends in", ".svg"]),
    ((*CURVES, "--out=a"), ["--out=a: expected a name that ends in"]),
    ((*CURVES, "--out=folder"), ["--out=folder: this is a folder", "name of a file"]),
    ((*CURVES, "--out=/proc/a.svg"), ["--out=/proc/a.svg: nothing can be written there"]),
    ((*CURVES, "--out=file/a.svg"), ["file is no folder; name another file"]),
    ((*CURVES, f"--out={'a' * 300}.svg"), ["nothing can be written there (File name too long)"]),
    (("report", "--workdirs=x", "--out=folder"), ["--out=folder: this is a folder"]),
    (("report", "--workdirs=x", "--out=file/a.html"), ["file is no folder"]),
    ((*GAME, "--players=random,expert", "--out=file"), ["--out=file: this is a file", "a folder"]),
    ((*GAME, "--players=random,expert", "--out=file/a"), ["file is no folder"]),
    ((*GAME, "--players=random,expert", "--out=/proc/a"), ["nothing can be written there"]),
    (("solve", f"--config={KUHN}:kuhn", "--out=folder"), ["--out=folder: this is a folder"]),
    (("solve", f"--config={KUHN}:kuhn", "--out=/proc/a"), ["nothing can be written there"]),
    (("solve", f"--config={KUHN}:kuhn", "--out=none/a"), ["there is no directory none"]),
    (("new_model", "--out=file"), ["--out=file: this is a file"]),
    (("export", "--workdir=x", "--out=/proc/a"), ["nothing can be written there"]),
    (("import_gguf", "--file=file", "--out=file"), ["--out=file: this is a file"]),
    (("benchmark", "--suite=games", "--out=folder"), ["--out=folder: this is a folder"]),
    (("compare", "--suite=arrays", "--table", "--figure=a.xyz"), ["expected a name that ends in"]),
    (("compare", "--suite=arrays", "--workdir=file"), ["--workdir=file: this is a file"]),
    (("train", f"--config={COIN}:gigpo", "--workdir=file"), ["file is a file, expected a dir"]),
    (("train", f"--config={COIN}:gigpo", "--workdir=/proc/a"), ["no run can be written there"]),
    (("sweep", f"--configs={COIN}:gigpo", "--workdir=file"), ["--workdir=file: this is a file"]),
    (
        (
            *RANDOM[:-2],
            "--nodry_run",
            *RANDOM[-2:],
            "--space=seed=1;advantage.gamma=0,1",
            "--workdir=file",
        ),
        ["--workdir=file: this is a file"],
    ),
]


@pytest.mark.parametrize(("arguments", "words"), OUTPUTS, ids=lambda x: str(x[-1])[:40])
def test_an_output_that_cannot_be_written_is_known_before_the_work(arguments, words, tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    refused(call_here(*arguments, cwd=tmp_path), *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "precious"


NO_CONFIG = [
    ("notes.txt", ["notes.txt: this is no Python (line 1", "defines get_config()"]),
    ("binary", ["binary: this is no Python", "defines get_config()"]),
    ("helper.py", ["helper.py: this file has no get_config()", "as configs/credit/coin.py"]),
    (CONFIGS / "_shared/hosted.py", ["hosted.py: this file has no get_config()"]),
    (CONFIGS / "_shared", ["_shared: this is a folder; expected a config file"]),
    ("configs/credit", ["configs/credit: this is a folder", "such as configs/credit/agent_q.py"]),
]


@pytest.mark.parametrize(("path", "words"), NO_CONFIG, ids=lambda x: str(x)[-30:])
@pytest.mark.parametrize("launcher", ["train", "compile", "solve", "sweep"])
def test_a_file_that_is_no_config(launcher, path, words, tmp_path):
    (tmp_path / "notes.txt").write_text("some notes of mine\n")
    (tmp_path / "binary").write_bytes(b"\x00\xff\x00")
    (tmp_path / "helper.py").write_text("WIDTH = 64\n")
    flag = "--configs" if launcher == "sweep" else "--config"
    further = {"sweep": ["--workdir=w", "--dry_run"], "solve": ["--out=a.json"]}
    arguments = [f"{flag}={path}", *further.get(launcher, [])]
    refused(call_here(launcher, *arguments, cwd=tmp_path), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", f"--config={KUHN}:kuhn", "--workdir=w"), "python -m launchers.solve --config="),
        (("train", f"--config={KUHN}:kuhn", "--dry_run"), "python -m launchers.solve --config="),
        (("compile", f"--config={KUHN}:kuhn"), "python -m launchers.solve --config="),
        (("sweep", f"--configs={KUHN}:kuhn", "--workdir=w"), "python -m launchers.solve --config="),
        (("solve", f"--config={COIN}:gigpo", "--out=a"), "python -m launchers.train --config="),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else "",
)
def test_a_config_of_another_launcher(arguments, words, tmp_path):
    refused(call_here(*arguments, cwd=tmp_path), words)
    assert not list(tmp_path.iterdir()), "something was written"
