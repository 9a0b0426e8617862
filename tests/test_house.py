"""The house: imports go down the floors only, and importing touches no device."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

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

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md"]
PAGES += [
    page
    for name in ("agentrl", "colab", "configs", "envs", "launchers")
    for page in sorted((ROOT / name).rglob("*.md"))
]


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


def lengths(path):
    """(name, lines, limit) of a file and of all functions in it, docstrings included."""
    text = path.read_text()
    yield "file", len(text.splitlines()), 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1, 80


@pytest.mark.parametrize("folder", ["agentrl", "envs", "launchers", "colab"])
def test_files_and_functions_are_short(folder):
    """A function of at most 80 lines, and a file of at most 350."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    wrong = [
        f"{path.relative_to(ROOT)} {name}: {lines} lines, expected at most {limit}"
        for path in paths
        for name, lines, limit in lengths(path)
        if lines > limit
    ]
    assert paths and not wrong, "\n".join(wrong)


def test_importing_touches_no_device():
    names = [m.removesuffix(".__init__") for m in MODULES if not m.startswith("launchers")]
    code = (
        "import importlib\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, xla_bridge._backends\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_config_over_arrays_imports_no_decoder_and_no_engine():
    code = (
        "import sys\n"
        "from configs.start import cartpole_ppo\n"
        "cartpole_ppo.get_config()\n"
        "ours = [name for name in sys.modules if name.split('.')[0] in ('agentrl', 'envs')]\n"
        "assert len(ours) <= 70, sorted(ours)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def anchors(page):
    """The names by which links reach the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_of_a_page_lead_somewhere(page):
    text, wrong = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), []
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" in link:
            continue
        to = page.parent / link if link else page
        if not to.exists() or (anchor and anchor not in anchors(to)):
            wrong.append(f"{link}#{anchor}")
    # Files by their path, or by their name on the page of their folder.
    folders = [path for path in (ROOT / "configs").iterdir() if path.is_dir()]
    homes = [ROOT, page.parent, ROOT / "configs", *folders, ROOT / "colab/figures"]
    for path in re.findall(r"`([\w./-]+\.(?:py|md|sh|svg|ipynb))(?::\w+)?`", text):
        if "NAME" not in path and not any((home / path).exists() for home in homes):
            wrong.append(path)
    assert not wrong


def test_the_first_page_and_the_cards_of_configs_are_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    for path in sorted((ROOT / "configs").rglob("*.py")):
        card = ast.get_docstring(ast.parse(path.read_text()))
        assert card and len(card.splitlines()) <= 12, path


def sources(name):
    return sorted((ROOT / name).rglob("*.py"))


def test_no_advice_replaces_an_editable_installation_by_a_copy():
    """Pages say pip install -e '.[extra]', messages pip install 'agentrl[extra]'."""
    paths = [*PAGES, *(path for name in ("agentrl", "envs", "launchers") for path in sources(name))]
    pattern = r"pip install ['\"]?\.\["
    assert not [path for path in paths if re.search(pattern, path.read_text())]
