"""One update of the policy from one batch of rows: epochs of shuffled minibatches."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from agentrl import advantages, losses
from agentrl.policies import LanguagePolicy, Policy
from agentrl.policies.placement import along_data
from agentrl.policies.scoring import join, split
from agentrl.streams import OBSERVATION, Rows, Streams, at_positions, trained_length, turn_starts
from agentrl.training import config as configs
from agentrl.training.credit import Credit
from agentrl.training.example import Example
from agentrl.training.gradients import gradients

LOSSES: dict[str, Callable] = {
    function.__name__: function
    for function in (losses.cispo, losses.clipped_surrogate, losses.gspo, losses.reinforce)
}

KL_ESTIMATORS = (*losses.KL_ESTIMATORS, "exact")
NORMALIZATIONS = ("none", "batch", "minibatch", "role")


def make_update(
    policy: Policy | LanguagePolicy,
    transform: optax.GradientTransformation,
    loss_section: Mapping[str, Any],
    roles: int = 1,
    *,
    epochs: int = 1,
    minibatches: int = 1,
    microbatch: int | None = None,
    lengths: int = 1,
    aggregation: str = "token_mean",
    normalize_advantage: str = "none",
    entropy_coefficient: float = 0.0,
    final_entropy_coefficient: float | None = None,
    value_coefficient: float = 0.5,
    value_clip: float | None = None,
    kl_coefficient: float = 0.0,
    kl_estimator: str = "k3",
    train_on_observations: bool = False,
    importance_cap: float | None = None,
    importance_level: str = "token",
    listening_coefficient: float = 0.0,
) -> Callable[..., tuple[chex.ArrayTree, chex.ArrayTree, dict[str, jax.Array], jax.Array]]:
    """The update of a config: (params, opt_state, streams, rows, credit, key, reference, progress)
    -> (params, opt_state, metrics, finite).

    Loss of a minibatch: policy loss + value_coefficient * value loss
    + kl_coefficient * KL(pi || reference) - entropy_coefficient * entropy, each aggregated over the
    minibatch's trained positions (the value loss over the first position of each turn),
    + listening_coefficient * the mean of `losses.listening_loss` over its questions.

    Args:
      epochs, minibatches: passes over the rows, and steps in each; rows are shuffled before each
        pass.
      microbatch: rows that go through the policy at once, a divisor of a minibatch's; gradients
        are summed, and rows without anything to learn left out. None: the whole minibatch.
        On a CPU a pass is fastest while what it computes fits the caches.
      lengths: rows go through in order of their length, each pass cut to the shortest of this many
        evenly spaced sizes; each size is compiled. 1: all at full length.
      aggregation: one of `losses.AGGREGATIONS`; "constant" divides by the minibatch's number of
        positions, trained or not.
      normalize_advantage: shift and scale to mean 0 and variance 1 over the "batch" (of trained
        turns), over each "minibatch" (of trained positions), over the batch for each "role" by
        itself (HiPER's levels), or "none".
      final_entropy_coefficient: entropy_coefficient goes there by the same factor each update:
        entropy_coefficient (final / entropy_coefficient)^progress, where progress, f32[] in [0, 1),
        is the share of the updates that are done. None: it stays.
      value_clip: clip the value's move as PPO's code does, or None.
      kl_coefficient, kl_estimator: pull towards `reference`, parameters of the same policy; the
        estimator is one of `losses.KL_ESTIMATORS`, or for policies over arrays "exact", the KL in
        closed form. With 0 there is no reference, None.
      train_on_observations: an ablation: what a language policy read is trained as if it had
        written it, at ratios to the parameters before the update.
      importance_cap, importance_level: where the sampler is not the learner before the update
        (config.staleness, other kernels or weights), multiply the policy loss by
        `losses.truncated_importance_weight` of the second over the first, and take the loss's
        ratios to the second, which costs a pass over the rows. None: ratios to the sampler.
      listening_coefficient: of learning what is true, where the rows are `asked`; policies over
        arrays with answers.

    Metric kl/rollout_train is the KL of the learner before the update from the sampler, on the rows
    trained first, or on all of them with importance_cap, which adds importance_weight (mean) and
    importance_ess (effective share of the positions, (sum w)^2 / (n sum w^2)).

    `metrics` are totals and weights f32[2]; `finite` is False if any loss or gradient was not, and
    then the parameters are returned as they came.
    """
    function = configs.lookup("loss", loss_section["name"], LOSSES)
    options = configs.bind("loss", function, loss_section)
    for name, value, known in (
        ("aggregation", aggregation, losses.AGGREGATIONS),
        ("normalize_advantage", normalize_advantage, NORMALIZATIONS),
        ("kl_estimator", kl_estimator, KL_ESTIMATORS),
    ):
        if value not in known:
            raise ValueError(
                f"config.learner.{name}={value!r}{configs.nearest(value, known)}: "
                f"expected one of {', '.join(known)}"
            )
    if importance_cap is not None and importance_cap <= 0:
        raise ValueError(
            f"config.learner.importance_cap={importance_cap}: expected more than 0, or None"
        )
    if importance_level not in losses.LEVELS:
        raise ValueError(
            f"config.learner.importance_level={importance_level!r}"
            f"{configs.nearest(importance_level, losses.LEVELS)}: expected one of "
            f"{', '.join(losses.LEVELS)}"
        )
    if normalize_advantage == "role" and roles == 1:
        raise ValueError(
            "config.learner.normalize_advantage='role' tells roles apart, of which this rollout "
            "has one: use 'batch'"
        )
    counts = {"epochs": epochs, "minibatches": minibatches, "lengths": lengths}
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"config.learner.{name}={value}: expected at least 1")
    if lengths > 1 and (microbatch is None or not isinstance(policy, LanguagePolicy)):
        raise ValueError(
            f"config.learner.lengths={lengths} is for language policies in microbatches; set "
            "microbatch, or lengths=1"
        )
    final = final_entropy_coefficient
    if final is not None and not min(entropy_coefficient, final) > 0:
        raise ValueError(
            f"config.learner.final_entropy_coefficient={final} with entropy_coefficient="
            f"{entropy_coefficient}: it goes there by a factor, so both are above 0; or set None"
        )
    if kl_estimator == "exact" and not isinstance(policy, Policy):
        raise ValueError(
            "config.learner.kl_estimator='exact' is for policies over arrays; with language "
            f"policies use one of {', '.join(losses.KL_ESTIMATORS)}"
        )
    exact = kl_estimator == "exact"
    answers = policy.num_answers if isinstance(policy, Policy) else 0
    if listening_coefficient < 0 or (listening_coefficient > 0 and not answers):
        raise ValueError(
            f"config.learner.listening_coefficient={listening_coefficient} with "
            f"{answers} answers of the policy: expected at least 0, and above it only with a "
            "policy over arrays that can be asked (config.policy.answers), as in SocialDeduction-v1"
        )
    listens = listening_coefficient > 0
    if value_clip is not None and not policy.has_critic:
        raise ValueError("config.learner.value_clip is unused: the policy has no critic; set None")
    if train_on_observations and (policy.has_critic or not isinstance(policy, LanguagePolicy)):
        raise ValueError(
            "config.learner.train_on_observations=True is for language policies without a critic, "
            "whose values are read where replies begin; set False"
        )

    def weighted_by_minibatch(example: Example) -> Example:
        """What depends on the whole minibatch, before it is cut into microbatches."""
        rows, mask = example.rows, example.rows.loss_mask
        constant = mask.size if aggregation == "constant" else None
        weights = functools.partial(losses.aggregation_weights, how=aggregation, constant=constant)
        if normalize_advantage == "minibatch":
            example = example._replace(advantage=advantages.whiten(example.advantage, mask))
        tokens = jnp.sum(mask, dtype=jnp.float32)
        return example._replace(
            weight=weights(mask),
            # One value a turn: at its first position.
            value_weight=weights(turn_starts(rows)) if policy.has_critic else None,
            asked_weight=losses.aggregation_weights(rows.asked, "token_mean") if listens else None,
            tokens=jnp.broadcast_to(tokens, mask.shape[:1]),
        )

    def log_probs(params: chex.ArrayTree, rows: Rows) -> jax.Array:
        """Of all rows, without gradients, as many at once as in a pass of the learner's."""
        if microbatch is None:
            return policy.score(params, rows).logp
        parts = jax.tree.map(lambda x: x.reshape(-1, microbatch, *x.shape[1:]), rows)
        logp = jax.lax.map(lambda part: policy.score(params, part).logp, along_data(parts, 1))
        return logp.reshape(rows.tokens.shape)

    def entropy_coefficient_at(progress: jax.Array) -> jax.Array | float:
        if final is None:
            return entropy_coefficient
        return entropy_coefficient * (final / entropy_coefficient) ** progress

    def loss_of(
        params: chex.ArrayTree,
        example: Example,
        entropy_coefficient: jax.Array | float,
        reference: chex.ArrayTree | None,
    ) -> tuple[jax.Array, dict]:
        rows, mask = example.rows, example.rows.loss_mask
        logp, entropy, value = policy.score(params, rows)
        old = example.old_logp
        arrays = {"logp": logp, "old_logp": old, "advantage": example.advantage, "mask": mask}
        arrays["turn"] = rows.turn
        arrays = {name: arrays[name] for name in configs.inputs_of(function)}

        def aggregate(values, weight=example.weight):
            # Selected, not multiplied: what stands where the weight is 0 may be anything.
            return jnp.sum(jnp.where(weight > 0, values, 0.0) * weight)

        policy_loss = function(**arrays, **options)
        if example.importance is not None:
            policy_loss = example.importance * policy_loss
        policy_loss = aggregate(policy_loss)
        total = policy_loss - entropy_coefficient * aggregate(entropy)
        count = jnp.sum(mask, dtype=jnp.float32)

        def weighted(mean):
            """A mean over this part's positions."""
            return jnp.stack([mean * count, count])

        def share(aggregated):
            """This part's share of what is aggregated over the minibatch."""
            return jnp.stack([aggregated * example.tokens[0], count])

        metrics = {
            "loss/policy": share(policy_loss),
            "entropy": weighted(losses.aggregate(entropy, mask, "token_mean")),
            "approx_kl": weighted(losses.approx_kl(logp, old, mask)),
        }
        if function is losses.clipped_surrogate:
            clipped = losses.clip_fraction(logp, old, example.advantage, mask, **options)
            metrics["clip_fraction"] = weighted(clipped)
        if reference is not None:
            if exact:
                divergence = policy.divergence(params, reference, rows)
            else:
                divergence = losses.kl(logp, example.reference_logp, mask, estimator=kl_estimator)
            kl_ref = aggregate(divergence)
            total = total + kl_coefficient * kl_ref
            metrics["kl_ref"] = share(kl_ref)
        if policy.has_critic:
            starts = turn_starts(rows)
            if value_clip is None:
                error = losses.value_loss(value, example.target, starts)
            else:
                error = losses.clipped_value_loss(
                    value, example.old_value, example.target, starts, clip=value_clip
                )
            value_loss = aggregate(error, example.value_weight)
            total = total + value_coefficient * value_loss
            metrics["loss/value"] = share(value_loss)
        if listens:
            logits = policy.answers(params, rows)
            error = losses.listening_loss(logits, rows.answer, rows.asked)
            total = total + listening_coefficient * aggregate(error, example.asked_weight)
            right = rows.asked & (jnp.argmax(logits, axis=-1) == rows.answer)
            asked = jnp.sum(rows.asked, dtype=jnp.float32)
            metrics["loss/listening"] = jnp.stack([jnp.sum(error), asked])
            metrics["belief_accuracy"] = jnp.stack([jnp.sum(right), asked])
        return total, metrics

    def step(frozen, reference, bonus, carry, example: Example):
        params, opt_state, finite = carry
        example = weighted_by_minibatch(example)
        loss, metrics, grads = gradients(
            lambda trained, example: loss_of(join(trained, frozen), example, bonus, reference),
            params,
            example,
            trained_length(example.rows),
            longest=example.advantage.shape[1],
            microbatch=microbatch,
            lengths=lengths,
            head=Example.head,
        )
        norm = optax.tree.norm(grads)
        updates, opt_state = transform.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        metrics["grad_norm"] = jnp.stack([norm, jnp.ones(())])
        return (params, opt_state, finite & jnp.isfinite(loss) & jnp.isfinite(norm)), metrics

    def update(
        params,
        opt_state,
        streams: Streams,
        rows: Rows,
        credit: Credit,
        key: jax.Array,
        reference: chex.ArrayTree | None = None,
        progress: jax.Array | float = 0.0,
    ):
        bonus = entropy_coefficient_at(progress)
        trained = streams.mask & credit.keep[:, None]
        advantage = credit.advantage
        if normalize_advantage == "batch":
            advantage = advantages.whiten(advantage, trained)
        elif normalize_advantage == "role":
            advantage = sum(
                advantages.whiten(advantage, trained & (streams.role == role)[:, None])
                for role in range(roles)
            )
        if train_on_observations:
            # What stands first has no distribution that it could have been drawn from.
            read = (rows.span == OBSERVATION) & (jnp.arange(rows.tokens.shape[1]) > 0)
            read &= jnp.any(rows.loss_mask, axis=1, keepdims=True)
            before = jnp.where(read, log_probs(params, rows), rows.behaviour_logp)
            rows = rows.replace(loss_mask=rows.loss_mask | read, behaviour_logp=before)
        rows = rows.replace(loss_mask=rows.loss_mask & credit.keep[rows.stream][:, None])
        spread = at_positions(advantage, rows)
        target = old_value = None
        if policy.has_critic:
            target, old_value = at_positions(credit.target, rows), at_positions(streams.value, rows)
        reference_logp = None
        if reference is not None and not exact:
            reference_logp = log_probs(reference, rows)
        old, importance, bridge = rows.behaviour_logp, None, {}
        if importance_cap is not None:
            old = log_probs(params, rows)
            importance, bridge = _importance(old, rows, importance_cap, importance_level)
        examples = Example(rows, spread, target, old_value, reference_logp, old, importance)
        count = rows.tokens.shape[0]

        def epoch(carry, key):
            if minibatches == 1:
                batches = jax.tree.map(lambda x: x[None], examples)
            else:
                order = jax.random.permutation(key, count)
                if microbatch is not None:
                    # Deal the trained rows out evenly, so that each minibatch leaves out as many.
                    empty = trained_length(rows) == 0
                    order = order[jnp.argsort(empty[order], stable=True)]
                    order = order.reshape(-1, minibatches).T
                order = order.reshape(minibatches, -1)
                batches = jax.tree.map(lambda x: x[order], examples)
                batches = along_data(batches, 1)
            return jax.lax.scan(functools.partial(step, frozen, reference, bonus), carry, batches)

        params, frozen = split(params, policy.frozen)
        carry = (params, opt_state, jnp.ones((), bool))
        (new_params, new_opt_state, finite), per_step = jax.lax.scan(
            epoch, carry, jax.random.split(key, epochs)
        )
        finite = finite & jnp.isfinite(optax.tree.norm(new_params))
        change = optax.tree.norm(jax.tree.map(jnp.subtract, new_params, params))
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old),
            (new_params, new_opt_state),
            (params, opt_state),
        )
        metrics = jax.tree.map(lambda x: jnp.sum(x, axis=(0, 1)), per_step)
        # Before the first step the policy is the learner's.
        metrics["kl/rollout_train"] = per_step["approx_kl"][0, 0]
        metrics |= bridge
        one = jnp.ones(())
        metrics["update_norm"] = jnp.stack([change, one])
        metrics |= _advantage_metrics(credit, streams, trained)
        if final is not None:
            metrics["entropy_coefficient"] = jnp.stack([bonus, one])
        # A rejected update says nothing but that it was rejected.
        metrics = jax.tree.map(lambda x: jnp.where(finite, x, 0.0), metrics)
        return join(params, frozen), opt_state, metrics, finite

    return update


def _importance(
    old: jax.Array, rows: Rows, cap: float, level: str
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The weights f32[R, L] of the learner over the sampler, and metrics of both."""
    mask = rows.loss_mask
    weight = losses.truncated_importance_weight(
        old, rows.behaviour_logp, mask, cap=cap, level=level
    )
    count = jnp.sum(mask, dtype=jnp.float32)
    total = jnp.sum(weight)
    return weight, {
        "kl/rollout_train": jnp.stack(
            [losses.approx_kl(old, rows.behaviour_logp, mask) * count, count]
        ),
        "importance_weight": jnp.stack([total, count]),
        "importance_ess": jnp.stack([total**2, count * jnp.sum(weight**2)]),
    }


def _advantage_metrics(credit: Credit, streams: Streams, trained: jax.Array) -> dict:
    count = jnp.sum(trained, dtype=jnp.float32)
    advantage = jnp.where(trained, credit.advantage, 0.0)
    mean = jnp.sum(advantage) / jnp.maximum(count, 1)
    spread = jnp.sum(jnp.where(trained, jnp.square(advantage - mean), 0)) / jnp.maximum(count, 1)
    metrics = {
        "adv/mean": jnp.stack([mean * count, count]),
        "adv/std": jnp.stack([jnp.sqrt(spread) * count, count]),
    }
    if credit.target is not None:
        explained = losses.explained_variance(streams.value, credit.target, trained)
        metrics["explained_variance"] = jnp.stack([explained, jnp.ones(())])
    return metrics
