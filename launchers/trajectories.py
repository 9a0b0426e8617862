"""Episodes as files: writes, checks and replays them.

    python -m launchers.trajectories --workdir=runs/coin
    python -m launchers.trajectories --check=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --replay=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --triage=runs/coin/trajectories/update_000100.jsonl

The first plays a batch with the newest policy of a run and writes its episodes, one per line of
JSON, to runs/coin/trajectories/; training does so by itself with --config.trajectories.every=100.
--check reads a file, names each line that is no episode, with the reason, and ends with code 1 if
there is one. --replay plays each episode again from its task, seeds and actions, and names what
differs. --triage looks for loops, repetition, failures and their like, prints how many there are
and which --most episodes deserve a look, and writes all of it to a JSON file beside; of several
files, separated by commas, for each. The schema: agentrl/trajectories/README.md.
"""

import collections
import json
import pathlib
import sys

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run to write episodes of.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_CHOOSE = flags.DEFINE_string(
    "choose", "everything", "Function that scores episodes, as config.trajectories.name."
)
_MOST = flags.DEFINE_integer(
    "most", 16, "Episodes of each seed, or that deserve a look; 0: all.", lower_bound=0
)
_CHECK = flags.DEFINE_string("check", None, "File to check.")
_REPLAY = flags.DEFINE_string("replay", None, "File of which each episode is played again.")
_TRIAGE = flags.DEFINE_list("triage", None, "Files in which to look for episodes to look at.")


def main(argv: list[str]) -> None:
    """Does the one thing that is asked for."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=, --check=, --replay= or --triage=")
    asked = {"workdir": _write, "check": _check, "replay": _replay, "triage": _triage}
    given = {name: flags.FLAGS[name].value for name in asked if flags.FLAGS[name].value is not None}
    if len(given) != 1:
        cli.fail("give one of --workdir=RUN, --check=FILE, --replay=FILE and --triage=FILE,...")
    ((name, value),) = given.items()
    cli.use_compilation_cache()
    try:
        for path in value if isinstance(value, list) else [value]:
            asked[name](pathlib.Path(path))
    except (ValueError, OSError, RuntimeError) as error:
        cli.fail(error)


def _write(workdir):
    import jax

    from agentrl.run import restored, trajectories

    run = restored.load(workdir, _UPDATE.value)
    with run.config.unlocked():
        run.config.trajectories = {"name": _CHOOSE.value, "every": 1, "most": _MOST.value}
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    path = trajectories.write(run.config, run.experiment, run.state, run.update, workdir, here)
    print(f"written: {path}", file=sys.stderr)


def _check(path):
    from agentrl.trajectories import files

    rejected = []
    count = sum(1 for _ in files.read(path, rejected.append))
    for one in rejected:
        print(one)
    print(f"{path}: {count} episodes, {len(rejected)} lines left out")
    if rejected:
        sys.exit(1)


def _replay(path):
    from agentrl.trajectories import files, replay

    counts = collections.Counter()
    for episode in files.read(path):
        try:
            differs = replay.replay(episode)
        except replay.ReplayError as error:
            counts["not played"] += 1
            print(f"{episode.id}: not played: {error}")
            continue
        counts["different" if differs else "equal"] += 1
        for text in differs:
            print(f"{episode.id}: {text}")
    told = ", ".join(f"{counts[name]} {name}" for name in ("equal", "different", "not played"))
    print(f"{path}: {told}")
    if counts["different"]:
        sys.exit(1)


def _triage(path):
    from agentrl.trajectories import files, triage

    found = triage.triage(files.read(path))
    chosen = triage.chosen(found, _MOST.value or len(found))
    kinds = collections.Counter(kind for one in found for kind in {s.kind for s in one.signals})
    buckets = collections.Counter(one.bucket for one in found)
    print(f"{path}: {len(found)} episodes, {sum(one.success for one in found)} solved")
    print(", ".join(f"{buckets[name]} {name}" for _, name in triage.BUCKETS if buckets[name]))
    for kind, count in sorted(kinds.items()):
        print(f"  {kind:<34}{count:>6}")
    print(f"{len(chosen)} to look at:")
    for one in chosen:
        counts = collections.Counter(sign.kind for sign in one.signals)
        told = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
        print(f"  {one.id:<16}{one.quality:>4.0f} {'solved' if one.success else '':<7}{told}")
    asdict = lambda one: one._asdict() | {"signals": [s._asdict() for s in one.signals]}  # noqa: E731
    out = path.with_suffix(".triage.json")
    content = {"episodes": [*map(asdict, found)], "chosen": [one.id for one in chosen]}
    out.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {out}", file=sys.stderr)


if __name__ == "__main__":
    cli.run(main)
