"""The page of all methods of credit and learning, from their docstrings and declarations.

Written by `python -m launchers.pages`; a test compares it with the code. One row per public
function of agentrl.advantages, agentrl.losses and agentrl.rewards that a config can name, and per
component of agentrl.methods.
"""

import ast
import functools
import importlib
import inspect
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launchers import presets
from launchers.comparison import rows, suites

ROOT = pathlib.Path(__file__).parents[1]
INTRODUCTION = """# Methods

Made by `python -m launchers.pages` from docstrings, declarations and configs; a test keeps it so. Each line: what it is and its first equation; the arrays that it needs (what fills them is in [README.md](README.md)), and what it assumes of streams; the paper; a preset in which it runs and whose result is stated, with a link to what it shows (of functions that no finding is about, to the table of a [comparison](../configs/comparison/README.md), where WORLD is any of its worlds); the configs that use it. Where a function differs from its paper or its code, its docstring says so. Milliseconds per call: `python -m launchers.benchmark --suite=credit`.
"""  # noqa: E501
# First parameters that make a function an estimator, a filter or a term.
CREDITED = {"reward", "mask", "loss_mask", "advantage", "valid", "well_formed", "cost", "score"}
LEARNT = {"logp", "entropy", "value", "answer_logits", "reference_kl", "logits"}
TABLES = {
    "Estimators, filters and reweightings": "agentrl.advantages",
    "Reward terms": "agentrl.rewards",
    "Losses": "agentrl.losses",
    "Components": "agentrl.methods",
}
WANTED = {
    "agentrl.advantages": CREDITED,
    "agentrl.rewards": CREDITED | {"persuasion"},
    "agentrl.losses": LEARNT,
    "agentrl.methods": {"setup"},
}
# Parts and metrics of the others, which no config names.
PARTS = {"anchor_segments", "approx_kl", "approx_kl_terms", "covariances", "discounted_return"}
PARTS |= {"explained_variance", "twin_targets", "soft_value", "chosen_logits"}
PARTS |= {"dual_value_loss", "expectile_value_loss"}
PARTS |= {"categorical_entropy", "categorical_kl", "categorical_log_prob"}
# Of arrays that are not those of a rollout; what configs name is `hae_by_turn` and its like.
PARTS |= {"hae", "marft", "mars_released"}


def page() -> str:
    """Markdown with a table of each kind of function."""
    used, shown = _used(), _shown()
    parts = [INTRODUCTION]
    for title, package in TABLES.items():
        rows = [_row(function, used, shown) for function in listed(package)]
        columns = ("name", "what it is", "needs", "source", "shown in", "configs")
        header = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
        parts.append(f"## {title}\n\n{header}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def listed(package: str) -> list[Callable]:
    """The functions of a package that a config can name, by name: those of its table."""
    return list(_functions(package, WANTED[package]))


def _functions(package: str, wanted: set[str]) -> Iterator[Callable]:
    """Public functions of a package whose first parameter is a wanted one, by name; of methods
    those that make a component."""
    from agentrl.learner.component import Component

    module = importlib.import_module(package)
    if package == "agentrl.methods":
        folder = pathlib.Path(module.__file__).parent
        files = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        homes = [importlib.import_module(f"{package}.{name}") for name in files]
        found = [
            function
            for home in homes
            for function in vars(home).values()
            if inspect.isfunction(function)
            and function.__module__ == home.__name__
            and inspect.get_annotations(function).get("return") is Component
        ]
    else:
        found = [getattr(module, name) for name in dir(module) if not name.startswith("_")]
    for function in sorted(filter(inspect.isfunction, found), key=lambda f: f.__name__):
        first = next(iter(inspect.signature(function).parameters), "")
        hidden = function.__name__.startswith(("_", "check_")) or function.__name__ in PARTS
        if first in wanted and not hidden:
            yield function


def _row(function: Callable, used: dict[str, list[str]], shown: dict[str, str]) -> str:
    text = inspect.getdoc(function)
    line = " ".join(text.split("\n\n")[0].split())
    equation = _equation(text)
    signature = inspect.signature(function).parameters.values()
    needs = [
        p.name for p in signature if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
    ]
    needs = [name for name in needs if name != "setup"]
    assumed = sorted(getattr(function, "assumes", ()))
    about = line + (f"<br>`{equation}`" if equation else "")
    needs = ", ".join(f"`{name}`" for name in needs) or "-"
    needs += f"<br>assumes {', '.join(assumed)}" if assumed else ""
    links = list(dict.fromkeys(re.findall(r"https://arxiv\.org/abs/[\d.]+\d", text)))
    source = " ".join(f"[{link.rpartition('/')[2]}]({link})" for link in links) or "-"
    configs = ", ".join(used.get(function.__name__, [])) or "-"
    result = shown.get(function.__name__, "-")
    cells = (f"`{function.__name__}`", about, needs, source, result, configs)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _equation(text: str) -> str:
    """The first formula of a docstring: a sentence or line of its first part that has an "="."""
    before = re.split(r"\n(?:Args|Returns|Raises|References):", text)[0]
    for paragraph in before.split("\n\n")[1:]:
        lines = [line.strip() for line in paragraph.split("\n")]
        if " = " in lines[0] and not lines[0].startswith(
            ("With", "In", "It", "A group", "gamma", "1.")
        ):
            joined = " ".join(lines)
            return re.split(r"; |\. |,? with |,? where |  +at |  +else", joined)[0].rstrip(",;.:")
    return ""


def _used() -> dict[str, list[str]]:
    """{function: the configs whose source names it}."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "configs").rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentrl")
            for alias in node.names
        }
        for name in names:
            link = path.relative_to(ROOT).as_posix()
            found.setdefault(name, []).append(f"[{path.stem}](../{link})")
    return found


# By function: (not named after it, share of its file's presets in which it runs, link).
_Shown = dict[str, list[tuple[bool, float, str]]]
# By variant of a file, of those that have results: the names in its config, and a link to them.
_Presets = dict[str, tuple[set[str], str]]


@functools.cache
def _shown() -> dict[str, str]:
    """{function: a link to what a preset shows in which it runs}: one that is named after it or,
    where there is none, of the file in which the fewest presets run it. Of those that no finding
    is about, to the table of a comparison."""
    found: _Shown = {}
    for folder in presets.folders():
        files: dict[str, _Presets] = {}
        for row in presets.read(folder):
            file, _, variant = row.preset.partition(":")
            known = files.setdefault(file, {})
            if not row.missing and variant not in known:
                link = f"[`{row.preset}`](../configs/{folder.name}/README.md#{row.section})"
                known[variant] = _named(folder.name, row.preset), link
        for shown in files.values():
            _add(found, shown)
    compared: _Shown = {}
    for suite in suites.SUITES:
        _add(compared, _compared(suite))
    return {
        name: min(links, key=lambda one: one[:2])[-1] for name, links in (compared | found).items()
    }


def _add(found: _Shown, shown: _Presets) -> None:
    """Adds the presets of a file."""
    for variant, (names, link) in shown.items():
        for name in names:
            share = sum(name in others for others, _ in shown.values()) / len(shown)
            found.setdefault(name, []).append((name != variant, share, link))


def _compared(suite: str) -> _Presets:
    """The methods of a suite that have stored results, with links to its tables."""
    worlds: dict[str, set[str]] = {}
    for row in rows.read(suites.packaged(suite)):
        worlds.setdefault(row.method, set()).add(row.world)
    found: _Presets = {}
    for method, known in worlds.items():
        names = _named("comparison", f"{suite}.py:{min(known)},{method}")
        world = "WORLD" if len(known) > 1 else min(known)
        link = f"[`{suite}.py:{world},{method}`](../configs/comparison/{suite}.md)"
        found[method] = names, link
    return found


def _named(folder: str, preset: str) -> set[str]:
    """The names in a preset's config, of functions among others."""
    file, colon, variant = preset.partition(":")
    module = importlib.import_module(f"configs.{folder}.{file.removesuffix('.py')}")
    names = set()

    def collect(section: Mapping[str, Any]) -> None:
        for key, value in section.items():
            if isinstance(value, Mapping):
                if value.get("weight") == 0.0:
                    continue  # a term that is switched off
                names.add(key)
                collect(value)
            elif key == "name":
                names.add(str(value).rpartition(".")[2])

    collect((module.get_config(variant) if colon else module.get_config()).to_dict())
    return names
