"""The configs of the repository: each file, with each of its methods, builds."""

import importlib.util
import inspect

import pytest
from presets_built import CASES, ELSEWHERE, FILES, MODULES, stem

from agentrl.config.build import build


def test_every_file_is_built_somewhere():
    stems = {stem(name) for name in MODULES}
    assert stems - {stem(name) for name in FILES} - ELSEWHERE == {
        "comparison",
        "ezpoints_agent",
        "guessing",
        "hosted",
        "language",
        "methods",
        "price_desk",
        "products",
        "pure_price_desk",
    }
    assert stems >= ELSEWHERE


@pytest.mark.parametrize("name", MODULES)
def test_the_argument_is_a_variant_and_the_variants_are_named(name):
    module = MODULES[name]
    if hasattr(module, "get_config"):
        parameters = list(inspect.signature(module.get_config).parameters)
        assert parameters == (["variant"] if hasattr(module, "VARIANTS") else [])


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_builds(name, argument):
    module = FILES[name]
    config = module.get_config() if argument is None else module.get_config(argument)
    # Adapters are of another run's parameters, which the command line names.
    if config.policy.get("lora_rank") or config.policy.get("output_heads"):
        config.init_from = config.init_from or "a run"
    # Optional packages may be missing; that such a config says so is all there is to see.
    package, colon, _ = str(config.env.name).partition(":")
    if colon and package != "program" and importlib.util.find_spec(package) is None:
        with pytest.raises(ValueError, match=f"pip install {package}"):
            build(config)
    else:
        build(config)


@pytest.mark.parametrize("name", FILES)
def test_has_a_card_with_its_command(name):
    assert "python -m launchers.train" in FILES[name].__doc__
