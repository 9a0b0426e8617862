"""Writes the pages that are made from code and data: metrics, methods, keys, comparisons.

    python -m launchers.pages    # agentrl/METHODS.md, agentrl/CONFIG.md, configs/comparison/*.md,
                                 # agentrl/evaluation/metrics.json, its table in agentrl/README.md

Tests compare the pages with the code.
"""

import json
import pathlib

from launchers import cli, metrics_page

ROOT = pathlib.Path(__file__).parents[1]


def main(argv: list[str]) -> None:
    """Writes the pages on methods, keys, metrics and each comparison from code and stored rows."""
    metrics = metrics_page.table()
    # First of all: reports, which the other pages need, read it when they are imported.
    _write("agentrl/evaluation/metrics.json", json.dumps(metrics, indent=1) + "\n")
    from launchers import config_page, methods_page
    from launchers.comparison import page, suites

    home = "agentrl/README.md"
    _write(home, metrics_page.with_rows((ROOT / home).read_text(), metrics))
    _write("agentrl/METHODS.md", methods_page.page())
    _write("agentrl/CONFIG.md", config_page.page())
    for name in suites.SUITES:
        _write(f"configs/comparison/{name}.md", page.page(name))


def _write(place: str, text: str) -> None:
    (ROOT / place).write_text(text)
    print(f"written: {ROOT / place}")


if __name__ == "__main__":
    cli.run(main)
