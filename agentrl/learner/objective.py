"""The objective: a sum of terms over the rows of the sources.

    L = sum over terms of  weight * mean over positions of  scale * term(arrays by name)

A term is a pure function, usually of `agentrl.losses`, whose parameters name its inputs. Names come
from the rows (`tokens`, `turn`, `asked`, ...), from the credit (`advantage`, `target`,
`old_value`), from annotations and components (`reference_logp`, ...), and from the forward pass at
the parameters under training: `logp`, `entropy`, `value`, and the policy's further `outputs`.
`old_logp` is the sampler's log-probability unless an annotation gives another. `mask` is the term's
own: the positions that it is averaged over.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import losses
from agentrl.checks import check_returned
from agentrl.declarations import over_of, unit_of
from agentrl.learner.function import Function
from agentrl.learner.totals import sums
from agentrl.losses.aggregation import Aggregation
from agentrl.policies.protocol import AnyPolicy
from agentrl.streams import Rows, fields_of

# The positions that a policy produced and is trained on.
POSITIONS = "loss_mask"
# Names that the forward pass fills for every policy.
FORWARD = ("logp", "entropy", "value")


class Term(NamedTuple):
    """One term of the objective.

    weight, final_weight: the weight goes from the first to the second over the updates of its
      phase, by equal factors; final_weight=None leaves it constant.
    source: the source of its rows. during: "rl", "warm_start" or "both", the updates in which it is
    active. scale: the name of an array [R, L] that multiplies the term, or None.
    """

    loss: Function
    weight: float | jax.Array = 1.0
    final_weight: float | None = None
    source: str = "rollout"
    during: str = "rl"
    scale: str | None = None

    @property
    def over(self) -> str:
        """The name of the positions that it is averaged over, bool[R, L]."""
        return over_of(self.loss.function)

    @property
    def unit(self) -> str:
        """Unit of its values: "position", "row" or "pair" (of neighbouring rows)."""
        return unit_of(self.loss.function)

    @property
    def reads(self) -> frozenset[str]:
        """Names of the arrays that it needs, `mask` left out."""
        needed = set(self.loss.inputs) | ({self.scale} if self.scale else set())
        return frozenset(needed - {"mask"}) | {self.over}

    def evaluate(self, arrays: Mapping[str, Any]) -> tuple[jax.Array, Mapping[str, jax.Array]]:
        """Its values, before weight and scale, and what it measures at each position by metric.

        A loss returns values, or (values, {metric: numbers or bools, of the shape of the mask}).

        Raises:
          ValueError: the loss returned something else.
        """
        given, name, mask = self.loss(arrays), self.loss.name, arrays["mask"]
        two = isinstance(given, tuple) and len(given) == 2
        values, metrics = given if two else (given, {})
        if not (hasattr(values, "shape") and isinstance(metrics, Mapping)):
            raise ValueError(
                f"{name}() returned {jax.tree.structure(given)}; return the array of values alone, "
                "or (values, {metric: one number or bool per position})"
            )
        if self.unit == "position":
            check_returned(name, values, mask, "one value per position [R, L]")
        for metric, measured in metrics.items():
            check_returned(name, measured, mask, f"metric {metric!r} per position [R, L]")
        return values, metrics

    def weight_at(self, progress: jax.Array | float) -> jax.Array | float:
        """The weight after this share of the phase's updates."""
        if self.final_weight is None:
            return self.weight
        return self.weight * (self.final_weight / self.weight) ** progress


class Example(NamedTuple):
    """Rows with the inputs of the terms: leading axis R everywhere.

    arrays: by name, [R, L, ...]. weights: {positions: f32[R, L]}, of each position in
    the aggregated loss of its minibatch. counts: {positions: f32[R]}, how many of them the
    minibatch has, the same in all rows.
    """

    rows: Rows
    arrays: Mapping[str, jax.Array]
    weights: Mapping[str, jax.Array]
    counts: Mapping[str, jax.Array]

    def head(self, length: int) -> "Example":
        """The first `length` positions of each row."""
        # Weights of rows and pairs are [R, 1].
        arrays, weights = jax.tree.map(lambda x: x[:, :length], (self.arrays, self.weights))
        return Example(self.rows.head(length), arrays, weights, self.counts)


def learnt_positions(example: Example, terms: Sequence[Term]) -> jax.Array:
    """Positions that any of the terms is averaged over, bool[R, L]; of whole rows the replies."""
    arrays = fields_of(example.rows) | dict(example.arrays)
    names = {term.over if term.unit == "position" else POSITIONS for term in terms}
    return functools.reduce(jnp.logical_or, [arrays[name] for name in sorted(names)])


def with_weights(
    example: Example, terms: Sequence[Term], aggregation: Aggregation, unit_size: int
) -> Example:
    """The example of a whole minibatch with the weights of its positions, before it is cut."""
    mask, arrays = example.rows.loss_mask, fields_of(example.rows) | dict(example.arrays)
    weights = {}
    for term in terms:
        if term.unit == "position" and term.over not in weights:
            over = arrays[term.over]
            replies = term.over in (POSITIONS, "turn_start")
            how: Aggregation = aggregation if replies else "token_mean"
            constant = mask.size if how == "constant" else None
            weights[term.over] = losses.aggregation_weights(over, how, constant=constant)
        elif term.unit != "position":
            size = 1 if term.unit == "row" else unit_size
            some = jnp.any(mask, axis=1).reshape(-1, size)
            units = jnp.all(some, axis=1)
            share = units / jnp.maximum(jnp.sum(units), 1)
            weights[term.unit] = jnp.repeat(share, size)[:, None] / size
    counts = {
        name: jnp.broadcast_to(jnp.sum(weight > 0, dtype=jnp.float32), mask.shape[:1])
        for name, weight in weights.items()
    }
    return example._replace(weights=weights, counts=counts)


def loss_of(
    policy: AnyPolicy,
    terms: Mapping[str, Term],
    params: chex.ArrayTree,
    example: Example,
    weights: Mapping[str, Any],
    *,
    shared: Mapping[str, Any],
    reports_policy: bool,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """(loss, metrics) of a part of a minibatch. weights: by term.

    shared: further arrays by name, the same for all rows. reports_policy: metrics entropy and
    approx_kl, of rows that the policy itself sampled. Losses and metrics (totals and
    weights, f32[2]) of the parts of a minibatch add up to those of the whole. Besides loss/{term}
    there are the metrics that a term's function returns, means over the term's positions.

    Metrics (Policy):
      approx_kl: KL of the update [nats]; from the policy that collected to the one in training.

    Metrics (Objective and optimizer):
      loss/{term}: Loss: {term}; a term of the objective, unweighted.
    """
    rows, mask = example.rows, example.rows.loss_mask
    scored = learnt_positions(example, tuple(terms.values())) | mask
    logp, entropy, value = policy.score(params, rows, scored)
    arrays = fields_of(rows) | dict(example.arrays)
    arrays |= {"logp": logp, "entropy": entropy, "value": value, **shared}
    needed = frozenset().union(*(term.reads for term in terms.values()))
    for name, output in policy.outputs.items():
        if name in needed:
            arrays[name] = output(params, rows, arrays)
    parts, metrics = {}, {}
    means: dict[str, tuple[jax.Array, jax.Array]] = {}
    for name, term in terms.items():
        here = arrays | {"mask": arrays[term.over] if term.unit == "position" else mask}
        values, measured = term.evaluate(here)
        means |= {metric: (each, here["mask"]) for metric, each in measured.items()}
        if term.scale is not None:
            values = arrays[term.scale] * values
        over = term.over if term.unit == "position" else term.unit
        parts[name] = _weighted(values, example.weights[over], term.unit)
    if reports_policy:
        means["entropy"] = entropy, mask
        means["approx_kl"] = losses.approx_kl_terms(logp, arrays["old_logp"], mask), mask
    within = {name: jnp.where(where, values, 0.0) for name, (values, where) in means.items()}
    of_terms, of_means = sums((parts, jax.lax.stop_gradient(within)))
    for name, term in terms.items():
        over = term.over if term.unit == "position" else term.unit
        # This part's share of the aggregate over the minibatch.
        count = jnp.sum(example.weights[over] > 0, dtype=jnp.float32)
        metrics[f"loss/{name}"] = jnp.stack([of_terms[name] * example.counts[over][0], count])
    for name, (_, where) in means.items():
        metrics[name] = jnp.stack([of_means[name], jnp.sum(where, dtype=jnp.float32)])
    total = sum(weights[name] * loss for name, loss in of_terms.items())
    return total, metrics


def _weighted(values: jax.Array, weight: jax.Array, unit: str) -> jax.Array:
    """weight * value; values where the weight is 0 may be anything, even NaN."""
    if unit == "row":
        weight = weight[:, 0]
    elif unit == "pair":
        weight = jnp.sum(weight.reshape(values.shape[0], -1), axis=1)
    return jnp.where(weight > 0, values, 0.0) * weight
