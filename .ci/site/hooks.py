"""Gathers the pages from where they are, and makes one of each module; links to files follow."""

import ast
import pathlib
import re

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("agentrl", "envs", "launchers", "configs", "colab")
# A link to a file or folder of the checkout that is no page: [text](envs/frozen_lake/env.py)
LINK = re.compile(r"\]\(((?!\w+:)[^)#\s]*?)(/?)\)")


def on_files(files: Files, config) -> Files:
    """Adds what the site has: pages, figures, notebooks, and a page of each module."""
    pages = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]
    others = []
    for folder in FOLDERS:
        pages += sorted((ROOT / folder).rglob("*.md"))
        others += [*(ROOT / folder).rglob("*.svg"), *(ROOT / folder).rglob("*.ipynb")]
    for path in pages:
        files.append(File.generated(config, _uri(path), content=path.read_text()))
    for path in others:
        files.append(File.generated(config, _uri(path), abs_src_path=str(path)))
    modules = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in modules:
        files.append(File.generated(config, f"{_uri(path)}.md", content=_module(path)))
    files.append(File.generated(config, "reference.md", content=_reference(modules)))
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Links to modules lead to their pages, links to folders to their README."""

    def target(match: re.Match) -> str:
        path = (ROOT / page.file.src_uri).parent / match[1]
        if match[1].endswith(".py"):
            return f"]({match[1]}.md)"
        if match[1] and path.is_dir():
            return f"]({match[1]}/README.md)"
        return match[0]

    return LINK.sub(target, markdown)


def _uri(path: pathlib.Path) -> str:
    # A folder whose name begins with a dot is left out of sites.
    return path.relative_to(ROOT).as_posix().replace(".github/", "contributing/")


def _name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _docstring(path: pathlib.Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def _code(path: pathlib.Path) -> str:
    """A module's text behind its docstring."""
    text = path.read_text()
    body = ast.parse(text).body
    first = body[0].end_lineno if body and ast.get_docstring(ast.parse(text)) else 0
    return "".join(text.splitlines(keepends=True)[first:]).strip("\n")


def _module(path: pathlib.Path) -> str:
    """A module's docstrings; of a config and of a program in one file also its text."""
    uri = _uri(path)
    title = f"---\ntitle: {uri}\n---\n\n# {uri}\n\n"
    if uri.startswith(("configs/", "colab/")):
        return f"{title}{_docstring(path)}\n\n```python\n{_code(path)}\n```\n"
    return f"{title}::: {_name(path)}\n"


def _reference(modules: list[pathlib.Path]) -> str:
    """All modules by folder, each with the first sentence of its docstring."""
    lines, folder = ["# Reference", "", "Every module, with what its docstring begins with."], None
    for path in sorted(modules, key=lambda path: (path.parent, path.name)):
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"## {_uri(folder)}/", "", "| module | what it is |", "|---|---|"]
        first = " ".join(_docstring(path).split("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| [`{path.name}`]({_uri(path)}.md) | {first} |")
    return "\n".join(lines) + "\n"
