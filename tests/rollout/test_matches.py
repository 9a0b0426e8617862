"""Matches: who sees what, what belongs to whom, and what self-play learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from agentrl import policies, rollout
from agentrl.evaluation import play
from agentrl.players.scripted import expert_actor, random_actor, view_of
from agentrl.rollout.pack import of_agents
from agentrl.streams import to_last_turn
from envs.vector import World

GROUPS, MEMBERS = 6, 2
COUNT = GROUPS * MEMBERS


@functools.cache
def collected(name="KuhnPoker-v1", policy="mlp", opponent="self", seed=0, **options):
    env, params = envs.make(name, **options)
    make = getattr(policies, policy)
    sizes = {"hidden": (8,), "critic": "separate"} if policy == "mlp" else {"hidden": (8,)}
    made = make(env.observation_shape, env.num_codes, env.num_actions, **sizes)
    matches = rollout.episodes(
        made,
        env,
        params,
        num_groups=GROUPS,
        group_size=MEMBERS,
        opponent=opponent,
        mask_illegal=True,
    )
    weights = made.init(jax.random.key(1))
    _, streams, rows, metrics = jax.jit(matches.collect)(weights, None, jax.random.key(seed))
    return matches, made, weights, *jax.tree.map(np.asarray, (streams, rows, metrics))


# Few shapes: each is a program of its own.
last_turn = jax.jit(to_last_turn)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from((1, 4)), st.sampled_from((1, 2, 8)), st.integers(0, 2**31 - 1))
def test_what_happens_between_turns_belongs_to_the_earlier_one(streams, turns, seed):
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=(streams, turns)).astype(np.float32)
    mask = rng.random((streams, turns)) < 0.5
    moved = np.asarray(last_turn(reward, mask))
    for s in range(streams):
        own = np.flatnonzero(mask[s])
        expected = np.zeros(turns)
        for turn, following in zip(own, [*own[1:], turns], strict=False):
            expected[turn] = reward[s, turn:following].sum()
        np.testing.assert_allclose(moved[s], expected, atol=1e-5)
    ends = np.asarray(last_turn(reward > 1, mask))
    assert ends.dtype == bool and not ends[~mask].any()


@pytest.mark.parametrize("policy", ["mlp", "gru"])
@pytest.mark.parametrize("name", ["KuhnPoker-v1", "TicTacToe-v1"])
def test_streams_of_all_seats(name, policy):
    made, _, _, streams, rows, metrics = collected(name, policy)
    assert streams.mask.shape == (2 * COUNT, made.turns) == streams.reward.shape
    np.testing.assert_array_equal(streams.role, np.tile([0, 1], COUNT))
    np.testing.assert_array_equal(streams.episode, np.repeat(np.arange(COUNT), 2))
    # A group is a task: all seats of all its matches.
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(GROUPS), 2 * MEMBERS))
    # One agent moves at a time, and every match ends at the last turn of both.
    by_match = streams.mask.reshape(COUNT, 2, -1)
    assert by_match.sum(axis=1).max() == 1
    ended = streams.terminated | streams.truncated
    plays = streams.mask.any(axis=1)
    np.testing.assert_array_equal(ended.sum(axis=1), plays)
    last = made.turns - 1 - streams.mask[:, ::-1].argmax(axis=1)
    assert ended[plays, last[plays]].all()
    # All is won from the other.
    total = streams.reward.sum(axis=1).reshape(COUNT, 2).sum(axis=1)
    if plays.all():
        np.testing.assert_allclose(total, 0, atol=1e-6)
    assert metrics["invalid_end_rate"][0] == 0 and metrics["episodes"][0] == COUNT


@pytest.mark.parametrize("policy", ["mlp", "gru"])
def test_rows_score_as_they_were_sampled(policy):
    """Each row knows its stream, and the learner's probabilities are the sampler's."""
    made, bound, weights, streams, rows, _ = collected("TicTacToe-v1", policy)
    assert rows.tokens.shape[0] == made.num_rows
    scored = jax.jit(bound.score)(weights, rows)
    mask = rows.loss_mask
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)
    np.testing.assert_array_equal(streams.mask[rows.stream[:, None], rows.turn], mask)
    assert mask.sum() == streams.mask.sum()
    value = streams.value[rows.stream[:, None], rows.turn]
    np.testing.assert_allclose(scored.value[mask], value[mask], atol=1e-5)


def test_members_of_a_group_have_the_same_cards_and_other_luck():
    _, _, _, streams, rows, _ = collected()
    first = rows.observation[:, 0, :3].reshape(-1, COUNT, 3)[0].argmax(-1)
    assert (first.reshape(GROUPS, MEMBERS) == first.reshape(GROUPS, MEMBERS)[:, :1]).all()
    assert len(np.unique(first)) > 1


@pytest.mark.parametrize("opponent", ["random", "expert"])
def test_against_others_only_ones_own_seat_learns(opponent):
    _, _, _, streams, rows, metrics = collected("TicTacToe-v1", opponent=opponent)
    own = np.tile([0, 1], COUNT) == np.repeat(np.arange(COUNT) % 2, 2)
    assert not streams.mask[~own].any() and streams.mask[own].any(axis=1).all()
    assert set(rows.stream[rows.loss_mask.any(axis=1)].tolist()) <= set(np.flatnonzero(own))
    if opponent == "expert":
        assert metrics["win_rate/0/expert"][0] == metrics["win_rate/1/expert"][0] == 0


def test_what_others_receive_first_is_lost_and_later_is_ones_own():
    """In Kuhn's game the opener's pass may be its only move: what the other does pays it."""
    _, _, _, streams, *_ = collected(seed=3)
    for stream in np.flatnonzero(streams.mask.sum(axis=1) == 1):
        assert streams.reward[stream, streams.mask[stream]] != 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Coin-v1", {"opponent": "random"}, "which has one agent"),
        ("KuhnPoker-v1", {"opponent": "me"}, "expected one of random, expert, .* 'self'"),
        ("KuhnPoker-v1", {"opponent": "mcts:10"}, "would see what is hidden"),
        ("KuhnPoker-v1", {"num_groups": 0}, "expected at least 1"),
    ],
)
def test_what_does_not_fit_is_said(name, options, message):
    env, params = envs.make(name)
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions)
    with pytest.raises(ValueError, match=message):
        rollout.episodes(policy, env, params, **options, mask_illegal=True)


def test_looking_and_acting_are_inverse():
    env, params = envs.make("TicTacToe-v1")
    states = jax.vmap(env.initial, (0, None))(jax.random.split(jax.random.key(0), 3), params)
    observation = jax.vmap(env.observe, (0, None))(states, params)
    for all_look, looked in ((False, 1), (True, 2)):
        view = view_of(World(env, params), states, observation, follows=all_look)
        assert view.agent.shape == (3, looked) and view.observation.shape == (3, looked, 3, 3)
        assert view.legal.any(axis=-1).all() and (view.acting.sum(axis=1) == 1).all()
        actions = of_agents(view.agent, jnp.where(view.acting, 4, 7), 2)
        np.testing.assert_array_equal(actions[:, 0], 4)
        moved = of_agents(view.agent, view.acting, 2)
        np.testing.assert_array_equal(moved, [[True, False]] * 3)


def test_evaluation_takes_every_seat_against_random_play():
    env, params = envs.make("TicTacToe-v1")
    keys = play.task_keys(0, 64)

    def outcomes(player):
        return play.play(player, env, params, keys, jax.random.key(1), play.opponent_of(env))

    expert = jax.jit(lambda: outcomes(expert_actor(World(env, params))))()
    at_random = jax.jit(lambda: outcomes(random_actor(env)))()
    assert (expert.episode_return >= 0).all() and expert.success.mean() > 0.7
    np.testing.assert_array_equal(expert.success, expert.episode_return > 0)
    # The first to move wins more.
    assert at_random.episode_return[0::2].mean() > at_random.episode_return[1::2].mean()
