"""The notebooks: one way of installing, executed with small numbers, their figures those of the
pages."""

import base64
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "colab").glob("*.ipynb"))
OURS = ("agentrl", "envs", "launchers", "configs", "__editable__")
# Bytes of a picture in a notebook's outputs.
LARGEST = 150 * 1024

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# An environment of one's own is executed every time, the others before a release.
ALWAYS = ("own_environment",)
EXECUTED = [p if p.stem in ALWAYS else pytest.param(p, marks=pytest.mark.long) for p in NOTEBOOKS]


def _program():
    spec = importlib.util.spec_from_file_location("execute", ROOT / "colab/execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = _program()


def cells(path, kind):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == kind]


def printed(path):
    """All text of a notebook's outputs."""
    outputs = [output for cell in cells(path, "code") for output in cell.outputs]
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


def fresh(root):
    """An interpreter in a new folder that finds what ours needs, and nothing of ours."""
    site = root / "site"
    site.mkdir()
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in pathlib.Path(folder).iterdir():
            if not entry.name.startswith(OURS) and entry.suffix != ".pth":
                (site / entry.name).symlink_to(entry)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True)
    (own,) = (root / "env").glob("lib/python*/site-packages")
    (own / "needs.pth").write_text(str(site))
    return root / "env/bin/python"


@pytest.fixture(scope="module")
def without_ours(tmp_path_factory):
    """One into which nothing is installed."""
    return fresh(tmp_path_factory.mktemp("without"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """(interpreter, environment): the first cell of the first notebook puts ours in."""
    source = str(execute.wheel(tmp_path_factory.mktemp("wheel")))
    # As everywhere in the tests, compiling is most of the time.
    cheaper = {
        "JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"],
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    environment = {**execute.clean_environment(source), **cheaper, "PIP_NO_DEPS": "1"}
    return fresh(tmp_path_factory.mktemp("fresh")), environment


@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_notebook_runs_in_an_empty_folder_where_nothing_is_installed(path, installed, tmp_path):
    python, environment = installed
    notebook = execute.quick(nbformat.read(path, as_version=4))
    done = execute.execute(notebook, python, tmp_path, environment)
    first = next(c for c in done.cells if c.cell_type == "code")
    assert "agentrl from site-packages" in first.outputs[-1]["text"]


@pytest.mark.parametrize("place", ["nothing", "notebook in a checkout", "clone below", "namespace"])
def test_the_first_cell_installs_what_is_there(place, without_ours, tmp_path):
    """With a pip that writes down what it was asked for."""
    (tmp_path / "fake").mkdir()
    asked, here = tmp_path / "asked", tmp_path / "here"
    here.mkdir()
    (tmp_path / "fake/pip.py").write_text(
        f"import sys; open({str(asked)!r}, 'w').write(sys.argv[-1])"
    )
    if place == "notebook in a checkout":
        here = ROOT / "colab"
    if place == "clone below":
        (here / "agentrl").symlink_to(ROOT)
    if place == "namespace":
        (here / "agentrl").mkdir()
    environment = execute.clean_environment("")
    environment["PYTHONPATH"] = str(tmp_path / "fake")
    command = [without_ours, "-c", cells(NOTEBOOKS[0], "code")[0].source]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
    if place in ("nothing", "namespace"):
        assert asked.read_text() == "git+https://github.com/agentrl/agentrl"
        assert done.returncode != 0  # this pip has installed nothing
    else:
        assert pathlib.Path(asked.read_text()).resolve() == ROOT
        assert f"agentrl from {pathlib.Path(asked.read_text()).name}, jax" in done.stdout


@each
def test_notebooks_begin_alike(path):
    title, *_ = cells(path, "markdown")
    assert f"/colab/{path.stem}.ipynb)" in title.source.splitlines()[2], "the badge"
    code = cells(path, "code")
    assert code[0].source == cells(NOTEBOOKS[0], "code")[0].source
    assert code[1].metadata.tags == ["parameters"]
    names = re.findall(r"^(\w+) = ", code[1].source, flags=re.MULTILINE)
    assert names and set(nbformat.read(path, 4).metadata["agentrl"]["quick"]) <= set(names)


@each
def test_notebooks_are_stored_as_they_were_executed_in_full(path):
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for output in (output for cell in code for output in cell.outputs):
        assert output.output_type != "error"
        for kind, content in output.get("data", {}).items():
            if kind == "image/png":
                assert len(base64.b64decode(content)) <= LARGEST
            else:
                assert len("".join(content)) <= LARGEST, kind
    assert "image/" in str([cell.outputs for cell in code]), "a picture"
    assert not re.search(r"/(?:tmp|home|root)/", printed(path)), "paths of the machine"


@each
def test_the_figures_of_a_page_are_those_of_the_notebook(path):
    """Decimals in rows of tables that begin with a link to it, and in its own first cell."""
    said = cells(path, "markdown")[0].source.partition("**Here:**")[2].partition("**Time:**")[0]
    for page in (ROOT / "README.md", ROOT / "colab/README.md"):
        pattern = rf"^\| \[[^]]*\]\((?:colab/)?{path.name}\)(.*)$"
        said += " ".join(re.findall(pattern, page.read_text(), flags=re.MULTILINE))
    said = re.sub(r"\[[^]]*\]\([^)]*\)", "", said.replace("−", "-"))
    figures, seen = re.findall(r"(?<![\w.])\d+\.\d+", said), printed(path)
    wrong = [x for x in figures if not re.search(rf"(?<![\d.]){re.escape(x)}(?!\d)", seen)]
    assert figures and not wrong


def test_all_notebooks_are_in_the_table():
    page = (ROOT / "colab/README.md").read_text()
    assert [path.name for path in NOTEBOOKS if f"]({path.name})" not in page] == []
