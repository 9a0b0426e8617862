"""Episodes as files: writes, checks and replays them.

    python -m launchers.trajectories --workdir=runs/coin
    python -m launchers.trajectories --check=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --replay=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --from_adp=others.jsonl --config=my_config.py --to=ours.jsonl

The first plays a batch with the newest policy of a run and writes its episodes, one per line of
JSON, to runs/coin/trajectories/; training does so by itself with --config.trajectories.every=100.
--check reads a file, names each line that is no episode, with the reason, and ends with code 1 if
there is one. --replay plays each episode again from its task, seeds and actions, and names what
differs. --from_adp takes trajectories of the Agent Data Protocol in: with --config their texts
become the tokens that this config's policy reads and writes in its context, so that its component
`agentrl.trajectories.file` can train on them; --to_adp is the way out. The schema:
agentrl/trajectories/README.md.
"""

import collections
import pathlib
import sys

from absl import flags
from ml_collections import config_flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run to write episodes of.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_CHOOSE = flags.DEFINE_string(
    "choose", "everything", "Function that scores episodes, as config.trajectories.name."
)
_MOST = flags.DEFINE_integer("most", 16, "Episodes of each seed; 0: all.", lower_bound=0)
_CHECK = flags.DEFINE_string("check", None, "File to check.")
_REPLAY = flags.DEFINE_string("replay", None, "File of which each episode is played again.")
_FROM_ADP = flags.DEFINE_string("from_adp", None, "File of the Agent Data Protocol to take in.")
_TO_ADP = flags.DEFINE_string("to_adp", None, "File of ours to write in that format.")
_TO = flags.DEFINE_string("to", None, "File to write, with --from_adp and --to_adp.")
_CONFIG = config_flags.DEFINE_config_file("config", None, "With --from_adp: whose tokens.")


def main(argv: list[str]) -> None:
    """Does the one thing that is asked for."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=, --check= or --replay=")
    asked = {"workdir": _write, "check": _check, "replay": _replay}
    asked |= {"from_adp": _from_adp, "to_adp": _to_adp}
    given = {name: flags.FLAGS[name].value for name in asked if flags.FLAGS[name].value is not None}
    if len(given) != 1:
        cli.fail("give one of --workdir=RUN, --check=FILE, --replay=, --from_adp= and --to_adp=")
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


def _from_adp(path):
    import itertools

    from agentrl.trajectories import adp, files
    from agentrl.trajectories.schema import SchemaError

    out = _out("from_adp")
    encode = _encoder() if _CONFIG.value is not None else lambda episode: episode
    rejected = []

    def episodes():
        for number in itertools.count(1):
            line = lines.readline()
            if not line:
                return
            try:
                yield encode(adp.from_adp(line))
            except SchemaError as error:
                rejected.append(files.Rejected(path, number, str(error)))
                files.tell(rejected[-1])

    with path.open(encoding="utf-8", errors="replace") as lines:
        count = files.write(out, episodes())
    print(f"{out}: {count} episodes, {len(rejected)} lines left out")


def _encoder():
    """(episode) -> the episode in the tokens of the policy of --config."""
    from agentrl.config.environments import environments
    from agentrl.config.tasks import context_of, make_policy
    from agentrl.trajectories.encode import encoded

    config = cli.given(_CONFIG.value)
    made = environments(config.env)
    policy, context = make_policy(config, made), context_of(config)
    if context is None:
        raise ValueError("--config: its policy reads arrays; expected a language policy")
    ((env, _), *_) = made.values()
    codec = policy.on(env.view).codec
    return lambda episode: encoded(episode, codec, context)


def _to_adp(path):
    from agentrl.trajectories import adp, files

    out = _out("to_adp")
    lines = [adp.to_adp(episode) + "\n" for episode in files.read(path)]
    out.write_text("".join(lines), encoding="utf-8")
    print(f"{out}: {len(lines)} episodes")


def _out(flag):
    if _TO.value is None:
        cli.fail(f"--{flag} needs --to=FILE, the file to write")
    return cli.output("to", _TO.value)


if __name__ == "__main__":
    cli.run(main)
