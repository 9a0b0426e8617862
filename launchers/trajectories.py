"""Episodes as files: writes, checks and replays them.

    python -m launchers.trajectories --workdir=runs/coin
    python -m launchers.trajectories --check=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --replay=runs/coin/trajectories/update_000100.jsonl

The first plays a batch with the newest policy of a run and writes its episodes, one per line of
JSON, to runs/coin/trajectories/; training does so by itself with --config.trajectories.every=100.
--check reads a file, names each line that is no episode, with the reason, and ends with code 1 if
there is one. --replay plays each episode again from its task, seeds and actions, and names what
differs. The schema: agentrl/trajectories/README.md.
"""

import collections
import pathlib
import sys

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run to write episodes of.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_CHOOSE = flags.DEFINE_string(
    "choose", "everything", "Function that scores episodes, as config.trajectories.name."
)
_MOST = flags.DEFINE_integer("most", 16, "Episodes of each seed; 0: all.", lower_bound=0)
_CHECK = flags.DEFINE_string("check", None, "File to check.")
_REPLAY = flags.DEFINE_string("replay", None, "File of which each episode is played again.")


def main(argv: list[str]) -> None:
    """Does the one thing that is asked for."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=, --check= or --replay=")
    asked = {"workdir": _write, "check": _check, "replay": _replay}
    given = {name: flags.FLAGS[name].value for name in asked if flags.FLAGS[name].value is not None}
    if len(given) != 1:
        cli.fail("give one of --workdir=RUN, --check=FILE and --replay=FILE")
    ((name, value),) = given.items()
    cli.use_compilation_cache()
    try:
        asked[name](pathlib.Path(value))
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


if __name__ == "__main__":
    cli.run(main)
