"""One update from one batch of rows per source: epochs of shuffled minibatches."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from agentrl import advantages, losses
from agentrl.learner.component import Notes
from agentrl.learner.credit import Credit
from agentrl.learner.learner import Learner
from agentrl.learner.minibatch import check_minibatches, shuffled_rows, take_rows
from agentrl.learner.objective import Example, Term, learnt_positions, loss_of, with_weights
from agentrl.learner.optimizer import UpdateOptions
from agentrl.learner.passes import gradients
from agentrl.learner.state import new_if
from agentrl.learner.totals import Totals, totals
from agentrl.policies.protocol import AnyPolicy
from agentrl.policies.scoring import join, split
from agentrl.streams import (
    PerPosition,
    PerTurn,
    Rows,
    Shared,
    Streams,
    at_positions,
    length_up_to,
    turn_starts,
)

# {source: the numbers of the rows of a minibatch; None: all of them}
Orders = Mapping[str, jax.Array | None]


class Batch(NamedTuple):
    """Training data of an update from one source.

    credit: None where no term reads advantages. notes: annotations by name. unit: neighbouring
    rows that stay together.
    """

    streams: Streams | None
    rows: Rows
    credit: Credit | None
    notes: Notes
    unit: int = 1


class _Step(NamedTuple):
    """Constants of every gradient step of an update."""

    policy: AnyPolicy
    terms: Mapping[str, Mapping[str, Term]]
    weights: Mapping[str, Any]
    params_of: Callable[[chex.ArrayTree], chex.ArrayTree]
    frozen: chex.ArrayTree
    shared: Mapping[str, Any]
    options: UpdateOptions


def update(
    policy: AnyPolicy,
    learner: Learner,
    params: chex.ArrayTree,
    opt_state: chex.ArrayTree,
    batches: Mapping[str, Batch],
    key: jax.Array,
    *,
    progress: jax.Array | float,
    roles: int = 1,
) -> tuple[chex.ArrayTree, chex.ArrayTree, Totals, jax.Array]:
    """(params, opt_state, metrics, finite) after the epochs of an update.

    metrics: those of other sources than "rollout" under the source's name.
    Metric kl/rollout_train is the KL of the learner before the update from the sampler, on the rows
    trained first. finite: whether all losses, gradients and steps were; if not, parameters are
    returned unchanged, and the optimizer state is that before the first step that was not. (A copy
    of the state before the update would be twice as large as the parameters; over_max_kl="reject"
    keeps it.) A step without anything to learn from (no rows, or a gradient of zero) changes
    neither: an optimizer's momentum would move them (metric empty_steps). Neither does a step above
    the bound `max_kl`, nor one after it.

    Metrics (Policy):
      kl/rollout_train: KL, sampler to learner [nats]; before the first step; 0 without staleness,
        up to rounding.

    Metrics (Objective and optimizer):
      weight/{term}: Weight: {term}; of a term that follows a schedule.
      grad_norm: Gradient norm; before clipping.
      update_norm: Update norm; of the change of the parameters.
      trained_tokens: Tokens learnt from [per update]; over all its steps.
      stopped_steps: Steps not taken [share]; above config.learner.max_kl, or after such a step.
      kl_rejected: Rejected by KL [share]; updates, with over_max_kl="reject".
      empty_steps: Empty steps [share]; optimizer steps without anything to learn from (no rows, or
        advantages of zero).

    Args:
      batches: by source.
      progress: f32[] in [0, 1), the share of the phase's updates that are done.
      roles: of the rollout.
    """
    terms, options, transform = learner.terms, learner.options, learner.optimizer.transform()
    epochs, minibatches = options.epochs, options.minibatches
    by_source: dict[str, dict[str, Term]] = {}
    for name, term in terms.items():
        by_source.setdefault(term.source, {})[name] = term
    examples = {
        source: example_of(batch, by_source[source], options.normalize_advantage, roles)
        for source, batch in batches.items()
        if source in by_source
    }
    units = {source: batch.unit for source, batch in batches.items()}
    for source, example in examples.items():
        check_minibatches(source, example.rows.tokens.shape[0], minibatches, units[source])
    params, frozen = split(params, policy.frozen)
    stepped, params_of = learner.optimizer.stepped(params)
    weights = {name: term.weight_at(progress) for name, term in terms.items()}
    shared = {"progress": progress} | {
        name: note.values
        for batch in batches.values()
        for name, note in batch.notes.items()
        if isinstance(note, Shared)
    }
    step = _Step(policy, by_source, weights, params_of, frozen, shared, options)

    def epoch(carry, key):
        orders = {
            source: shuffled_rows(
                learnt_positions(example, tuple(by_source[source].values())),
                jax.random.fold_in(key, i) if i else key,
                minibatches,
                unit=units[source],
                microbatch=options.pass_rows,
            )
            for i, (source, example) in enumerate(examples.items())
        }
        on_rows = functools.partial(_stepped, step, transform, units, examples)
        if options.max_kl is not None:
            on_rows = functools.partial(_unless_stopped, on_rows)
        return jax.lax.scan(on_rows, carry, orders, length=minibatches)

    carry = (stepped, opt_state, jnp.ones((), bool), jnp.ones((), bool))
    (new_stepped, new_opt_state, finite, within), per_step = jax.lax.scan(
        epoch, carry, jax.random.split(key, epochs)
    )
    new = (new_stepped, new_opt_state)
    if options.over_max_kl == "reject":
        new = new_if(within, new, (stepped, opt_state))
    change = optax.tree.norm(jax.tree.map(jnp.subtract, new[0], stepped))
    # Of parameters that are not finite the change is not, either.
    finite = finite & jnp.isfinite(change)
    params, opt_state = params_of(new_if(finite, new[0], stepped)), new[1]
    metrics = _metrics(step, terms, per_step, within)
    metrics["update_norm"] = jnp.stack([change, jnp.ones(())])
    for batch in batches.values():
        if batch.credit is not None and batch.streams is not None:
            metrics |= advantage_metrics(batch.credit, batch.streams, batch.rows)
    # A rejected update reports only that it was rejected.
    told = totals(metrics)
    told = told.replace(array=jnp.where(finite, told.array, 0.0))
    return join(params, frozen), opt_state, told, finite


def _metrics(step: _Step, terms: Mapping[str, Term], per_step: Totals, within: jax.Array):
    """Metrics f32[2] of an update's steps."""
    options, one = step.options, jnp.ones(())
    metrics = dict(per_step.summed((0, 1)))
    if "approx_kl" in metrics:
        # Before the first step the policy is the learner's.
        metrics["kl/rollout_train"] = per_step["approx_kl"][0, 0]
    if options.over_max_kl == "reject":
        metrics["kl_rejected"] = jnp.stack([~within * 1.0, one])
    if "trained_tokens" in metrics:
        # Per update, as `tokens`, those that were written.
        steps = options.epochs * options.minibatches
        metrics["trained_tokens"] = metrics["trained_tokens"] * jnp.array([steps, 1.0])
    for name, term in terms.items():
        if term.final_weight is not None:
            metrics[f"weight/{name}"] = jnp.stack([step.weights[name], one])
    return metrics


def _unless_stopped(on_rows: Callable[..., tuple[tuple, Totals]], carry: tuple, orders: Orders):
    """on_rows(carry, orders), computed while the update goes on: metrics are of these steps."""

    def skipped(carry, orders):
        told = jax.eval_shape(on_rows, carry, orders)[1]
        # A mean over steps is over those that were computed, but for these two.
        counted = {"stopped_steps": (1.0, 1.0), "trained_tokens": (0.0, 1.0)}
        return carry, totals(
            {name: jnp.array(counted.get(name, (0.0, 0.0))) for name in told.names}
        )

    _, _, finite, within = carry
    return jax.lax.cond(finite & within, on_rows, skipped, carry, orders)


def _stepped(
    step: _Step,
    transform: optax.GradientTransformation,
    units: Mapping[str, int],
    examples: Mapping[str, Example],
    carry: tuple,
    orders: Orders,
) -> tuple[tuple, Totals]:
    """One optimizer step on a minibatch of each source: (carry, Totals of metrics)."""
    params, opt_state, finite, within = carry
    examples = {name: take_rows(x, orders[name]) for name, x in examples.items()}
    parts = [_of_source(step, name, units[name], params, x) for name, x in examples.items()]
    loss = sum(part[0] for part in parts)
    grads = functools.reduce(lambda a, b: jax.tree.map(jnp.add, a, b), [part[2] for part in parts])
    norm = optax.tree.norm(grads)
    updates, new_opt_state = transform.update(grads, opt_state, params)
    # Advantages of zero have a gradient of exactly zero. One that is not finite is no empty step.
    some = (sum(part[3] for part in parts) > 0) & (norm != 0)
    metrics = {name: value for part in parts for name, value in part[1].items()}
    finite = finite & jnp.isfinite(loss) & jnp.isfinite(norm)
    finite = finite & jnp.isfinite(optax.tree.norm(updates))
    one, taken = jnp.ones(()), some & finite
    if step.options.max_kl is not None and "approx_kl" in metrics:
        kl, count = metrics["approx_kl"]
        below = within & (kl <= step.options.max_kl * jnp.maximum(count, 1e-30))
        taken = taken & below
        metrics["stopped_steps"] = jnp.stack([~below * 1.0, one])
        if step.options.over_max_kl != "skip":
            within = below
    new = (optax.apply_updates(params, updates), new_opt_state)
    # Fused with the optimizer's arithmetic.
    new = jax.tree.map(lambda x, y: jnp.where(taken, x, y), new, (params, opt_state))
    counts = step.policy.step_counts(example.rows.loss_mask for example in examples.values())
    metrics |= {name: jnp.stack([count, one]) for name, count in counts.items()}
    metrics["grad_norm"] = jnp.stack([norm, one])
    metrics["empty_steps"] = jnp.stack([~some * 1.0, one])
    return (*new, finite, within), totals(metrics)


def _of_source(step: _Step, source: str, unit: int, params: chex.ArrayTree, example: Example):
    """(loss, metrics, gradients, number of values that the loss is made of) of a source's part of a
    minibatch.

    The number of rows of other sources than "rollout" is not the config's choice: where a
    microbatch does not divide it, all of them go at once.
    """
    terms, options = step.terms[source], step.options
    microbatch = options.pass_rows
    if microbatch is not None and (example.rows.tokens.shape[0] % microbatch or microbatch % unit):
        microbatch = None
    if options.normalize_advantage == "minibatch" and "advantage" in example.arrays:
        whitened = advantages.whiten(example.arrays["advantage"], example.rows.loss_mask)
        example = example._replace(arrays={**example.arrays, "advantage": whitened})
    example = with_weights(example, tuple(terms.values()), options.aggregation, unit)
    longest, policy = example.rows.loss_mask.shape[1], step.policy
    loss, metrics, grads = gradients(
        lambda trained, part: loss_of(
            policy,
            terms,
            join(step.params_of(trained), step.frozen),
            part,
            step.weights,
            shared=step.shared,
            reports_policy=source == "rollout",
        ),
        params,
        example,
        length_up_to(learnt_positions(example, tuple(terms.values()))),
        longest=longest,
        microbatch=microbatch,
        lengths=options.lengths,
        shared=policy.shared_positions(longest),
        unit=unit,
        head=Example.head,
    )
    if source != "rollout":
        own = {f"loss/{name}" for name in terms}
        metrics = {k if k in own else f"{source}/{k}": v for k, v in metrics.items()}
    return loss, metrics, grads, sum(count[0] for count in example.counts.values())


def example_of(
    batch: Batch, terms: Mapping[str, Term], normalize_advantage: str, roles: int
) -> Example:
    """The rows of a source with the arrays that its terms read."""
    rows, credit, streams = batch.rows, batch.credit, batch.streams
    arrays: dict[str, jax.Array] = {"old_logp": rows.behaviour_logp}
    if credit is not None and streams is not None:
        rows = rows.replace(loss_mask=credit.of_positions(rows))
        advantage, role = credit.advantage, streams.role
        if isinstance(advantage, PerPosition) and role is not None:
            role = role[rows.stream]
        where = trained(credit, streams, batch.rows)
        new = normalized(advantage.values, where, role, normalize_advantage, roles)
        arrays["advantage"] = advantage.replace(values=new).at_positions(batch.rows)
        if credit.target is not None:
            arrays["target"] = credit.target.at_positions(batch.rows)
            arrays["old_value"] = at_positions(jnp.asarray(streams.value), batch.rows)
    arrays |= {
        name: note.at_positions(batch.rows)
        for name, note in batch.notes.items()
        if not isinstance(note, Shared)
    }
    if any(term.over == "turn_start" for term in terms.values()):
        arrays["turn_start"] = turn_starts(rows)
    needed = frozenset().union(*(term.reads for term in terms.values())) | {"old_logp"}
    arrays = {name: value for name, value in arrays.items() if name in needed}
    return Example(rows, arrays, {}, {})


def trained(credit: Credit, streams: Streams, rows: Rows) -> jax.Array:
    """Which advantages are learnt from, bool[N, T] or [R, L]."""
    if isinstance(credit.advantage, PerTurn):
        return credit.of_turns(streams.mask)
    return credit.of_positions(rows)


def normalized(
    advantage: jax.Array, trained: jax.Array, role: jax.Array | None, how: str, roles: int
) -> jax.Array:
    """Advantages as the policy gradient has them.

    advantage, trained: f32 and bool [N, T] or [R, L]; those that are not trained count for nothing.
    role: i32[N] or [R]; None where nobody has one. how: `learner.normalize_advantage`: "batch"
    whitens all, "role" those of each of the `roles`, others leave them as they are.
    """
    if how == "batch":
        return advantages.whiten(advantage, trained)
    if how == "role" and role is not None:
        of_role = [trained & (role == number)[:, None] for number in range(roles)]
        return functools.reduce(jnp.add, [advantages.whiten(advantage, x) for x in of_role])
    return advantage


def advantage_metrics(credit: Credit, streams: Streams, rows: Rows) -> dict[str, jax.Array]:
    """adv/mean, adv/std and, with a critic, explained_variance, over trained turns; turns_kept, the
    share of turns that filters leave, where they choose turns.

    Metrics (Policy):
      turns_kept: Turns kept [share]; turns that filters of turns leave to learn from.

    Metrics (Credit):
      adv/mean: Advantage, mean; over trained turns.
      adv/std: Advantage, deviation; over trained turns.

    Metrics (Critic and models):
      explained_variance: Explained variance; of the critic's targets; 1 is perfect, 0 no better
        than their mean.
    """
    where = trained(credit, streams, rows)
    count = jnp.sum(where, dtype=jnp.float32)
    advantage = jnp.where(where, credit.advantage.values, 0.0)
    mean = jnp.sum(advantage) / jnp.maximum(count, 1)
    square = jnp.sum(jnp.where(where, jnp.square(advantage - mean), 0)) / jnp.maximum(count, 1)
    metrics = {
        "adv/mean": jnp.stack([mean * count, count]),
        "adv/std": jnp.stack([jnp.sqrt(square) * count, count]),
    }
    if credit.turns is not None:
        metrics["turns_kept"] = jnp.stack(
            [jnp.sum(credit.of_turns(streams.mask)) * 1.0, jnp.sum(streams.mask) * 1.0]
        )
    if isinstance(credit.target, PerTurn) and streams.value is not None:
        # A critic per turn has a reweighting per position, or none.
        turns = credit.of_turns(streams.mask)
        explained = losses.explained_variance(streams.value, credit.target.values, turns)
        metrics["explained_variance"] = jnp.stack([explained, jnp.ones(())])
    return metrics
