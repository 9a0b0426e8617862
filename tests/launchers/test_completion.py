"""Completion of the command lines, in a real bash and a real zsh too."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

from launchers import completion

OWN = '''"""A card."""
import not_there
from agentrl import policies
VARIANTS = ("fast", "slow", "any_GAME")

def get_config(variant="fast"):
    return policies.nothing(variant)
'''
# As the one above, but it can be loaded.
WHOLE = """
import ml_collections
VARIANTS = ("fast",)
def get_config(variant="slow"):
    sections = {"advantage": {"name": "gigpo", "gamma": 0.9}, "updates": 4, "filters": {}}
    return ml_collections.ConfigDict(sections | {variant: 1})
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/own.py").write_text(OWN)
    (tmp_path / "mine/whole.py").write_text(WHOLE)
    (tmp_path / "mine/notes.txt").write_text("")
    (tmp_path / "bin").mkdir()
    os.symlink(sys.executable, tmp_path / "bin/python")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


TRAIN = ["python", "-m", "launchers.train"]
CASES = {
    "a command": (["python", "-m", "launchers.trai"], ["launchers.train"]),
    "not a command of ours": (["python", "-m", "json.to"], []),
    "no command": (["python", "script.py", "--co"], []),
    "a flag": ([*TRAIN, "--workd"], ["--workdir="]),
    "a flag without a value": ([*TRAIN, "--dry"], ["--dry_run"]),
    "its negation": ([*TRAIN, "--nodry"], ["--nodry_run"]),
    "the flag of configs": ([*TRAIN, "--conf"], ["--config=", "--config."]),
    "values of an enumeration": (
        ["python", "-m", "launchers.evaluate", "--greedy=t"],
        ["--greedy=true"],
    ),
    "a folder of configs": ([*TRAIN, "--config=mi"], ["--config=mine/"]),
    "configs in it": (
        [*TRAIN, "--config=mine/"],
        [f"--config=mine/{x}" for x in ("own.py", "own.py:", "whole.py", "whole.py:")],
    ),
    "as a word of its own": ([*TRAIN, "--config", "mine/wh"], ["mine/whole.py", "mine/whole.py:"]),
    "installed configs": ([*TRAIN, "--config=conf"], ["--config=configs/"]),
    "only those of an installation": ([*TRAIN, "--config=agen"], []),
    "variants, but no placeholders": (
        [*TRAIN, "--config=mine/own.py:"],
        ["--config=mine/own.py:fast", "--config=mine/own.py:slow"],
    ),
    "of several": (
        ["python", "-m", "launchers.sweep", "--configs=a.py:b,mine/own.py:f"],
        ["--configs=a.py:b,mine/own.py:fast"],
    ),
    "keys, a level at a time": (
        [*TRAIN, "--config=mine/whole.py", "--config."],
        [f"--config.{key}" for key in ("advantage.", "updates=", "filters=", "slow=")],
    ),
    "keys of a section": (
        [*TRAIN, "--config=mine/whole.py", "--config.advantage.g"],
        ["--config.advantage.gamma="],
    ),
    "keys of a variant": ([*TRAIN, "--config", "mine/whole.py:fast", "--config.f"], None),
    "a shell": (["python", "-m", "launchers.completion", "b"], ["bash"]),
    "directories of runs are the shell's": (["python", "-m", "launchers.runs", "ru"], []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_completes(here, case):
    words, expected = CASES[case]
    expected = ["--config.filters=", "--config.fast="] if expected is None else expected
    assert sorted(completion.candidates(words)) == sorted(expected)


def test_keys_are_kept_until_the_config_changes(here, monkeypatch):
    words = [*TRAIN, "--config=mine/whole.py", "--config.up"]
    loaded = []
    real = completion._loaded_keys
    monkeypatch.setattr(
        completion, "_loaded_keys", lambda *given: loaded.append(given) or real(*given)
    )
    for _ in range(2):
        assert completion.candidates(words) == ["--config.updates="]
    assert len(loaded) == 1
    (here / "mine/whole.py").write_text(WHOLE.replace("updates", "upgrades"))
    os.utime(here / "mine/whole.py", (time.time() + 5, time.time() + 5))
    assert completion.candidates(words) == ["--config.upgrades="] and len(loaded) == 2


def test_flags_are_those_of_absl():
    """Those that are offered are what the commands define when they run."""
    code = (
        "import importlib\n"
        "from absl.flags import FLAGS\n"
        "from launchers import completion\n"
        "names = [x for x in completion.commands() if x != 'completion']\n"
        "offered = {name: completion.flags(name) for name in names}\n"
        "for name, found in offered.items():\n"
        "    before = set(FLAGS)\n"
        "    importlib.import_module(f'launchers.{name}')\n"
        "    defined = set(FLAGS) - before\n"
        "    ours = {x for x in defined if 'launchers' in FLAGS.find_module_defining_flag(x)}\n"
        "    off = {f'no{x}' for x in found if found[x] == ['true', 'false']}\n"
        "    assert set(found) - off == ours, (name, (set(found) - off) ^ ours)\n"
        "    print(name, len(ours))\n"
        "    for flag in defined: delattr(FLAGS, flag)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = {name: int(number) for name, number in map(str.split, done.stdout.splitlines())}
    assert counts["train"] >= 7 and counts["runs"] == 2 and counts["sweep"] >= 9


def test_nothing_but_keys_imports_what_is_slow(here):
    code = (
        "import sys; from launchers import completion\n"
        "from launchers.completion import candidates as c\n"
        f"assert c([*{TRAIN!r}, '--config=mine/own.py:f']) and c([*{TRAIN!r}, '--wo'])\n"
        "assert not {'jax', 'absl', 'numpy', 'ml_collections'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def typed(shell, here, text):
    """What an interactive shell shows after keys were pressed in it."""
    script = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    begin = "autoload -Uz compinit && compinit -u\n" if shell == "zsh" else ""
    begin += f'eval "$(python -m launchers.completion {shell})"; echo re""ady\n'
    environment = os.environ | {"PATH": f"{here}/bin:{os.environ['PATH']}", "TERM": "dumb"}
    environment |= {"HOME": str(here), "PS1": "> ", "PYTHONPATH": os.pathsep.join(sys.path)}
    terminal, theirs = pty.openpty()
    started = subprocess.Popen(
        script, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    seen, sent, deadline = "", False, time.monotonic() + 120
    os.write(terminal, begin.encode())
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 15 if sent else 1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
            elif sent:
                break  # nothing more is shown
            if not sent and "> " in seen.rpartition("ready\r")[2] and "ready\r" in seen:
                os.write(terminal, text.encode())
                sent, seen = True, ""
            if sent and "<" in seen:  # what is typed last
                break
    finally:
        started.kill()
        started.wait()
        os.close(terminal)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n\x07]", "", seen)
    return re.sub(".\x08", "", shown)  # zsh takes the space back that follows a word


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_in_an_interactive_shell(here, shell):
    """Each TAB completes what is typed so far: command, flag, folder, file, variant."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    seen = typed(shell, here, "python -m launchers.trai\t--conf\t=mi\town.\t:f\t <")
    assert "python -m launchers.train --config=mine/own.py:fast" in seen, seen


def test_the_scripts_are_bash_and_zsh(here):
    for shell in ("bash", "zsh"):
        if shutil.which(shell):
            script = {"bash": completion.BASH, "zsh": completion.ZSH}[shell]
            subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


def test_words_of_bash_begin_after_a_colon_or_an_equals_sign(here, capsys):
    completion.main(["line", "python -m launchers.train --config=mine/own.py:s", " \t=:"])
    assert capsys.readouterr().out.split() == ["slow"]
    completion.main(["line", "python -m launchers.train --config=mine/own.py:s", " \t"])
    assert capsys.readouterr().out.split() == ["--config=mine/own.py:slow"]
