"""The potential of a judge's scores: by hand, what shaping makes of it, and in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of

import envs
from agentrl import policies, rewards, rollout
from agentrl.learner.component import Setup
from agentrl.methods.judged_potential import judged_potential
from agentrl.streams import Streams

ENV, PARAMS = envs.make("NumberLine-v1")


def judged(*args):
    return rollout.episodes(*args, judge="progress")


# Ended by the rules; cut by the limit; nobody acted.
STREAMS = Streams(
    reward=jnp.array([[0, 0, 1.0], [0, 0, jnp.nan], [jnp.nan] * 3]),
    mask=jnp.array([[True] * 3, [True, True, False], [False] * 3]),
    terminated=jnp.array([[False, False, True], [False] * 3, [False] * 3]),
    judgement=jnp.array([[1.0, -1, 1], [1, 1, jnp.nan], [jnp.nan] * 3]),
)


def test_potentials_by_hand_and_what_they_pay():
    component = judged_potential(setup_of(ENV, PARAMS, judged), scale=0.5)
    notes, metrics = component.annotate(context(), STREAMS, None)
    given = {name: note.values for name, note in notes.items()}
    np.testing.assert_array_equal(given["potential"][:2], [[0, 0.5, 0], [0, 0.5, 1]])
    np.testing.assert_array_equal(given["final_potential"][:2, -1], [0.5, 1])
    np.testing.assert_array_equal(metrics["final_potential"], [1.5, 2])
    shaped = rewards.potential_shaping(
        STREAMS.reward, mask=STREAMS.mask, terminated=STREAMS.terminated, gamma=1.0, **given
    )
    # Each turn's score, which the end takes back: the first episode keeps its return.
    np.testing.assert_array_equal(shaped, [[0.5, -0.5, 1], [0.5, 0.5, 0], [0] * 3])


def test_in_words_a_cut_episode_is_paid_its_scores():
    env, params = envs.make("NumberLine-v1", length=9)
    policy = policies.transformer(
        env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=16, constrained=True
    )
    made = rollout.episodes(
        policy, env, params, rollout.contexts.whole(), num_groups=4, group_size=4, judge="progress"
    )
    _, streams, _, _ = jax.jit(made.collect)(
        policy.init(jax.random.key(0)), made.init(None), jax.random.key(1)
    )
    setup = Setup(
        envs={"one": (env, params)}, policy=policy, rollout=made, seed=0, num_seeds=1,
        updates=(0, 1), log_every=1, microbatch=None,
    )  # fmt: skip
    notes, _ = judged_potential(setup).annotate(context(), streams, None)
    shaped = rewards.potential_shaping(
        streams.reward, notes["potential"].values, streams.mask, streams.terminated,
        notes["final_potential"].values, gamma=1.0, truncated=streams.truncated,
    )  # fmt: skip
    ended = (streams.terminated & streams.mask).any(axis=1)
    scores = jnp.where(streams.mask, streams.judgement, 0.0).sum(axis=1)
    expected = jnp.where(streams.mask, streams.reward, 0.0).sum(axis=1)
    expected += jnp.where(ended, 0.0, scores)
    np.testing.assert_allclose(shaped.sum(axis=1), expected, atol=1e-5)
    assert (~ended).any() and np.abs(scores[~ended]).max() > 0


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match=r"config\.rollout\.judge, for example to 'progress'"):
        judged_potential(setup_of(ENV, PARAMS))
    with pytest.raises(ValueError, match="whole episodes"):
        judged_potential(setup_of(ENV, PARAMS, rollout.segments))
    with pytest.raises(ValueError, match="scale=0"):
        judged_potential(setup_of(ENV, PARAMS, judged), scale=0.0)
