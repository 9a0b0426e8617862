"""Environments in Python: words and arrays, one agent and several, episodes and segments."""

import functools
import itertools
import pathlib

import jax
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.methods.curriculum import tasks_by_number
from agentrl.policies.codec import decode
from agentrl.rollout import contexts
from agentrl.streams import OBSERVATION

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "hosted_toys.py")
TURNS, WORKERS = 4, 3
SMALL = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32, "critic": "shared"}
CELLS = list(itertools.product(("one", "turns", "once"), ("words", "arrays", "gru")))
CELLS.remove(("turns", "gru"))


def bound(kind, what, context=contexts.window, segments=False, read=(), **options):
    env, params = envs.make(f"{TOYS}:Digits", kind=kind, arrays=what != "words", **options)
    where = rollout.processes(observation_tokens=4, workers=WORKERS, max_turns=TURNS)
    if what == "words":
        policy = policies.transformer(env.view, codec="byte", **SMALL)
        reading = context(max_new_tokens=2, **dict(read))
    else:
        make = policies.gru if what == "gru" else policies.mlp
        policy = make(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
        reading = None
    if segments:
        options = {"num_envs": WORKERS, "length": 5}
        made = rollout.segments(policy, env, params, reading, where, **options)
    else:
        made = rollout.episodes(policy, env, params, reading, where, num_groups=3, group_size=2)
    return policy, made


@functools.cache
def collected(kind, what, collections=1, **options):
    policy, made = bound(kind, what, **options)
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(1)))
    state, out = made.init(jax.random.key(0)), []
    try:
        for i in range(collections):
            state, *got = made.collect(weights, state, jax.random.key(2 + i))
            out.append(jax.tree.map(np.asarray, got))
    finally:
        made.close()
    return policy, weights, made, out


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("kind, what", CELLS)
def test_streams_and_rows(kind, what, segments):
    collections = 2 if segments else 1
    policy, weights, made, out = collected(kind, what, collections, segments=segments)
    agents = 1 if kind == "one" else 2
    for streams, rows, metrics in out:
        assert streams.mask.shape == (made.num_streams, made.turns)
        assert made.num_streams == (WORKERS if segments else 6) * agents
        assert rows.tokens.shape[0] == made.num_rows
        scored = jax.jit(policy.score)(weights, rows)
        mask = rows.loss_mask
        assert mask.any()
        np.testing.assert_allclose(
            np.asarray(scored.logp)[mask], rows.behaviour_logp[mask], atol=1e-5
        )
        # Every turn is trained, and in the row of its stream; its value is what the critic said.
        turns = {
            (int(s), int(t)) for s, r, m in zip(rows.stream, rows.turn, mask, strict=True)
            for t in r[m]
        }  # fmt: skip
        assert turns == {(int(n), int(t)) for n, t in np.argwhere(streams.mask)}
        ended = streams.terminated | streams.truncated
        assert not ended[~streams.mask].any() and not streams.reward[~streams.mask].any()
        if not segments:
            np.testing.assert_array_equal(ended.sum(axis=1)[streams.mask.any(axis=1)], 1)
            assert metrics["episodes"][0] == 6
        acting = streams.mask.reshape(-1, agents, made.turns).sum(axis=1)
        assert acting.max() == (agents if kind == "once" else 1)
        if what != "words":
            # One-hot digits: the reward says whether the action was the digit.
            seen = np.argmax(rows.observation, axis=-1)
            paid = (seen == rows.tokens)[mask]
            stream = np.broadcast_to(rows.stream[:, None], mask.shape)[mask]
            np.testing.assert_array_equal(streams.reward[stream, rows.turn[mask]], paid)
            assert 0 < paid.sum()


@pytest.mark.parametrize("what", ["words", "arrays"])
def test_segments_go_on_where_they_stopped(what):
    """Episodes cross the border of two collections: their returns are counted once, whole."""
    _, _, _, out = collected("one", what, 2, segments=True)
    (first, *_), (second, _, metrics) = out
    ended = first.terminated | first.truncated
    lasting = ~ended[:, -1]
    assert lasting.any() and first.bootstrap[lasting, -1].any()
    assert not first.bootstrap[~ended & (np.arange(5) < 4)].any()
    total = 0.0
    for stream in range(WORKERS):
        reward = np.concatenate([first.reward[stream], second.reward[stream]])
        ends = np.concatenate([ended[stream], (second.terminated | second.truncated)[stream]])
        episodes = np.split(reward, np.flatnonzero(ends) + 1)
        before = np.sum(np.flatnonzero(ends) < 5)
        total += sum(episode.sum() for episode in episodes[before:-1])
    np.testing.assert_allclose(metrics["episode_return"][0], total)


@pytest.mark.parametrize("kind, what", [("one", "words"), ("once", "words"), ("once", "gru")])
@pytest.mark.parametrize("segments", [False, True])
def test_timing_changes_nothing(kind, what, segments):
    fast = collected(kind, what, 2 if segments else 1, segments=segments)[3]
    slow = collected(kind, what, 2 if segments else 1, segments=segments, slow=0.01)[3]
    for (*first, metrics), (*again, others) in zip(fast, slow, strict=True):
        for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(x, y)
        for name in metrics.keys() - {"time/generation", "time/environment"}:
            np.testing.assert_array_equal(metrics[name], others[name])


@pytest.mark.parametrize("kind", ["turns", "once"])
@pytest.mark.parametrize("name", ["whole", "window"])
def test_games_remember_each_agents_own_turns(kind, name):
    context = getattr(contexts, name)
    read = (("history", 2),) if name == "window" else ()
    policy, weights, _, ((streams, rows, _),) = collected(kind, "words", context=context, read=read)
    mask = rows.loss_mask
    scored = np.asarray(jax.jit(policy.score)(weights, rows).logp)
    np.testing.assert_allclose(scored[mask], rows.behaviour_logp[mask], atol=1e-5)
    for row in np.flatnonzero(mask.any(axis=1)):
        own = np.flatnonzero(streams.mask[rows.stream[row]])
        last = rows.turn[row][mask[row]].max()
        shown = own[own <= last] if name == "whole" else own[own <= last][-3:]
        read = rows.tokens[row][rows.span[row] == OBSERVATION]
        assert len(decode(policy.codec, read)) == len(shown)
        assert set(rows.turn[row][rows.turn[row] >= 0]) == set(shown)


def test_the_environments_of_gymnasium_have_arrays():
    pytest.importorskip("gymnasium")
    kinds = {"FrozenLake-v1": False, "CartPole-v1": False, "Pendulum-v1": True}
    for name, continuous in kinds.items():
        env, params = envs.make(f"gymnasium:{name}", arrays=True)
        assert env.continuous == continuous
        shape = env.observation_shape, env.num_codes, env.num_actions, env.continuous
        policy = policies.mlp(*shape, hidden=(8,))
        where = rollout.processes(workers=2, max_turns=5)
        made = rollout.episodes(policy, env, params, None, where, num_groups=1, group_size=2)
        weights = policy.init(jax.random.key(0))
        try:
            _, streams, rows, _ = made.collect(weights, None, jax.random.key(1))
        finally:
            made.close()
        scored = jax.jit(policy.score)(weights, rows)
        mask = np.asarray(rows.loss_mask)
        logp = np.asarray(rows.behaviour_logp)[mask]
        np.testing.assert_allclose(np.asarray(scored.logp)[mask], logp, atol=1e-5)
        assert mask.sum() == np.asarray(streams.mask).sum() > 2


@pytest.mark.parametrize(
    "kind, what, options, message",
    [
        ("turns", "gru", {}, "use a policy without memory"),
        ("one", "words", {"read": (("inject", len),)}, "inject is a function"),
    ],
)
def test_what_does_not_fit_is_an_error(kind, what, options, message):
    with pytest.raises(ValueError, match=message):
        bound(kind, what, **options)


@pytest.mark.parametrize("segments", [False, True])
def test_options_that_nothing_uses_are_errors(segments):
    """They were taken and did nothing."""
    env, params = envs.make(f"{TOYS}:Digits", kind="turns", arrays=True)
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    make = rollout.segments if segments else rollout.episodes
    for options in ({"opponent": "random"}, {"mask_illegal": True}, {"sampler": tasks_by_number}):
        ((name, _),) = options.items()
        with pytest.raises(ValueError, match=f"rollout {name}=.* in Python do not use it; leave"):
            make(policy, env, params, **options)


def test_calls_of_calls():
    """A planner, two workers, and one that the second of them calls; all text is drawn."""
    env, params = envs.make(f"{TOYS}:Errand")
    where = rollout.processes(observation_tokens=8, workers=WORKERS, max_turns=8)
    policy = policies.transformer(env.view, codec="byte", **SMALL)
    reading = contexts.window(max_new_tokens=4)
    made = rollout.episodes(policy, env, params, reading, where, num_groups=8, group_size=2)
    assert (made.agents, made.roles) == (4, 3)
    weights = policy.init(jax.random.key(1))
    try:
        _, *got = made.collect(weights, made.init(jax.random.key(0)), jax.random.key(2))
        _, again, _ = made.play(
            weights, jax.random.split(jax.random.key(3), 4), jax.random.key(4), False
        )
    finally:
        made.close()
    streams, rows, metrics = jax.tree.map(np.asarray, got)
    assert streams.role.tolist() == [0, 1, 1, 2] * 16 and again.mask.shape[0] == 16
    trees = streams.parent.reshape(16, 4) - 4 * np.arange(16)[:, None]
    assert (trees[:, 1:] == [0, 0, 2]).all() and (streams.parent[::4] == -1).all()
    acted = streams.mask.any(axis=1)
    assert acted[::4].all() and 0 < acted[3::4].sum() < 16
    for i in np.flatnonzero(acted & (streams.parent >= 0)):
        call, first = streams.call_turn[i], np.flatnonzero(streams.mask[i])[0]
        assert streams.mask[streams.parent[i], call] and call < first
    # Calls that were not made are in no mean: of episodes, those of the planners.
    assert metrics["episode_return"][1] == 16
    role = rows.role[rows.loss_mask.any(axis=1)]
    assert set(role.tolist()) <= {0, 1, 2}


def test_callers_that_do_not_fit():
    with pytest.raises(ValueError, match="callers=.*none calls itself"):
        envs.make(f"{TOYS}:Errand", callers=[0, 1, 2, 3])
