import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.policies import sampling
from agentrl.policies.sampling import Sampling

# Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
HALVES = np.log(np.float32([0.25, 0.5, 0.0625, 0.125, 0.0625]))
draw = jax.jit(sampling.draw)


def kept_tokens(logits, options, allowed=None):
    keep = sampling.kept(logits, options, allowed)
    return None if keep is None else np.flatnonzero(keep).tolist()


def test_nothing_is_cut():
    assert kept_tokens(HALVES, Sampling()) is None
    assert kept_tokens(HALVES, Sampling(temperature=0.1)) is None
    assert kept_tokens(HALVES, Sampling(top_k=9)) is None
    np.testing.assert_allclose(sampling.distribution(HALVES, Sampling(), None), HALVES, rtol=1e-6)


@pytest.mark.parametrize(
    "options, tokens",
    [
        (Sampling(top_k=1), [1]),
        (Sampling(top_k=3), [0, 1, 3]),
        # Two tokens are as likely as the fourth.
        (Sampling(top_k=4), [0, 1, 2, 3, 4]),
        (Sampling(top_p=0.5), [1]),
        (Sampling(top_p=0.51), [0, 1]),
        (Sampling(top_p=0.75), [0, 1]),
        (Sampling(top_p=0.8), [0, 1, 3]),
        (Sampling(top_p=1e-6), [1]),
        (Sampling(min_p=0.5), [0, 1]),
        (Sampling(min_p=0.2), [0, 1, 3]),
        # At temperature 1/2 the probabilities go as 16 : 64 : 1 : 4 : 1.
        (Sampling(temperature=0.5, min_p=0.2), [0, 1]),
        (Sampling(temperature=0.5, top_p=0.92), [0, 1]),
        # Of the three likeliest, 0.5, 0.25 and 0.125 of 0.875: 0.75 / 0.875 = 0.857.
        (Sampling(top_k=3, top_p=0.85), [0, 1]),
        (Sampling(top_k=3, top_p=0.86), [0, 1, 3]),
        (Sampling(top_p=0.9, min_p=0.3), [0, 1]),
        # Greedy has temperature 1.
        (Sampling(temperature=0.5, min_p=0.2, greedy=True), [0, 1, 3]),
    ],
)
def test_cuts_by_hand(options, tokens):
    assert kept_tokens(HALVES, options) == tokens
    logp = sampling.distribution(HALVES, options, sampling.kept(HALVES, options))
    assert np.flatnonzero(np.isfinite(logp)).tolist() == tokens
    np.testing.assert_allclose(np.exp(logp).sum(), 1.0, rtol=1e-6)


def test_only_allowed_tokens_count():
    allowed = np.array([True, False, True, True, True])
    assert kept_tokens(HALVES, Sampling(), allowed) == [0, 2, 3, 4]
    assert kept_tokens(HALVES, Sampling(top_k=2), allowed) == [0, 3]
    # 0.25 of the 0.5 that is left.
    assert kept_tokens(HALVES, Sampling(top_p=0.5), allowed) == [0]
    assert kept_tokens(HALVES, Sampling(min_p=0.5), allowed) == [0, 3]
    logp = sampling.distribution(HALVES, Sampling(), allowed)
    np.testing.assert_allclose(np.exp(logp), [0.5, 0.0, 0.125, 0.25, 0.125], rtol=1e-6)


def test_cuts_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    logits = np.random.default_rng(0).normal(size=(64, 37)).astype(np.float32) * 3
    for options in (
        Sampling(temperature=0.7, top_k=9, top_p=0.8, min_p=0.05),
        Sampling(temperature=1.6, top_p=0.6),
        Sampling(top_k=5, min_p=0.2),
    ):
        scores = torch.tensor(logits)
        chain = [process.TemperatureLogitsWarper(options.temperature)]
        chain += [process.TopKLogitsWarper(options.top_k)] if options.top_k else []
        chain += [process.TopPLogitsWarper(options.top_p)] if options.top_p < 1 else []
        chain += [process.MinPLogitsWarper(options.min_p)] if options.min_p else []
        for warp in chain:
            scores = warp(None, scores)
        expected = torch.log_softmax(scores, dim=-1).numpy()
        keep = sampling.kept(logits, options)
        np.testing.assert_array_equal(keep, np.isfinite(expected))
        logp = sampling.distribution(logits, options, keep)
        np.testing.assert_allclose(logp, expected, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 37, 600])
def test_draws_follow_the_distribution(size):
    rng = np.random.default_rng(size)
    weights = rng.exponential(size=size).astype(np.float32) * (rng.random(size) < 0.7)
    weights[0] = 1.0
    count = 40_000
    drawn = draw(jax.random.key(size), np.broadcast_to(weights, (count, size)))
    expected = count * weights / weights.sum()
    observed = np.bincount(np.asarray(drawn), minlength=size)
    assert observed.shape == (size,) and not observed[weights == 0].any()
    likely = expected > 5
    statistic = np.sum((observed - expected)[likely] ** 2 / expected[likely])
    # Mean and variance of chi squared are k and 2 k.
    assert abs(statistic - likely.sum()) < 5 * np.sqrt(2 * likely.sum())


def test_what_weighs_nothing_is_never_drawn():
    # One token far at the end, or in the middle, of many that weigh nothing.
    for place in (0, 13, 255, 256, 299):
        weights = np.zeros((500, 300), np.float32)
        weights[:, place] = 1e-30
        assert (np.asarray(draw(jax.random.key(place), weights)) == place).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    top_k=st.integers(0, 6),
    top_p=st.sampled_from([1.0, 0.9, 0.3]),
    min_p=st.sampled_from([0.0, 0.1]),
    greedy=st.booleans(),
    masked=st.booleans(),
)
def test_samples_are_kept_and_scored_by_the_distribution(seed, top_k, top_p, min_p, greedy, masked):
    rng = np.random.default_rng(seed)
    logits = np.float32(4 * rng.normal(size=(6, 3, 11)))
    allowed = None
    if masked:
        allowed = (rng.random((6, 3, 11)) < 0.4) | (np.arange(11) == 4)
    options = Sampling(0.8, top_k=top_k, top_p=top_p, min_p=min_p, greedy=greedy)
    token, logp, keep = sampling.sample(jax.random.key(seed), logits, options, allowed)
    assert token.shape == logp.shape == (6, 3)
    assert token.dtype == jnp.int32 and logp.dtype == jnp.float32
    distribution = sampling.distribution(logits, options, keep)
    at = np.asarray(token)[..., None]
    np.testing.assert_allclose(logp[..., None], np.take_along_axis(distribution, at, -1), atol=2e-6)
    mass = np.exp(distribution)
    expected = -np.sum(np.where(mass > 0, mass * np.where(mass > 0, distribution, 0), 0), axis=-1)
    np.testing.assert_allclose(sampling.entropy(logits, options, keep), expected, atol=1e-5)
    if keep is not None:
        assert np.take_along_axis(keep, at, -1).all()
    if allowed is not None:
        assert np.take_along_axis(np.asarray(allowed), at, -1).all()
    if greedy:
        np.testing.assert_array_equal(token, np.argmax(distribution, axis=-1))


def test_entropy_and_its_gradient_are_finite_where_tokens_are_cut():
    keep = np.array([True, False, True, False, False])

    @jax.jit
    def total(logits):
        return jnp.sum(sampling.entropy(logits, Sampling(), keep))

    # 0.25 and 0.0625: 0.8 and 0.2.
    expected = -0.8 * np.log(0.8) - 0.2 * np.log(0.2)
    np.testing.assert_allclose(total(HALVES), expected, rtol=1e-5)
    gradient = jax.jit(jax.grad(total))(HALVES)
    assert np.isfinite(gradient).all() and not np.asarray(gradient)[~keep].any()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperature": 0.0}, "use greedy=True"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"top_k": -1}, "top_k=-1"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"min_p": 1.0}, "min_p=1.0"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**options)
