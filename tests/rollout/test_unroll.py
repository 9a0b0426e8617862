"""The loop: every kind of environment in episodes and in segments, branches, tasks, horizons."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.actors import array_actor
from agentrl.players import scripted
from agentrl.rollout.seating import seat_all
from agentrl.rollout.unroll import fresh, prefix, unroll
from agentrl.streams import to_last_turn
from envs.vector import World

# One agent, in turns, all at once.
WORLDS = {
    "FrozenLake-v1": {"max_steps_in_episode": 6},
    "PigDice-v1": {"max_steps_in_episode": 8},
    "Foraging-v1": {"size": 5, "foods": 1, "max_steps_in_episode": 5},
}
NAMES = tuple(WORLDS)


@functools.cache
def collected(name, kind, network, opponent="self"):
    """(Rollout, policy, params, the second collection)."""
    env, params = envs.make(name, **WORLDS[name])
    policy = getattr(policies, network)(
        env.observation_shape, env.num_codes, env.num_actions, hidden=(8,), critic="shared"
    )
    sizes = (
        {"num_groups": 4, "group_size": 2} if kind == "episodes" else {"num_envs": 6, "length": 9}
    )
    made = getattr(rollout, kind)(
        policy, env, params, mask_illegal=True, opponent=opponent, **sizes
    )
    weights = policy.init(jax.random.key(1))
    collect = jax.jit(made.collect)
    state = made.init(jax.random.key(2))
    for i in range(2):
        state, *out = collect(weights, state, jax.random.key(3 + i))
    return made, policy, weights, *jax.tree.map(np.asarray, out)


@pytest.mark.parametrize("network", ["mlp", "gru"])
@pytest.mark.parametrize("kind", ["episodes", "segments"])
@pytest.mark.parametrize("name", NAMES)
def test_the_learner_scores_what_was_sampled(name, kind, network):
    made, policy, weights, streams, rows, metrics = collected(name, kind, network)
    assert streams.mask.shape == (made.num_streams, made.turns)
    assert rows.tokens.shape[0] == made.num_rows
    mask = rows.loss_mask
    assert mask.sum() == streams.mask.sum() > 0
    scored = jax.jit(policy.score)(weights, rows)
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)
    value = streams.value[rows.stream[:, None], rows.turn]
    np.testing.assert_allclose(scored.value[mask], value[mask], atol=1e-5)
    np.testing.assert_array_equal(streams.mask[rows.stream[:, None], rows.turn], mask)
    assert not (streams.terminated & streams.truncated).any()
    assert not streams.reward[~streams.mask].any()
    assert metrics["episodes"][0] > 0 and metrics["invalid_action_rate"][0] == 0


@pytest.mark.parametrize("name", NAMES[1:])
def test_segments_of_games_end_for_all_agents_together(name):
    """Each end of a match is marked once in every stream that acted in it; returns are the
    rewards between ends."""
    _, _, _, streams, _, metrics = collected(name, "segments", "mlp")
    env, _ = envs.make(name)
    ends = (streams.terminated | streams.truncated).reshape(6, env.num_agents, -1).sum(axis=2)
    # A match that ended before an agent's first turn in the segment is not marked in its stream.
    assert (ends.max(axis=1) - ends.min(axis=1) <= 1).all()
    assert metrics["episodes"][0] >= ends.max(axis=1).sum()
    np.testing.assert_array_equal(streams.role, np.tile(np.arange(env.num_agents), 6))


def test_segments_of_games_against_an_opponent_learn_from_one_seat():
    made, _, _, streams, rows, metrics = collected("PigDice-v1", "segments", "mlp", "random")
    own = np.tile([0, 1], 6) == np.repeat(np.arange(6) % 2, 2)
    assert not streams.mask[~own].any() and streams.mask[own].any(axis=1).all()
    assert {"win_rate/0/random", "return/1/random"} <= set(metrics)
    assert rows.loss_mask.sum() == streams.mask.sum()


def test_what_happens_after_an_end_belongs_to_the_next_episode():
    """Two episodes in one stream: the reward before the second one's first turn is lost."""
    reward = jnp.array([[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]])
    mask = jnp.array([[False, True, False, False, True, False]])
    ended = jnp.array([[False, False, True, False, False, False]])
    np.testing.assert_array_equal(to_last_turn(reward, mask, ended), [[0, 6, 0, 0, 48, 0]])
    np.testing.assert_array_equal(to_last_turn(reward, mask), [[0, 14, 0, 0, 48, 0]])
    ends = to_last_turn(ended, mask, ended)
    np.testing.assert_array_equal(ends, [[False, True, False, False, False, False]])


def world_of(name):
    env, params = envs.make(name, **WORLDS[name])
    policy = policies.gru(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    actor = array_actor(policy, policy.init(jax.random.key(0)), mask_illegal=True, records=True)
    return World(env, params), actor


@pytest.mark.parametrize("name", NAMES)
def test_branches_start_from_states_and_memories_of_the_trajectory(name):
    """At its first step a branch sees and values what the trajectory did; then luck differs."""
    world, actor = world_of(name)
    limit, key = int(world.params.max_steps_in_episode), jax.random.key(5)
    seating = seat_all(world.env, 8)

    def keep(notes, turn):
        return notes, turn._replace(after=None, outcome=turn.outcome._replace(info=None))

    @jax.jit
    def branch():
        start = fresh(world, jax.random.split(jax.random.key(1), 8))
        whole = unroll(world, [actor], seating, start, key, length=limit, keep=keep)
        turn = jnp.arange(8) % (limit + 1)
        halves = [
            unroll(world, [actor], seating, prefix(whole, turn), jax.random.key(k), length=limit)
            for k in (6, 7)
        ]
        cut = prefix(whole, jnp.full(8, 2))
        return whole, turn, halves, cut

    whole, turn, (one, two), cut = jax.tree.map(np.asarray, branch())
    for b in range(8):
        t = turn[b]
        assert one.first.running[b] == (t < limit and whole.turns.running[t, b])
        if one.first.running[b]:
            same = jax.tree.map(
                lambda x, y, b=b, t=t: np.array_equal(x[0, b], y[t, b]),
                one.turns.decision.record.observation,
                whole.turns.decision.record.observation,
            )
            assert all(jax.tree.leaves(same))
            np.testing.assert_allclose(
                one.turns.decision.value[0, b], whole.turns.decision.value[t, b], atol=1e-6
            )
        else:
            assert not one.turns.outcome.reward[:, b].any()
    assert (one.turns.action != two.turns.action).any()
    np.testing.assert_array_equal(cut.running, whole.turns.running[2])


def test_tasks_come_from_a_sampler_with_parameters_of_their_own():
    """Every group plays its own key and its own limit of steps; `tasks` reaches the sampler."""
    env, params = envs.make("FrozenLake-v1", max_steps_in_episode=9)
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))

    def sampler(key, count, given):
        limits = jnp.arange(count) + given
        tasks = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (count,)), params)
        keys = jnp.stack([jax.random.key(0)] * count)
        return keys, tasks.replace(max_steps_in_episode=limits)

    made = rollout.episodes(
        policy, env, params, sampler=sampler, num_groups=4, group_size=3, anchor="state"
    )
    weights = policy.init(jax.random.key(1))
    _, streams, _, _ = jax.jit(made.collect)(weights, None, jax.random.key(2), tasks=jnp.int32(2))
    lengths = np.asarray(streams.mask).sum(axis=1).reshape(4, 3)
    assert (lengths <= np.arange(2, 6)[:, None]).all() and lengths.max() > 2
    at_limit = lengths == np.arange(2, 6)[:, None]
    ended = np.asarray(streams.terminated).any(axis=1).reshape(4, 3)
    np.testing.assert_array_equal(np.asarray(streams.truncated).any(1).reshape(4, 3), ~ended)
    assert at_limit[~ended].all()
    # One key: the same lake for all.
    assert len(np.unique(np.asarray(streams.anchor)[:, 0], axis=0)) == 1


@pytest.mark.parametrize("name", NAMES[:2])
def test_horizons_hold_for_arrays(name):
    env, params = envs.make(name, **WORLDS[name])
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    made = rollout.episodes(
        policy, env, params, num_groups=2, group_size=4, mask_illegal=True,
        horizons=(2, 4), horizon_every=1,
    )  # fmt: skip
    weights, state = policy.init(jax.random.key(1)), made.init(jax.random.key(0))
    collect = jax.jit(made.collect)
    for horizon in (2, 4, 4):
        state, streams, _, _ = collect(weights, state, jax.random.key(2))
        mask = np.asarray(streams.mask).reshape(8, env.num_agents, -1).any(axis=1)
        assert not mask[:, horizon:].any() and mask[:, horizon - 1].any()
        ended = np.asarray(streams.terminated | streams.truncated)
        plays = np.asarray(streams.mask).any(axis=1)
        np.testing.assert_array_equal(ended.sum(axis=1), plays)


def test_skipping_actors_with_nothing_to_do_changes_nothing():
    """Two scripted actors beside one another: skipping those without a turn plays the same."""
    env, params = envs.make("TicTacToe-v1")
    world = World(env, params)
    actors = [scripted(name, env, params) for name in ("random", "expert")]
    start = fresh(world, jax.random.split(jax.random.key(0), 6))
    seating = seat_all(env, 6)._replace(actor=jnp.tile(jnp.array([[0, 1], [1, 0]]), (3, 1)))
    played = [
        jax.jit(
            lambda early: (
                unroll(
                    world, actors, seating, start, jax.random.key(1), length=9, early_exit=early
                ).turns.outcome
            ),
            static_argnums=0,
        )(early)
        for early in (False, True)
    ]
    for name in ("reward", "terminated", "success"):
        np.testing.assert_array_equal(*(getattr(outcome, name) for outcome in played))


@pytest.mark.parametrize("early", [False, True])
def test_a_step_is_traced_once(early):
    """For the loop that ends early, too, which has to know the shapes before it begins."""
    env, params = envs.make("TicTacToe-v1")
    world, traced = World(env, params), []
    start = fresh(world, jax.random.split(jax.random.key(0), 2))

    def keep(notes, turn):
        traced.append(turn)
        return notes, turn.outcome.reward

    def play(key):
        actors, seating = [scripted("random", env, params)], seat_all(env, 2)
        one = dict(length=9, early_exit=early, keep=keep)
        return unroll(world, actors, seating, start, key, **one).turns

    jax.eval_shape(play, jax.random.key(1))
    assert len(traced) == 1
