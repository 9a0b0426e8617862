"""The configs of the repository: each file, with each of its methods, builds."""

import importlib
import importlib.util
import inspect
import pathlib
import re

import pytest

import configs
from agentrl.config.build import build

# What starts from a directory of weights is built in tests/run/test_pretrained.py, tabular games
# are solved in tests/launchers/test_solve.py, stages are built in tests/run/test_stages.py, and
# adapters per role in tests/methods/test_calls.py.
ELSEWHERE = {"pretrained", "qwen_household_gigpo", "small_qwen", "smollm2", "psro", "jpsro"}
ELSEWHERE |= {"hier_search", "mobile_r1", "similar", "smollm2_stages", "volleyball_stages"}
ELSEWHERE |= {"smollm2_program"}
ELSEWHERE |= {"research_words", "robo_agent", "web_dancer"}


def stem(name):
    return name.rpartition("/")[2]


MODULES = {
    f"{path.parent.name}/{path.stem}": importlib.import_module(
        f"configs.{path.parent.name}.{path.stem}"
    )
    for path in sorted(pathlib.Path(configs.__file__).parent.glob("*/*.py"))
    if path.stem != "__init__"
}
FILES = {
    name: module
    for name, module in MODULES.items()
    if hasattr(module, "get_config") and stem(name) not in ELSEWHERE
}


def arguments_of(module):
    """What `get_config` can be called with, if the file says; None for its default.

    Words in capitals stand for any of their kind.
    """
    named = [name for name in getattr(module, "VARIANTS", ()) if not re.search("[A-Z]{3}", name)]
    default = next(iter(inspect.signature(module.get_config).parameters.values()), None)
    return named if default and default.default in named else (None, *named)


CASES = [(name, argument) for name, module in FILES.items() for argument in arguments_of(module)]


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
