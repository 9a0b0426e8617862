"""Trackers of experiments: the lines of metrics.jsonl, copied to Weights & Biases and to MLflow.

Each seed is a run of the tracker. Lines are copied from the file, from the first on, and a tracker
takes those that it does not have yet. So a run that resumes goes on in the same runs, and what was
lost, since the process was killed or a server did not answer, is filled in; a tracker that is added
to a run gets all of it. What a tracker has of updates that are trained again stays as it is.

Without network: WANDB_MODE=offline writes to `wandb/` in the run's directory, of which
`wandb sync` uploads; MLflow writes to `mlflow.db` there unless MLFLOW_TRACKING_URI names a server.
WANDB_PROJECT and MLFLOW_EXPERIMENT_NAME are "agentrl" unless they are set; all else is as these
packages' own variables say.
"""

import importlib.util
import os
import pathlib
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentrl.config import bind as configs
from agentrl.evaluation import records
from agentrl.run import files

# Packages of each writer.
PACKAGES = {
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    # The last two for its files, which servers do without.
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
}
# Where a run's name in its trackers is.
NAMED = "writers.json"
# The tag by which MLflow finds a run again.
TAG = "agentrl.run"
# Seconds without a try after an error, and at least so many times those that it took.
PAUSE, TIMES = 60.0, 10.0
# What MLflow takes at once.
PARAMETERS, CHARACTERS = 100, 6000


def check(names: Sequence[str]) -> None:
    """ValueError for writers that cannot work here: a missing package, or no key of an account.

    names: of config.writers.
    """
    for name in names:
        needed = PACKAGES[name]
        if name == "mlflow" and os.environ.get("MLFLOW_TRACKING_URI"):
            needed = needed[:1]
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        if missing:
            raise ValueError(
                f"config.writers={tuple(names)}: {name!r} needs the package {missing[0]}: "
                f"pip install 'agentrl[{name}]'"
            )
    if "wandb" not in names:
        return
    import wandb

    # W&B would ask for the key in the middle of the run.
    online = wandb.setup().settings.mode in ("online", "shared")
    if online and not wandb.login(prompt=False, verify=False):
        raise ValueError(
            f"config.writers={tuple(names)}: 'wandb' has no key of an account: run `wandb login`, "
            "or set WANDB_MODE=offline and upload later, with `wandb sync`"
        )


class Tracker(Protocol):
    """Takes records in the order of their updates, those that it has already included."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Adds a record's values to the run of its seed, at the step of its update."""

    def close(self, *, failed: bool) -> None:
        """Ends the runs. failed: an error ended the training."""


class Copy:
    """Copies the lines of metrics.jsonl to a tracker.

    An error of the tracker ends nothing: it is told once, and some time later the tracker gets what
    it lacks. say: tells people a text, once per name.
    """

    def __init__(
        self,
        name: str,
        workdir: pathlib.Path,
        make: Callable[[pathlib.Path], Tracker],
        say: Callable[[str, str], None],
    ):
        self._name, self._workdir, self._make, self._say = name, workdir, make, say
        self._tracker: Tracker | None = None
        self._position, self._next = 0, 0.0

    def update(self) -> None:
        """Copies the lines that are new, unless an error was a short time ago."""
        before = time.monotonic()
        if before < self._next:
            return
        try:
            if self._tracker is None:
                self._tracker = self._make(self._workdir)
            with (self._workdir / "metrics.jsonl").open("rb") as file:
                file.seek(self._position)
                for line in file:
                    record = records.record_of(line)
                    if record is not None:
                        self._tracker.write(record)
                self._position = file.tell()
        except Exception as error:  # whatever these packages raise must not end the training
            self._failed(error)
            took = time.monotonic() - before
            self._next = time.monotonic() + max(PAUSE, TIMES * took)

    def close(self, *, failed: bool) -> None:
        """Copies what is missing, and ends the tracker's runs. failed: as `Tracker.close`."""
        self._next = 0.0
        self.update()
        try:
            if self._tracker is not None:
                self._tracker.close(failed=failed)
        except Exception as error:  # as in `update`
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        text = " ".join(str(error).split())[:300]
        self._say(
            self._name,
            f"failed ({type(error).__name__}: {text}); the training goes on, metrics.jsonl has "
            "everything, and what is missing is copied later, or when the run resumes",
        )


class WeightsAndBiases:
    """W&B. A run knows its next step, so that what a server has is skipped.

    Without network nothing is known of earlier processes, whose last seconds are lost if they were
    killed: their files are replaced by one that has the whole run.
    """

    def __init__(self, workdir: pathlib.Path):
        self._workdir, self._runs = workdir, {}

    def write(self, record: Mapping[str, Any]) -> None:
        """Logs a record at its update, if the run is not that far yet."""
        seed = record["seed"]
        if seed not in self._runs:
            self._runs[seed] = self._begun(seed)
        if record["update"] >= self._runs[seed].step:
            self._runs[seed].log(_values(record), step=record["update"], commit=True)

    def close(self, *, failed: bool) -> None:
        """Finishes the runs, with exit code 1 after an error."""
        for run in self._runs.values():
            run.finish(exit_code=int(failed))

    def _begun(self, seed: int) -> Any:
        import wandb

        name, group = _identity(self._workdir, seed), _group(self._workdir)
        offline = wandb.setup().settings.mode in ("offline", "dryrun")
        if offline:
            for earlier in (self._workdir / "wandb").glob(f"offline-run-*-{name}"):
                shutil.rmtree(earlier, ignore_errors=True)
        return wandb.init(
            dir=str(self._workdir),
            project=os.environ.get("WANDB_PROJECT", "agentrl"),
            id=name,
            name=f"{group}/seed_{seed}",
            group=group,
            config={**files.read_json(self._workdir / "config.json"), "seed": seed},
            allow_val_change=True,  # a run may resume with more updates
            resume=None if offline else "allow",
            reinit="create_new",  # the seeds are runs side by side
            settings=wandb.Settings(console="off", silent=True),
        )


class MLflow:
    """MLflow. The server is asked once which steps of each metric it has."""

    def __init__(self, workdir: pathlib.Path):
        import mlflow

        path = (workdir / "mlflow.db").absolute()
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{path}"
        self._client, self._workdir = mlflow.MlflowClient(tracking_uri=uri), workdir
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "agentrl")
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name)
        self._runs: dict[int, str] = {}
        self._last: dict[int, dict[str, int]] = {}

    def write(self, record: Mapping[str, Any]) -> None:
        """Logs the values of a record that the server does not have."""
        from mlflow.entities import Metric

        seed, step, now = record["seed"], record["update"], int(time.time() * 1000)
        if seed not in self._runs:
            self._begin(seed)
        last, named = self._last[seed], {_plain(k): x for k, x in _values(record).items()}
        new = [Metric(k, x, now, step) for k, x in named.items() if step > last.get(k, -1)]
        try:
            self._client.log_batch(self._runs[seed], metrics=new)
        except Exception:
            del self._runs[seed]  # a server that does not answer may have taken them: ask it again
            raise

    def close(self, *, failed: bool) -> None:
        """Marks the runs as finished, or as failed after an error."""
        for run in self._runs.values():
            self._client.set_terminated(run, "FAILED" if failed else "FINISHED")

    def _begin(self, seed: int) -> None:
        from mlflow.entities import Param

        name, group = _identity(self._workdir, seed), _group(self._workdir)
        found = self._client.search_runs([self._experiment], f"tags.`{TAG}` = '{name}'")
        run = (
            found[0]
            if found
            else self._client.create_run(
                self._experiment,
                run_name=f"{group}/seed_{seed}",
                tags={TAG: name, "group": group, "seed": str(seed)},
            )
        )
        identity = run.info.run_id
        self._client.update_run(identity, status="RUNNING")
        config = {**files.read_json(self._workdir / "config.json"), "seed": seed}
        values = {_plain(key): str(x)[:CHARACTERS] for key, x in configs.flat(config)}
        # A parameter never changes there; of a run that resumed with others it has the first.
        new = [Param(key, x) for key, x in values.items() if key not in run.data.params]
        for i in range(0, len(new), PARAMETERS):
            self._client.log_batch(identity, params=new[i : i + PARAMETERS])
        self._last[seed] = {
            key: max(one.step for one in self._client.get_metric_history(identity, key))
            for key in run.data.metrics
        }
        self._runs[seed] = identity


TRACKERS: Mapping[str, Callable[[pathlib.Path], Tracker]] = {
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def _values(record: Mapping[str, Any]) -> dict[str, float]:
    return {name: x for name, x in record.items() if name not in ("seed", "update")}


def _plain(name: str) -> str:
    """A name with the letters that MLflow takes."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _identity(workdir: pathlib.Path, seed: int) -> str:
    """The name of a seed's run in all trackers, which is drawn once for a directory."""
    path = workdir / NAMED
    if not path.exists():
        files.write_json(path, {"run": secrets.token_hex(6)})
    return f"{files.read_json(path, ['run'])['run']}-{seed}"


def _group(workdir: pathlib.Path) -> str:
    """What people know a run by: the last two folders of its path."""
    return "/".join(workdir.absolute().parts[-2:])
