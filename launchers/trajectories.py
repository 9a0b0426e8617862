"""Episodes as files: writes, checks and replays them.

    python -m launchers.trajectories --workdir=runs/coin
    python -m launchers.trajectories --check=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --replay=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --from_adp=others.jsonl --config=my_config.py --to=ours.jsonl
    python -m launchers.trajectories --view=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --to_minari=ours.jsonl --to=coin/grpo-v0
    python -m launchers.trajectories --triage=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --attempts=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --attribute=runs/coin/trajectories/update_000100.jsonl
    python -m launchers.trajectories --faults=300
    python -m launchers.trajectories --curate=runs/coin/trajectories/update_000100.jsonl

The first plays a batch with the newest policy of a run and writes its episodes, one per line of
JSON, to runs/coin/trajectories/; training does so by itself with --config.trajectories.every=100.
--check reads a file, names each line that is no episode, with the reason, and ends with code 1 if
there is one. --replay plays each episode again from its task, seeds and actions, and names what
differs. --from_adp takes trajectories of the Agent Data Protocol in: with --config their texts
become the tokens that this config's policy reads and writes in its context, so that its component
`agentrl.trajectories.file` can train on them; --to_adp is the way out. --from_minari=NAME and
--to_minari=FILE are the same for episodes of arrays and Minari's data sets on this disk.
--view writes a page for the browser beside the file: all episodes with what stands out, tasks, and
--most of the episodes turn by turn; with --explain also who made those fail that failed.
--triage looks for loops, repetition, failures and their like, prints how many there are
and which --most episodes deserve a look, and writes all of it to a JSON file beside; of several
files, separated by commas, for each. --attempts is for episodes whose turns are answers to one
question: success after each of them, of the majority of five first answers, and how many of the
answers had been wrong before. --attribute says who made each failed episode fail, and in
which turn, by playing it again with the environment's expert in the place of agents and of single
turns. --faults=N measures how often that, and other ways, name the agent and the turn of a fault
that was put into N episodes. --curate ranks tasks and solved episodes by the graph of the states
that a task's episodes share, and writes the --most best ones beside. The schema:
agentrl/trajectories/README.md.
"""

import collections
import functools
import json
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
_MOST = flags.DEFINE_integer(
    "most", 16, "Episodes of each seed, or that deserve a look; 0: all.", lower_bound=0
)
_CHECK = flags.DEFINE_string("check", None, "File to check.")
_REPLAY = flags.DEFINE_string("replay", None, "File of which each episode is played again.")
_FROM_ADP = flags.DEFINE_string("from_adp", None, "File of the Agent Data Protocol to take in.")
_TO_ADP = flags.DEFINE_string("to_adp", None, "File of ours to write in that format.")
_FROM_MINARI = flags.DEFINE_string("from_minari", None, "Data set of Minari's to take in, by id.")
_TO_MINARI = flags.DEFINE_string("to_minari", None, "File of ours to write as one of Minari's.")
_TO = flags.DEFINE_string("to", None, "File, or id of Minari's, that --from_ and --to_ write.")
_CONFIG = config_flags.DEFINE_config_file("config", None, "With --from_adp: whose tokens.")
_VIEW = flags.DEFINE_string("view", None, "File to show as a page.")
_EXPLAIN = flags.DEFINE_bool("explain", False, "With --view: say who made episodes fail.")
_TRIAGE = flags.DEFINE_list("triage", None, "Files in which to look for episodes to look at.")
_ATTEMPTS = flags.DEFINE_list("attempts", None, "Files of answers to count by turn and by vote.")
_ATTRIBUTE = flags.DEFINE_string("attribute", None, "File of failed episodes to explain.")
_FAULTS = flags.DEFINE_integer("faults", None, "Episodes with a known fault.", lower_bound=1)
_CURATE = flags.DEFINE_string("curate", None, "File of which the most instructive are chosen.")
_ENV = flags.DEFINE_string("env", None, "Environment of --faults; sums over a graph by default.")
_OPTIONS = flags.DEFINE_string("options", "", "Its options, for example calls=4, right=1.0.")


def main(argv: list[str]) -> None:
    """Does the one thing that is asked for."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdir=RUN, --check=FILE or another")
    asked = {"workdir": _write, "check": _check, "replay": _replay, "triage": _triage}
    asked |= {"view": _view, "attempts": _attempts}
    asked |= {"attribute": _attribute, "faults": _faults, "curate": _curate}
    asked |= {"from_adp": _from_adp, "to_adp": _to_adp}
    asked |= {"from_minari": _from_minari, "to_minari": _to_minari}
    given = {name: flags.FLAGS[name].value for name in asked if flags.FLAGS[name].value is not None}
    if len(given) != 1:
        names = ", ".join(f"--{name}=" for name in asked)
        cli.fail(f"give one of {names}, a run, a file or a number")
    ((name, value),) = given.items()
    cli.use_compilation_cache()
    try:
        for one in value if isinstance(value, list) else [value]:
            asked[name](one if name == "faults" else pathlib.Path(one))
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


def _from_minari(name):
    from agentrl.trajectories import files, minari

    out, episodes = _out("from_minari"), list(minari.from_minari(str(name)))
    print(f"{out}: {files.write(out, episodes)} episodes")


def _to_minari(path):
    from agentrl.trajectories import files, minari

    if _TO.value is None:
        cli.fail("--to_minari needs --to=NAME-v0, the id of the data set to write")
    print(f"{_TO.value}: {minari.to_minari(_TO.value, files.read(path))} episodes")


def _out(flag):
    if _TO.value is None:
        cli.fail(f"--{flag} needs --to=FILE, the file to write")
    return cli.output("to", _TO.value)


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


def _attempts(path):
    from agentrl.trajectories import attempts, files

    found = attempts.attempts(files.read(path))
    print(f"{path}\n{'turn':10}{'success':>10}")
    for turn, share in enumerate(found.by_turn, 1):
        print(f"{turn:<10}{share:10.3f}")
    print(f"majority of {found.votes} first answers {found.majority:.3f}")
    print(f"wrong answers given again {found.repeated:.3f}")


def _view(path):
    from agentrl.trajectories import files, viewer

    episodes = list(files.read(path))
    names = viewer.worth_a_look(episodes, _MOST.value)
    chosen = [one for one in episodes if one.id in names] if _EXPLAIN.value else []
    blames = dict(_explained(chosen))
    text = viewer.viewer(path.stem, episodes, turns_of=names, blames=blames)
    out = path.with_suffix(".html")
    out.write_text(text, encoding="utf-8", newline="\n")
    print(f"written: {out.resolve().as_uri()}")


def _explained(episodes):
    """(id, blame) of the failed episodes; those that cannot be played again are named."""
    from agentrl.trajectories import attribution, counterfactual, replay

    failed = [episode for episode in episodes if not episode.success]
    for episode in failed[: _MOST.value or None]:
        try:
            yield episode.id, attribution.blame(episode, counterfactual.outcome(episode))
        except replay.ReplayError as error:
            print(f"{episode.id}: not played: {error}")


def _attribute(path):
    from agentrl.trajectories import files

    episodes = list(files.read(path))
    for name, blame in _explained(episodes):
        if blame.agent is None:
            print(f"{name}: no agent's correction helps")
            continue
        shares = zip(blame.agents, blame.shares, strict=True)
        told = ", ".join(f"agent {a} {share:.2f}" for a, share in shares if share > 0)
        step = "no single turn of it" if blame.step is None else f"its turn {blame.step.turn}"
        print(f"{name}: {told}; agent {blame.agent}: {step}")
    print(f"{path}: {sum(not episode.success for episode in episodes)} failed episodes")


def _faults(count):
    import envs
    from agentrl.trajectories import counterfactual, expert_faults, fault_study, faults, schema

    if _ENV.value:
        options = cli.parse_options(_OPTIONS.value)
        turns = int(envs.make(_ENV.value, **options)[1].max_steps_in_episode)
        injected = expert_faults.draw(schema.Task(_ENV.value, options, turns), count, seed=0)
        _table(f"{_ENV.value} {options}", fault_study.study(injected, counterfactual.outcome))
        return
    injected = faults.draw(count, seed=0)
    for slips, draws in ((0.0, 1), (0.05, 1), (0.05, 16)):
        outcome = functools.partial(faults.outcome, slips=slips, draws=draws)
        restores = None if slips else faults.restores
        found = fault_study.study(injected, outcome, restores, draws)
        _table(f"{slips:.0%} of the sums go wrong by chance in each of {draws} replays", found)


def _table(title, found):
    print(f"\n{title}")
    print(f"{'':<34}{'agent':>8}{'turn':>8}{'+-1':>8}{'near':>8}{'plays':>8}")
    for name, (*shares, plays) in found.items():
        print(f"{name:<34}" + "".join(f"{x:>8.3f}" for x in shares) + f"{plays:>8.1f}")


def _curate(path):
    from agentrl.trajectories import files, topology

    found = topology.curated(files.read(path))
    print(
        f"{'task':<20}{'episodes':>9}{'solved':>8}{'states':>8}{'errors':>8}{'ways':>8}{'score':>8}"
    )
    for task in found.tasks:
        name = "/".join(map(str, task.name))
        counts = (len(task.episodes), sum(one.success for one in task.episodes))
        graph = task.graph
        shares = (graph.error_branches, graph.heterogeneity, task.score)
        print(
            f"{name:<20}{counts[0]:>9}{counts[1]:>8}{len(graph.children):>8}"
            + "".join(f"{x:>8.2f}" for x in shares)
        )
    print(f"\n{'episode':<20}{'recovery':>9}{'efficiency':>11}{'rarity':>8}{'score':>8}")
    best = found.episodes[: _MOST.value or None]
    for score, scores, one in best:
        recovery, efficiency, rarity = scores
        print(f"{one.id:<20}{recovery:>9.2f}{efficiency:>11.2f}{rarity:>8.2f}{score:>8.2f}")
    out = path.with_suffix(".curated.jsonl")
    print(f"{files.write(out, (one for *_, one in best))} episodes written: {out}")


if __name__ == "__main__":
    cli.run(main)
