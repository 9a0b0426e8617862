"""Several roles on one transcript, each with an adapter of its own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout

ROLES = 2


@functools.cache
def played(context):
    """(policy, parameters, streams, rows) of a solver and a verifier on one transcript."""
    base = {"name": "CheckedSum-v1", "question": "largest", "terms": 3}
    env, params = envs.make("envs.wrappers.OneTranscript", base=base)
    sizes = {"width": 16, "layers": 2, "heads": 2, "kv_heads": 2, "hidden": 32}
    policy = policies.transformer(env.view, **sizes, lora_rank=2, lora_roles=ROLES)
    weights = policy.init(jax.random.key(0))
    lora = weights["lora"]
    keys = iter(jax.random.split(jax.random.key(1), len(jax.tree.leaves(lora))))
    noise = jax.tree.map(lambda x: 0.2 * jax.random.normal(next(keys), x.shape), lora)
    weights = weights | {"lora": noise}
    matches = rollout.episodes(policy, env, params, context(), num_groups=2, group_size=4)
    _, streams, rows, _ = jax.jit(matches.collect)(weights, None, jax.random.key(2))
    return policy, weights, streams, rows


CONTEXTS = [rollout.contexts.whole, functools.partial(rollout.contexts.window, history=0)]


@pytest.mark.parametrize("context", CONTEXTS, ids=["whole", "window"])
def test_every_reply_has_the_log_probability_that_it_was_drawn_with(context):
    policy, weights, _, rows = played(context)
    logp = jax.jit(policy.score)(weights, rows).logp
    mask = np.asarray(rows.loss_mask)
    np.testing.assert_allclose(
        np.asarray(logp)[mask], np.asarray(rows.behaviour_logp)[mask], atol=2e-4
    )


def test_a_row_of_several_turns_has_one_reader():
    strides = functools.partial(rollout.contexts.sliding, history=1, stride=2)
    with pytest.raises(ValueError, match=r"stride=2 .* where 2 roles write one transcript.*"):
        played(strides)


def test_positions_are_those_of_solver_and_verifier():
    """By what they read: `solve ...`, `check ...`, which the lexicon has in this order."""
    _, _, _, rows = played(CONTEXTS[0])
    assert rows.speaker.shape == rows.tokens.shape
    tokens, turn, speaker = (np.asarray(x) for x in (rows.tokens, rows.turn, rows.speaker))
    heads = [
        (tokens[row][turn[row] == t][0], set(speaker[row][turn[row] == t]))
        for row in range(tokens.shape[0])
        for t in range(turn[row].max() + 1)
    ]
    words = sorted({word for word, _ in heads})
    assert len(words) == 2 and all(roles == {words.index(word)} for word, roles in heads)


def test_the_adapter_of_a_role_learns_from_its_own_turns_alone():
    """Nothing of a role that is not learnt from, and of the other what it learns alone."""
    policy, weights, _, rows = played(CONTEXTS[1])

    def gradient(learnt):
        mask = rows.loss_mask & learnt[:, None]

        def loss(lora):
            logp = policy.score(weights | {"lora": lora}, rows).logp
            return jnp.sum(jnp.where(mask, logp, 0.0))

        return jax.jit(jax.grad(loss))(weights["lora"])

    both = gradient(jnp.ones(rows.role.shape, bool))
    for role in range(ROLES):
        alone = gradient(rows.role == role)
        for x, y in zip(jax.tree.leaves(alone), jax.tree.leaves(both), strict=True):
            np.testing.assert_array_equal(np.asarray(x)[:, 1 - role], 0.0)
            np.testing.assert_allclose(x[:, role], y[:, role], atol=1e-4)
