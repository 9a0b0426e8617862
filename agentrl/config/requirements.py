"""What the parts of a config need from each other, checked before anything compiles.

Functions name the arrays that they read; rollouts, components, annotations and the policy fill
them. `agentrl.streams.FILLED_BY` says once per array what fills it, and errors quote that.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import ml_collections

from agentrl.checks import LARGEST
from agentrl.config import tuned
from agentrl.config.bind import bound, nearest
from agentrl.declarations import PROPERTIES, assumptions_of, broken_by, check_assumptions
from agentrl.learner.component import Component, Setup
from agentrl.learner.credit import Recipe, reads_positions
from agentrl.learner.function import Function
from agentrl.learner.learner import Learner
from agentrl.learner.minibatch import check_minibatches
from agentrl.learner.objective import FORWARD, Term
from agentrl.learner.optimizer import AUTO
from agentrl.rollout import Rollout
from agentrl.streams import FILLED_BY, Rows

if TYPE_CHECKING:
    from agentrl.config.build import Experiment
    from agentrl.policies.protocol import AnyPolicy

ROW_FIELDS = frozenset(Rows.__dataclass_fields__)
# Fields that all rows have.
EVERY_ROW = frozenset({"tokens", "loss_mask", "stream", "turn", "behaviour_logp"})
# Filled by the learner itself, or by nothing that a config could change.
GIVEN = frozenset({"mask", "progress", "old_logp", "turn_start", "loss_mask"})


def annotations_of(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Each annotation with its options, by name."""
    found = {key: bound(f"annotations.{key}", x) for key, x in config.annotations.items()}
    return {key: partial(one.function, **one.options) for key, one in found.items()}


def names_read(terms: Mapping[str, Term], recipe: Recipe | None) -> frozenset[str]:
    """Names of all arrays that terms and credit read, needed or not."""
    credit = [] if recipe is None else _credit(recipe)
    names = {name for _, one in credit for name in (*one.inputs, *one.optional)}
    return frozenset(names.union(*(term.reads for term in terms.values())))


def check_batch(config: ml_collections.ConfigDict, rollout: Rollout) -> None:
    """ValueError unless minibatches and microbatches divide the rows of a batch, which is not
    larger than programs count."""
    turns = config.num_seeds * rollout.num_streams * rollout.turns
    minibatches, microbatch = config.learner.minibatches, config.learner.microbatch
    if turns > LARGEST:
        raise ValueError(
            f"{rollout.num_streams} streams of {rollout.turns} turns for config.num_seeds="
            f"{config.num_seeds} are {turns} turns in a batch: expected at most {LARGEST}; lower "
            f"{rollout.units[1]} or config.num_seeds"
        )
    if minibatches < 1 or rollout.num_rows % minibatches:
        raise ValueError(
            f"config.learner.minibatches={minibatches} does not divide the {rollout.num_rows} rows "
            "of a batch; choose a divisor"
        )
    minibatch = rollout.num_rows // minibatches
    if microbatch in (None, AUTO):
        return
    if not isinstance(microbatch, int):
        raise ValueError(
            f"config.learner.microbatch={microbatch!r}: expected a number of rows, {AUTO!r} or None"
        )
    if microbatch < 1 or minibatch % microbatch:
        raise ValueError(
            f"config.learner.microbatch={microbatch} does not divide the {minibatch} rows of a "
            "minibatch; choose a divisor, or None in the config file"
        )


def check_names(
    config: ml_collections.ConfigDict,
    setup: Setup,
    learner: Learner,
    components: Mapping[str, Component],
) -> None:
    """ValueError for arrays that are read and not filled, or filled at a cost and not read."""
    terms, recipe = learner.terms, learner.recipe
    rollout, policy = setup.rollout, setup.policy
    supplied = {name for component in components.values() for name in component.fills}
    noted = set(config.annotations)
    streams = set(rollout.provides) | supplied | noted
    if reads_positions(recipe.estimator):
        streams |= ROW_FIELDS
    for section, function in _credit(recipe):
        of_rows = EVERY_ROW if function in recipe.reweighting.values() else set()
        for name in function.inputs:
            if name not in streams | of_rows | {"advantage"}:
                raise ValueError(
                    f"{section} needs {_called(name, streams)}, which rollout "
                    f"{config.rollout.name!r} does not give here; it needs {_filler(name)}"
                )
        check_assumptions(section, function.function, rollout.properties, rollout.provides)
        for key, term in recipe.reward.items():
            for name in broken_by(term.function) & assumptions_of(function.function):
                raise ValueError(
                    f"{section} assumes {name!r} of its streams, and reward term {key!r} "
                    f"takes that away. {PROPERTIES[name].meaning} To do: leave the term out, use a "
                    "penalty (a term that does not read `reward`), or an estimator such as 'gae'"
                )
    for name in rollout.needs:
        if name not in supplied:
            raise ValueError(
                f"config.rollout.name={config.rollout.name!r} takes {name!r}, which nothing gives "
                f"here; it needs {_filler(name)}"
            )
    has_target = recipe.value is not None
    known = set(GIVEN) | set(FORWARD) | ROW_FIELDS | supplied | noted | set(policy.outputs)
    known |= {"advantage"} | ({"target", "old_value"} if has_target else set())
    for name, term in terms.items():
        if term.source not in ("rollout", "expert") and (
            term.source not in components or components[term.source].source is None
        ):
            having = [key for key, part in components.items() if part.source is not None]
            raise ValueError(
                f"config.objective.{name}.source={term.source!r}: expected 'rollout', 'expert' or "
                f"a component that is a source ({', '.join(having) or 'there is none'})"
            )
        if term.unit == "pair" and _unit(components, term.source) != 2:
            raise ValueError(
                f"config.objective.{name} ({term.loss.name}) is of pairs of rows, and source "
                f"{term.source!r} has none: name a component with Source(make, unit=2)"
            )
        for read in sorted(term.reads - known):
            raise ValueError(
                f"config.objective.{name} ({term.loss.name}) reads {_called(read, known)}, "
                f"which nothing fills here; it needs {_filler(read)}"
            )
    _check_use(config, setup, terms, recipe, components)


def _unit(components: Mapping[str, Component], source: str) -> int:
    """Rows of a source that stay together."""
    made = components[source].source if source in components else None
    return 1 if made is None else made.unit


def _credit(recipe: Recipe) -> list[tuple[str, Function]]:
    """The functions of the credit, with their sections."""
    filters = {**recipe.before, **recipe.after}
    return [
        *((f"config.reward.{key}", one) for key, one in recipe.reward.items()),
        (f"config.advantage.name={recipe.estimator.name!r}", recipe.estimator),
        *((f"config.filters.{key}", one) for key, one in filters.items()),
        *((f"config.reweighting.{key}", one) for key, one in recipe.reweighting.items()),
    ]


def _called(name: str, known: Iterable[str]) -> str:
    """A name that is missing; if it is none of ours, with the nearest of those that are there.

    Only a close one: it may as well be of a component that was left out.
    """
    return repr(name) + ("" if name in FILLED_BY else nearest(name, sorted(known), cutoff=0.75))


def _filler(name: str) -> str:
    return FILLED_BY.get(
        name, "an annotation (config.annotations) or a component (config.components) of that name"
    )


def _check_use(
    config: ml_collections.ConfigDict,
    setup: Setup,
    terms: Mapping[str, Term],
    recipe: Recipe,
    components: Mapping[str, Component],
) -> None:
    """ValueError for what is computed and read by nothing."""
    policy, provides = setup.policy, setup.rollout.provides
    if "value" in provides and recipe.value is None:
        critic, without = _critic(config)
        raise ValueError(
            f"{critic}, but advantage {recipe.estimator.name!r} does not use a critic; {without} "
            "or use advantage 'gae'"
        )
    if policy.has_critic and not any("value" in term.reads for term in terms.values()):
        critic, without = _critic(config)
        raise ValueError(
            f"{critic} is not trained: set config.objective.value.weight=0.5, or {without}"
        )
    if "persuasion" in provides and "persuasion" not in setup.reads:
        raise ValueError(
            "config.rollout.listeners is not used by anything: set config.reward.persuasion_reward="
            "{'coefficient': 1.0}, or leave it out"
        )
    if policy.num_answers and "answer_logits" not in setup.reads:
        raise ValueError(
            f"config.policy.answers={policy.num_answers} is not trained: add "
            "config.objective.listening = term(losses.listening_loss), or set answers=0"
        )
    _check_questions(config, policy, terms)
    sources = {term.source for term in terms.values()}
    for name, component in components.items():
        if name in config.components and component.fills and name not in sources:
            used = setup.reads | {term.scale for term in terms.values()} | set(setup.rollout.needs)
            if not set(component.fills) & used:
                raise ValueError(
                    f"config.components.{name} is not used by anything: it fills "
                    f"{', '.join(component.fills)}, which no term and no part of the credit "
                    "reads; add one, or leave it out"
                )
    speakers = max(env.speakers for env, _ in setup.envs.values())
    _check_adapters(config, policy, max(setup.rollout.roles, speakers))


def _check_questions(
    config: ml_collections.ConfigDict, policy: "AnyPolicy", terms: Mapping[str, Term]
) -> None:
    """ValueError where a language policy is asked and nothing learns from it, or the reverse."""
    asked = bool(config.rollout.get("question", ""))
    for name, term in terms.items():
        # A policy with a head for answers is asked without words.
        if "asked" in term.reads and not asked and not policy.num_answers:
            raise ValueError(
                f"config.objective.{name} ({term.loss.name}) reads 'asked', which nothing fills "
                f"here; it needs {FILLED_BY['asked']}"
            )
    if asked and not any("asked" in term.reads for term in terms.values()):
        raise ValueError(
            f"config.rollout.question={config.rollout.question!r} is not trained: add "
            "config.objective.listening = term(losses.listening_loss_in_words), or leave it out"
        )


def _critic(config: ml_collections.ConfigDict) -> tuple[str, str]:
    """What gives the policy a critic, and how to have none, for messages."""
    roles = config.policy.get("roles", {})
    sections = {f"config.policy.roles.{name}": section for name, section in roles.items()}
    sections = sections or {"config.policy": config.policy}
    for where, section in sections.items():
        if section.get("critic", "none") != "none":
            return f"{where}.critic={section.critic!r}", f"set {where}.critic='none'"
    own = [f"{where}.name={x.name!r}" for where, x in sections.items() if "critic" not in x]
    return (
        f"{', '.join(own)} has a critic",
        "let the function return a Policy with has_critic=False",
    )


def _check_adapters(config: ml_collections.ConfigDict, policy: "AnyPolicy", played: int) -> None:
    """played: roles of the streams, or those that write one transcript."""
    roles = policy.adapters.roles
    if roles > 1 and roles != played:
        raise ValueError(
            f"config.policy.lora_roles={roles}, and this rollout has {played} role(s): set "
            f"it to {played}, or to 1 for one adapter for all roles"
        )
    scratch = policy.load is None and not config.policy.get("rehearsal")
    rank, heads = config.policy.get("lora_rank"), config.policy.get("output_heads")
    if (policy.adapters.entries or heads) and scratch and not config.init_from:
        option, what = ("lora_rank", "adapters") if rank else ("output_heads", "heads")
        raise ValueError(
            f"config.policy.{option}={rank or heads} without config.init_from: {what} on random "
            "weights that stay; name the run whose parameters they are for, or set 0"
        )


def check_traced(config: ml_collections.ConfigDict, experiment: "Experiment") -> None:
    """ValueError for what shows when updates are traced: see the checks.

    Where environments are in Python, nothing is traced before the first update.
    """
    if not experiment.rollout.runner.traced:
        return
    _check_sources(config, experiment)
    if {"population", "per_seed"} & experiment.components.keys():
        _, train = experiment.phases[-1]
        fitness = config.population.fitness if "population" in experiment.components else None
        tuned.check_traced(experiment.init, train, fitness)


def _check_sources(config: ml_collections.ConfigDict, experiment: "Experiment") -> None:
    """ValueError unless minibatches divide the rows, or pairs, of sources beside the rollout."""
    phase, minibatches = experiment.phases[-1][0], config.learner.minibatches
    # How many rows a source has is known when it is traced; supervised updates are one step.
    parts = [minibatches * _unit(phase.components, name) for name in phase.sources]
    if len(parts) == 1 or max(parts) == 1:
        return
    shapes = jax.eval_shape(experiment.init, jax.ShapeDtypeStruct((), "int32"))
    for name, batch in jax.eval_shape(experiment.batches, shapes).items():
        check_minibatches(
            name, batch.rows.tokens.shape[0], minibatches, _unit(phase.components, name)
        )
