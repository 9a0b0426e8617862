"""The training loop: runs a config in a directory, resumes there, and stops cleanly."""

import contextlib
import functools
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import chex
import jax
import ml_collections
import numpy as np

from agentrl.config.build import Experiment, build
from agentrl.evaluation.alarms import alarms, compares_groups
from agentrl.learner.components import guard
from agentrl.learner.components.steps import are_spent, env_steps
from agentrl.learner.state import TrainState
from agentrl.learner.totals import Totals
from agentrl.learner.train_step import Phase
from agentrl.players.asked import Gone
from agentrl.run import (
    checkpoint,
    evaluations,
    memory,
    mesh,
    metrics,
    processes,
    restored,
    trajectories,
    writers,
)
from agentrl.run.evaluations import Pending
from agentrl.run.files import RunError, write_json
from agentrl.run.programs import Prepared, Programs, compile_programs, prepare
from agentrl.run.progress import Progress, title
from agentrl.run.provenance import provenance, start_of
from agentrl.run.signals import NOTICE_SECONDS, Stop
from agentrl.run.workdir import claimed, opened, store

Result = TypeVar("Result")


class NonFiniteError(RunError):
    """Several updates in a row were not finite; the last batch is saved."""


def run(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    *,
    command: str,
    stop: Stop | None = None,
    stop_after: int | None = None,
) -> bool:
    """Trains a config in a directory, resuming if it contains checkpoints.

    stop: the signals of several runs one after the other, entered; None are those of this run.
    stop_after: update after which this call saves and returns; schedules go by config.updates.

    Returns True when all of these updates and evaluations are done, False when a signal stopped it
    before (the state is saved).

    Metrics (Axes):
      update: Update; since the start of the run.
      env_steps: Environment steps; since the start of the run.
      gradient_steps: Optimizer steps; since the start of the run.
      wall_time: Wall time [seconds]; since the start or the last resumption.

    Raises:
      ValueError, RunError, CheckpointError: before anything is changed in the directory.
      NonFiniteError: the run is broken; the batch that broke it is in `rejected/`.
    """
    started, seconds = time.time(), {}
    # The directory: what is there can be read, and a run can be written.
    config = opened(workdir, config)
    directory = workdir / "checkpoints"
    # The experiment: the config, bound to functions.
    experiment = build(config)
    writers.check(config.writers)
    # The mesh, and parameters of other runs, or published ones, that a run begins from on it.
    device_mesh, params = mesh.make_mesh(config, experiment), None
    if not checkpoint.steps(directory):
        params = restored.beginning(config, experiment, device_mesh)
    with (
        claimed(workdir, config),
        mesh.use(device_mesh),
        _accompanied(),
        Stop() if stop is None else contextlib.nullcontext(stop) as stop,
        contextlib.ExitStack() as held,
    ):
        held.callback(experiment.rollout.close)
        if evaluations.finished(workdir, config.updates):
            return True  # before anything compiles
        # The programs, which compile once the state is restored and the bar is shown.
        programs = compile_programs(experiment, config, device_mesh)
        # The state: of the last checkpoint, with files as they were then; or before any update.
        update, state, stop.saved = 0, None, None
        if checkpoint.steps(directory):
            update, state = checkpoint.restore(directory, programs.shapes)
            stop.saved = update
        waiting = evaluations.pending(workdir, update)
        if processes.is_first():
            checkpoint.set_aside(directory, update)
            metrics.rewind(workdir / "metrics.jsonl", update - (waiting is not None))
            write_json(
                workdir / "provenance.json",
                provenance(command) | {"start": start_of(workdir, params)},
            )
        progress = Progress(
            total=config.updates,
            done=update,
            title=title(config, experiment.tasks, programs.shapes.params, update),
            budget=config.env_steps,
            quiet=not processes.is_first(),
        )
        report = held.enter_context(_reports(config, workdir, progress, started, seconds))
        held.enter_context(progress)
        ready = prepare(config, experiment, programs, device_mesh)
        if processes.is_first():
            store(workdir, ready.config)
        held.enter_context(memory.told(ready.needs))
        state = _begun(ready.programs, params) if state is None else state

        # The loop, with what it does with a state as functions.
        def save(state: TrainState, update: int, waiting: Pending | None) -> None:
            if waiting is not None and processes.is_first():
                # What has been learnt must not be lost with an evaluation that does not end.
                evaluations.keep(workdir, waiting)
            write = functools.partial(checkpoint.save, keep=config.checkpoint.keep)
            _timed(seconds, "time/checkpoint", write, directory, update, state)
            stop.saved = update

        step = functools.partial(_step, ready, workdir, progress, seconds)
        evaluate = functools.partial(_evaluate, ready, workdir, seconds)
        return _loop(config, state, update, stop_after, waiting, step, evaluate, save, report, stop)


@contextlib.contextmanager
def _accompanied() -> Iterator[None]:
    """Raises RunError for a program that fails inside because a player outside it is gone."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        # Of an error of a callback the program has the text alone.
        reason = re.search(rf"{Gone.__name__}: (.+)", str(error))
        if reason is None:
            raise
        raise RunError(f"{reason[1]}; the same command goes on from the last checkpoint") from None


def _begun(programs: Programs, params: chex.ArrayTree) -> TrainState:
    """The state before the first update. params: entries to begin from, or None."""
    state = programs.init(programs.seeds)
    if params is None:
        return state
    # Published weights leave value heads at their random initialisation.
    params = {**state.params, **params}
    placed = jax.tree.map(lambda s: s.sharding, programs.shapes.params)
    return programs.restart(state.replace(params=jax.device_put(params, placed)))


def _timed(
    seconds: dict[str, float], name: str, function: Callable[..., Result], *args: Any
) -> Result:
    """The function's result, once computed; its duration goes to `seconds`."""
    before = time.perf_counter()
    out = jax.block_until_ready(function(*args))
    seconds[name] = time.perf_counter() - before
    return out


def _loop(
    config: ml_collections.ConfigDict,
    state: TrainState,
    update: int,
    stop_after: int | None,
    waiting: Pending | None,
    step: Callable[[TrainState, int], tuple[TrainState, Pending]],
    evaluate: Callable[[TrainState, Pending], None],
    save: Callable[[TrainState, int, Pending | None], None],
    report: Callable[[Pending], None],
    stop: Stop,
) -> bool:
    """Runs programs until done or stopped. The state is donated at each step: rebind it.

    waiting: what was measured before an evaluation that is due; a run that stops leaves it to the
    one that resumes.
    """
    end = config.updates if stop_after is None else min(stop_after, config.updates)
    saved, spent = update, are_spent(config.env_steps, env_steps(state.carry))
    if update == 0 and config.evaluation.at_start:
        waiting = Pending(0, [], {})
    # Asked once after each program, be it of updates or an evaluation.
    while not processes.any_of(stop.requested):
        if waiting is not None:
            evaluate(state, waiting)
            report(waiting)
            waiting = None
            continue
        if update >= end or spent:
            break
        state, measured = step(state, update)
        update, spent = measured.update, are_spent(config.env_steps, env_steps(state.carry))
        last = update >= config.updates or spent
        if config.evaluation.every > 0 and (last or update % config.evaluation.every == 0):
            waiting = measured
        else:
            report(measured)
        if last or update % (config.checkpoint.every or config.updates) == 0:
            save(state, update, waiting)
            saved = update
    if saved < update:
        save(state, update, waiting)
    return waiting is None and (update >= end or spent)


def _step(
    ready: Prepared,
    workdir: pathlib.Path,
    progress: Progress,
    seconds: dict[str, float],
    state: TrainState,
    update: int,
) -> tuple[TrainState, Pending]:
    """The state after one more program, and what was measured. Raises as `_check_rejected`."""
    config = ready.config
    phase = next(phase for phase, _ in ready.experiment.phases if update < phase.end)
    before = env_steps(state.carry).sum()
    if update == phase.first > 0:
        state = ready.programs.restart(state)
    state, totals = _timed(seconds, "time/train", ready.train[phase.name], state)
    took, updates = seconds["time/train"], config.log_every
    # Programs in Python compile as they are met, so that the first takes longer than the others.
    is_typical = bool(ready.needs) or "compile_time" in seconds
    compile_time = seconds.setdefault("compile_time", ready.seconds if ready.needs else took)
    if is_typical and updates > 1 and took > NOTICE_SECONDS:
        progress.say(
            "slow programs",
            f"config.log_every={updates} updates take {took:.0f} s, and signals are obeyed "
            f"after them; clusters give {NOTICE_SECONDS:.0f} s or a little more: another run "
            f"should set config.log_every={max(int(updates * NOTICE_SECONDS / took), 1)}",
        )
    update += updates
    records = _records(config, ready.experiment, update, state, totals)
    steps = sum(record["env_steps"] for record in records) - before
    rates = metrics.rates(records, float(steps), updates, took)
    _check_rejected(ready, workdir, phase, state, update)
    if phase.collects:
        everywhere = ready.programs.shapes.update.sharding
        trajectories.write(config, ready.experiment, state, update, workdir, everywhere)
    return state, Pending(update, records, {"compile_time": compile_time, **rates, **seconds})


def _records(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    update: int,
    state: TrainState,
    totals: Totals,
) -> list[dict[str, Any]]:
    """The metrics of each seed, from totals and weights [S, 2]."""
    totals = jax.device_get(totals)
    steps = env_steps(state.carry)
    supervised = sum(phase.end for phase, _ in experiment.phases if phase.name == "warm_start")
    per_update = config.learner.epochs * config.learner.minibatches
    gradient_steps = min(update, supervised) + max(update - supervised, 0) * per_update
    return [
        {
            "seed": config.seed + i,
            "update": update,
            "env_steps": int(steps[i]),
            "gradient_steps": gradient_steps,
            **metrics.means(totals, i),
        }
        for i in range(config.num_seeds)
    ]


def _check_rejected(
    ready: Prepared, workdir: pathlib.Path, phase: Phase, state: TrainState, update: int
) -> None:
    """NonFiniteError after too many rejected updates in a row. The last batch is collected again,
    from the guard's inputs, and written as arrays."""
    config, experiment = ready.config, ready.experiment
    rejected = np.asarray(guard.rejected_in_a_row(state.carry))
    if rejected.max() < config.max_rejected_updates:
        return
    seed = int(rejected.argmax())
    saved = max(checkpoint.steps(workdir / "checkpoints"), default=0)
    what = (
        f"{rejected.max()} updates in a row were not finite (seed {config.seed + seed}, "
        f"update {update}); the last checkpoint is of update {saved}"
    )
    if not phase.collects:
        raise NonFiniteError(f"{what}; lower config.warm_start.learning_rate")
    one = guard.rejected_start(jax.tree.map(lambda x: x[seed], state))
    # The sampler's parameters are the same: more updates were rejected than it lags behind.
    content = {"batch": experiment.maybe_jit(experiment.batches)(one), "params": one.params}
    # Where the counter of updates is: all of it on each device.
    content = jax.device_put(content, ready.programs.shapes.update.sharding)
    path = workdir / "rejected" / f"update_{update:06d}.npz"
    if processes.is_first():
        leaves = jax.tree_util.tree_flatten_with_path(content)[0]
        path.parent.mkdir(exist_ok=True)
        np.savez(path, **{jax.tree_util.keystr(key): np.asarray(leaf) for key, leaf in leaves})
    raise NonFiniteError(
        f"{what}, the last batch is in {path}; lower config.optimizer.learning_rate or look at the "
        "batch"
    )


def _evaluate(
    ready: Prepared,
    workdir: pathlib.Path,
    seconds: dict[str, float],
    state: TrainState,
    measured: Pending,
) -> None:
    """Plays the fixed tasks, writes the outcomes, and adds their means to the records."""
    config = ready.config
    outcomes = _timed(seconds, "time/evaluation", ready.evaluate, state.params)
    for name, played in jax.device_get(outcomes).items():
        if processes.is_first():
            evaluations.write(workdir, config, name, measured.update, played)
        prefix = "" if isinstance(config.env.name, str) else f"{name}/"
        for i, record in enumerate(measured.records):
            mean = float(played.episode_return[i].mean())
            record[f"{prefix}evaluation/episode_return"] = mean
            if ready.experiment.tasks[name].env.has_success:
                rate = float(played.success[i].mean())
                record[f"{prefix}evaluation/success_rate"] = rate


@contextlib.contextmanager
def _reports(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    progress: Progress,
    started: float,
    seconds: dict[str, float],
) -> Iterator[Callable[[Pending], None]]:
    """Opens the metrics' files. Yields what writes and shows those of an update, and raises the
    alarms; in all processes but the first it does nothing. started: when, by `time.time`."""
    if not processes.is_first():
        yield lambda measured: None
        return
    first = metrics.first_with("approx_kl", workdir / "metrics.jsonl")
    seeds = range(config.seed, config.seed + config.num_seeds)
    groups = compares_groups(config)

    def report(measured: Pending) -> None:
        update, records, machine = measured
        wall = {"wall_time": time.time() - started, "peak_memory_gib": metrics.peak_memory_gib()}
        machine = {**wall, **machine, **seconds}
        for record in records:
            writer.write(record | machine)
        writer.flush()
        evaluations.forget(workdir)
        if records:  # else of an evaluation at the start
            progress.show(update, records, machine)
        for record in records:
            learns = "approx_kl" in record
            before = first.setdefault(record["seed"], record) if learns else {}
            for name, text in alarms(record, before, groups=groups).items():
                progress.say(name, f"{text} (seed {record['seed']}, update {update})")

    with metrics.Writer(workdir, seeds, config.writers, progress.say) as writer:
        yield report
