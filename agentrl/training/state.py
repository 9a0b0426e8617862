"""The training state: everything that a run needs to go on, and how it starts."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.policies import LanguagePolicy, Policy
from agentrl.policies.scoring import split
from agentrl.rollout import Rollout
from agentrl.training.pool import Pool, Rules


@struct.dataclass
class Guard:
    """The non-finite guard's memory.

    in_a_row, total: i32[], rejected updates. rollout, key: inputs of the last rejected one after
    the warm start, from which its batch can be collected again: the parameters have not changed
    since.
    """

    in_a_row: jax.Array
    total: jax.Array
    rollout: chex.ArrayTree
    key: jax.Array


@struct.dataclass
class TrainState:
    """Everything that a run needs to go on: saved, restored and sharded as one.

    key: the run's key, split at each update. update: i32[], updates done. env_steps: u32[2], turns
    acted so far, as high and low words. rollout: environments in mid-episode. reference: the
    parameters that the policy is pulled towards, None without.
    baseline: f32[tasks, roles], what the estimator of the advantages carries; None if nothing.
    pool: frozen opponents, None without.
    sampler: parameters of the last `config.staleness` updates, oldest first: the next batch is
      sampled by the oldest. None where the sampler is the learner.
    member: of a population, `agentrl.training.population.Member`; None without.

    Of the parameters of reference, pool and sampler only those that are trained are kept: where
    adapters are, they are all that differs, and the weights that stay are there once.
    """

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    rollout: chex.ArrayTree
    key: jax.Array
    update: jax.Array
    env_steps: jax.Array
    guard: Guard
    reference: chex.ArrayTree | None = None
    baseline: jax.Array | None = None
    pool: Pool | None = None
    sampler: tuple[chex.ArrayTree, ...] | None = None
    member: Any = None


def _copies(params: chex.ArrayTree, number: int) -> tuple[chex.ArrayTree, ...] | None:
    """Parameters of the sampler: as many as it lags behind."""
    return tuple(jax.tree.map(jnp.copy, params) for _ in range(number)) or None


def make_init(
    policy: Policy | LanguagePolicy,
    rollout: Rollout,
    transform: optax.GradientTransformation,
    *,
    refers: bool,
    carries: bool,
    rules: Rules | None,
    staleness: int,
) -> Callable[[jax.Array], TrainState]:
    """(seed i32[]) -> TrainState at the start of a run.

    refers: there is a reference. carries: the estimator carries a baseline. rules: of the pool.
    """

    def init(seed: jax.Array) -> TrainState:
        param_key, rollout_key, guard_key, key = jax.random.split(jax.random.key(seed), 4)
        params = policy.init(param_key)
        learnt, _ = split(params, policy.frozen)
        rollout_state = rollout.init(rollout_key)
        zero = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            opt_state=transform.init(learnt),
            rollout=rollout_state,
            key=key,
            update=zero,
            env_steps=jnp.zeros(2, jnp.uint32),
            guard=Guard(zero, zero, rollout_state, guard_key),
            reference=jax.tree.map(jnp.copy, learnt) if refers else None,
            baseline=jnp.zeros((len(rollout.tasks), rollout.roles)) if carries else None,
            pool=rules and rules.start(learnt, zero),
            sampler=_copies(learnt, staleness),
        )

    return init


def make_begin(
    policy: Policy | LanguagePolicy,
    transform: optax.GradientTransformation,
    *,
    refers: bool,
    rules: Rules | None,
    staleness: int,
) -> Callable[[TrainState], TrainState]:
    """What happens to a state between the warm start and the updates after it."""

    def begin(state: TrainState) -> TrainState:
        """After the warm start: a fresh optimizer, the reference, and the pool's first member."""
        learnt, _ = split(state.params, policy.frozen)
        return state.replace(
            opt_state=transform.init(learnt),
            guard=state.guard.replace(in_a_row=jnp.zeros_like(state.guard.in_a_row)),
            reference=jax.tree.map(jnp.copy, learnt) if refers else None,
            pool=rules and rules.start(learnt, state.update),
            sampler=_copies(learnt, staleness),
        )

    return begin
