"""Every block of Python on the pages runs, in the order of its page, in one directory per page.

Blocks may use what stands in `GIVEN`, and a module of the reader's, `my_module`, with an
environment. A block that begins with the comment `# NAME.py` is that file.
"""

import ast
import importlib
import json
import pathlib
import runpy
import shutil
import subprocess
import sys

import pages
import pytest
from pages import ROOT

import agentrl.config
import envs
from agentrl import policies, rollout
from agentrl.config.build import build

GIVEN = {
    "envs": envs,
    "rollout": rollout,
    "section": agentrl.config.section,
    "env_section": agentrl.config.env_section,
}
HOUSE = """
import dataclasses
from envs.frozen_lake import env as frozen_lake


@dataclasses.dataclass(frozen=True)
class MyHouse(frozen_lake.FrozenLake):
    rooms: int = 2
"""
WITH_PYTHON = [
    page for page in pages.PAGES if any(b.language == "python" for b in pages.blocks(page))
]


def run(page, here):
    """The names after all blocks of a page."""
    names = GIVEN | {"config": agentrl.config.base_config()}
    (here / "my_module.py").write_text(HOUSE)
    blocks = [b for b in pages.blocks(page) if b.language == "python" and b.not_executed is None]
    for number, block in enumerate(blocks):
        if pages.file_of(block):
            (here / pages.file_of(block)).write_text(block.text)
            sys.modules.pop("my_module", None)
        else:
            path = here / f"block_{number}.py"
            path.write_text("\n" * block.line + block.text)
            names = runpy.run_path(str(path), init_globals=names)
    return names


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # A published model, in the place that the page of policies reads.
    shutil.copytree(ROOT / "tests/data/huggingface/qwen2", tmp_path / "models/Qwen2.5-0.5B")
    yield tmp_path
    for name in ("my_module", "my_config", "guess"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_in_the_order_of_the_page(page, here):
    run(page, here)


def test_blocks_that_are_not_executed_import_what_exists():
    blocks = [block for page in WITH_PYTHON for block in pages.blocks(page)]
    for block in (b for b in blocks if b.language == "python" and b.not_executed is not None):
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom):
                home = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(home, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")


def test_the_first_page_adds_an_environment_and_an_estimator(here):
    names = run(ROOT / "README.md", here)
    assert names["env"].rooms == 4 and names["config"].env.name == "my_module.MyHouse"
    config = runpy.run_path(str(here / "my_config.py"))["get_config"]()
    assert config.advantage.name == "my_module.my_estimator"
    assert config.advantage.temperature == 0.5
    build(config)


def test_an_environment_in_python_is_a_config_that_builds(here):
    config = run(ROOT / "envs/README.md", here)["config"]
    config.policy = agentrl.config.section(policies.transformer, codec="byte")
    experiment = build(config)
    assert experiment.env.in_python


def test_the_player_of_the_page_answers_each_request(here):
    run(ROOT / "launchers/README.md", here)
    requests = [{"id": 0, "game": "Nim-v1"}, {"id": 7, "commands": ["take 2", "take 1"]}]
    done = subprocess.run(
        [sys.executable, "my_player.py"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [{"id": 0}, {"id": 7, "action": "take 2"}]
    assert pathlib.Path("my_player.py").is_file()
