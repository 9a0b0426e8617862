"""What turns have of their positions: ratios to the sampler, entropies; over arrays, in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context

import envs
from agentrl import policies, rollout
from agentrl.learner.component import Setup
from agentrl.learner.passes import log_probs
from agentrl.methods.turn_entropy import turn_entropy
from agentrl.methods.turn_ratio import turn_ratio


def played(words):
    """(setup, parameters of the sampler and of another policy, streams, rows)."""
    env, params = envs.make("NumberLine-v1", length=9)
    if words:
        policy = policies.transformer(
            env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16, constrained=True
        )
        chosen = rollout.contexts.whole()
    else:
        shapes = env.observation_shape, env.num_codes, env.num_actions
        policy, chosen = policies.mlp(*shapes, hidden=(8,), critic="none"), None
    made = rollout.episodes(policy, env, params, chosen, num_groups=2, group_size=4)
    sampler, other = (policy.init(jax.random.key(seed)) for seed in (0, 1))
    if not words:
        other = jax.tree.map(lambda x: 20 * x, other)  # its head begins near 0
    _, streams, rows, _ = jax.jit(made.collect)(sampler, made.init(None), jax.random.key(2))
    setup = Setup(
        envs={"one": (env, params)}, policy=policy, rollout=made, seed=0, num_seeds=1,
        updates=(0, 1), log_every=1, microbatch=None,
    )  # fmt: skip
    return setup, sampler, other, streams, rows


def by_loop(values, streams, rows, combine):
    """Values of the written positions of each turn, combined: f64[N, T], 0 where nobody acted."""
    found = {}
    for row, position in np.argwhere(rows.loss_mask):
        at = int(rows.stream[row]), int(rows.turn[row, position])
        found.setdefault(at, []).append(float(values[row, position]))
    out = np.zeros(streams.mask.shape)
    for at, given in found.items():
        out[at] = combine(given)
    return out


@pytest.mark.parametrize("words", [False, True], ids=["arrays", "words"])
def test_a_turns_ratio_is_the_product_over_its_positions(words):
    setup, sampler, other, streams, rows = played(words)
    mask, annotate = np.asarray(streams.mask), turn_ratio(setup).annotate
    notes, metrics = annotate(context(params=sampler), streams, rows)
    np.testing.assert_allclose(notes["turn_ratio"].values, mask * 1.0, atol=1e-4)
    notes, metrics = annotate(context(params=other), streams, rows)
    logp = log_probs(setup.policy, other, rows, None, setup.lengths)
    np.testing.assert_array_equal(notes["old_logp"].values, logp)
    expected = by_loop(logp - rows.behaviour_logp, streams, rows, lambda x: np.exp(sum(x)))
    np.testing.assert_allclose(notes["turn_ratio"].values, expected, rtol=1e-4, atol=1e-6)
    assert 0.1 < np.ptp(expected[mask])
    total, count = metrics["turn_ratio"]
    np.testing.assert_allclose(total / count, np.minimum(expected[mask], 1).mean(), rtol=1e-4)
    total, count = metrics["turn_ratio/below"]
    np.testing.assert_allclose(total / count, (expected[mask] < 1).mean())


@pytest.mark.parametrize("words", [False, True], ids=["arrays", "words"])
def test_a_turns_entropy_is_the_mean_over_its_positions(words):
    setup, sampler, _, streams, rows = played(words)
    notes = turn_entropy(setup).annotate(context(params=sampler), streams, rows)
    entropy = log_probs(setup.policy, sampler, rows, None, setup.lengths, field="entropy")
    expected = by_loop(entropy, streams, rows, np.mean)
    np.testing.assert_allclose(notes["turn_entropy"].values, expected, rtol=1e-5, atol=1e-6)
    assert jnp.all(notes["turn_entropy"].values[~streams.mask] == 0)
