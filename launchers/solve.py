"""Solves a tabular game exactly.

    python -m launchers.solve --config=configs/games/psro.py:kuhn --out=psro.json

Exact PSRO and JPSRO on games small enough to enumerate. Prints the gap to an equilibrium per
iteration, and writes the config, the traces, the payoffs, the meta-strategy and the policy, a table
with OpenSpiel's strings of the information states. It takes seconds, so there is no resuming. Any
key can be changed: --config.method.solver=uniform.
"""

import json
import os
import pathlib
from typing import Any

import numpy as np
from absl import flags
from ml_collections import config_flags

from launchers import cli

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, for example configs/games/psro.py:kuhn."
)
_OUT = flags.DEFINE_string("out", None, "JSON file to write.")
# Largest number of lines of the printed table; the file contains all iterations.
_SHOWN = 12


def report(solution: dict[str, Any]) -> str:
    """A table of the iterations: gaps, values, sizes of the populations."""
    from launchers.benchmarks.tables import table

    last = len(solution["gap"]) - 1
    rows = [
        {
            "iteration": i,
            "gap": solution["gap"][i].sum(),
            "values": " ".join(f"{v:.4f}" for v in solution["value"][i]),
            "policies": " x ".join(map(str, solution["size"][i])),
        }
        for i in np.unique(np.linspace(0, last, _SHOWN).astype(int))
    ]
    columns = [("iteration", "d"), ("gap", ".6f"), ("values", ""), ("policies", "")]
    title = "sum of the players' gaps, values of the meta-strategy"
    end = f"NashConv of each player's marginal: {solution['nash_conv']:.6f}"
    return f"{table(title, columns, rows)}\n{end}"


def _plain(value: Any) -> Any:
    """A value of a solution as JSON has it: arrays are lists, also within lists and tuples."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def main(argv: list[str]) -> None:
    """Checks everything, then solves."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --config=... --out=... --config.key=value")
    if _CONFIG.value is None or _OUT.value is None:
        cli.fail("give --config=configs/games/psro.py:kuhn and --out=psro.json")
    if not pathlib.Path(_OUT.value).parent.is_dir():
        cli.fail(f"--out={_OUT.value}: there is no directory {pathlib.Path(_OUT.value).parent}")
    out = cli.output("out", _OUT.value)
    try:
        config = _CONFIG.value.copy_and_resolve_references()
        if "game" not in config and "policy" in config:
            raise ValueError(
                "this config is of a run: start python -m launchers.train --config=FILE "
                "--workdir=DIR"
            )
        cli.use_compilation_cache()
        from launchers.solving import solve

        solution = solve(config)
    except (OSError, ValueError) as error:
        cli.fail(error)
    content = {"config": config.to_dict()} | {k: _plain(v) for k, v in solution.items()}
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(content) + "\n")
    os.replace(temporary, out)
    print(report(solution))


if __name__ == "__main__":
    cli.run(main)
