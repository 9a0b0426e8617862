"""The page of config keys is what the code says, and has all that configs name."""

import importlib
import pathlib
import re

import configs
from agentrl.config.base import base_config
from agentrl.config.bind import lookup, path_of
from launchers import config_page

PAGE = pathlib.Path(__file__).parents[2] / "agentrl" / "CONFIG.md"
HOME = pathlib.Path(configs.__file__).parent
# Sections that hold functions by name.
BY_NAME = ("reward", "filters", "reweighting", "objective", "components")
# What needs the weights of a model.
WITH_WEIGHTS = (
    "pretrained",
    "qwen_household_gigpo",
    "small_qwen",
    "smollm2",
    "smollm2_program",
    "smollm2_stages",
)


def test_the_page_is_not_stale():
    assert PAGE.read_text() == config_page.page(), "run python -m launchers.pages"


def test_every_key_has_a_meaning():
    told, config = config_page.meanings(), base_config()
    for key in config:
        inner = [f"{key}.{name}" for name in config_page._inner(config[key])]
        assert told.get(key) or all(told.get(name) for name in inner), key


def named(config):
    """(section, name) of every function that a config names."""
    for key in config_page.SECTIONS:
        section = config.get(key) or {}
        entries = list(section.values()) if key in BY_NAME else [section]
        yield from ((key, entry["name"]) for entry in entries if "name" in entry)


def configurations():
    for path in sorted(HOME.glob("[a-z]*/*.py")):
        module = importlib.import_module(f"configs.{path.parent.name}.{path.stem}")
        if path.stem not in WITH_WEIGHTS and hasattr(module, "get_config"):
            # Words in capitals stand for any of their kind.
            named = getattr(module, "VARIANTS", (None,))
            for variant in (x for x in named if not re.search("[A-Z]{3}", x or "")):
                config = module.get_config() if variant is None else module.get_config(variant)
                yield from [config] if "env" in config else config.get("stages", {}).values()


def test_the_page_has_every_function_that_a_config_names():
    shown = {
        (section, path_of(function))
        for section in config_page.SECTIONS
        for function in config_page.functions_of(section)
    }
    used = {pair for config in configurations() for pair in named(config)} - {("context", "none")}
    assert len(used) > 80
    paths = {(section, path_of(lookup(section, name))) for section, name in used}
    assert paths <= shown, sorted(paths - shown)


def test_options_have_what_docstrings_say():
    from agentrl import advantages, policies

    told = config_page.described(advantages.gigpo)
    assert told["step_weight"].startswith("the paper's omega")
    assert told["statistics"].startswith('"stream"') or "grpo" in told["statistics"]
    # An entry within an entry.
    assert config_page.described(policies.mlp)["critic"].startswith('"separate" towers')
    rows = [x for x in config_page.page().splitlines() if x.startswith("| `dynamic_sampling`")]
    assert len(rows) == 1, "a filter stands among the filters alone"
