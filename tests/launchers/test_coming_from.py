"""The keys of ours on the page for users of other codebases are keys of a config."""

import dataclasses
import pathlib
import re

import pytest

import envs
from agentrl import losses
from agentrl.config.base import base_config
from agentrl.config.bind import TERM_KEYS
from agentrl.learner.function import options_of
from launchers import config_page

PAGE = pathlib.Path(__file__).parents[2] / "agentrl" / "COMING_FROM.md"
BY_NAME = ("reward", "filters", "reweighting", "objective", "components")


def keys_of_the_page():
    """What stands in backticks in the second columns, without values."""
    rows = re.findall(r"^\| .*? \|(.*?)\|", PAGE.read_text(), re.MULTILINE)
    return {key.partition("=")[0] for row in rows for key in re.findall(r"`([^`]+)`", row)}


def options_in(section):
    """Options of all functions that can stand in a section, and what stands beside them."""
    found = {"name", *(TERM_KEYS if section == "objective" else ())}
    for function in config_page.functions_of(section):
        found |= set(options_of(function))
    return found


def options_of_environments():
    made = [envs.make(name) for name in envs.registered()]
    return {"name"} | {f.name for pair in made for part in pair for f in dataclasses.fields(part)}


def exists(path):
    """Whether a config can have the key: in `base_config`, or an option of a library's function."""
    section, *rest = path.split(".")
    config = base_config()
    if section not in config:
        return False
    if not rest:
        return True
    if section in config_page.SECTIONS:
        if section in BY_NAME:
            functions = {f.__name__ for f in config_page.functions_of(section)}
            if rest[0] not in functions | set(config[section]):
                return False
            rest = rest[1:] or ["name"]
        return rest[0] in options_in(section)
    if section == "env":
        return rest[0] in options_of_environments()
    return rest[0] in config[section]


def test_every_key_of_ours_exists():
    keys = keys_of_the_page()
    assert len(keys) > 60
    assert not [key for key in sorted(keys) if not exists(key)]


@pytest.mark.parametrize(
    "key", ["advantage.step_advantage_w", "rollout.n", "filters.nothing", "gamma", "learner.size"]
)
def test_keys_of_others_do_not(key):
    assert not exists(key)


def test_values_that_the_page_names_are_accepted():
    assert {"token_mean", "row_mean", "row_sum", "constant"} == set(losses.AGGREGATIONS)
    assert "k3" in losses.divergence.KL_ESTIMATORS
    for name in ("Household-v1", "Shop-v1", "SearchQA-v1", "NumberLine-v1", "Points24-v1"):
        assert name in envs.registered()
