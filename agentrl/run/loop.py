"""The training loop: runs a config in a directory, resumes there, and stops cleanly."""

import contextlib
import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import ml_collections
import numpy as np

from agentrl.config.build import Experiment, build
from agentrl.evaluation.alarms import alarms, compares_groups
from agentrl.learner.components import guard
from agentrl.learner.components.steps import are_spent, env_steps
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import Phase
from agentrl.run import checkpoint, evaluations, memory, mesh, metrics, processes, restored
from agentrl.run.files import RunError, write_json
from agentrl.run.programs import Prepared, compile_programs, prepare
from agentrl.run.progress import Progress, title
from agentrl.run.provenance import provenance
from agentrl.run.signals import NOTICE_SECONDS, Stop
from agentrl.run.workdir import claimed, opened, store


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

    Raises:
      ValueError, RunError, CheckpointError: before anything is changed in the directory.
      NonFiniteError: the run is broken; the batch that broke it is in `rejected/`.
    """
    started = time.time()
    config = opened(workdir, config)
    experiment = build(config)
    if experiment.rollout.on_host and jax.process_count() > 1:
        raise ValueError(
            f"config.rollout.name={config.rollout.name!r} with {jax.process_count()} processes: "
            "environments in Python are stepped by one; start one process"
        )
    device_mesh = mesh.make_mesh(config, experiment)
    directory, params = workdir / "checkpoints", None
    if not checkpoint.steps(directory):
        params = restored.beginning(config, experiment, device_mesh)
    signals = Stop() if stop is None else contextlib.nullcontext(stop)
    with claimed(workdir, config), mesh.use(device_mesh), signals as stop:
        if evaluations.finished(workdir, config.updates):
            experiment.rollout.close()
            return True  # before anything compiles
        update, state, stop.saved, writer, first = 0, None, None, None, {}
        programs = compile_programs(experiment, config, device_mesh)
        if checkpoint.steps(directory):
            update, state = checkpoint.restore(directory, programs.shapes)
            stop.saved = update
        if processes.is_first():
            unevaluated = evaluations.pending(workdir, update) is not None
            checkpoint.set_aside(directory, update)
            metrics.rewind(workdir / "metrics.jsonl", update - unevaluated)
            first = metrics.first_with("approx_kl", workdir / "metrics.jsonl")
            write_json(workdir / "provenance.json", provenance(command))
            writer = metrics.Writer(workdir, range(config.seed, config.seed + config.num_seeds))
        progress = Progress(
            total=config.updates,
            done=update,
            title=title(config, experiment.tasks, programs.shapes.params, update),
            budget=config.env_steps,
            quiet=writer is None,
        )
        try:
            with progress:
                ready = prepare(config, experiment, programs, device_mesh)
                if processes.is_first():
                    store(workdir, ready.config)
                parts = _Parts(
                    ready, workdir, device_mesh, writer, progress, stop, {}, first, started
                )
                with memory.told(ready.needs):
                    state = _begun(ready, params) if state is None else state
                    return _loop(parts, state, update, stop_after)
        finally:
            if writer is not None:
                writer.close()
            experiment.rollout.close()


def _begun(ready: Prepared, params: chex.ArrayTree) -> TrainState:
    """The state before the first update. params: entries to begin from, or None."""
    programs = ready.programs
    state = programs.init(programs.seeds)
    if params is None:
        return state
    # Published weights leave value heads at their random initialisation.
    params = {**state.params, **params}
    placed = jax.tree.map(lambda s: s.sharding, programs.shapes.params)
    return programs.restart(state.replace(params=jax.device_put(params, placed)))


class _Parts(NamedTuple):
    """The parts of a run. writer: None in all processes but the first. timings: seconds of the last
    call of each program. first: by seed, see `first_of`. started: when, by `time.time`.
    """

    ready: Prepared
    workdir: pathlib.Path
    device_mesh: jax.sharding.Mesh | None
    writer: metrics.Writer | None
    progress: Progress
    stop: Stop
    timings: dict[str, float]
    first: dict[int, dict[str, Any]]
    started: float

    @property
    def config(self) -> ml_collections.ConfigDict:
        """The config that runs: a number in the place of `learner.microbatch="auto"`."""
        return self.ready.config

    @property
    def experiment(self) -> Experiment:
        """What `agentrl.config.build.build` makes of `config`: functions to compile."""
        return self.ready.experiment

    def timed(self, name: str, function: Callable, *args: Any) -> Any:
        """The function's result, once computed; its duration goes to `timings`."""
        before = time.perf_counter()
        out = jax.block_until_ready(function(*args))
        self.timings[name] = time.perf_counter() - before
        return out

    def first_of(self, record: dict[str, Any]) -> dict[str, Any]:
        """The first record of the record's seed that has metrics of reinforcement learning."""
        if "approx_kl" in record:
            return self.first.setdefault(record["seed"], record)
        return {}

    def keep(self, update: int, records: list, machine: dict) -> evaluations.Pending:
        """Writes metrics that wait for their evaluation: see `evaluations.pending`."""
        waiting = evaluations.Pending(update, records, machine | self.timings)
        if self.writer is not None:
            evaluations.keep(self.workdir, waiting)
        return waiting

    def report(self, update: int, records: list[dict], machine: dict[str, float]) -> None:
        """Writes and shows the metrics of an update, and raises the alarms."""
        machine = {
            "wall_time": time.time() - self.started,
            "peak_memory_gib": metrics.peak_memory_gib(),
            **machine,
            **self.timings,
        }
        if self.writer is not None:
            for record in records:
                self.writer.write(record | machine)
            self.writer.flush()
            evaluations.forget(self.workdir)
        self.progress.show(update, records, machine)
        groups = compares_groups(self.config)
        for record in records:
            for name, text in alarms(record, self.first_of(record), groups=groups).items():
                self.progress.say(name, f"{text} (seed {record['seed']}, update {update})")

    def save(self, state: TrainState, update: int) -> int:
        """Writes a checkpoint; returns its update."""
        config = self.config
        write = functools.partial(
            checkpoint.save, self.workdir / "checkpoints", update, keep=config.checkpoint.keep
        )
        self.timed("time/checkpoint", write, state)
        self.stop.saved = update
        return update


def _before_training(parts: _Parts, state: TrainState, update: int) -> evaluations.Pending | None:
    """Plays the evaluation that the last call left, and that of the start. Returns the one that
    still waits, since the run is to stop."""
    waiting = evaluations.pending(parts.workdir, update)
    if processes.any_of(parts.stop.requested):
        return waiting
    if waiting is not None:
        _evaluate(parts, state, update, waiting.records)
        parts.report(update, waiting.records, waiting.machine)
    if update == 0 and parts.config.evaluation.at_start:
        _evaluate(parts, state, update, [])
    return None


def _loop(parts: _Parts, state: TrainState, update: int, stop_after: int | None) -> bool:
    """Runs programs until done or stopped. The state is donated at each step: rebind it."""
    config, experiment = parts.config, parts.experiment
    end = config.updates if stop_after is None else min(stop_after, config.updates)
    saved, steps_before = update, env_steps(state.carry)
    waiting = _before_training(parts, state, update)
    # Programs in Python compile as they are met.
    compile_time = parts.ready.seconds if parts.ready.needs else None
    stopping = processes.any_of(parts.stop.requested)
    while update < end and not are_spent(config.env_steps, steps_before) and not stopping:
        phase = next(phase for phase, _ in experiment.phases if update < phase.end)
        if update == phase.first > 0:
            state = parts.ready.programs.restart(state)
        state, totals = parts.timed("time/train", parts.ready.train[phase.name], state)
        if compile_time is not None:
            _warn_if_slow(parts)
        compile_time = compile_time or parts.timings["time/train"]
        update += config.log_every
        steps_now = env_steps(state.carry)
        records = _records(config, experiment, update, steps_now, jax.device_get(totals))
        steps, seconds = float((steps_now - steps_before).sum()), parts.timings["time/train"]
        rates = metrics.rates(records, steps, config.log_every, seconds)
        steps_before, machine = steps_now, {"compile_time": compile_time, **rates}
        _check_rejected(parts, state, phase, update, saved)
        last = update >= config.updates or are_spent(config.env_steps, steps_now)
        saves = last or update % (config.checkpoint.every or config.updates) == 0
        evaluates = config.evaluation.every > 0 and (last or update % config.evaluation.every == 0)
        stopping = processes.any_of(parts.stop.requested)
        if evaluates and (saves or stopping):
            # What has been learnt must not be lost with an evaluation that does not end.
            waiting = parts.keep(update, records, machine)
            saved = parts.save(state, update)
            if stopping:
                break  # the run that resumes evaluates first
        if evaluates:
            _evaluate(parts, state, update, records)
        parts.report(update, records, machine)
        waiting = None
        stopping = processes.any_of(parts.stop.requested)
        if saved < update and (saves or stopping):
            saved = parts.save(state, update)
    if saved < update:
        parts.save(state, update)
    return waiting is None and (update >= end or are_spent(config.env_steps, steps_before))


def _warn_if_slow(parts: _Parts) -> None:
    """Says once that signals wait longer than clusters do, if fewer updates per program help."""
    seconds, updates = parts.timings["time/train"], parts.config.log_every
    if updates > 1 and seconds > NOTICE_SECONDS:
        parts.progress.say(
            "slow programs",
            f"config.log_every={updates} updates take {seconds:.0f} s, and signals are obeyed "
            f"after them; clusters give {NOTICE_SECONDS:.0f} s or a little more: another run "
            f"should set config.log_every={max(int(updates * NOTICE_SECONDS / seconds), 1)}",
        )


def _records(
    config: ml_collections.ConfigDict,
    experiment: Experiment,
    update: int,
    steps: np.ndarray,
    totals: dict[str, np.ndarray],
) -> list[dict[str, Any]]:
    """The metrics of each seed, from totals and weights [S, 2]."""
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


def _evaluate(parts: _Parts, state: TrainState, update: int, records: list[dict]) -> None:
    """Plays the fixed tasks, writes the outcomes, and adds their means to the records."""
    config = parts.config
    outcomes = jax.device_get(parts.timed("time/evaluation", parts.ready.evaluate, state.params))
    for name, played in outcomes.items():
        if parts.writer is not None:
            path = evaluations.path_of(parts.workdir, config, name, update)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, evaluations.record(played, config, update))
        prefix = "" if isinstance(config.env.name, str) else f"{name}/"
        for i, record in enumerate(records):
            mean = float(played.episode_return[i].mean())
            record[f"{prefix}evaluation/episode_return"] = mean
            if parts.experiment.tasks[name].env.has_success:
                rate = float(played.success[i].mean())
                record[f"{prefix}evaluation/success_rate"] = rate


def _check_rejected(
    parts: _Parts, state: TrainState, phase: Phase, update: int, saved: int
) -> None:
    """Raises NonFiniteError after too many rejected updates in a row."""
    rejected = np.asarray(guard.rejected_in_a_row(state.carry))
    if rejected.max() < parts.config.max_rejected_updates:
        return
    seed = int(rejected.argmax())
    what = (
        f"{rejected.max()} updates in a row were not finite (seed {parts.config.seed + seed}, "
        f"update {update}); the last checkpoint is of update {saved}"
    )
    if not phase.collects:
        raise NonFiniteError(f"{what}; lower config.warm_start.learning_rate")
    path = _save_rejected(parts.experiment, state, seed, parts.workdir, update, parts.device_mesh)
    raise NonFiniteError(
        f"{what}, the last batch is in {path}; lower config.optimizer.learning_rate or look at the "
        "batch"
    )


def _save_rejected(
    experiment: Experiment,
    state: TrainState,
    seed: int,
    workdir: pathlib.Path,
    update: int,
    device_mesh: jax.sharding.Mesh | None,
) -> pathlib.Path:
    """Collects the rejected batch again, from the guard's inputs, and writes it as arrays."""
    one = guard.rejected_start(jax.tree.map(lambda x: x[seed], state))
    # The sampler's parameters are the same: more updates were rejected than it lags behind.
    batches = experiment.maybe_jit(experiment.batches)(one)
    content = {"batch": batches, "params": one.params}
    if device_mesh is not None:
        content = jax.device_put(content, mesh.everywhere(device_mesh))
    leaves = jax.tree_util.tree_flatten_with_path(content)[0]
    path = workdir / "rejected" / f"update_{update:06d}.npz"
    if not processes.is_first():
        return path
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{jax.tree_util.keystr(key): np.asarray(leaf) for key, leaf in leaves})
    return path
