"""Population-based training: the run's seeds are members, who copy each other and tune options."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import ml_collections
from flax import struct

from agentrl.rollout import Rollout
from agentrl.selfplay import population as rules
from agentrl.training import config as configs
from agentrl.training.state import TrainState

# Sections whose numbers may be traced: they are bound while the update is.
SECTIONS = ("reward", "advantage", "loss", "learner", "optimizer")


@struct.dataclass
class Member:
    """What a member has beside the state of a seed.

    options: f32[] by path in the config, for example "optimizer.learning_rate". fitness: f32[2],
    total and weight since the last selection. key: for its selections.
    """

    options: dict[str, jax.Array]
    fitness: jax.Array
    key: jax.Array


def population(
    *,
    every: int = 0,
    fitness: str = "success_rate",
    top: float = 0.3,
    bottom: float = 0.3,
    absolute_gap: float = 1e-6,
    relative_gap: float = 0.1,
    probability: float = 0.15,
) -> None:
    """Options of population-based training, see `agentrl.selfplay.population`.

    Beside them stands `tuned`, sections as the config's own with a range (low, high) in the place
    of each number that members tune: {"optimizer": {"learning_rate": (1e-4, 1e-2)}}. Members start
    from values spread over it on a logarithmic scale, and stay within. The config's own value lies
    there too, and is what a warm start uses. Numbers that decide what is computed cannot be tuned.

    A member that copies another goes on from its parameters, optimiser, reference, baseline, pool
    and options, in its own episodes, with its own keys.

    Args:
      every: updates between two selections; 0: no population.
      fitness: the metric that they go by, the higher the better: what counts, not a shaped reward.
        It is averaged over the updates since the selection before.
      top, bottom: shares of the members that are copied, and that copy.
      absolute_gap, relative_gap: by which a member has to be ahead to be copied; the second in
        parts of its own fitness, which is for metrics whose zero is the worst.
      probability: with which an option of a member that is not among the best is moved.
    """


class Population(NamedTuple):
    """What a run does with its population of M members.

    start: (TrainState [M, ...], seeds i32[M]) -> TrainState with members.
    after: (TrainState [M, ...], metrics f32[M, 2]) -> the same after `log_every` updates, with a
      selection where one is due. metrics besides: population/{path}, an option as it was in these
      updates; where a selection took place, population/fitness and population/parent, the seed that
      a member goes on from.
    """

    start: Callable[[TrainState, jax.Array], TrainState]
    after: Callable[..., tuple[TrainState, dict[str, jax.Array]]]


def _ranges(config: ml_collections.ConfigDict) -> dict[str, tuple[float, float]]:
    """(low, high) by path of what is tuned. ValueError for what is none of the config's numbers."""
    flat = dict(configs.flat(config.population.tuned.to_dict()))
    for path, bounds in flat.items():
        label, names = f"config.population.tuned.{path}", path.split(".")
        section, node = names[0], config.to_dict()
        if section not in SECTIONS:
            raise ValueError(
                f"{label}{configs.nearest(section, SECTIONS)}: members may tune options of "
                f"{', '.join(SECTIONS)}"
            )
        for name in names:
            if not isinstance(node, Mapping) or name not in node:
                known = node if isinstance(node, Mapping) else ()
                raise ValueError(
                    f"{label}: there is no config.{path}{configs.nearest(name, known)}"
                )
            node = node[name]
        if not isinstance(node, float):
            raise ValueError(
                f"{label}: config.{path}={node!r} is no real number, and so cannot be tuned"
            )
        numbers = isinstance(bounds, tuple | list) and all(
            isinstance(x, float | int) and not isinstance(x, bool) for x in bounds
        )
        if not numbers or len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
            raise ValueError(f"{label}={bounds!r}: expected (low, high) with 0 < low <= high")
        if not bounds[0] <= node <= bounds[1]:
            raise ValueError(
                f"{label}={bounds!r}: config.{path}={node!r} does not lie within; change one of "
                "the two"
            )
    return {path: (float(low), float(high)) for path, (low, high) in flat.items()}


def with_options(
    config: ml_collections.ConfigDict, options: Mapping[str, jax.Array]
) -> dict[str, dict[str, Any]]:
    """The config's `SECTIONS` with these values, by path, in the place of its own."""
    sections = {name: config[name].to_dict() for name in SECTIONS}
    for path, value in options.items():
        *parents, last = path.split(".")
        node: dict[str, Any] = sections
        for name in parents:
            node = node[name]
        node[last] = value
    return sections


def make_population(
    config: ml_collections.ConfigDict,
    rollout: Rollout,
    init: Callable[[jax.Array], TrainState],
    train: Callable[[TrainState], tuple[TrainState, dict[str, jax.Array]]],
) -> Population | None:
    """The population of a config, None where it has none.

    init, train: of the experiment. They are traced, to find out whether the options can be tuned
    and whether the fitness is among the metrics.

    Raises:
      ValueError: options that nothing uses, or that cannot be what they are.
    """
    section = {key: value for key, value in config.population.items() if key != "tuned"}
    options, ranges = configs.bind("population", population, section), _ranges(config)
    every, fitness = options.pop("every"), options.pop("fitness")
    if every == 0:
        default = configs.section(population, named=False)
        changed = [f"tuned.{path}" for path in ranges]
        changed += [key for key, value in section.items() if value != default[key]]
        if changed:
            raise ValueError(
                f"config.population.{changed[0]} is used by nothing: set config.population.every, "
                "or leave it out"
            )
        return None
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
    if rollout.on_host:
        raise ValueError(
            f"config.population.every={every} with config.rollout.name={config.rollout.name!r}, "
            "which trains one seed after the other: set every=0, or use an environment in JAX"
        )
    for name, (low, high) in {
        "top": (0, 1),
        "bottom": (0, 1),
        "probability": (0, 1),
        "absolute_gap": (0, None),
        "relative_gap": (0, None),
    }.items():
        value = options[name]
        if value < low or (high is not None and value > high) or (name == "top" and value == 0):
            raise ValueError(
                f"config.population.{name}={value}: expected "
                f"{'more than' if name == 'top' else 'at least'} 0"
                f"{'' if high is None else ' and at most 1'}"
            )
    _check_traced(init, train, ranges, fitness)
    probability = options.pop("probability")

    def start(state: TrainState, seeds: jax.Array) -> TrainState:
        # A stream of keys of its own: the members train as the seeds would.
        own = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 0x9B7))(seeds)
        keys, start_keys = jnp.moveaxis(jax.vmap(jax.random.split)(own), 1, 0)
        # Who starts from where is drawn for all together: by the first one's key.
        spread_keys = jax.random.split(start_keys[0], max(len(ranges), 1))
        members = seeds.shape[0]
        tuned = {
            path: rules.spread(key, members, *bounds)
            for key, (path, bounds) in zip(spread_keys, ranges.items(), strict=False)
        }
        return state.replace(member=Member(tuned, jnp.zeros((members, 2)), keys))

    def bred(state: TrainState) -> tuple[TrainState, jax.Array]:
        """Selection and exploration; (state, parents i32[M])."""
        member = state.member
        total, weight = member.fitness[:, 0], member.fitness[:, 1]
        measured = jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1.0), jnp.nan)
        key, select_key, explore_key = jnp.moveaxis(
            jax.vmap(lambda k: jax.random.split(k, 3))(member.key), 1, 0
        )
        selected = rules.select(measured, select_key, **options)

        def follow(tree: chex.ArrayTree) -> chex.ArrayTree:
            return jax.tree.map(lambda x: x[selected.parent], tree)

        tuned = {}
        for i, (path, value) in enumerate(follow(member.options).items()):
            keys = jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(explore_key)
            low, high = ranges[path]
            moved = rules.explore(value, keys, low=low, high=high, probability=probability)
            tuned[path] = jnp.where(selected.explores, moved, value)
        guard = state.guard.replace(in_a_row=follow(state.guard.in_a_row))
        state = state.replace(
            params=follow(state.params),
            opt_state=follow(state.opt_state),
            reference=follow(state.reference),
            baseline=follow(state.baseline),
            pool=follow(state.pool),
            sampler=follow(state.sampler),
            guard=guard,
            member=Member(tuned, jnp.zeros_like(member.fitness), key),
        )
        return state, selected.parent

    def after(state, metrics):
        member = state.member
        counted = member.fitness + metrics[fitness]
        one = jnp.ones(counted.shape[0])
        told = {
            f"population/{path}": jnp.stack([value, one], axis=1)
            for path, value in member.options.items()
        }
        state = state.replace(member=member.replace(fitness=counted))
        due = state.update[0] % every == 0
        itself = jnp.arange(counted.shape[0], dtype=jnp.int32)
        state, parent = jax.lax.cond(due, bred, lambda state: (state, itself), state)
        told["population/fitness"] = due * counted
        told["population/parent"] = due * jnp.stack([config.seed + parent * 1.0, one], axis=1)
        return state, metrics | told

    return Population(start, after)


def _check_traced(init, train, ranges, fitness: str) -> None:
    """ValueError unless training can be traced with all that is tuned, and gives the fitness."""
    shapes = jax.eval_shape(init, jax.ShapeDtypeStruct((), jnp.int32))
    number = jax.ShapeDtypeStruct((), jnp.float32)

    def traced(paths):
        member = Member({path: number for path in paths}, None, None)
        return jax.eval_shape(train, shapes.replace(member=member))[1]

    try:
        metrics = traced(ranges)
    except jax.errors.ConcretizationTypeError:
        for path in ranges:
            try:
                traced([path])
            except jax.errors.ConcretizationTypeError:
                raise ValueError(
                    f"config.population.tuned.{path}: config.{path} decides what is computed, here "
                    "at least, and so it cannot differ between members that share a program"
                ) from None
        raise
    if fitness not in metrics:
        raise ValueError(
            f"config.population.fitness={fitness!r}{configs.nearest(fitness, metrics)}: expected a "
            f"metric of this run's training, one of {', '.join(sorted(metrics))}"
        )
