"""Novelty by counting: by hand over two updates, in arrays and in words, and that a run resumes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of
from experiments import lake, train_and_resume
from tiny import talk_config

import envs
from agentrl import rewards
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.counts import bucket_of, counted, visit_counts
from agentrl.streams import Streams

# Places that the turns of two episodes are acted from; the second is one turn shorter.
PLACES = np.array([[1, 2, 1, 3], [1, 2, 2, 9]], np.uint32)
MASK = np.array([[True] * 4, [True, True, True, False]])


def streams_of(places=PLACES, mask=MASK):
    last = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    return Streams(
        reward=jnp.full(mask.shape, jnp.nan),
        mask=jnp.asarray(mask),
        anchor=jnp.stack([jnp.asarray(places), jnp.zeros(places.shape, jnp.uint32)], axis=-1),
        terminated=jnp.asarray(last),
        truncated=jnp.zeros(mask.shape, bool),
    )


@pytest.mark.parametrize(
    ("first_only", "visits"),
    [
        # What each turn led to was visited 1: three times, 2: three times, 3: once; 0 is no place.
        (False, [[3, 3, 1, 0], [3, 3, 0, 0]]),
        # The second visit to 1, and to 2, is none to a new place.
        (True, [[3, 0, 1, 0], [3, 0, 0, 0]]),
    ],
)
def test_the_root_of_how_often_it_was_met(first_only, visits):
    component = visit_counts(setup_of(*envs.make("FrozenLake-v1")), first_only=first_only)
    none = component.init(None)
    notes, metrics = component.annotate(context(none), streams_of(), None)
    expected = np.array([[v**-0.5 if v else 0 for v in row] for row in visits])
    np.testing.assert_allclose(notes["novelty"].values, expected, rtol=1e-6)
    assert metrics["places"][0] == 3 and metrics["novelty"][1] == 7
    # What was met before is less new; what is met for the first time is as new as ever.
    counts, _ = component.after(none, UpdateResult(None, notes=notes))
    again = streams_of(np.array([[1, 7, 3, 3]], np.uint32), np.array([[True, True, True, False]]))
    later, _ = component.annotate(context(counts), again, None)
    np.testing.assert_allclose(later["novelty"].values, [[1, 2**-0.5, 0, 0]], rtol=1e-6)


def test_places_that_share_a_bucket_share_a_count():
    # One bucket: seven turns here, two before.
    new, counts = counted(jnp.full(1, 2.0), streams_of())
    np.testing.assert_allclose(new, np.full(MASK.shape, 9**-0.5), rtol=1e-6)
    assert counts.tolist() == [9]
    new, counts = counted(jnp.zeros(2), streams_of())
    bucket = np.asarray(bucket_of(streams_of().anchor, 2))
    shared = np.array([(bucket[MASK] == b).sum() for b in range(2)])
    np.testing.assert_array_equal(counts, shared)
    np.testing.assert_allclose(np.asarray(new)[MASK], shared[bucket[MASK]] ** -0.5, rtol=1e-6)


def test_fingerprints_are_spread_over_the_buckets():
    words = jax.random.bits(jax.random.key(0), (4096, 2), jnp.uint32)
    for anchors in (words, words.at[:, 0].set(5), words.at[:, 1].set(5)):
        counts = np.bincount(bucket_of(anchors, 64), minlength=64)
        # 64 on average, with a deviation of 8.
        assert 32 < counts.min() and counts.max() < 110


def with_counts(config, **options):
    config.components.visit_counts = section(visit_counts, buckets=512, **options)
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=0.01)
    return config


def test_a_run_resumes_and_what_is_known_is_no_longer_new(tmp_path):
    config = with_counts(lake(size=2, max_steps_in_episode=4))
    _, states, metrics = train_and_resume(config, tmp_path)
    assert metrics[-1]["novelty"] < 0.7 * metrics[0]["novelty"]
    assert 1 < metrics[-1]["places"] <= 512
    turns = [float(state.carry["visit_counts"].sum()) for state in states]
    assert turns[0] == 0 and (np.diff(turns) > 0).all()


def test_in_words():
    config = talk_config(warm_start__updates=0, objective__kl__weight=0.0)
    config = with_counts(config, first_only=False)
    experiment = build(config)
    batch = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))["rollout"]
    mask, novelty = np.asarray(batch.streams.mask), np.asarray(batch.notes["novelty"].values)
    assert (novelty[:, 0][mask[:, 1]] > 0).all() and (novelty[~mask] == 0).all()
