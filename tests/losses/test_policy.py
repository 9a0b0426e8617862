"""Policy losses against verl's values and gradients, worked numbers, and each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import losses
from agentrl.losses import aggregate, truncated_importance_weight

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
LOGP, OLD, BEHAVIOUR, ADVANTAGE = (
    np.asarray(DATA[key], np.float32)
    for key in ("in/logp", "in/old_logp", "in/rollout_logp", "adv/grpo")
)
TURN = DATA["in/turn_ids"].astype(np.int32)
DAPO = {"clip_low": 0.2, "clip_high": 0.28}

clipped_surrogate = jax.jit(losses.clipped_surrogate, static_argnames="dual_clip")
gspo = jax.jit(losses.gspo, static_argnames="ratio_of")
cispo, reinforce = jax.jit(losses.cispo), jax.jit(losses.reinforce)
LOSSES = {
    "clipped_surrogate": lambda *args: clipped_surrogate(*args, **DAPO, dual_clip=3.0)[0],
    "gspo": lambda *args: gspo(*args, **DAPO)[0],
    "gspo of turns": lambda *args: gspo(*args, **DAPO, ratio_of="turn", turn=TURN)[0],
    "cispo": lambda *args: cispo(*args, **DAPO)[0],
    "reinforce": lambda logp, old, advantage, mask: reinforce(logp, advantage, mask),
}


@functools.cache
def summed_and_grads(name):
    """Sum of a loss and its gradients to (logp, old_logp, advantage)."""
    return jax.jit(jax.value_and_grad(lambda args: jnp.sum(LOSSES[name](*args, MASK))))


def value_and_grad(loss, how, weight=1.0):
    """Aggregated loss of the recorded inputs, and its gradient to logp."""

    def scalar(logp):
        return aggregate(weight * loss(logp, OLD, ADVANTAGE, MASK), MASK, how)

    return jax.jit(jax.value_and_grad(scalar))(LOGP)


surrogate_and_grad = jax.jit(
    jax.value_and_grad(losses.clipped_surrogate, has_aux=True), static_argnames="dual_clip"
)


def surrogate(ratio, advantage, **options):
    """(loss, -gradient to logp) of one position with the given ratio."""
    (value, _), grad = surrogate_and_grad(np.log(np.float32(ratio)), 0.0, advantage, **options)
    return float(value), -float(grad)


@pytest.mark.parametrize(
    "key, loss, how",
    [
        ("ppo_clip_0.2_0.28_c3", "clipped_surrogate", "token_mean"),
        ("gspo_0.2_0.28", "gspo", "row_mean"),
        ("cispo_0.2_0.28", "cispo", "token_mean"),
    ],
)
def test_agrees_with_verl(key, loss, how):
    value, grad = value_and_grad(LOSSES[loss], how)
    np.testing.assert_allclose(value, DATA[f"loss/{key}/value"], atol=1e-6)
    np.testing.assert_allclose(grad, DATA[f"loss/{key}/grad_logp"], atol=1e-6)


def test_composes_to_the_loss_of_dart():
    # clip 0.1/0.28, dual clip 10, mean of row means, each position under a weight capped at 1
    weight = truncated_importance_weight(OLD, BEHAVIOUR, MASK, cap=1.0)

    def loss(*args):
        return clipped_surrogate(*args, clip_low=0.1, clip_high=0.28, dual_clip=10.0)[0]

    value, grad = value_and_grad(loss, "row_mean", weight)
    np.testing.assert_allclose(value, DATA["loss/dart_tis_cap1/value"], atol=1e-6)
    np.testing.assert_allclose(grad, DATA["loss/dart_tis_cap1/grad_logp"], atol=1e-6)


@pytest.mark.parametrize("variant", ["O1", "C2"])
def test_composes_with_weights_of_positions_to_stare(variant):
    weight = np.asarray(DATA[f"stare/{variant}/weights_top0.2"], np.float32)

    def loss(*args):
        return clipped_surrogate(*args, **DAPO, dual_clip=10.0)[0]

    value, grad = value_and_grad(loss, "token_mean", weight)
    np.testing.assert_allclose(value, DATA[f"loss/stare_{variant}/value"], atol=1e-6)
    np.testing.assert_allclose(grad, DATA[f"loss/stare_{variant}/grad_logp"], atol=1e-6)


@pytest.mark.parametrize(
    "ratio, gain_if_good, gain_if_bad",
    [(0.7, 0.7, 0.0), (1.0, 1.0, -1.0), (1.2, 1.2, -1.2), (1.3, 0.0, -1.3), (3.5, 0.0, 0.0)],
)
def test_worked_coefficients_of_the_clip(ratio, gain_if_good, gain_if_bad):
    options = DAPO | {"dual_clip": 3.0}
    np.testing.assert_allclose(surrogate(ratio, 1.0, **options)[1], gain_if_good, rtol=1e-6)
    np.testing.assert_allclose(surrogate(ratio, -1.0, **options)[1], gain_if_bad, rtol=1e-6)


def test_worked_values_of_the_clip():
    # A = 2: max(-2 * 1.5, -2 * 1.28) = -2.56;  A = -2: max(2 * 0.5, 2 * 0.8) = 1.6
    np.testing.assert_allclose(surrogate(1.5, 2.0, **DAPO)[0], -2.56, rtol=1e-6)
    np.testing.assert_allclose(surrogate(0.5, -2.0, **DAPO)[0], 1.6, rtol=1e-6)
    # A = -2, rho = 5: 10 without a dual clip, -A c = 6 with c = 3
    np.testing.assert_allclose(surrogate(5.0, -2.0, **DAPO)[0], 10.0, rtol=1e-6)
    np.testing.assert_allclose(surrogate(5.0, -2.0, **DAPO, dual_clip=3.0)[0], 6.0, rtol=1e-6)


@pytest.mark.parametrize("advantage", [1.5, -1.5])
def test_a_ratio_on_a_bound_keeps_its_gradient(advantage):
    # rho = 1 with no room at all is on both bounds
    value, gain = surrogate(1.0, advantage, clip_low=0.0, clip_high=0.0)
    assert value == -advantage and gain == advantage


def test_mini_example_of_gspo():
    # mean (0.1 - 0.05 + 0.3 + 0.01) / 4 = 0.09, exp = 1.0942; far inside wide bounds
    ratios = np.float32([[0.1, -0.05, 0.3, 0.01]])
    ones = np.ones((1, 4))
    loss, _ = gspo(ratios, np.zeros((1, 4)), ones, **DAPO)
    np.testing.assert_allclose(loss, -np.exp(0.09) * np.ones((1, 4)), rtol=1e-6)
    assert round(float(np.exp(0.09)), 4) == 1.0942


def test_gradient_of_gspo_is_that_of_the_sequence_ratio():
    def sequence(logp):
        s = jnp.exp(jnp.sum(jnp.where(MASK, logp - OLD, 0), 1) / MASK.sum(1))
        row_advantage = ADVANTAGE[np.arange(8), MASK.argmax(1)]
        clipped = jnp.clip(s, 0.8, 1.28)
        return jnp.mean(jnp.maximum(-row_advantage * s, -row_advantage * clipped))

    value, grad = jax.jit(jax.value_and_grad(sequence))(LOGP)
    ours, our_grad = value_and_grad(LOSSES["gspo"], "row_mean")
    np.testing.assert_allclose(ours, value, atol=1e-6)
    np.testing.assert_allclose(our_grad, grad, atol=1e-6)


def test_gspo_of_one_position_is_the_clipped_surrogate():
    columns = [x.reshape(-1, 1) for x in (LOGP, OLD, ADVANTAGE, MASK)]
    wide = {"clip_low": 0.1, "clip_high": 0.15}
    np.testing.assert_allclose(
        gspo(*columns, **wide)[0], clipped_surrogate(*columns, **wide)[0], rtol=1e-6, atol=1e-7
    )
    each_its_own = np.broadcast_to(np.arange(6) + 70, (8, 6))
    np.testing.assert_allclose(
        gspo(LOGP, OLD, ADVANTAGE, MASK, **wide, ratio_of="turn", turn=each_its_own)[0],
        clipped_surrogate(LOGP, OLD, ADVANTAGE, MASK, **wide)[0],
        rtol=1e-6,
        atol=1e-7,
    )


def test_gspo_of_turns_is_gspo_of_rows_that_hold_one_turn():
    ours = np.asarray(LOSSES["gspo of turns"](LOGP, OLD, ADVANTAGE, MASK))
    one = np.full((8, 6), 40)
    whole, _ = gspo(LOGP, OLD, ADVANTAGE, MASK, **DAPO, ratio_of="turn", turn=one)
    np.testing.assert_allclose(whole, LOSSES["gspo"](LOGP, OLD, ADVANTAGE, MASK), rtol=1e-6)
    for t in range(3):
        alone = MASK & (TURN == t)
        row = np.asarray(LOSSES["gspo"](LOGP, OLD, ADVANTAGE, alone))
        np.testing.assert_allclose(ours[alone], row[alone], rtol=1e-6)


def test_a_gap_inside_a_turn_does_not_split_it():
    ratios = np.float32([[0.2, 9.0, 0.4, 0.1]])
    mask = np.array([[True, False, True, True]])
    turn = np.array([[5, -1, 5, 6]])
    zeros, ones = np.zeros((1, 4)), np.ones((1, 4))
    loss, _ = gspo(ratios, zeros, ones, mask, clip_high=9.0, ratio_of="turn", turn=turn)
    expected = [-np.exp(0.3), 0.0, -np.exp(0.3), -np.exp(0.1)]  # (0.2 + 0.4) / 2 and 0.1
    np.testing.assert_allclose(loss[0], expected, rtol=1e-6)


@pytest.mark.parametrize("ratio, weight", [(1.6, 1.28), (1.0, 1.0), (0.5, 0.8)])
def test_cispo_keeps_a_gradient_under_a_clipped_weight(ratio, weight):
    logp, advantage = np.log(np.float32(ratio)) - 1, np.float32(3.0)
    loss = jax.value_and_grad(cispo, has_aux=True)
    (value, _), grad = loss(logp, np.float32(-1.0), advantage, **DAPO)
    np.testing.assert_allclose(-grad, weight * 3.0, rtol=1e-6)
    np.testing.assert_allclose(value, -weight * 3.0 * logp, rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_on_policy_every_loss_has_the_gradient_of_reinforce(name):
    _, (grad, *_) = summed_and_grads(name)([LOGP, LOGP, ADVANTAGE])
    np.testing.assert_allclose(grad, np.where(MASK, -ADVANTAGE, 0), rtol=1e-6)


@pytest.mark.parametrize("name", ["clipped_surrogate", "gspo", "gspo of turns"])
def test_on_policy_the_ratio_losses_are_minus_the_advantage(name):
    loss = LOSSES[name](LOGP, LOGP, ADVANTAGE, MASK)
    np.testing.assert_allclose(loss, np.where(MASK, -ADVANTAGE, 0), rtol=1e-6)


def test_no_dual_clip_is_an_infinite_one():
    args = (LOGP + 2, OLD, ADVANTAGE, MASK)
    jax.tree.map(
        np.testing.assert_array_equal,
        clipped_surrogate(*args),
        clipped_surrogate(*args, dual_clip=float("inf")),
    )


@pytest.mark.parametrize("name", LOSSES)
def test_precision_and_vmap(name):
    args = [np.asarray(x, jnp.bfloat16) for x in (LOGP, OLD, ADVANTAGE)]
    loss = LOSSES[name](*args, MASK)
    assert loss.dtype == np.float32 and loss.shape == (8, 6)
    np.testing.assert_allclose(
        loss, LOSSES[name](*(x.astype(np.float32) for x in args), MASK), rtol=1e-6
    )
    batch = [np.stack([x, x]) for x in (LOGP, OLD, ADVANTAGE, MASK)]
    mapped = jax.vmap(LOSSES[name])(*batch)
    np.testing.assert_allclose(
        mapped[1], LOSSES[name](LOGP, OLD, ADVANTAGE, MASK), rtol=1e-5, atol=1e-6
    )


def test_extreme_ratios_stay_finite():
    logp, old = np.float32([[0.0, -1e4, 300.0]]), np.float32([[-1e4, 0.0, 0.0]])
    mask = np.ones((1, 3), bool)
    for name in ("clipped_surrogate", "gspo", "cispo"):
        vjp = jax.jit(lambda x, a, f=LOSSES[name]: jax.vjp(lambda y: f(y, old, a, mask), x)[1](a))
        for sign in (1.0, -1.0):
            advantage = np.full((1, 3), sign, np.float32)
            assert np.all(np.isfinite(LOSSES[name](logp, old, advantage, mask)))
            assert np.all(np.isfinite(vjp(logp, advantage)[0]))


def test_clip_fraction_counts_what_the_clip_removes():
    ratio = np.float32([[0.7, 0.7, 1.3, 1.3, 3.5, 3.5, 1.0, 1.3, 9.0]])
    advantage = np.float32([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0, 1.0]])
    mask = np.arange(9)[None] < 8
    args = (np.log(ratio), np.zeros((1, 9)), advantage, mask)
    # clipped: (0.7, -), (1.3, +), (3.5, +); the dual clip adds (3.5, -)
    for dual_clip, count in ((None, 3), (3.0, 4)):
        loss = functools.partial(clipped_surrogate, **DAPO, dual_clip=dual_clip)
        _, pull, metrics = jax.vjp(lambda x, f=loss: f(x, *args[1:]), args[0], has_aux=True)
        assert np.sum(metrics["clip_fraction"]) == count
        removed = (np.asarray(pull(np.ones_like(ratio))[0]) == 0) & (advantage != 0) & mask
        np.testing.assert_array_equal(metrics["clip_fraction"], removed)
    nowhere = clipped_surrogate(*args[:3], np.zeros((1, 9), bool))[1]
    assert not np.any(nowhere["clip_fraction"])


@settings(max_examples=30, deadline=None)
@given(
    st.floats(-3, 3, width=32),
    st.floats(-5, 5, width=32),
    st.floats(0, 0.875, width=32),
    st.floats(0, 2, width=32),
)
def test_the_clip_is_pessimistic_and_the_dual_clip_bounds_it(difference, advantage, low, high):
    value, gain = surrogate(np.exp(difference), advantage, clip_low=low, clip_high=high)
    ratio = np.exp(np.float32(difference))
    # XLA takes what is smaller than the smallest normal number as 0.
    rounding = 1e-5 * abs(advantage * ratio) + np.finfo(np.float32).tiny
    assert value >= -advantage * ratio - rounding
    assert gain == 0 or np.isclose(gain, advantage * ratio, rtol=1e-5)
    bounded, _ = surrogate(np.exp(difference), advantage, dual_clip=3.0)
    assert bounded <= 3.0 * abs(advantage) + 1e-6


def test_metrics_per_position():
    """A position is counted iff the gradient is removed, or (cispo) the weight is clipped."""
    for name, loss, options in (
        ("clipped_surrogate", losses.clipped_surrogate, DAPO | {"dual_clip": 3.0}),
        ("gspo", losses.gspo, {"clip_low": 0.02, "clip_high": 0.03}),
        ("gspo", losses.gspo, {"clip_low": 0.02, "clip_high": 0.03, "ratio_of": "turn"}),
    ):
        if "ratio_of" in options:
            options = options | {"turn": TURN}
        loss = functools.partial(loss, **options)
        _, pull, metrics = jax.vjp(lambda x, f=loss: f(x, OLD, ADVANTAGE, MASK), LOGP, has_aux=True)
        (gradient,) = pull(np.ones_like(LOGP))
        removed = MASK & (np.asarray(gradient) == 0) & (ADVANTAGE != 0)
        counted = metrics["clip_fraction"]
        np.testing.assert_array_equal(counted, removed, err_msg=name)
        assert 0 < np.sum(counted) < np.sum(MASK)
    ratio = np.exp(LOGP - OLD)
    counted = losses.cispo(LOGP, OLD, ADVANTAGE, MASK, **DAPO)[1]["clip_fraction"]
    outside = (ratio < 0.8) | (ratio > 1.28)
    np.testing.assert_array_equal(counted, MASK & outside & (ADVANTAGE != 0))


def test_negative_entropy():
    entropy = np.where(MASK, DATA["in/entropy"], np.nan)
    expected = np.where(MASK, DATA["in/entropy"], 0)
    values, metrics = losses.negative_entropy(entropy, MASK)
    np.testing.assert_allclose(values, -expected, rtol=1e-6)
    np.testing.assert_allclose(metrics["entropy"], expected, rtol=1e-6)
