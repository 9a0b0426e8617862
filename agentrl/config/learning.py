"""The objective, the credit, the optimizer and the update of a config."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import ml_collections
import optax

from agentrl import losses
from agentrl.checks import check_range
from agentrl.config.bind import TERM_KEYS, bind, bound, nearest
from agentrl.learner.bound import Bound
from agentrl.learner.component import Setup
from agentrl.learner.credit import Recipe, make_credit
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import NORMALIZATIONS, OVER_MAX_KL, UpdateOptions, optimizer
from agentrl.learner.update import make_update
from agentrl.policies.scoring import split

# Sections whose numbers seeds may have of their own: they are bound while an update is traced.
TUNABLE = ("reward", "advantage", "objective", "learner", "optimizer")
DURING = ("rl", "warm_start", "both")
# Carried numbers that an estimator takes and returns a new value of.
CARRIED = ("baseline",)


def objective_of(objective: Mapping[str, Any]) -> dict[str, Term]:
    """The terms of an objective by name.

    Raises:
      ValueError: a term that cannot be as it says.
    """
    terms = {}
    for key, values in objective.items():
        label = f"objective.{key}"
        own = {name: values.get(name, default) for name, default in TERM_KEYS.items()}
        if isinstance(own["weight"], float | int) and own["weight"] == 0:
            continue
        if own["during"] not in DURING:
            raise ValueError(
                f"config.{label}.during={own['during']!r}{nearest(own['during'], DURING)}: "
                f"expected one of {', '.join(DURING)}"
            )
        final = own["final_weight"]
        if final is not None and not min(own["weight"], final) > 0:
            raise ValueError(
                f"config.{label}.final_weight={final} with weight={own['weight']}: it goes there "
                "by equal factors, so both are above 0; or set None"
            )
        made = Term(bound(label, values, beside=TERM_KEYS), **own)
        if made.scale is not None and made.unit != "position":
            raise ValueError(
                f"config.{label}.scale={made.scale!r} multiplies values per position, and "
                f"{made.loss.name} gives one value per {made.unit}: set None"
            )
        terms[key] = made
    return terms


def recipe_of(
    config: ml_collections.ConfigDict, sections: Mapping[str, Any] | None = None
) -> Recipe:
    """The functions of a config's credit. sections: numbers in place of the config's.

    Raises:
      ValueError: unknown functions or options.
    """
    sections = config if sections is None else sections
    reward = [bound(f"reward.{key}", values) for key, values in sections["reward"].items()]
    # Terms that move reward between turns come after those that change it.
    reward.sort(key=lambda one: getattr(one.function, "moves_reward", False))
    estimator = bound("advantage", sections["advantage"])
    filters: dict[str, list[Bound]] = {"before": [], "after": []}
    for key, values in config.filters.items():
        when = values.get("when", "after")
        if when not in filters:
            raise ValueError(
                f"config.filters.{key}.when={when!r}: expected 'before' or 'after' the statistics"
            )
        filters[when].append(bound(f"filters.{key}", values, beside={"when": "after"}))
    carried = [name for name in CARRIED if name in estimator.inputs]
    return Recipe(
        reward=reward,
        estimator=estimator,
        carried=carried[0] if carried else None,
        before=filters["before"],
        after=filters["after"],
        reweighting=[
            bound(f"reweighting.{key}", values) for key, values in config.reweighting.items()
        ],
    )


def with_options(
    config: ml_collections.ConfigDict, options: Mapping[str, jax.Array]
) -> dict[str, dict[str, Any]]:
    """The config's `TUNABLE` sections with these values, by path, in the place of its own."""
    sections = {name: config[name].to_dict() for name in TUNABLE}
    for path, value in options.items():
        *parents, last = path.split(".")
        node: dict[str, Any] = sections
        for name in parents:
            node = node[name]
        node[last] = value
    return sections


def make_transform(
    config: ml_collections.ConfigDict,
    policy: Any,
    total_steps: int,
    rate: Mapping[str, float],
    section: Mapping[str, Any] | None = None,
) -> optax.GradientTransformation:
    """The optimizer of the trained parameters over `total_steps` gradient steps.

    config.optimizers: {entry of the parameters: options that differ from config.optimizer's}. The
    gradients of each entry are then clipped to a norm of their own.
    rate: {"learning_rate": ...} in place of config.optimizer's, or {}. section: numbers in place of
    config.optimizer's.

    Raises:
      ValueError: an entry that is not among the trained parameters, or an unknown option.
    """
    common = bind("optimizer", optimizer, config.optimizer if section is None else section)
    common = common | dict(rate)
    if not config.optimizers:
        return optimizer(total_steps, **common)
    trained, frozen = split(jax.eval_shape(policy.init, jax.random.key(0)), policy.frozen)
    known = list(trained) if isinstance(trained, dict) else []
    transforms = {"": optimizer(total_steps, **common)}
    for entry, values in config.optimizers.items():
        if entry not in known:
            raise ValueError(
                f"config.optimizers.{entry}: the policy has no trained entry of that name"
                f"{nearest(entry, known)}; expected one of {', '.join(known) or 'none'}"
                + (f" (frozen: {', '.join(frozen)})" if frozen else "")
            )
        own = bind(f"optimizers.{entry}", optimizer, values)
        transforms[entry] = optimizer(total_steps, **{**common, **own})

    def labels(params):
        return {name: name if name in config.optimizers else "" for name in params}

    return optax.multi_transform(transforms, labels)


def learner_of(
    config: ml_collections.ConfigDict,
    setup: Setup,
    terms: Mapping[str, Term],
    steps: int,
    rate: Mapping[str, float],
    *,
    supervised: bool,
) -> Callable[[Mapping[str, jax.Array]], tuple[Callable, Callable]]:
    """({path: number}) -> (credit, update), with these numbers in place of the config's.

    steps: gradient steps of the phase. rate: its learning rate, if that is its own. supervised:
    each update is one step on all rows.
    """

    def made(options: Mapping[str, jax.Array]) -> tuple[Callable, Callable]:
        sections = with_options(config, options)
        now = objective_of(sections["objective"])
        now = {name: now[name] for name in terms}
        update = UpdateOptions(**bind("learner", UpdateOptions, sections["learner"]))
        if supervised:
            update = dataclasses.replace(
                update, epochs=1, minibatches=1, normalize_advantage="none"
            )
        credit = make_credit(recipe_of(config, sections))
        transform = make_transform(config, setup.policy, steps, rate, sections["optimizer"])
        return credit, make_update(setup.policy, transform, now, update, setup.rollout.roles)

    check_learner(config, setup)
    return made


def check_learner(config: ml_collections.ConfigDict, setup: Setup) -> None:
    """ValueError for options of the update that cannot be as they say."""
    given, roles = config.learner, setup.rollout.roles
    for name, known in (
        ("aggregation", losses.AGGREGATIONS),
        ("normalize_advantage", NORMALIZATIONS),
        ("over_max_kl", OVER_MAX_KL),
    ):
        if given[name] not in known:
            raise ValueError(
                f"config.learner.{name}={given[name]!r}{nearest(given[name], known)}: "
                f"expected one of {', '.join(known)}"
            )
    if given.normalize_advantage == "role" and roles == 1:
        raise ValueError(
            "config.learner.normalize_advantage='role' tells roles apart, of which this rollout "
            "has one: use 'batch'"
        )
    if given.max_kl is None and given.over_max_kl != "stop":
        raise ValueError(
            f"config.learner.over_max_kl={given.over_max_kl!r} does nothing without a bound: set "
            "config.learner.max_kl"
        )
    if given.max_kl is not None:
        check_range("config.learner.max_kl", given.max_kl, 0, above=True)
    for name in ("epochs", "minibatches", "lengths"):
        check_range(f"config.learner.{name}", given[name], 1)
    if given.lengths > 1 and (given.microbatch is None or not setup.policy.reads_text):
        raise ValueError(
            f"config.learner.lengths={given.lengths} is for language policies in microbatches; "
            "set microbatch, or lengths=1"
        )
