"""Judges of turns: what each says of turns that can be worked out, over arrays and in words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout
from agentrl.rollout.judges import judging

TALL = {"needed": 2, "limit": 4, "tools": 2, "arguments": 2}


def calls():
    return envs.make("ToolCalls-v1", **TALL)


def in_arrays(critic="none"):
    env, params = calls()
    policy = policies.mlp(
        env.observation_shape, env.num_codes, env.num_actions, hidden=(8,), critic=critic
    )
    return policy, env, params, None


def in_words(critic="none"):
    env, params = calls()
    policy = policies.transformer(
        env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16, constrained=True,
        critic=critic,
    )  # fmt: skip
    return policy, env, params, rollout.contexts.whole()


@functools.cache
def judged(make, judge):
    """(streams of a collection with this judge, streams without one)."""
    policy, env, params, context = make()
    out = []
    for judge_ in (judge, "none"):
        made = rollout.episodes(
            policy, env, params, context, num_groups=4, group_size=4, judge=judge_
        )
        weights = policy.init(jax.random.key(0))
        _, streams, _, _ = jax.jit(made.collect)(weights, made.init(None), jax.random.key(1))
        out.append(jax.device_get(streams))
        assert ("judgement" in made.provides) == (judge_ != "none")
    return out


@pytest.mark.parametrize("make", [in_arrays, in_words], ids=["arrays", "words"])
@pytest.mark.parametrize("judge", ["expert", "progress", "continuations:2"])
def test_a_judge_changes_nothing_but_the_judgement(make, judge):
    streams, plain = judged(make, judge)
    assert plain.judgement is None
    jax.tree.map(np.testing.assert_array_equal, streams.replace(judgement=None), plain)
    score, mask = streams.judgement, streams.mask
    assert score.shape == mask.shape and np.isfinite(score).all() and not score[~mask].any()
    if judge != "continuations:2":
        np.testing.assert_array_equal(np.abs(score), mask * 1.0)
        # Only what succeeds is right to the end.
        solved = (streams.success & mask).any(axis=1)
        right = ((score > 0) | ~mask).all(axis=1)
        assert (right == solved).all() if judge == "progress" else (right <= solved).all()


def test_continuations_telescope_to_the_outcome():
    """The scores of an episode sum to its return less the value of its task, which all of a group
    share up to the noise of two continuations each."""
    streams, _ = judged(in_arrays, "continuations:2")
    total = np.where(streams.mask, streams.judgement, 0).sum(axis=1)
    returns = np.where(streams.mask, streams.reward, 0).sum(axis=1)
    first = returns - total
    # A mean of two F1 scores of at most two calls wanted and three made.
    possible = {2 * hits / (made + 2) for made in range(4) for hits in range(min(made, 2) + 1)}
    means = np.array([(a + b) / 2 for a in possible for b in possible])
    assert np.abs(first[:, None] - means).min(axis=1).max() < 1e-5
    assert returns.std() > 0 and first.std() > 0


@pytest.mark.parametrize("make", [in_arrays, in_words], ids=["arrays", "words"])
def test_a_critic_judges_by_what_it_says_of_the_states(make):
    """The scores are one-step advantages of the values that the collection records, and so
    generalised ones with lambda 0."""
    streams, plain = judged(functools.partial(make, critic="shared"), "critic")
    jax.tree.map(np.testing.assert_array_equal, streams.replace(judgement=None), plain)
    ours = advantages.gae(
        streams.reward, streams.value, streams.mask, streams.terminated, streams.bootstrap,
        gamma=1.0, lam=0.0,
    )  # fmt: skip
    np.testing.assert_allclose(streams.judgement, ours, atol=1e-5)
    assert streams.truncated.any() and (streams.terminated & streams.mask).any()


def own(world, turn):
    return turn.outcome.reward[:, 0] - 0.5


def test_a_judge_of_ones_own_and_refusals():
    policy, env, params, _ = in_arrays()
    made = rollout.episodes(
        policy, env, params, num_groups=2, group_size=2, judge=f"{__name__}.own"
    )
    _, streams, _, _ = jax.jit(made.collect)(
        policy.init(jax.random.key(0)), None, jax.random.key(1)
    )
    expected = jnp.where(streams.mask, streams.reward - 0.5, 0)
    np.testing.assert_allclose(streams.judgement, expected, atol=1e-6)
    for judge in ("strict", "continuations", "continuations:0"):
        with pytest.raises(ValueError, match=f"rollout judge='{judge}': expected one of none"):
            judging(judge, env, params, policy)
    game, game_params = envs.make("KuhnPoker-v1")
    with pytest.raises(ValueError, match="judges are for environments of one agent"):
        judging("expert", game, game_params, policy)
    with pytest.raises(ValueError, match="judge='critic' with a policy without a critic"):
        judging("critic", env, params, policy)
