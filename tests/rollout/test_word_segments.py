"""Segments in words: episodes restart and cross the border of two collections, in every context."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.policies import codec as codecs
from agentrl.rollout import contexts
from agentrl.streams import OBSERVATION, turn_starts

COUNT, LENGTH, LIMIT = 4, 6, 5
WORDS = (contexts.SUMMARY_REQUEST, *contexts.BRANCH_TAGS)
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32, "words": WORDS}
ENVS = {
    "one agent": ("FrozenLake-v1", {"size": 3, "max_steps_in_episode": LIMIT}),
    "in turns": ("KuhnPoker-v1", {"max_steps_in_episode": 4}),
    "at once": ("Foraging-v1", {"size": 5, "max_steps_in_episode": LIMIT}),
}
# Contexts know of lanes only, one for each agent of each episode (here also `whole`, of which a
# row is one turn in segments): one of them is played in every kind of environment.
COLLECTED = (
    *(("window", kind) for kind in ENVS),
    ("whole", "one agent"),
    ("sliding", "in turns"),
    ("summary", "one agent"),
    ("summary", "at once"),
    ("fold", "at once"),
)


@functools.cache
def collected(kind, name, opponent="self"):
    env, params = envs.make(ENVS[kind][0], **ENVS[kind][1])
    grammar = {"grammar": "action", "think": "none"} if name == "fold" else {"constrained": True}
    policy = policies.transformer(env.view, **SMALL, critic="shared", **grammar)
    options = {"window": {"history": 1}, "sliding": {"history": 1}, "fold": {"max_new_tokens": 6}}
    if name == "summary":
        observation = policy.codec.observation_tokens(env.view)
        options["summary"] = {"limit": 2 * observation + 6, "summary_tokens": 3}
    context = getattr(contexts, name)(**options.get(name, {}))
    made = rollout.segments(
        policy, env, params, context, num_envs=COUNT, length=LENGTH, opponent=opponent
    )
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(0)))
    collect, state, out = jax.jit(made.collect), jax.jit(made.init)(jax.random.key(1)), []
    for i in range(2):
        # Other parameters in the second collection, which go on from the first one's turns.
        weights = jax.tree.map(lambda x, i=i: (1 + 0.5 * i) * x, weights)
        state, *got = collect(weights, state, jax.random.key(2 + i))
        out.append((weights, *jax.tree.map(np.asarray, got)))
    return env, policy, made, out


@pytest.mark.parametrize(("name", "kind"), COLLECTED)
def test_on_policy_ratios_are_one(kind, name):
    env, policy, made, out = collected(kind, name)
    for weights, streams, rows, metrics in out:
        assert streams.mask.shape == (COUNT * env.num_agents, LENGTH)
        assert rows.tokens.shape[0] == made.num_rows
        scored = jax.tree.map(np.asarray, jax.jit(policy.score)(weights, rows))
        mask = rows.loss_mask
        assert mask.any() and mask.sum() == metrics["tokens"][0]
        np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-4)
        trained = {
            (int(s), int(t))
            for s, turn, here in zip(rows.stream, rows.turn, mask, strict=True)
            for t in turn[here]
        }
        assert trained == {(int(n), int(t)) for n, t in np.argwhere(streams.mask)}
        starts = np.asarray(turn_starts(jax.tree.map(jnp.asarray, rows)))
        if name != "summary":
            stream = np.broadcast_to(rows.stream[:, None], starts.shape)[starts]
            said = streams.value[stream, rows.turn[starts]]
            np.testing.assert_allclose(scored.value[starts], said, atol=1e-4)
        ended = streams.terminated | streams.truncated
        assert ended.any() and not ended[~streams.mask].any()


def test_prompts_reach_back_into_the_segment_before():
    """Earlier turns are shown, belong to no turn of this segment, and are not trained."""
    _, policy, _, out = collected("one agent", "whole")
    (_, first, before, _), (_, second, rows, _) = out
    ended = first.terminated | first.truncated
    cut = 0
    for stream in range(COUNT):
        # Turns since the last end, of which the segment's first prompt shows all.
        ends = np.flatnonzero(ended[stream])
        carried = LENGTH - 1 - (ends[-1] if len(ends) else -1)
        row = np.flatnonzero((rows.stream == stream) & (rows.turn.max(axis=1) == 0))[0]
        read = rows.span[row] == OBSERVATION
        after = np.sum(rows.tokens[row][read] == policy.codec.after[0])
        assert after == carried + 1
        old = (rows.turn[row] == -1) & (rows.span[row] >= 0)
        assert old.any() == (carried > 0) and not rows.loss_mask[row][old].any()
        cut += carried > 0
        if carried:
            last = np.flatnonzero((before.stream == stream) & (before.turn.max(1) == LENGTH - 1))
            text = codecs.decode(policy.codec, before.tokens[last[0]])
            assert codecs.decode(policy.codec, rows.tokens[row]).startswith(text)
    assert cut > 0 and second.mask.all()


def test_values_of_what_follows_a_cut():
    """The value after the last turn of a segment is that of the next segment's first turn, as the
    critic of that time has it; of a truncated episode it is that of its last state."""
    env, policy, _, out = collected("one agent", "window")
    (weights, first, rows, _), (_, _, later, _) = out
    goes_on = ~(first.terminated | first.truncated)[:, -1]
    assert goes_on.any() and first.truncated.any()
    begins = [
        np.flatnonzero((later.stream == n) & (later.turn.max(1) == 0))[0] for n in range(COUNT)
    ]
    prompts = jax.tree.map(lambda x: x[np.array(begins)], later)
    scored = np.asarray(jax.jit(policy.score)(weights, prompts).value)
    at = np.argmax(prompts.loss_mask, axis=1)
    values = scored[np.arange(COUNT), at]
    np.testing.assert_allclose(first.bootstrap[goes_on, -1], values[goes_on], atol=1e-4)
    assert first.bootstrap[first.truncated].all()


def test_an_opponent_has_the_other_seats():
    env, _, _, out = collected("in turns", "window", "random")
    for _, streams, rows, _ in out:
        own = np.arange(2 * COUNT) % 2 == np.repeat(np.arange(COUNT) % 2, 2)
        assert not streams.mask[~own].any() and streams.mask[own].any()
        assert set(rows.stream[rows.loss_mask.any(axis=1)]) <= set(np.flatnonzero(own))
