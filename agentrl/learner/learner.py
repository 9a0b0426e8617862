"""How an update learns: its credit, its objective and its optimizer, as data."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from agentrl.learner.credit import Recipe
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import Optimizer, UpdateOptions

# Sections of the config whose numbers are in `Learner.numbers`.
SECTIONS = (
    "reward",
    "advantage",
    "filters",
    "reweighting",
    "objective",
    "learner",
    "optimizer",
    "optimizers",
)


class Learner(NamedTuple):
    """What an update does with its batches.

    Seeds, members of a population and phases of a run may have numbers of their own in place of the
    config's: `learner.at("optimizer.learning_rate", rate)` is the learner with that one, which may
    be traced. Functions, and options that are no real numbers, are the same for all.
    """

    recipe: Recipe
    terms: Mapping[str, Term]
    options: UpdateOptions
    optimizer: Optimizer

    @property
    def numbers(self) -> dict[str, float | jax.Array]:
        """Its real numbers by their paths in the config."""
        return {path: _get(self, place) for path, place in self._places().items()}

    def at(self, path: str, value: float | jax.Array) -> "Learner":
        """The learner with another number at one of the paths of `numbers`."""
        return _put(self, self._places()[path], value)

    def _places(self) -> dict[str, tuple[str, ...]]:
        """{path in the config: attributes and keys that lead to the number}."""
        sections: dict[str, list[tuple[str, ...]]] = {
            "advantage": [("recipe", "estimator", "options")],
            "learner": [("options",)],
            "optimizer": [("optimizer", "options")],
        }
        for section, fields in (
            ("reward", ["reward"]),
            ("filters", ["before", "after"]),
            ("reweighting", ["reweighting"]),
        ):
            for field in fields:
                for name in getattr(self.recipe, field):
                    sections[f"{section}.{name}"] = [("recipe", field, name, "options")]
        for name in self.optimizer.entries:
            sections[f"optimizers.{name}"] = [("optimizer", "entries", name)]
        for name in self.terms:
            sections[f"objective.{name}"] = [("terms", name), ("terms", name, "loss", "options")]
        return {
            f"{section}.{name}": (*place, name)
            for section, places in sections.items()
            for place in places
            for name, value in _items(_get(self, place))
            if isinstance(value, float | jax.Array)
        }


def _items(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, Mapping):
        return list(node.items())
    return list((node._asdict() if hasattr(node, "_asdict") else vars(node)).items())


def _get(node: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        node = node[name] if isinstance(node, Mapping) else getattr(node, name)
    return node


def _put(node: Any, place: tuple[str, ...], value: Any) -> Any:
    if not place:
        return value
    new = {place[0]: _put(_get(node, place[:1]), place[1:], value)}
    if isinstance(node, Mapping):
        return {**node, **new}
    return node._replace(**new) if hasattr(node, "_replace") else dataclasses.replace(node, **new)
