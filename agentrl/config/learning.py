"""The objective, the credit, the optimizer and the update of a config."""

import dataclasses
from typing import Any

import jax
import ml_collections

from agentrl import losses
from agentrl.checks import check_choice, check_range
from agentrl.config.bind import TERM_KEYS, bind, bound, flat, nearest
from agentrl.config.refused import LENGTHS, refuse
from agentrl.declarations import is_moving_reward
from agentrl.learner.credit import Recipe
from agentrl.learner.function import Function
from agentrl.learner.learner import Learner
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import (
    NORMALIZATIONS,
    OVER_MAX_KL,
    Optimizer,
    UpdateOptions,
    adapters_of_roles,
    check_options,
    optimizer,
)
from agentrl.policies.protocol import AnyPolicy
from agentrl.policies.scoring import split
from agentrl.rollout import Rollout

DURING = ("rl", "warm_start", "both")
# Carried numbers that an estimator takes and returns a new value of.
CARRIED = ("baseline",)


def objective_of(config: ml_collections.ConfigDict) -> dict[str, Term]:
    """The terms of a config's objective by name.

    Those of weight 0 are left out, unless seeds have weights of their own.

    Raises:
      ValueError: a term that cannot be as it says.
    """
    terms = {}
    own_of_seeds = (config.per_seed.to_dict(), config.population.tuned.to_dict())
    varied = {path for own in own_of_seeds for path, _ in flat(own)}
    for key, values in config.objective.items():
        label = f"objective.{key}"
        own = {name: values.get(name, default) for name, default in TERM_KEYS.items()}
        if own["weight"] == 0 and f"{label}.weight" not in varied:
            continue
        check_choice(f"config.{label}.during", own["during"], DURING)
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


def recipe_of(config: ml_collections.ConfigDict) -> Recipe:
    """The functions of a config's credit.

    Raises:
      ValueError: unknown functions or options.
    """
    reward = [(key, bound(f"reward.{key}", values)) for key, values in config.reward.items()]
    # Terms that move reward between turns come after those that change it.
    reward.sort(key=lambda term: is_moving_reward(term[1].function))
    estimator = bound("advantage", config.advantage)
    filters: dict[str, dict[str, Function]] = {"before": {}, "after": {}}
    for key, values in config.filters.items():
        when = values.get("when", "after")
        if when not in filters:
            raise ValueError(
                f"config.filters.{key}.when={when!r}: expected 'before' or 'after' the statistics"
            )
        filters[when][key] = bound(f"filters.{key}", values, beside={"when": "after"})
    carried = [name for name in CARRIED if name in estimator.inputs]
    return Recipe(
        estimator=estimator,
        reward=dict(reward),
        carried=carried[0] if carried else None,
        before=filters["before"],
        after=filters["after"],
        reweighting={
            key: bound(f"reweighting.{key}", values) for key, values in config.reweighting.items()
        },
    )


def learner_of(
    config: ml_collections.ConfigDict,
    policy: AnyPolicy,
    rollout: Rollout,
    updates: tuple[int, int],
) -> Learner:
    """How the updates after the warm start learn, those from updates[0] to updates[1].

    Raises:
      ValueError: options that cannot be as they say, or that the policy and rollout cannot take.
    """
    check_learner(config, policy, rollout)
    options = UpdateOptions(**bind("learner", UpdateOptions, config.learner))
    first, end = updates
    optimizers = Optimizer(
        (end - first) * options.epochs * options.minibatches,
        bind("optimizer", optimizer, config.optimizer),
        _entries(config, policy),
        policy.adapters.trained,
        # A decoder's arrays are large, and sharded one by one.
        as_vector=not policy.reads_text,
    )
    # A wrong value is an error here, not where an update is traced.
    check_options("config.optimizer", optimizers.options)
    for entry, own in optimizers.entries.items():
        check_options(f"config.optimizers.{entry}", own)
    optimizers.transform()
    return Learner(recipe_of(config), objective_of(config), options, optimizers)


def supervised(learner: Learner, updates: int, learning_rate: float) -> Learner:
    """The learner of a warm start: each update is one step on all rows."""
    optimizer = learner.optimizer
    return learner._replace(
        options=dataclasses.replace(
            learner.options, epochs=1, minibatches=1, normalize_advantage="none"
        ),
        optimizer=optimizer._replace(
            total_steps=updates, options={**optimizer.options, "learning_rate": learning_rate}
        ),
    )


def _entries(config: ml_collections.ConfigDict, policy: AnyPolicy) -> dict[str, dict[str, Any]]:
    """{entry of the trained parameters: options of its own}, as config.optimizers has them."""
    if not config.optimizers:
        return {}
    trained, frozen = split(jax.eval_shape(policy.init, jax.random.key(0)), policy.frozen)
    known = list(trained) if isinstance(trained, dict) else []
    if policy.adapters.trained > 1:
        known = [name for name in known if name != "lora"]
        known += adapters_of_roles(policy.adapters.trained)
    for entry in config.optimizers:
        if entry not in known:
            raise ValueError(
                f"config.optimizers.{entry}: the policy has no trained entry of that name"
                f"{nearest(entry, known)}; expected one of {', '.join(known) or 'none'}"
                + (f" (frozen: {', '.join(frozen)})" if frozen else "")
            )
    return {
        entry: bind(f"optimizers.{entry}", optimizer, values)
        for entry, values in config.optimizers.items()
    }


def check_learner(config: ml_collections.ConfigDict, policy: AnyPolicy, rollout: Rollout) -> None:
    """ValueError for options of the update that cannot be as they say."""
    given, roles = config.learner, rollout.roles
    for name, known in (
        ("aggregation", losses.AGGREGATIONS),
        ("normalize_advantage", NORMALIZATIONS),
        ("over_max_kl", OVER_MAX_KL),
    ):
        check_choice(f"config.learner.{name}", given[name], known)
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
    refuse(config, LENGTHS[policy.kind])
