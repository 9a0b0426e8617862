"""Prints what came of each preset of the configs, and checks that something did.

    python -m launchers.findings            # a line per result, and the presets without one
    python -m launchers.findings --check    # fails for a preset without a result, or a wrong row

A preset is a config file with one of its variants; results are the rows of the `findings.csv`
beside, each with a link to the section of the README.md that explains it.
"""

import pathlib

from absl import flags

from launchers import cli, presets

_CHECK = flags.DEFINE_bool("check", False, "Fail if a preset has no result or a row is wrong.")


def main(argv: list[str]) -> None:
    """Prints, and checks if asked to."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --check or nothing")
    faults = []
    for folder in presets.folders():
        known = presets.listed(folder)
        try:
            rows = presets.read(folder)
        except ValueError as error:
            cli.fail(error)
        headings = presets.sections(folder / "README.md")
        faults += [f"{folder.name}/{line}" for line in presets.wrong(rows, known, headings)]
        faults += [
            f"{folder.name}/{name}: no result" for name in presets.without(folder, known, rows)
        ]
        for row in rows:
            if row.missing or not _CHECK.value:
                print(_line(folder, row))
    for fault in faults:
        print(fault)
    if faults and _CHECK.value:
        cli.fail(
            f"{len(faults)} presets without a result, or rows that are wrong, as listed; train the "
            f"preset and write what came of it to {presets.NAME} and README.md, or take it out"
        )


def _line(folder: pathlib.Path, row: presets.Finding) -> str:
    name = f"{folder.name}/{row.preset}"
    if row.missing:
        return f"{name}: no result: {row.missing}"
    spread = f" [{row.low}, {row.high}] ({row.spread})" if row.spread else ""
    return f"{name}: {row.value}{spread}, {row.measure}, seeds: {row.seeds}"


if __name__ == "__main__":
    cli.run(main)
