"""The components of a config: those that something asks for, and a user's own."""

from collections.abc import Mapping
from typing import Any

import ml_collections

from agentrl.checks import check_range
from agentrl.config import tuned
from agentrl.config.base import warm_start
from agentrl.config.bind import bind, bound, check_unused, section
from agentrl.learner.component import Component, Setup
from agentrl.learner.components.baseline import baseline
from agentrl.learner.components.expert import expert
from agentrl.learner.components.guard import guard
from agentrl.learner.components.opponent_pool import opponent_pool
from agentrl.learner.components.per_seed import per_seed
from agentrl.learner.components.population import Selection, members, population
from agentrl.learner.components.reference import reference
from agentrl.learner.components.sampler import sampler
from agentrl.learner.components.steps import steps
from agentrl.learner.learner import Learner


def make_components(
    config: ml_collections.ConfigDict, setup: Setup, learner: Learner, selection: Selection | None
) -> dict[str, Component]:
    """The components of a run by name. selection: of its seeds as members of a population.

    Raises:
      ValueError: options of one that nothing asks for, or that cannot be as they say.
    """
    found: dict[str, Component] = {"guard": guard(setup), "steps": steps(setup)}
    first, end = setup.updates
    lasts = {"warm_start": first > 0, "rl": end > first, "both": True}
    sources = {term.source for term in learner.terms.values() if lasts[term.during]}

    def asked(name, factory, wanted: bool, remedy: str) -> None:
        options = bind(name, factory, config[name])
        if wanted:
            found[name] = factory(setup, **options)
        else:
            check_unused(name, factory, options, remedy)

    asked(
        "reference",
        reference,
        bool({"reference_logp", "reference_kl"} & setup.reads),
        "add a term that reads the reference, config.objective.kl = term(losses.kl, ...)",
    )
    asked(
        "pool",
        opponent_pool,
        "opponents" in setup.rollout.needs,
        "set config.rollout.opponent='pool'",
    )
    own = {
        name: _own(name, values, setup)
        for name, values in config.components.items()
        if name not in found  # an error below
    }
    sources |= {name for part in own.values() if part.source for name in part.source.reads}
    # A warm start that is switched off, updates=0, keeps its options and the expert's.
    switched_off = config.warm_start.to_dict() != section(warm_start, named=False).to_dict()
    if "expert" in sources or not switched_off:
        remedy = "set config.warm_start.updates, or add a term with source='expert'"
        asked("expert", expert, "expert" in sources, remedy)
    else:
        bind("expert", expert, config.expert)
    if "baseline" in learner.recipe.estimator.inputs:
        found["baseline"] = baseline(setup)
    if config.staleness:
        found["sampler"] = sampler(setup, staleness=config.staleness)
    if any(env.tabular for env, _ in setup.envs.values()):
        # Imports the small games that can be solved; other runs start without them.
        from agentrl.learner.components.exploitability import exploitability

        component = exploitability(setup)
        if component is not None:
            found["exploitability"] = component
    values_of_seeds = tuned.by_seed(config, learner)
    if values_of_seeds:
        found["per_seed"] = per_seed(setup, values_of_seeds)
    for name in config.components:
        if name in found:
            raise ValueError(
                f"config.components.{name}: the run has a component of that name already; use "
                "another name, with `name` the dotted path of its function"
            )
        found[name] = own[name]
    if selection is not None:
        found["population"] = members(setup, selection.ranges)
    return found


def _own(name: str, values: Mapping[str, Any], setup: Setup) -> Component:
    path = values.get("name", f"agentrl.learner.components.{name}.{name}")
    factory, options = bound(f"components.{name}", {**values, "name": path})
    made = factory(setup, **options)
    if not isinstance(made, Component):
        raise ValueError(
            f"config.components.{name}: {path} gives {type(made).__name__}; expected a function "
            "(setup, *, options) -> agentrl.learner.component.Component"
        )
    return made


def selection_of(
    config: ml_collections.ConfigDict, setup: Setup, learner: Learner
) -> Selection | None:
    """How the members of a config's population are selected; None if seeds are no members.

    Raises:
      ValueError: options that cannot be as they say, or that nothing uses.
    """
    given = {key: value for key, value in config.population.items() if key != "tuned"}
    options, ranges = bind("population", population, given), tuned.ranges(config, learner)
    if options["every"] == 0:
        if ranges:
            raise ValueError(
                f"config.population.tuned.{next(iter(ranges))} is not used by anything: set "
                "config.population.every, or leave it out"
            )
        check_unused("population", population, options, "set config.population.every")
        return None
    _check_population(config, options)
    return population(setup, ranges, **options)


def _check_population(config, options: Mapping[str, Any]) -> None:
    every = options["every"]
    if config.num_seeds < 2:
        raise ValueError(
            f"config.population.every={every} with config.num_seeds={config.num_seeds}: the seeds "
            "are the members; set num_seeds to 2 or more, or every=0"
        )
    if every < 0 or every % config.log_every:
        raise ValueError(
            f"config.population.every={every}: expected a multiple of "
            f"config.log_every={config.log_every}; updates are compiled in loops of log_every"
        )
    check_range("config.population.top", options["top"], 0, 1, above=True)
    for name in ("bottom", "probability"):
        check_range(f"config.population.{name}", options[name], 0, 1)
    for name in ("absolute_gap", "relative_gap"):
        check_range(f"config.population.{name}", options[name], 0)
