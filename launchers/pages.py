"""Writes the pages that are made from code and data: methods, keys of a config, comparisons.

    python -m launchers.pages    # agentrl/METHODS.md, agentrl/CONFIG.md, configs/comparison/*.md

Tests compare the pages with the code.
"""

import pathlib

from launchers import cli

ROOT = pathlib.Path(__file__).parents[1]


def main(argv: list[str]) -> None:
    """Writes METHODS.md, CONFIG.md and the results of each comparison from code and stored rows."""
    from launchers import config_page, methods_page
    from launchers.comparison import page, suites

    pages = {"agentrl/METHODS.md": methods_page.page(), "agentrl/CONFIG.md": config_page.page()}
    for name in suites.SUITES:
        pages[f"configs/comparison/{name}.md"] = page.page(name)
    for place, text in pages.items():
        (ROOT / place).write_text(text)
        print(f"written: {ROOT / place}")


if __name__ == "__main__":
    cli.run(main)
