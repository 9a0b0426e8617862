"""Members of a population: seeds that tune options of their own (population-based training)."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Component, InitInputs, Inputs, Setup

NAME = "population"


class Member(struct.PyTreeNode):
    """options: f32[] by path in the config, for example "optimizer.learning_rate". fitness: f32[2],
    total and weight since the last selection. key: for its selections.
    """

    options: dict[str, jax.Array]
    fitness: jax.Array
    key: jax.Array


class Selection(NamedTuple):
    """How members are selected between programs, see `agentrl.run.population`.

    ranges: (low, high) by path of each option that members tune. chosen: options of
    `agentrl.selfplay.population.select`. first_seed: that of the first member.
    """

    ranges: Mapping[str, tuple[float, float]]
    every: int
    fitness: str
    chosen: Mapping[str, float]
    probability: float
    first_seed: int


def population(
    setup: Setup,
    ranges: Mapping[str, tuple[float, float]],
    *,
    every: int = 0,
    fitness: str = "success_rate",
    top: float = 0.3,
    bottom: float = 0.3,
    absolute_gap: float = 1e-6,
    relative_gap: float = 0.1,
    probability: float = 0.15,
) -> Selection:
    """Population-based training, see `agentrl.selfplay.population`.

    Members start from values of the tuned options spread over their ranges on a logarithmic scale,
    and stay within. The config's own value must be in the range, and is used in a warm start. A
    member that copies another continues from its parameters, optimizer, carry and options, in its
    own episodes, with its own keys.

    Metrics (Opponents, buffers, tasks):
      population/fitness: Fitness; of a member of the population, at selections.
      population/parent: Parent [seed]; whose parameters the member has, at selections.
      population/{option}: Option {option}; of a member of the population, as it was in these
        updates.

    Args:
      ranges: (low, high) by path of each option that members tune.
      every: updates between two selections; 0: no population.
      fitness: the metric for selection, the higher the better; the true objective, not a shaped
        reward. It is averaged over the updates since the selection before.
      top, bottom: shares of the members that are copied, and that copy.
      absolute_gap, relative_gap: by which a member has to be ahead to be copied; the second in
        parts of its own fitness, which is for metrics whose zero is the worst.
      probability: with which an option of a member that is not among the best is moved.
    """
    gaps = {"absolute_gap": absolute_gap, "relative_gap": relative_gap}
    chosen = {"top": top, "bottom": bottom, **gaps}
    return Selection(ranges, every, fitness, chosen, probability, setup.seed)


def members(setup: Setup, ranges: Mapping[str, tuple[float, float]]) -> Component:
    """The component that puts a member's options in place of the config's."""
    # The rules are imported by runs that have members.
    from agentrl.selfplay import population as rules

    def init(start: InitInputs) -> Member:
        # A stream of keys of its own: the members train as the seeds would.
        def own(seed):
            return jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x9B7))

        # The start values of all members are drawn together, with the first one's key.
        spread_keys = jax.random.split(own(setup.seed)[1], max(len(ranges), 1))
        tuned = {
            path: rules.spread(key, setup.num_seeds, *bounds)[start.seed - setup.seed]
            for key, (path, bounds) in zip(spread_keys, ranges.items(), strict=False)
        }
        return Member(tuned, jnp.zeros(2), own(start.seed)[0])

    return Component(init=init, before=lambda member, params, key: Inputs(numbers=member.options))
