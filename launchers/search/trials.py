"""The trials of a search: proposed by Optuna's samplers, recorded in its journal file.

The journal is one file in the directory of the search; it needs no server, and Optuna's own tools
(its dashboard, for one) read it while the search goes on. A trial is written whole, in one line,
before its cell runs, and what it scores at a rung as soon as it is known. So the file says at every
moment which trials there are, and a search that was killed goes on with exactly those.
"""

import pathlib
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.evaluation.sweeps import Sweep, scale
from launchers.search.space import Axis, Space, Value

STUDY = "search"
JOURNAL = "search.journal"
# Axes with more different values are ranges to the analysis.
_FEW = 8
# Seeds of the sampler for successive batches are so far apart.
_SEEDS_APART = 1_000_003


class Trial(NamedTuple):
    """One trial. state: "running", "complete", "pruned" or "failed". scores: by update."""

    number: int
    values: Mapping[str, Value]
    state: str
    scores: Mapping[int, float]


def optuna() -> Any:
    """The package. ValueError if it is missing."""
    try:
        import optuna
    except ImportError:
        raise ValueError("a search needs optuna: pip install 'agentrl[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Options of the samplers that Optuna 4 calls experimental.
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    return optuna


class Trials:
    """The trials of one search. One process at a time may write them.

    about: what the search is, in JSON; a directory that holds another one is refused.
    """

    def __init__(self, directory: pathlib.Path, space: Space, *, minimize: bool, about: Any):
        self._optuna, self._space = optuna(), space
        backends = self._optuna.storages.journal
        _drop_torn_line(directory / JOURNAL)
        backend = backends.JournalFileBackend(str(directory / JOURNAL))
        self._storage = self._optuna.storages.JournalStorage(backend)
        self._direction = "minimize" if minimize else "maximize"
        self._study = self._optuna.create_study(
            storage=self._storage, study_name=STUDY, direction=self._direction, load_if_exists=True
        )
        before = self._study.user_attrs.get("about")
        if before is None:
            self._study.set_user_attr("about", about)
        elif before != about:
            changed = [k for k in about if before.get(k) != about[k]]
            told = "; ".join(f"{k} was {before.get(k)} and is now {about[k]}" for k in changed)
            raise ValueError(
                f"{directory} holds another search ({told}); use another --workdir, or the same "
                "flags to go on with it"
            )

    def all(self) -> list[Trial]:
        """Every trial, in the order in which they were proposed."""
        names = {"FAIL": "failed"}
        return [
            Trial(
                trial.number,
                trial.params,
                names.get(trial.state.name, trial.state.name.lower()),
                trial.intermediate_values,
            )
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def add(self, values: Mapping[str, Value]) -> None:
        """Records a trial that is to run."""
        self._study.add_trial(self._frozen(Trial(0, values, "running", {})))

    def report(self, number: int, update: int, score: float) -> None:
        """Records what a trial scored at an update."""
        study_id = self._storage.get_study_id_from_name(STUDY)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        self._storage.set_trial_intermediate_value(trial_id, update, score)

    def finish(self, number: int, state: str, score: float | None = None) -> None:
        """Ends a trial: "complete" with its score, "pruned" or "failed"."""
        self._study.tell(number, score, state=self._state(state))

    def propose(self, kind: str, first: int, count: int, seed: int) -> list[dict[str, Value]]:
        """Values of the trials `first` to `first + count - 1`, by the trials before them.

        kind: "random" or "tpe". The sampler is made anew from a seed of its own for each batch, so
        that a search that was interrupted proposes what the uninterrupted one would have: a sampler
        that began again with its first seed would repeat its first proposals.
        """
        seed = (seed * _SEEDS_APART + first) % 2**32
        samplers = self._optuna.samplers
        if kind == "random":
            sampler = samplers.RandomSampler(seed=seed)
        else:
            sampler = samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        study = self._optuna.create_study(sampler=sampler, direction=self._direction)
        study.add_trials([self._frozen(trial) for trial in self.all() if trial.number < first])
        proposed = [study.ask(self._distributions()).params for _ in range(count)]
        return [
            {
                axis.key: p[axis.key] if axis.kind == "choice" else axis.rounded(p[axis.key])
                for axis in self._space.axes
            }
            for p in proposed
        ]

    def _state(self, name: str) -> Any:
        return self._optuna.trial.TrialState[{"failed": "FAIL"}.get(name, name.upper())]

    def _distributions(self) -> dict[str, Any]:
        return {axis.key: _distribution(axis, self._optuna) for axis in self._space.axes}

    def _frozen(self, trial: Trial) -> Any:
        scored = trial.state in ("complete", "pruned")
        return self._optuna.trial.create_trial(
            state=self._state(trial.state),
            value=trial.scores[max(trial.scores)] if scored else None,
            params=dict(trial.values),
            distributions=self._distributions(),
            intermediate_values=dict(trial.scores),
        )


def _distribution(axis: Axis, optuna: Any) -> Any:
    of = optuna.distributions
    if axis.kind == "choice":
        return of.CategoricalDistribution(axis.choices)
    if axis.kind == "int":
        return of.IntDistribution(int(axis.low), int(axis.high))
    return of.FloatDistribution(axis.low, axis.high, log=axis.kind == "log")


def _drop_torn_line(path: pathlib.Path) -> None:
    """Cuts what a process wrote of its last line when it was killed: Optuna would append to it."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def importance(sweep: Sweep) -> dict[str, float]:
    """How much each axis matters for being among the best cells, by PED-ANOVA; sums to 1.

    For each axis the Pearson divergence between the distribution of its values among the best
    cells, the best tenth but at least five, and among all, where all cells compare. {} with fewer
    than ten cells, if all score the same, or without Optuna. It says nothing of the interplay of
    axes, and has no interval.

    Watanabe, Bansal, Hutter (2023), PED-ANOVA: Efficiently Quantifying Hyperparameter Importance
    in Arbitrary Subspaces, https://arxiv.org/abs/2304.10255.
    """
    until = sweep.common_update()
    scores = [sweep.value(cell, until) for cell in sweep.cells]
    if len(scores) < 10 or len(set(scores)) < 2 or not sweep.axes:
        return {}
    try:
        package = optuna()
    except ValueError as error:
        print(f"importance is left out: {error}", file=sys.stderr)
        return {}
    distributions = {}
    for key in sweep.axes:
        values = [cell.values[key] for cell in sweep.cells]
        kind, distinct = scale(values), tuple(dict.fromkeys(values))
        if kind == "choice" or len(distinct) <= _FEW:
            axis = Axis(key, "choice", distinct)
        else:
            axis = Axis(key, kind, low=min(values), high=max(values))
        distributions[key] = _distribution(axis, package)
    study = package.create_study(direction="minimize" if sweep.minimize else "maximize")
    study.add_trials(
        [
            package.trial.create_trial(
                params=dict(cell.values), distributions=distributions, value=score
            )
            for cell, score in zip(sweep.cells, scores, strict=True)
        ]
    )
    quantile = max(0.1, 5 / len(scores))
    evaluator = package.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
    return package.importance.get_param_importances(study, evaluator=evaluator)
