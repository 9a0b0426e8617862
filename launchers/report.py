"""Writes a report of runs: python -m launchers.report --workdirs=runs/gigpo,runs/grpo --out=a.html.

One HTML file without any other: results with intervals over seeds, learning curves, evaluations,
credit turn by turn, configs and where the numbers came from. Directories of the same config and
commit with different seeds count as one run.
"""

import os
import pathlib
import sys

from absl import flags

from launchers import cli

_WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of runs, separated by commas.")
_OUT = flags.DEFINE_string("out", None, "File to write; report.html in the only directory given.")
_METRICS = flags.DEFINE_list("metrics", None, "Metrics in the grid of small charts; default all.")
_CREDIT = flags.DEFINE_bool("credit", True, "Play a batch with each run's policy, show its credit.")

# Batches played in search of a group whose returns differ.
_BATCHES = 16
# Matches in which touches are counted.
_COUNTED = 256
_VOLLEYBALL = ("Volleyball-v1", "PlanarVolleyball-v1")
_LABELS = {"gae": "GAE", "gigpo": "GiGPO", "grpo": "GRPO", "rloo": "RLOO"}


def main(argv: list[str]) -> None:
    """Reads, plays a batch of each run for the credit view, writes."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is no flag; write --workdirs=runs/a,runs/b --out=report.html")
    workdirs = [pathlib.Path(name) for name in dict.fromkeys(_WORKDIRS.value)]
    if not workdirs:
        cli.fail(
            "--workdirs is missing: name directories of runs, for example --workdirs=runs/coin"
        )
    if _OUT.value is None and len(workdirs) > 1:
        cli.fail("--out is missing: name the file to write, for example --out=report.html")
    out = workdirs[0] / "report.html" if _OUT.value is None else pathlib.Path(_OUT.value)
    cli.use_compilation_cache()
    from agentrl.evaluation import report, runs

    try:
        loaded = runs.load(workdirs)
        credit = {run.name: _credit(run) for run in loaded} if _CREDIT.value else {}
        flown = {run.name: _flown(run) for run in loaded if run.env in _VOLLEYBALL}
        text = report.report(loaded, credit=credit, matches=flown, metrics=_METRICS.value or None)
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = out.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, out)
    except (ValueError, OSError) as error:
        cli.fail(error)
    print(f"written: {out} ({len(text) / 2**20:.1f} MiB)", file=sys.stderr)


def _credit(run):
    """The credit section of the run's first seed, or why there is none.

    Of the newest checkpoint where some group's returns differ, of each environment; a policy that
    always succeeds has none, then of the one before, as long as the directory keeps any.
    """
    from agentrl.evaluation import report
    from agentrl.training import checkpoint, restored

    path = run.launches[0].path
    section = None
    try:
        for update in reversed(checkpoint.steps(path / "checkpoints")[-3:] or [None]):
            older, differs = _section(restored.load(path, update))
            if section is None or differs:
                section = older
            if differs:
                break
        return report.Credit(section)
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        return report.Credit(section, str(error))


def _flown(run):
    """Matches of the run's newest checkpoint and first seed against the scripted planner; and who
    touches the ball when, where teams have roles.
    """
    import jax

    from agentrl.actors import array_actor, scripted
    from agentrl.evaluation import flights, touches
    from agentrl.evaluation.markup import join, tag
    from agentrl.training import checkpoint, restored

    try:
        loaded = restored.load(run.launches[0].path)
        env, env_params = loaded.experiment.env, loaded.experiment.env_params
        params = jax.tree.map(lambda x: x[0], loaded.state.params)
        mask = loaded.config.rollout.mask_illegal
        own = array_actor(loaded.experiment.policy, params, greedy=True, mask_illegal=mask)
        planner = scripted("expert", env, env_params)
        # A stream of keys of its own, as for the credit's batches.
        stream, shown = jax.random.fold_in(jax.random.key(loaded.config.seed), 0xF11647), []
        for team, players in enumerate(((own, planner), (planner, own))):
            key = jax.random.fold_in(stream, team)
            title = f"The policy is team {team}, the scripted planner team {1 - team}"
            shown.append((title, flights.record(players, env, env_params, key)))
        drawn = flights.section(shown)
        if env.players == 1:
            return drawn
        pair = touches.record((own, planner), env, env_params, stream, matches=_COUNTED)
        named = zip(("the policy", "the scripted planner"), pair, strict=True)
        return join(drawn, tag("h3", "Roles"), touches.section(list(named)))
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        return tag("p", f"Not shown: {error}", class_="note")


def _section(run):
    """(section, whether the shown groups' returns differ)."""
    import jax
    import numpy as np

    from agentrl.evaluation import credit_cards, credit_view, transcripts

    config, experiment = run.config, run.experiment
    if config.rollout.name == "segments":
        raise ValueError("the rollout collects no groups of whole episodes (rollout 'segments').")
    # A stream of keys of its own: a batch that training has not seen, the same at each call.
    stream = jax.random.fold_in(jax.random.key(config.seed), 0xC4ED17)
    first = jax.tree.map(lambda x: x[0], (run.state.params, run.state.rollout))
    carried = {name: getattr(run.state, name) for name in ("baseline", "pool", "member")}
    carried = jax.tree.map(lambda x: x[0], carried)
    batch, tasks = experiment.jit(experiment.batch), tuple(experiment.tasks)
    for attempt in range(_BATCHES):
        key = jax.random.fold_in(stream, attempt)
        streams, rows, credit = batch(*first, key, **carried)
        numbers = range(len(tasks)) if len(tasks) > 1 else [None]
        # Of groups of one nothing ever does.
        alone = np.unique(streams.group).size == streams.group.size
        differs = alone or all(credit_view.choose_group(streams, n)[1] > 0 for n in numbers)
        if differs:
            break
    if config.context.name != "none":
        section = transcripts.section(
            experiment.policy.codec,
            streams,
            rows,
            np.asarray(credit.advantage),
            update=run.update,
            tasks=tasks,
        )
        return section, differs
    rollout = experiment.rollout
    if rollout.states is None or rollout.needs:
        raise ValueError("the states of this rollout's episodes are not known.")
    view = credit_view.view(
        experiment.env,
        experiment.env_params,
        streams,
        rows,
        jax.jit(rollout.states)(*first, key),
        _estimates(run, streams)
        | {_LABELS.get(config.advantage.name, config.advantage.name): credit.advantage},
        update=run.update,
    )
    return credit_cards.section(view), differs


def _estimates(run, streams):
    """What GRPO and GiGPO give to the batch's turns, with the run's options that they share."""
    import jax

    from agentrl import advantages
    from agentrl.training import config as configs
    from agentrl.training.credit import make_credit

    config, estimates = run.config, {}
    options = {name: value for name, value in config.advantage.items() if name != "name"}
    for label, function in (("GRPO", advantages.grpo), ("GiGPO", advantages.gigpo)):
        shared = {k: v for k, v in options.items() if k in configs.options_of(function)}
        other = make_credit(
            config.reward,
            {"name": function.__name__, **shared},
            run.experiment.rollout.provides - {"value", "bootstrap"},
            rollout_name=config.rollout.name,
        )
        estimates[label] = jax.jit(other)(streams).advantage
    return estimates


if __name__ == "__main__":
    cli.run(main)
