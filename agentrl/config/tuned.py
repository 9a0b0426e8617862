"""Numbers that seeds of one compiled program have of their own: `population.tuned`, `per_seed`."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import jax
import ml_collections

from agentrl.config.bind import flat, nearest
from agentrl.learner.learner import SECTIONS, Learner
from agentrl.learner.optimizer import check_options


def ranges(config: ml_collections.ConfigDict, learner: Learner) -> dict[str, tuple[float, float]]:
    """(low, high) by path of each option that members of a population tune.

    Raises:
      ValueError: an option that is not a number, a range that is none or leaves the config's own
        value out.
    """
    found = {}
    for path, bounds in flat(config.population.tuned.to_dict()):
        label = f"config.population.tuned.{path}"
        own = _number(config, learner, path, label)
        if not _are_numbers(bounds) or len(bounds) != 2 or not 0 < bounds[0] <= bounds[1] < inf:
            raise ValueError(f"{label}={bounds!r}: expected (low, high) with 0 < low <= high")
        if not bounds[0] <= own <= bounds[1]:
            raise ValueError(
                f"{label}={bounds!r}: config.{path}={own!r} is not within; change one of the two"
            )
        found[path] = (float(bounds[0]), float(bounds[1]))
    return found


def by_seed(config: ml_collections.ConfigDict, learner: Learner) -> dict[str, tuple[float, ...]]:
    """A value for each seed, by path of each option in `config.per_seed`.

    Raises:
      ValueError: an option that is not a number, or is tuned by a population as well; not one value
        for each seed.
    """
    found, tuned = {}, dict(flat(config.population.tuned.to_dict()))
    for path, values in flat(config.per_seed.to_dict()):
        label = f"config.per_seed.{path}"
        _number(config, learner, path, label)
        if not _are_numbers(values) or len(values) != config.num_seeds:
            raise ValueError(
                f"{label}={values!r}: expected {config.num_seeds} numbers, one for each of "
                "config.num_seeds"
            )
        if path in tuned:
            raise ValueError(f"{label}: config.population.tuned has it, too; leave one of them out")
        options, _, name = path.rpartition(".")
        for value in values:
            if options.startswith("optimizer"):
                check_options(f"config.per_seed.{options}", {name: value})
        found[path] = tuple(float(value) for value in values)
    return found


def _number(config: ml_collections.ConfigDict, learner: Learner, path: str, label: str) -> float:
    """The config's own value at a path that seeds may have values of their own for."""
    if path in learner.numbers:
        return learner.numbers[path]
    names, node = path.split("."), config.to_dict()
    if names[0] not in SECTIONS:
        raise ValueError(
            f"{label}{nearest(names[0], SECTIONS)}: seeds may have their own options of "
            f"{', '.join(SECTIONS)}"
        )
    for name in names:
        if not isinstance(node, Mapping) or name not in node:
            known = node if isinstance(node, Mapping) else ()
            raise ValueError(f"{label}: there is no config.{path}{nearest(name, known)}")
        node = node[name]
    if isinstance(node, float):
        raise ValueError(
            f"{label}: config.{'.'.join(names[:2])}.weight=0 leaves the term out: give it a "
            f"weight, or seeds weights of their own (config.per_seed.{'.'.join(names[:2])}.weight)"
        )
    raise ValueError(f"{label}: config.{path}={node!r} is not a real number")


def _are_numbers(values: object) -> bool:
    return isinstance(values, tuple | list) and all(
        isinstance(x, float | int) and not isinstance(x, bool) for x in values
    )


def check_traced(init: Callable, train: Callable, fitness: str | None) -> None:
    """ValueError unless training can be traced with all these options, and gives the fitness.

    init, train: of the run. fitness: the metric of the population's selection, None without one.
    """
    shapes = jax.eval_shape(init, jax.ShapeDtypeStruct((), "int32"))

    def traced(path: str | None = None) -> Mapping[str, Any]:
        """Metrics of an update with one of the options in its place, or with all."""
        carry = dict(shapes.carry)
        if "population" in carry:
            member = carry["population"]
            carry["population"] = member.replace(options=_only(path, member.options))
        if "per_seed" in carry:
            carry["per_seed"] = _only(path, carry["per_seed"])
        return jax.eval_shape(train, shapes.replace(carry=carry))[1]

    try:
        metrics = traced()
    except jax.errors.ConcretizationTypeError:
        for key, options in _by_key(shapes.carry).items():
            for path in options:
                try:
                    traced(path)
                except jax.errors.ConcretizationTypeError:
                    raise ValueError(
                        f"config.{key}.{path}: config.{path} decides what is computed, and so it "
                        "cannot differ between seeds that share a program"
                    ) from None
        raise
    if fitness is not None and fitness not in metrics:
        raise ValueError(
            f"config.population.fitness={fitness!r}{nearest(fitness, metrics)}: expected a metric "
            f"of this run's training, one of {', '.join(sorted(metrics))}"
        )


def _only(path: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if path in (None, key)}


def _by_key(carry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The options that are carried, by the config's key that names them."""
    found = {}
    if "population" in carry:
        found["population.tuned"] = carry["population"].options
    if "per_seed" in carry:
        found["per_seed"] = carry["per_seed"]
    return found
