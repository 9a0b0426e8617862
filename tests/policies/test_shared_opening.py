"""Rows that begin alike: the opening is computed once for all of them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder
from agentrl.policies.decoder_config import DecoderConfig
from agentrl.policies.language import transformer
from agentrl.streams import Rows
from envs.registry import make

OPENING = (3, 5, 4, 6, 3)
SIZES = {"width": 32, "layers": 3, "heads": 4, "kv_heads": 2, "hidden": 48}


@functools.cache
def policy_of(**options):
    policy = transformer(make("FrozenLake-v1")[0].view, critic="shared", **SIZES, **options)
    return policy._replace(codec=dataclasses.replace(policy.codec, opening=OPENING))


def rows_of(policy, cut, empty=True, count=4, length=12):
    rng = np.random.default_rng(0)
    size, first = policy.config.vocab_size, len(OPENING)
    tokens = rng.integers(3, size, (count, length)).astype(np.int32)
    tokens[:, :first] = OPENING
    mask = np.zeros((count, length), bool)
    mask[:, first + 2 :] = True
    if empty:
        tokens[0], mask[0] = 0, False
    legal = rng.random((count, length, size)) < 0.7
    legal[:, :first] = True
    np.put_along_axis(legal, tokens[..., None].astype(int), True, axis=2)
    return Rows(
        tokens=tokens,
        loss_mask=mask,
        stream=np.arange(count),
        turn=np.zeros((count, length), np.int32),
        behaviour_logp=np.zeros((count, length), np.float32),
        legal=legal if cut else None,
        role=np.arange(count) % 2,
    )


def both_ways(policy, rows):
    """(scores of trained positions, gradients), each with the opening shared and not."""
    params = jax.device_get(jax.jit(policy.init)(jax.random.key(0)))
    adapters = params.get("lora", {})
    params |= {"lora": jax.tree.map(lambda x: x + np.float32(0.05), adapters)} if adapters else {}

    def loss(params, policy):
        out = policy.score(params, rows)
        out = jax.tree.map(lambda x: jnp.where(rows.loss_mask, x, 0), out)
        return jnp.sum(out.logp + 0.3 * out.entropy + 0.1 * out.value**2), out

    return [
        jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)(
            params, policy._replace(shares_opening=shares)
        )
        for shares in (True, False)
    ]


@pytest.mark.parametrize(
    ("options", "cut"),
    [({}, True), ({"remat": True, "unroll": 2}, False), ({"lora_rank": 2}, False)],
)
def test_scores_and_gradients_are_those_of_whole_rows(cut, options):
    policy = policy_of(**options)
    rows = rows_of(policy, cut)
    (shared, grads), (whole, expected) = both_ways(policy, rows)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), shared, whole)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), grads, expected)


def test_positions_of_the_opening_have_their_scores_too():
    policy = policy_of()
    rows = rows_of(policy, cut=False, empty=False)
    params = jax.jit(policy.init)(jax.random.key(0))
    shared = jax.jit(policy.score)(params, rows)
    whole = jax.jit(policy._replace(shares_opening=False).score)(params, rows)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), shared, whole)
    np.testing.assert_array_equal(shared.logp[:, 0], 0)


@pytest.mark.parametrize("window", [None, 3])
def test_windows_reach_into_the_opening(window):
    config = DecoderConfig(
        vocab_size=11,
        width=16,
        layers=4,
        heads=2,
        kv_heads=1,
        head_dim=8,
        hidden=24,
        sliding_window=window,
        sliding_layers=None if window is None else (True, False, True, False),
    )
    params = jax.jit(decoder.init, static_argnums=1)(jax.random.key(1), config)
    tokens = np.random.default_rng(2).integers(0, 11, (3, 140)).astype(np.int32)
    tokens[:, :6] = 4
    after = jax.jit(decoder.hidden_after, static_argnums=1)
    first, rest = jax.device_get(after(params, config, tokens[0, :6], tokens[:, 6:]))
    whole = np.asarray(jax.jit(decoder.hidden, static_argnums=1)(params, config, tokens))
    np.testing.assert_allclose(rest, whole[:, 6:], atol=1e-5)
    np.testing.assert_allclose(first[0], whole[0, :6], atol=1e-5)


@pytest.mark.parametrize(
    ("options", "length"), [({"lora_rank": 2, "lora_roles": 2}, 12), ({}, len(OPENING))]
)
def test_openings_that_differ_by_role_or_are_cut_are_not_shared(options, length):
    assert policy_of().shared_positions(12) == len(OPENING) - 1
    assert policy_of(**options).shared_positions(length) == 0
