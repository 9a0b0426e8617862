"""Writes a report of runs.

    python -m launchers.report --workdirs=runs/coin_gigpo,runs/coin_grpo --out=report.html

One self-contained HTML file, for a wide screen, a phone and paper: results, differences on the same
tasks with what their intervals are about, learning curves, evaluations, metrics under names for
people, credit turn by turn, configs and provenance. Directories of the same config and commit with
different seeds count as one run. --sweep=DIR in the place of --workdirs reports a sweep: its
cells, which axes matter, and the best cell against the default.
"""

import dataclasses
import os
import pathlib
import sys

from absl import flags

from launchers import cli

_WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of runs, separated by commas.")
_SWEEP = flags.DEFINE_string("sweep", None, "Directory of a sweep, instead of --workdirs.")
_OUT = flags.DEFINE_string("out", None, "File to write; report.html in the only directory given.")
_METRICS = flags.DEFINE_list("metrics", None, "Metrics in the grid of small charts; default all.")
_CREDIT = flags.DEFINE_bool(
    "credit", True, "Play a batch with each run's policy and show its credit."
)

# Number of batches played to find a group whose returns differ.
_BATCHES = 16
# Number of matches in which touches are counted.
_COUNTED = 256
_VOLLEYBALL = ("Volleyball-v1", "PlanarVolleyball-v1")
_LABELS = {"gae": "GAE", "gigpo": "GiGPO", "grpo": "GRPO", "rloo": "RLOO"}


def main(argv: list[str]) -> None:
    """Reads, plays a batch of each run for the credit view, writes."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --workdirs=runs/a,runs/b --out=report.html")
    if _SWEEP.value is not None:
        _sweep(pathlib.Path(_SWEEP.value))
        return
    workdirs = [pathlib.Path(name) for name in dict.fromkeys(_WORKDIRS.value)]
    if not workdirs:
        cli.fail(
            "--workdirs is missing: name directories of runs, for example --workdirs=runs/coin"
        )
    if _OUT.value is None and len(workdirs) > 1:
        cli.fail("--out is missing: name the file to write, for example --out=report.html")
    out = workdirs[0] / "report.html" if _OUT.value is None else cli.output("out", _OUT.value)
    cli.use_compilation_cache()
    from agentrl.evaluation import report, runs

    try:
        loaded = runs.load(workdirs)
        credit = {run.name: _credit(run) for run in loaded} if _CREDIT.value else {}
        flown = {run.name: _flown(run) for run in loaded if run.env in _VOLLEYBALL}
        text = report.report(loaded, credit=credit, matches=flown, metrics=_METRICS.value or None)
        _write(out, text)
    except (ValueError, OSError) as error:
        cli.fail(error)


def _sweep(directory):
    """The report of a sweep."""
    from agentrl.evaluation import sweep_report, sweeps
    from launchers.search import trials

    if _WORKDIRS.value or len(_METRICS.value or []) > 1:
        cli.fail("--sweep takes no --workdirs, and one of --metrics: that of its table")
    out = directory / "report.html" if _OUT.value is None else cli.output("out", _OUT.value)
    try:
        sweep = sweeps.read(directory, *(_METRICS.value or []))
        text = sweep_report.report(sweep, trials.importance(sweep))
        _write(out, text)
    except (ValueError, OSError) as error:
        cli.fail(error)


def _write(out, text):
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, out)
    print(f"written: {out} ({len(text) / 2**20:.1f} MiB)", file=sys.stderr)


def _credit(run):
    """The credit section of the run's first seed, or the reason why there is none.

    It shows the newest checkpoint, for each environment; if all returns within groups are equal, as
    for a policy that always succeeds, the one before, as long as the directory has any.
    """
    from agentrl.evaluation import report
    from agentrl.run import checkpoint, restored

    path = run.launches[0].path
    shown = report.Credit(None)
    try:
        for update in reversed(checkpoint.steps(path / "checkpoints")[-3:] or [None]):
            newest = shown.section is None
            older, differs = _section(restored.load(path, update), replies=newest)
            if newest or differs:
                shown = older if newest else dataclasses.replace(older, replies=shown.replies)
            if differs:
                break
        return shown
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        return dataclasses.replace(shown, reason=str(error))


def _flown(run):
    """Matches of the run's newest checkpoint and first seed against the scripted planner.

    With statistics of touches, if teams have roles.
    """
    import jax

    from agentrl.actors import array_actor
    from agentrl.evaluation import flights, touches
    from agentrl.evaluation.markup import join, tag
    from agentrl.players import scripted
    from agentrl.run import checkpoint, restored

    try:
        loaded = restored.load(run.launches[0].path)
        env, env_params = loaded.experiment.env, loaded.experiment.env_params
        params = jax.tree.map(lambda x: x[0], loaded.state.params)
        mask = loaded.config.rollout.mask_illegal
        own = array_actor(loaded.experiment.policy, params, greedy=True, mask_illegal=mask)
        planner = scripted("expert", env, env_params)
        # A stream of keys of its own, as for the batches of the credit view.
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


def _section(run, *, replies):
    """(what is shown of a batch, whether the shown groups' returns differ).

    replies: with those before and after training, of the first batch, since one whose returns
    differ is chosen by how the trained policy fared.
    """
    import jax
    import numpy as np

    from agentrl.evaluation import credit_view, report
    from launchers import beside

    config, experiment = run.config, run.experiment
    if "whole_episodes" not in experiment.rollout.properties:
        raise ValueError("the rollout collects no groups of whole episodes (rollout 'segments').")
    # A stream of keys of its own: a batch that was not used in training, the same at each call.
    stream = jax.random.fold_in(jax.random.key(config.seed), 0xC4ED17)
    first = jax.tree.map(lambda x: x[0], run.state)
    collect, tasks = experiment.maybe_jit(experiment.batches), tuple(experiment.tasks)
    first_batch = None

    def started(attempt):
        return first.replace(key=jax.random.fold_in(stream, attempt))

    for attempt in range(_BATCHES):
        state = started(attempt)
        batch = collect(state)["rollout"]
        if first_batch is None:
            first_batch = batch
        streams = batch.streams
        numbers = range(len(tasks)) if len(tasks) > 1 else [None]
        # Returns within groups of one never differ.
        alone = np.unique(streams.group).size == streams.group.size
        differs = alone or all(credit_view.choose_group(streams, n)[1] > 0 for n in numbers)
        if differs:
            break
    shown = report.Credit(
        _episodes(run, state, batch),
        drafts=beside.drafts(run, state, batch),
        replaced=beside.replaced(run, batch),
        replies=beside.replies(run, collect, started(0), first_batch) if replies else None,
    )
    return shown, differs


def _episodes(run, state, batch):
    """The section on the credit of a batch that `state` collected."""
    import jax
    import numpy as np

    from agentrl.evaluation import credit_cards, credit_view, transcripts
    from agentrl.learner.train_step import keys_of

    (streams, rows, credit), experiment, options = batch[:3], run.experiment, run.config.rollout
    tasks, estimator = tuple(experiment.tasks), run.config.advantage.name.rpartition(".")[2]
    replaced = tuple(options.get(name, ()) for name in ("partners", "replacements"))
    codec = experiment.policy.codec
    if codec is not None:
        return transcripts.section(
            codec,
            streams,
            rows,
            np.asarray(credit.advantage.values),
            update=run.update,
            tasks=tasks,
            replaced=replaced,
        )
    rollout = experiment.rollout
    if rollout.states is None or rollout.needs:
        raise ValueError("the states of this rollout's episodes are not known.")
    view = credit_view.view(
        experiment.env,
        experiment.env_params,
        streams,
        rows,
        jax.jit(rollout.states)(state.params, state.rollout, keys_of(state)[1]),
        _estimates(run, batch) | {_LABELS.get(estimator, estimator): credit.advantage.values},
        update=run.update,
    )
    return credit_cards.section(view, replaced)


def _estimates(run, batch):
    """Advantages of GRPO and GiGPO for the batch's turns, with the run's options where they
    apply."""
    import jax

    from agentrl import advantages
    from agentrl.config.learning import recipe_of
    from agentrl.learner.credit import credit_of
    from agentrl.learner.function import Function, options_of

    recipe, estimates = recipe_of(run.config), {}
    notes = {name: note.values for name, note in batch.notes.items()}
    options = recipe.estimator.options
    for label, function in (("GRPO", advantages.grpo), ("GiGPO", advantages.gigpo)):
        shared = {k: v for k, v in options.items() if k in options_of(function)}
        other = recipe._replace(estimator=Function(function, shared), carried=None)
        found = jax.jit(lambda s, n, other=other: credit_of(other, s, None, n))
        credit = found(batch.streams, notes)
        estimates[label] = credit.advantage.values
    return estimates


if __name__ == "__main__":
    cli.run(main)
