"""Benchmarks.

    python -m launchers.benchmark --suite=envs,credit --out=bench.json

envs: environment steps/s. text: the same, with rendering and parsing of text. games: both for games
of several agents, and milliseconds of NashConv. generation: tokens/s of the decoder. llm: its
prefill, decoding and training at small and published sizes, relative to the machine's limits, and
host memory while a model is loaded. conversation: turns/s collected and learnt from, and shares of
the time. learning: PPO training steps/s. startup: seconds to the first metrics. credit:
milliseconds of the estimators. volleyball: control steps/s of drones by layout, and results of the
scripted players. serve: a server under 64 clients, some of which behave badly. Each prints a table,
and all are written to --out. --peers adds other codebases, timed side by side in this process; one
that is not installed is skipped with a message. --quick only checks that everything runs: its
numbers are rough.

Programs are compiled before the clock starts, and contenders take turns in rounds; a figure is the
median of the rounds, with its range. Do not use the machine for anything else meanwhile.
"""

import json
import os
import shlex
import sys

from absl import flags

from launchers import cli

SUITES = (
    "envs",
    "text",
    "games",
    "generation",
    "llm",
    "conversation",
    "matches",
    "learning",
    "startup",
    "credit",
    "volleyball",
    "serve",
)

_SUITE = flags.DEFINE_list("suite", list(SUITES), "Suites to run, separated by commas.")
_PEERS = flags.DEFINE_bool(
    "peers", False, "Time other codebases too: pip install 'agentrl[peers]'."
)
_OUT = flags.DEFINE_string("out", "benchmark.json", "File to write.")
_QUICK = flags.DEFINE_bool("quick", False, "Small batches, two short rounds.")


def main(argv: list[str]) -> None:
    """Runs the suites, prints, writes after each."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --suite=envs,credit --out=benchmark.json")
    unknown = [name for name in _SUITE.value if name not in SUITES]
    if unknown or not _SUITE.value:
        cli.fail(f"--suite={','.join(_SUITE.value)}: expected some of {', '.join(SUITES)}")
    out = cli.output("out", _OUT.value)
    if not out.parent.is_dir():
        cli.fail(f"--out={out}: {out.parent} is not a directory; create it first")
    # No compilation cache: compile times are part of what is measured.
    from agentrl.run.provenance import provenance
    from launchers.benchmarks import tables

    command = shlex.join([sys.executable, "-m", "launchers.benchmark", *sys.argv[1:]])
    content = {
        "provenance": provenance(command),
        "machine": tables.machine(),
        "quick": _QUICK.value,
        "suites": {},
    }
    for name in dict.fromkeys(_SUITE.value):
        result, text = run(name, quick=_QUICK.value, with_peers=_PEERS.value)
        print(f"{text}\n{tables.headline(content['provenance'])}", flush=True)
        for line in result.get("skipped", ()):
            print(line)
        print(flush=True)
        content["suites"][name] = result
        temporary = out.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, out)
    print(f"written: {out}", file=sys.stderr)


def run(suite: str, *, quick: bool, with_peers: bool) -> tuple[dict, str]:
    """Runs one suite: (JSON content, table)."""
    from launchers.benchmarks import (
        conversation,
        credit,
        environments,
        games,
        generation,
        learning,
        llm,
        loading,
        matches,
        serve_peer,
        startup,
        text,
        timing,
        volleyball,
    )

    given = {"plan": timing.QUICK if quick else timing.FULL}
    beside = given | {"with_peers": with_peers}
    batches = beside | {"batches": (256,) if quick else (2048, 8192)}
    small = {"sizes": conversation.SMALL} if quick else {}
    tiny = {"loaded": (llm.SHAPES["tiny"], loading.CASES[:2])} if quick else {}
    # Each suite's module, and what it is run with.
    suites = {
        "envs": (environments, batches),
        "text": (text, beside | {"batches": (256,) if quick else (2048,)}),
        "games": (games, batches),
        "generation": (
            generation,
            beside
            | {
                "batches": (16,) if quick else (64, 256),
                "written": 16 if quick else generation.WRITTEN,
            },
        ),
        "llm": (llm, beside | tiny),
        "conversation": (
            conversation,
            beside | small | ({"groups": 2, "members": 2} if quick else {}),
        ),
        "matches": (matches, beside | small | ({"batch": 4} if quick else {})),
        "learning": (
            learning,
            given | {"variants": ((4, 4), (64, 1)) if quick else ((4, 100), (64, 10))},
        ),
        "startup": (startup, {"cold": 1, "warm": 1} if quick else {"cold": 2, "warm": 3}),
        "credit": (
            credit,
            given | {"num_streams": 512 if quick else 4096, "turns": 16 if quick else 64},
        ),
        "volleyball": (
            volleyball,
            given | {"batches": (64,) if quick else (1024,), "episodes": 100 if quick else 1000},
        ),
        "serve": (
            serve_peer,
            beside | ({"clients": 8, "requests": 200, "rows": (2,)} if quick else {}),
        ),
    }
    module, options = suites[suite]
    result = module.run(**options)
    return result, module.report(result)


if __name__ == "__main__":
    cli.run(main)
