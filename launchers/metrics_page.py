"""The table of metrics, from the docstrings of what reports them.

Written by `python -m launchers.pages` to agentrl/evaluation/metrics.json, which reports read, and
to agentrl/README.md; a test compares both with the docstrings. A docstring of a module, a class or
a function has a section per family, and per metric a line that may go on, indented further:

    Metrics (Episodes):
      looks: Looks [share]; turns in which the agent looks instead of acting.
"""

import ast
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
FAMILIES = (
    "Results", "Episodes", "Replies", "Policy", "Credit", "Critic and models",
    "Objective and optimizer", "Opponents, buffers, tasks", "Machine", "Axes",
)  # fmt: skip
# Packages that report metrics, in the order of their metrics within a family.
PACKAGES = ("losses", "rollout", "learner", "methods", "serving", "run")
_SECTION = re.compile(r"^Metrics \((.+)\):\n((?:  .*\n?)+)", re.MULTILINE)
_METRIC = re.compile(r"(\S+): ([^;\[]+?)(?: \[([^\]]+)\])?(?:; (.+))?\.")


def table() -> dict[str, dict[str, list[str]]]:
    """{family: {name: [title, unit, meaning]}} of all metrics that a docstring has.

    Raises:
      ValueError: an unknown family, a line that is no metric, or a name that two docstrings have.
    """
    found: dict[str, dict[str, list[str]]] = {family: {} for family in FAMILIES}
    for place, family, line in _lines():
        metric = _METRIC.fullmatch(line)
        if family not in found or not metric:
            raise ValueError(
                f"{place}: Metrics ({family}): {line!r}; expected a family of "
                f"{', '.join(FAMILIES)}, and lines 'name: Title [unit]; meaning.'"
            )
        name, *words = metric.groups(default="")
        if any(name in rows for rows in found.values()):
            raise ValueError(
                f"{place}: metric {name!r} is described by another docstring, too; describe it "
                "once, and refer to that"
            )
        found[family][name] = words
    return found


def _lines() -> Iterator[tuple[pathlib.Path, str, str]]:
    """(file, family, line of a metric) of each docstring."""
    for package in PACKAGES:
        for path in sorted((ROOT / "agentrl" / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    continue
                for family, lines in _SECTION.findall(ast.get_docstring(node) or ""):
                    for line in re.sub(r"\n    +", " ", lines).splitlines():
                        yield path, family, line.strip()


def with_rows(page: str, metrics: dict[str, dict[str, list[str]]]) -> str:
    """A page in Markdown whose table of metrics is replaced by that of `table`."""
    lines = ["| Metric | Name in reports | Unit | Meaning |", "|---|---|---|---|"]
    for rows in metrics.values():
        for name, words in rows.items():
            title, unit, meaning = (word.replace("|", "\\|") for word in words)
            lines.append(f"| `{name}` | {title} | {unit} | {meaning} |")
    before, _, after = page.partition(lines[0] + "\n")
    return before + "\n".join(lines) + "\n" + re.sub(r"\A(?:\|.*\n)*", "", after)
