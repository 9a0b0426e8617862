"""Writes the pages that are made from the code: methods, and keys of a config.

    python -m launchers.pages    # writes agentrl/METHODS.md and agentrl/CONFIG.md

Tests compare the pages with the code.
"""

import pathlib

from launchers import cli

HOME = pathlib.Path(__file__).parents[1] / "agentrl"


def main(argv: list[str]) -> None:
    """Writes the pages."""
    from launchers import config_page, methods_page

    for name, page in (("METHODS.md", methods_page.page), ("CONFIG.md", config_page.page)):
        (HOME / name).write_text(page())
        print(f"written: {HOME / name}")


if __name__ == "__main__":
    cli.run(main)
