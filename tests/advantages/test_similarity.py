"""Anchor groups of similar texts: recorded clusters and credit, plain loops, and in training."""

import collections
import difflib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from experiments import distance, train
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import talk_config

from agentrl import advantages, rollout
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.similar_anchors import observation_counts, similar_anchors

similar_segments = jax.jit(advantages.similar_segments, static_argnames="threshold")
DATA = recorded.arrays("gigpo")


def same_cluster(ids):
    return ids[:, None] == ids[None]


def test_recorded_clusters_and_credit_of_the_released_code():
    text, row = DATA["t0_anchor"], {k: DATA[f"t0_row_{k}"] for k in ("traj", "turn", "group")}
    gamma, weight, _, penalty = DATA["t0_params"]
    ratio = np.array([[difflib.SequenceMatcher(None, a, b).ratio() for a in text] for b in text])
    similar = jnp.asarray(ratio >= DATA["t0_thresh"])
    include = np.ones(len(text), bool)
    segments = jax.jit(functools.partial(advantages.leader_segments, lambda i: similar[i]))
    leader = np.asarray(segments(include, row["group"]))
    np.testing.assert_array_equal(same_cluster(leader), same_cluster(DATA["t0_o_step_gid"]))
    assert len(set(leader)) < len(set(text))
    # The same clusters by the share of common characters, which is never less than the ratio.
    letters = np.array([[t.count(chr(c)) for c in range(128)] for t in text], np.float32)
    quick = np.array(
        [[difflib.SequenceMatcher(None, a, b).quick_ratio() for a in text] for b in text]
    )
    overlap = jax.jit(advantages.overlap)
    for one, expected in zip(letters, quick, strict=True):
        np.testing.assert_allclose(overlap(one, letters), expected, atol=1e-6)
    # Credit from the leaders' indices as anchors.
    shape = row["traj"].max() + 1, row["turn"].max() + 1
    at = row["traj"], row["turn"]
    mask, anchor = np.zeros(shape, bool), np.zeros((*shape, 2), np.uint32)
    reward, minus = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    group = np.zeros(shape[0], np.int32)
    mask[at], anchor[at], reward[at] = True, leader[:, None], DATA["t0_row_reward"]
    minus[at] = penalty * ~DATA["t0_row_valid"]
    group[row["traj"]] = row["group"]
    gigpo = functools.partial(
        advantages.gigpo,
        gamma=float(gamma),
        step_weight=float(weight),
        normalize="mean",
        statistics="turn",
        singleton="raw",
    )
    got = jax.jit(gigpo)(reward, mask, group, anchor, penalty=minus)
    np.testing.assert_allclose(np.asarray(got)[at], DATA["t0_o_adv"], atol=2e-5)


def by_loops(texts, include, group, threshold):
    leaders, out = [], []
    for i, (text, there) in enumerate(zip(texts, include, strict=True)):
        own = [
            k
            for k in leaders
            if group[k] == group[i]
            and difflib.SequenceMatcher(None, texts[k], text).quick_ratio() >= threshold
        ]
        out.append(own[0] if there and own else i if there else len(texts))
        leaders += [i] * (there and not own)
    return out


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), max_size=5), st.booleans(), st.integers(0, 1)),
        min_size=6,
        max_size=6,
    ),
    st.sampled_from([0.3, 0.75, 1.0]),
)
def test_clusters_equal_plain_loops(elements, threshold):
    texts, include, group = zip(*elements, strict=True)
    counts = np.zeros((len(texts), 4), np.float32)
    for i, text in enumerate(texts):
        for token, count in collections.Counter(text).items():
            counts[i, token] = count
    got = similar_segments(counts, *map(np.array, (include, group)), threshold=threshold)
    # Ratios of small whole numbers: a threshold that equals one is met by both or by none.
    np.testing.assert_array_equal(got, by_loops(texts, include, group, threshold))


def config_of(context="whole", **options):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0)
    config.context = section(getattr(rollout.contexts, context))
    config.objective.kl.weight = 0.0
    config.components.similar_anchors = section(similar_anchors, **options)
    return config


@pytest.mark.long
@pytest.mark.parametrize("context", ["whole", "window"])
def test_observations_that_are_equal_share_an_anchor_and_nothing_changes(context):
    """A lake's observations differ by their words: with threshold 1 anchors are as they were."""
    config = config_of(context, threshold=1.0)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    streams, rows, *_ = jax.jit(experiment.batches)(state)["rollout"]
    count = jax.jit(observation_counts, static_argnums=(1, 2))
    counts = np.asarray(count(rows, streams.mask.shape, 512))
    streams = jax.device_get(streams)
    mask = streams.mask.reshape(-1)
    assert (counts.sum(axis=1)[mask] > 0).all() and not counts[~mask].any()
    anchor = streams.anchor.reshape(-1, 2)[mask]
    equal = (anchor[:, None] == anchor[None]).all(axis=-1)
    same_words = (counts[mask][:, None] == counts[mask][None]).all(axis=-1)
    group = np.repeat(streams.group, streams.mask.shape[1])[mask]
    together = group[:, None] == group[None]
    np.testing.assert_array_equal(equal & together, same_words & together)
    plain = config_of(context)
    del plain.components.similar_anchors
    assert distance(train(config, 2)[1][-1].params, train(plain, 2)[1][-1].params) < 1e-6


def test_a_low_threshold_joins_all_of_a_group():
    experiment = build(config_of(threshold=0.01))
    state = jax.jit(experiment.init)(0)
    streams = jax.device_get(jax.jit(experiment.batches)(state)["rollout"].streams)
    for stream in range(streams.mask.shape[0]):
        first = streams.anchor[int(streams.group[stream]) * 4, 0]
        assert (streams.anchor[stream][streams.mask[stream]] == first).all()
