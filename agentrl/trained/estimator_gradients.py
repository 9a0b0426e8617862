"""The policy gradient of early turns under several estimators, on the same episodes of a run.

For each collection, which is what one update learns from, and each estimator there is the gradient
g of the mean over streams of sum A log pi, over the first turns, with advantages A as the run's
learner normalizes them. Collections are independent of each other; episodes of one are not, since
those of a group have a task and a baseline in common. Rewards are the environment's own, and a
language policy's log pi is of each token, with its turn's A.

  noise    trace of the covariance of g: the squared length of an update's error
  signal   squared length of the mean of g, without the bias that noise gives it
  along    (true mean of g) (true mean of the first estimator's g), without bias: means of every
           other collection, multiplied crosswise

noise / signal is the number of updates for a mean as long as its error, and
along / sqrt(signal signal_first) the cosine between the means. Neither depends on the scale of
advantages. An estimator with a clear gradient may have a wrong one: then its cosine with one
without bias, such as `rloo`, is below 1.
"""

from collections.abc import Mapping
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_returned
from agentrl.learner.credit import arrays_of
from agentrl.learner.function import Function
from agentrl.learner.passes import gradients, length_up_to
from agentrl.learner.update import normalized
from agentrl.policies.protocol import AnyPolicy
from agentrl.run.restored import Run
from agentrl.streams import Rows, Streams, at_positions


class Clarity(NamedTuple):
    """f32 each, of any shape; see the top of the file."""

    noise: jax.Array
    signal: jax.Array
    along: jax.Array


class Sums(NamedTuple):
    """What is kept of the gradients so far: two vectors, however many collections there are.

    count: i32[], collections. halves: f32[2, D], sums over every other one. spread: f32[], sum of
    squared distances to the mean.
    """

    count: jax.Array
    halves: jax.Array
    spread: jax.Array


def none_yet(size: int) -> Sums:
    """`Sums` of no gradients f32[size]."""
    return Sums(jnp.zeros((), jnp.int32), jnp.zeros((2, size)), jnp.zeros(()))


def added(sums: Sums, gradient: jax.Array) -> Sums:
    """`Sums` with one more gradient f32[D]; the spread grows as in Welford (1962)."""
    before = sums.halves.sum(axis=0)
    away = gradient - before / jnp.maximum(sums.count, 1)
    left = gradient - (before + gradient) / (sums.count + 1)
    halves = sums.halves.at[sums.count % 2].add(gradient)
    return Sums(sums.count + 1, halves, sums.spread + jnp.vdot(away, left))


def clarity(own: Sums, first: Sums) -> Clarity:
    """Of an estimator's gradients of B >= 2 collections; first: of the first estimator's."""
    count = own.count
    noise, mean = own.spread / (count - 1), own.halves.sum(axis=0) / count
    sizes = jnp.stack([(count + 1) // 2, count // 2])[:, None]
    mine, other = own.halves / sizes, first.halves / sizes
    along = 0.5 * (jnp.vdot(mine[0], other[1]) + jnp.vdot(mine[1], other[0]))
    return Clarity(noise, jnp.sum(jnp.square(mean)) - noise / count, along)


def advantage_of(name: str, estimator: Function, streams: Streams) -> jax.Array:
    """f32[N, T]. ValueError for streams that lack what the estimator reads, or another result."""
    arrays = arrays_of(streams)
    missing = [x for x in estimator.inputs if arrays.get(x) is None]
    if missing:
        raise ValueError(
            f"estimator {name!r} reads {', '.join(missing)}, which this run does not have: take "
            "the run of a method that does, such as one with a critic for `value`"
        )
    advantage = estimator(arrays)
    check_returned(name, advantage, streams.mask, "advantages [N, T]")
    return advantage


def measure(
    run: Run, estimators: Mapping[str, Function], turns: int, batches: int
) -> dict[str, Clarity]:
    """Of each estimator, f32[seeds], of a run that was read back.

    turns: how many first ones are early. batches: collections, at least 2.

    Raises:
      ValueError: see `advantage_of`.
    """
    policy, rollout, learner = run.experiment.policy, run.experiment.rollout, run.config.learner
    microbatch = learner.microbatch if isinstance(learner.microbatch, int) else None

    def collect(params, key):
        begin_key, key = jax.random.split(key)
        _, streams, rows, _ = rollout.collect(params, rollout.init(begin_key), key)
        early = rows.loss_mask & (rows.turn >= 0) & (rows.turn < turns)
        found = {}
        for name, estimator in estimators.items():
            advantage = normalized(
                advantage_of(name, estimator, streams),
                streams.mask,
                streams.role,
                learner.normalize_advantage,
                rollout.roles,
            )
            weight = jnp.where(early, at_positions(advantage, rows), 0.0) / streams.mask.shape[0]
            found[name] = _gradient(policy, params, rows, weight, microbatch, learner.lengths)
        return found

    def of_seed(params):
        size = sum(x.size for x in jax.tree.leaves(params))

        def more(sums, key):
            found = collect(params, key)
            # What comes back of a loop is in the order of its keys.
            return {name: added(sums[name], found[name]) for name in sums}, None

        nothing = {name: none_yet(size) for name in estimators}
        sums, _ = jax.lax.scan(more, nothing, jax.random.split(jax.random.key(0), batches))
        first = sums[next(iter(estimators))]
        return {name: clarity(sums[name], first) for name in estimators}

    found = jax.jit(lambda params: jax.lax.map(of_seed, params))(run.state.params)
    return {name: found[name] for name in estimators}


def _gradient(
    policy: AnyPolicy,
    params: chex.ArrayTree,
    rows: Rows,
    weight: jax.Array,
    microbatch: int | None,
    lengths: int,
) -> jax.Array:
    """Gradient f32[D] of the sum of weight log pi; weight: f32[R, L], of each position."""

    def weighted(params, part):
        rows, weight = part
        logp = policy.score(params, rows).logp
        return jnp.sum(jnp.where(weight != 0, logp, 0.0) * weight), ()

    def head(part, length):
        rows, weight = part
        return rows.head(length), weight[:, :length]

    count, longest = weight.shape
    if microbatch is not None and count % microbatch:
        microbatch = None
    _, _, found = gradients(
        weighted,
        params,
        (rows, weight),
        length_up_to(weight != 0),
        longest=longest,
        microbatch=microbatch,
        lengths=lengths,
        head=head,
    )
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(found)])
