"""Executes notebooks as Colab does: in an environment and a folder that hold nothing.

    python colab/execute.py                     all, with their outputs written into the files
    python colab/execute.py sokoban --quick     one, with its small numbers; nothing is written

Each notebook gets a virtual environment of its own, with nothing but Jupyter's kernel, and an empty
folder; its first cell installs agentrl from a wheel of this checkout, or from AGENTRL_SOURCE. Needs
nbclient (`pip install -e .[dev]`) and a package index.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

import nbclient
import nbformat

HERE = pathlib.Path(__file__).parent
# Of one cell, in seconds.
TIMEOUT = 1800


def quick(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its small numbers, in a cell after its parameters, as papermill does it."""
    small = notebook.metadata["agentrl"]["quick"]
    lines = "\n".join(f"{name} = {value!r}" for name, value in small.items())
    at = next(i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", ()))
    cell = nbformat.v4.new_code_cell(lines, metadata={"tags": ["injected-parameters"]})
    cells = [*notebook.cells[: at + 1], cell, *notebook.cells[at + 1 :]]
    return nbformat.from_dict({**notebook, "cells": cells})


def execute(
    notebook: nbformat.NotebookNode,
    python: pathlib.Path,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> nbformat.NotebookNode:
    """The notebook with its outputs, by a kernel of that interpreter, in that folder.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell raises.
    """
    with tempfile.TemporaryDirectory() as kernels:
        spec = pathlib.Path(kernels, "kernels", "fresh", "kernel.json")
        spec.parent.mkdir(parents=True)
        start = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec.write_text(json.dumps({"argv": start, "display_name": "fresh", "language": "python"}))
        before, os.environ["JUPYTER_PATH"] = os.environ.get("JUPYTER_PATH"), kernels
        try:
            client = nbclient.NotebookClient(
                notebook,
                timeout=TIMEOUT,
                kernel_name="fresh",
                record_timing=False,
                resources={"metadata": {"path": str(folder)}},
            )
            return client.execute(env=dict(environment))
        finally:
            del os.environ["JUPYTER_PATH"]
            if before is not None:
                os.environ["JUPYTER_PATH"] = before


def wheel(folder: pathlib.Path) -> pathlib.Path:
    """A wheel of this checkout, built in the folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    # Of a copy: two builds in one tree would write the same files.
    kept = shutil.ignore_patterns(".*", "runs", "build", "tests", "*.egg-info")
    copy = shutil.copytree(HERE.parent, folder / "source", ignore=kept)
    subprocess.run([*command, str(folder), str(copy)], check=True)
    (built,) = folder.glob("agentrl-*.whl")
    return built


def clean_environment(source: str) -> dict[str, str]:
    """The variables of this process without those by which Python finds packages elsewhere."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JAX_COMPILATION_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "AGENTRL_SOURCE": source}


def main() -> None:
    """Executes the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = sorted(path.stem for path in HERE.glob("*.ipynb"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; by default all")
    parser.add_argument("--quick", action="store_true", help="small numbers; nothing is written")
    arguments = parser.parse_args()
    for name in set(arguments.names) - set(names):
        parser.error(f"there is no notebook {name!r}; expected some of {', '.join(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        source = os.environ.get("AGENTRL_SOURCE") or str(wheel(pathlib.Path(scratch)))
        for name in arguments.names or names:
            with tempfile.TemporaryDirectory() as fresh:
                _in_a_fresh_environment(name, source, pathlib.Path(fresh), arguments.quick)


def _in_a_fresh_environment(name: str, source: str, fresh: pathlib.Path, small: bool) -> None:
    """Executes one notebook and says how long it took."""
    folder, python = fresh / "empty", fresh / "env" / "bin" / "python"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(fresh / "env")], check=True)
    subprocess.run([python, "-m", "pip", "install", "-qq", "ipykernel"], check=True)
    path = HERE / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = execute(
        quick(notebook) if small else notebook, python, folder, clean_environment(source)
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {time.monotonic() - began:.0f} s, of processors {used:.0f} s", flush=True)
    if not small:
        # Progress and warnings tell of this machine.
        for cell in (cell for cell in done.cells if cell.cell_type == "code"):
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        done.metadata = {key: notebook.metadata[key] for key in ("agentrl", "kernelspec")}
        done.metadata["language_info"] = {"name": "python"}
        nbformat.write(done, path)


if __name__ == "__main__":
    main()
