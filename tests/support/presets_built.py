"""The experiments, and which of their presets tests/config/test_files.py builds."""

import importlib
import inspect
import pathlib
import re

import configs

# What starts from a directory of weights is built in tests/run/test_pretrained.py, tabular games
# are solved in tests/launchers/test_solve.py, stages are built in tests/run/test_stages.py, and
# adapters per role in tests/methods/test_calls.py.
ELSEWHERE = {"pretrained", "qwen_household_gigpo", "small_qwen", "smollm2", "psro", "jpsro"}
ELSEWHERE |= {"hier_search", "mobile_r1", "similar", "smollm2_stages", "volleyball_stages"}
ELSEWHERE |= {"smollm2_program"}
ELSEWHERE |= {"research_words", "robo_agent", "web_dancer", "web_dancer_synthesis"}


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
