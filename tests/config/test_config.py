"""Configs: what is wrong is said before anything compiles, with the nearest valid name."""

import importlib.util
import inspect
import pathlib

import pytest
import tiny

from agentrl import advantages, policies, rollout
from agentrl.config import base_config
from agentrl.config import bind as configs
from agentrl.config.build import build
from configs import methods


def test_sections_hold_every_option_with_its_default():
    section = configs.section(advantages.gigpo, gamma=0.9)
    assert section.to_dict() == {
        "name": "gigpo",
        "gamma": 0.9,
        "step_weight": 1.0,
        "normalize": "std",
        "statistics": "stream",
        "singleton": "zero",
        "epsilon": 1e-6,
    }


def test_arrays_are_not_options():
    assert "penalty" not in configs.options_of(advantages.gigpo)
    assert "truncated" not in configs.options_of(advantages.gae)
    assert configs.inputs_of(advantages.gigpo) == ("reward", "mask", "group", "anchor")


def test_none_can_become_a_number_on_the_command_line():
    section = configs.section(rollout.episodes)
    assert section.max_turns is None
    section.max_turns = 5
    assert configs.bind("rollout", rollout.episodes, section)["max_turns"] == 5


WRONG = {
    "unknown key": (
        lambda c: c.advantage.__setitem__("gama", 0.9),
        r"config.advantage.gama is not an option of 'gigpo' \(did you mean 'gamma'\?\)",
    ),
    "unknown top key": (
        lambda c: c.__setitem__("updatez", 3),
        r"config.updatez is not used by anything \(did you mean 'updates'\?\)",
    ),
    "key of another estimator": (
        lambda c: c.advantage.__setitem__("lam", 0.9),
        "config.advantage.lam is not an option of 'gigpo'",
    ),
    "unknown estimator": (
        lambda c: c.advantage.__setitem__("name", "gigp"),
        r"config.advantage.name='gigp' does not exist \(did you mean 'gigpo'\?\)",
    ),
    "unknown environment": (
        lambda c: c.env.__setitem__("name", "FrozenLak-v1"),
        r"environment 'FrozenLak-v1' does not exist \(did you mean 'FrozenLake-v1'\?\)",
    ),
    "unknown environment option": (
        lambda c: c.env.__setitem__("sise", 3),
        r"environment 'FrozenLake-v1' has no option 'sise' \(did you mean 'size'\?\)",
    ),
    "critic that nothing trains": (
        lambda c: c.policy.__setitem__("critic", "shared"),
        "config.policy.critic is trained by nothing",
    ),
    "estimator without its critic": (
        lambda c: setattr(c, "advantage", configs.section(advantages.gae, gamma=0.9, lam=0.9)),
        "config.advantage.name='gae' needs 'value'.*config.policy.critic",
    ),
    "groups from segments": (
        lambda c: setattr(c, "rollout", configs.section(rollout.segments)),
        "needs 'group'.*config.rollout.name='episodes'",
    ),
    "value clip without a critic": (
        lambda c: c.learner.__setitem__("value_clip", 0.2),
        "config.learner.value_clip is unused",
    ),
    "entropy that goes to nothing by a factor": (
        lambda c: c.learner.update(entropy_coefficient=0.1, final_entropy_coefficient=0.0),
        "config.objective.entropy.final_weight=0.0 with entropy_coefficient=0.1.*above 0",
    ),
    "minibatches that do not divide": (
        lambda c: c.learner.__setitem__("minibatches", 7),
        "config.learner.minibatches=7 does not divide",
    ),
    "logging that does not divide": (
        lambda c: c.__setitem__("log_every", 3),
        "config.updates=8 is no multiple of config.log_every=3",
    ),
    "aggregation": (
        lambda c: c.learner.__setitem__("aggregation", "tokenmean"),
        r"config.learner.aggregation='tokenmean' \(did you mean 'token_mean'\?\)",
    ),
    "cnn on features": (
        lambda c: (
            setattr(c, "policy", configs.section(policies.cnn, critic="none")),
            setattr(c, "env", configs.env_section("Coin-v1")),
        ),
        "policy 'cnn' needs a grid observation",
    ),
    "horizon beyond the limit": (
        lambda c: c.rollout.__setitem__("max_turns", 99),
        "rollout max_turns=99: expected 1 to the environment's own limit 6",
    ),
    "unknown reward term": (
        lambda c: c.reward.__setitem__("invalid_penalty", {"coefficient": 0.1}),
        r"config.reward.name='invalid_penalty' does not exist",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_configs_are_told(name):
    change, message = WRONG[name]
    config = tiny.groups_config()
    config = config.copy_and_resolve_references()
    config.unlock()
    change(config)
    with pytest.raises(ValueError, match=message):
        build(config)


def test_configs_in_the_repository_build():
    names = sorted(
        p.stem
        for p in (pathlib.Path(__import__("configs").__file__).parent).glob("*.py")
        # What starts from a directory of weights is built in test_pretrained, tabular games are
        # solved in test_solve, stages bound in test_stages.
        if p.stem
        not in (
            "__init__",
            "language",
            "methods",
            "pretrained",
            "qwen_household_gigpo",
            "small_qwen",
            "psro",
            "jpsro",
            "volleyball_stages",
        )
    )
    assert names
    for name in names:
        module = __import__(f"configs.{name}", fromlist=["get_config"])
        compares = inspect.signature(module.get_config).parameters
        known = getattr(module, "METHODS", getattr(module, "language", methods).METHODS)
        for method in known if "method" in compares else (None,):
            config = module.get_config() if method is None else module.get_config(method)
            # Optional packages may be missing; that such a config says so is all there is to see.
            package = config.env.name.partition(":")[0]
            if ":" in config.env.name and importlib.util.find_spec(package) is None:
                with pytest.raises(ValueError, match=f"pip install {package}"):
                    build(config)
            else:
                build(config)
            assert module.__doc__ and "python -m launchers.train" in module.__doc__


def test_base_config_names_an_environment_or_says_so():
    with pytest.raises(ValueError, match="environment '' does not exist"):
        build(base_config())
