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
    "agentrl.tools": 1,
    "agentrl.policies": 2,
    "agentrl.advantages": 2,
    "agentrl.rewards": 2,
    "agentrl.losses": 2,
    "agentrl.actors": 2,
    "agentrl.players": 2,
    "agentrl.rollout": 3,
    "agentrl.selfplay": 4,
    "agentrl.evaluation": 4,
    "agentrl.learner": 5,
    "agentrl.methods": 5,
    "agentrl.trajectories": 5,
    "agentrl.config": 6,
    "agentrl.run": 7,
    "agentrl.trained": 7,
    "agentrl.serving": 7,
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


def sources(name):
    return sorted((ROOT / name).rglob("*.py"))


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def statements(tree):
    """The number of statements inside a module or function, those of nested functions included.

    Docstrings are not counted: a limit on lines makes code move away from its explanation.
    """
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node is not tree]
    owners = [
        node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS)
    ]
    return len(inside) - sum(ast.get_docstring(node) is not None for node in owners)


def sizes(path):
    """(name, statements, limit) of a file and of all functions in it."""
    tree = ast.parse(path.read_text())
    yield "file", statements(tree), 250
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield node.name, statements(node), 40


@pytest.mark.parametrize("folder", ["agentrl", "envs", "launchers", "colab", "configs"])
def test_files_and_functions_are_short(folder):
    """A function of at most 40 statements, and a file of at most 250."""
    paths = sources(folder)
    wrong = [
        f"{path.relative_to(ROOT)} {name}: {count} statements, expected at most {limit}"
        for path in paths
        for name, count, limit in sizes(path)
        if count > limit
    ]
    assert paths and not wrong, "\n".join(wrong)


def assigned(method):
    """Attributes of `self` that a method assigns."""
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def declared(node):
    """Attributes that a class declares in its body or assigns in `__init__`."""
    names = set()
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            names.add(part.target.id)
        elif isinstance(part, ast.Assign):
            names |= {target.id for target in part.targets if isinstance(target, ast.Name)}
        elif isinstance(part, FUNCTIONS) and part.name == "__init__":
            names |= assigned(part)
    return names


def test_attributes_begin_in_init():
    """What an object holds can be read in one place: no method adds an attribute to `self`."""
    classes = [
        (path, node)
        for name in ("agentrl", "envs", "launchers", "colab")
        for path in sources(name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    by_name = {node.name: node for _, node in classes}

    def known(node):
        """With what is declared by the classes of the repository that it derives from."""
        bases = [by_name[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in by_name]
        return declared(node).union(*map(known, bases))

    wrong = [
        f"{path.relative_to(ROOT)} {node.name}.{method.name}: {', '.join(sorted(added))}"
        for path, node in classes
        for method in node.body
        if isinstance(method, FUNCTIONS) and (added := assigned(method) - known(node))
    ]
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


def test_no_advice_replaces_an_editable_installation_by_a_copy():
    """Pages say pip install -e '.[extra]', messages pip install 'agentrl[extra]'."""
    paths = [*PAGES, *(path for name in ("agentrl", "envs", "launchers") for path in sources(name))]
    pattern = r"pip install ['\"]?\.\["
    assert not [path for path in paths if re.search(pattern, path.read_text())]
