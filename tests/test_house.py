"""The house: imports go down the floors only, and importing touches no device."""

import ast
import pathlib
import subprocess
import sys

import agentrl
import envs
import launchers

FLOORS = {
    "envs": 1,
    "agentrl.lazy": 1,
    "agentrl.streams": 1,
    "agentrl.checks": 1,
    "agentrl.declarations": 1,
    "agentrl.devices": 1,
    "agentrl.policies": 2,
    "agentrl.advantages": 2,
    "agentrl.rewards": 2,
    "agentrl.losses": 2,
    "agentrl.actors": 2,
    "agentrl.rollout": 3,
    "agentrl.selfplay": 4,
    "agentrl.evaluation": 4,
    "agentrl.learner": 5,
    "agentrl.methods": 5,
    "agentrl.config": 6,
    "agentrl.run": 7,
    "configs": 8,
    "launchers": 8,
}
PACKAGES = [pathlib.Path(p.__file__).parent for p in (agentrl, envs, launchers)]
MODULES = {
    ".".join([package.name, *path.relative_to(package).with_suffix("").parts]): path
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
}


def room(module):
    """(floor, room) of a module, or None outside the house."""
    rooms = [name for name in FLOORS if module == name or module.startswith(name + ".")]
    return (FLOORS[max(rooms, key=len)], max(rooms, key=len)) if rooms else None


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_go_down():
    wrong = []
    for module, path in MODULES.items():
        here = room(module)
        for name in imported(path):
            there = room(name)
            if here and there and there[0] > here[0]:
                wrong.append(f"{module} (floor {here[0]}) imports {name} (floor {there[0]})")
            if here and there and here[1] == "envs" != there[1]:
                wrong.append(f"{module} imports {name}: envs stands alone")
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_are_short():
    """A function of at most 80 lines, docstring included, and a file of at most 350."""
    wrong = []
    for module, path in MODULES.items():
        if not module.startswith("agentrl"):
            continue
        text = path.read_text()
        if len(text.splitlines()) > 350:
            wrong.append(f"{module} has {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > 80:
                wrong.append(f"{module}.{node.name}: {node.end_lineno - node.lineno + 1} lines")
    assert not wrong, "\n".join(wrong)


def test_importing_touches_no_device():
    names = [m.removesuffix(".__init__") for m in MODULES if not m.startswith("launchers")]
    code = (
        "import importlib\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, xla_bridge._backends\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
