"""Beliefs in matches: who is asked, what the truth is, what messages do; sides of a game."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.evaluation import play
from agentrl.players.scripted import expert_actor
from agentrl.rewards import persuasion_of_turns
from envs.vector import World

SMALL = {"players": 4, "rows": 1, "cols": 2, "messages": 1, "tasks": 3, "max_steps_in_episode": 16}
PHASE, IMPOSTER, TALK = 0, 1, 1


@pytest.fixture(scope="module")
def small():
    return envs.make("SocialDeduction-v1", **SMALL)


def policy_of(env, answers=4, make=policies.mlp):
    return make(
        env.observation_shape,
        env.num_codes,
        env.num_actions,
        hidden=(8,),
        critic="none",
        answers=answers,
    )


@pytest.fixture(scope="module", params=["mlp", "gru"])
def collected(request, small):
    """(env, policy, params, streams, rows) of a crew against scripted imposters."""
    env, params = small
    policy = policy_of(env, make=getattr(policies, request.param))
    matches = rollout.episodes(
        policy,
        env,
        params,
        num_groups=96,
        opponent="expert",
        side="crew",
        listeners="others",
        group_size=1,
        mask_illegal=True,
    )
    weights = policy.init(jax.random.key(0))
    # Beliefs that differ: the head starts at nearly equal ones.
    weights["answers"]["kernel"] = weights["answers"]["kernel"] * 200
    _, streams, rows, _ = jax.jit(matches.collect)(weights, None, jax.random.key(1))
    return policy, weights, jax.tree.map(np.asarray, streams), jax.tree.map(np.asarray, rows)


def of_matches(policy, streams, rows, values):
    """Values of rows as [T, B, A], whatever the rows are."""
    turns = streams.mask.shape[1]
    values = np.asarray(values)
    if policy.memory(1) is None:
        return values.reshape(turns, -1, 4, *values.shape[2:])
    return np.swapaxes(values, 0, 1).reshape(turns, -1, 4, *values.shape[2:])


def test_worked_numbers():
    """Two matches of three players, of whom the first is an imposter: a discussion, and none."""
    belief = np.float32([[9, 0.25, 0.5], [9, 0.5, 0.5], [9, 0.75, 0.25], [9, 1, 1]])
    asked = np.array([[False, True, True]] * 3 + [[False] * 3])
    # Player 1 speaks, then the imposter; the vote is of all at once, and then nobody is asked.
    acting = np.array([[False, True, False], [True, False, False], [True] * 3, [True] * 3])

    def both(x):
        return jnp.stack([x, x], axis=1)

    question = (both(asked).at[:, 1].set(False), both(belief), both(acting))
    opposed = np.array([[True, False, False]] * 2)
    ours = persuasion_of_turns(*question, opposed, among="all")
    # The sum of beliefs is 0.75, 1, 1: the imposter has changed nothing in sum.
    np.testing.assert_allclose(ours[:, 0], [[0, 0.25, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(ours[:, 1], 0)
    ours = persuasion_of_turns(*question, opposed, among="others")
    np.testing.assert_array_equal(ours, 0)


def test_living_crewmates_are_asked_in_meetings(collected):
    policy, _, streams, rows = collected
    asked, truth = (of_matches(policy, streams, rows, x) for x in (rows.asked, rows.answer))
    seen = of_matches(policy, streams, rows, rows.observation)
    assert asked.any()
    # The dead see nothing, not even a phase.
    ours = streams.mask[:, 0].reshape(1, -1, 4)
    np.testing.assert_array_equal(
        asked, (seen[..., PHASE] >= TALK) & ours & (asked.any(-1)[..., None])
    )
    assert not asked[seen[..., IMPOSTER] == 1].any()
    np.testing.assert_array_equal(
        truth[asked], np.broadcast_to(~ours, asked.shape).argmax(-1)[..., None].repeat(4, -1)[asked]
    )


def test_messages_are_spoken(collected):
    policy, _, streams, rows = collected
    said, acted = (of_matches(policy, streams, rows, x) for x in (rows.tokens, rows.loss_mask))
    # Actions 7 to 10 are kills, 11 to 22 messages, 23 to 26 votes.
    expected = acted & (said >= 11) & (said < 23)
    given = np.moveaxis(streams.spoken.reshape(-1, 4, streams.mask.shape[1]), 2, 0)
    np.testing.assert_array_equal(given, expected.reshape(given.shape))
    assert given.any()


def test_persuasion_is_the_change_of_the_others_beliefs(collected):
    policy, weights, streams, rows = collected
    logits = jax.jit(policy.answers)(weights, rows)
    belief = np.take_along_axis(np.asarray(jax.nn.softmax(logits)), rows.answer[..., None], -1)
    asked, belief, seen = (
        of_matches(policy, streams, rows, x) for x in (rows.asked, belief[..., 0], rows.observation)
    )
    given = np.moveaxis(streams.persuasion.reshape(-1, 4, streams.mask.shape[1]), 2, 0)
    acted = np.moveaxis(streams.mask.reshape(-1, 4, streams.mask.shape[1]), 2, 0)
    expected, messages = np.zeros_like(given), 0
    for t, match, seat in np.argwhere(acted):
        if seen[t, match, seat, PHASE] != TALK or t + 1 == len(asked):
            continue
        if asked[t, match].any() and asked[t + 1, match].any():
            others = asked[t, match] & (np.arange(4) != seat)
            expected[t, match, seat] = (belief[t + 1] - belief[t])[match][others].sum()
            messages += 1
    assert messages > 20 and np.abs(expected).max() > 0.01
    # Messages of the scripted imposters are of streams that are not learnt from.
    np.testing.assert_allclose(np.where(acted, given, 0), expected, atol=1e-5)


def test_the_policy_has_the_seats_of_its_side(small):
    env, params = small
    expert = expert_actor(World(env, params))
    keys = play.task_keys(0, 64)

    def outcomes(side):
        return play.play(expert, env, params, keys, jax.random.key(1), expert, side)

    crew, imposters = jax.jit(lambda: (outcomes("crew"), outcomes("imposters")))()
    assert 0 < crew.success.mean() < 1
    assert not (crew.success & imposters.success).any()
    ended = crew.length < params.max_steps_in_episode
    assert (crew.success | imposters.success)[ended].mean() > 0.9


def test_errors(small):
    env, params = small
    for answers, options, message in (
        (3, {}, "policy option answers=3 with SocialDeduction: use 4, or 0"),
        (0, {"listeners": "all"}, "a policy without answers: set config.policy.answers=4"),
        (4, {"listeners": "some"}, "listeners='some': expected one of 'none', 'all', 'others'"),
        (4, {"side": "cew", "opponent": "expert"}, "whose sides are crew, imposters"),
        (4, {"side": "crew"}, "side='crew' with opponent='self', who has all seats"),
    ):
        with pytest.raises(ValueError, match=message):
            rollout.episodes(policy_of(env, answers), env, params, **options, mask_illegal=True)
    env, params = envs.make("TicTacToe-v1")
    with pytest.raises(ValueError, match="answers=2 with TicTacToe: it has no question"):
        rollout.episodes(
            policy_of(env, 2), env, params, group_size=1, num_groups=64, mask_illegal=True
        )
    with pytest.raises(ValueError, match="whose sides are none"):
        rollout.episodes(
            policy_of(env, 0),
            env,
            params,
            side="crew",
            opponent="random",
            group_size=1,
            num_groups=64,
            mask_illegal=True,
        )
    with pytest.raises(ValueError, match="answers=-1: expected at least 0"):
        policy_of(types.SimpleNamespace(observation_shape=(2,), num_codes=2, num_actions=2), -1)
