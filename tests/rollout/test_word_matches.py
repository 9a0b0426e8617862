"""Matches in words: one policy replies for whoever moves, and every seat learns from its own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.actors.source import check_roles
from agentrl.evaluation import play
from agentrl.rollout import contexts
from envs.text import join

GROUPS, MEMBERS = 4, 2
COUNT = GROUPS * MEMBERS


@functools.cache
def bound(name="TicTacToe-v1", constrained=True):
    env, params = envs.make(name)
    policy = policies.transformer(
        env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=32, constrained=constrained
    )
    sizes = {"num_groups": GROUPS, "group_size": MEMBERS}
    made = rollout.episodes(policy, env, params, contexts.window(history=0), **sizes)
    return env, params, policy, made, policy.init(jax.random.key(1))


@functools.cache
def collected(name="TicTacToe-v1", constrained=True):
    _, _, _, made, weights = bound(name, constrained)
    state = made.init(jax.random.key(0))
    _, streams, rows, metrics = jax.jit(made.collect)(weights, state, jax.random.key(2))
    return jax.tree.map(np.asarray, (streams, rows, metrics))


@pytest.mark.parametrize("name", ["TicTacToe-v1", "KuhnPoker-v1"])
def test_every_seat_is_a_stream(name):
    _, _, _, made, _ = bound(name)
    streams, rows, metrics = collected(name)
    assert streams.mask.shape == (2 * COUNT, made.turns) and made.roles == 2
    np.testing.assert_array_equal(streams.role, np.tile([0, 1], COUNT))
    by_match = streams.mask.reshape(COUNT, 2, -1)
    assert by_match.sum(axis=1).max() == 1
    np.testing.assert_array_equal(streams.reward.reshape(COUNT, 2, -1).sum(axis=(1, 2)), 0)
    ended = streams.terminated | streams.truncated
    np.testing.assert_array_equal(ended.sum(axis=1), 1)
    assert not ended[~streams.mask].any()
    # A row a move: it trains the reply of the stream whose move it was.
    trained = rows.loss_mask.any(axis=1)
    assert trained.sum() == streams.mask.sum()
    turn = rows.turn.max(axis=1)
    assert streams.mask[rows.stream[trained], turn[trained]].all()
    assert metrics["invalid_end_rate"][0] == 0 and metrics["invalid_action_rate"][0] == 0
    assert metrics["win_rate/0/self"][1] == COUNT


def test_the_learner_scores_what_was_sampled():
    _, _, policy, _, weights = bound()
    _, rows, _ = collected()
    scored = jax.jit(policy.score)(weights, rows)
    mask = rows.loss_mask
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)


def test_each_seat_is_played_and_learnt_by_its_own_adapter():
    """As one policy whose rows are of their stream's role; one that took the other's shows."""
    env, params, plain, *_ = bound()
    size = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    policy = policies.transformer(env.view, **size, constrained=True, lora_rank=2, lora_roles=2)
    alone = contexts.window(history=0)
    made = rollout.episodes(policy, env, params, alone, num_groups=4, group_size=1)
    weights = policy.init(jax.random.key(1))
    assert policy.frozen and jax.tree.structure(plain.init(jax.random.key(1))) == (
        jax.tree.structure({name: x for name, x in weights.items() if name != "lora"})
    )
    keys = iter(jax.random.split(jax.random.key(3), 99))
    drawn = jax.tree.map(lambda x: jax.random.normal(next(keys), x.shape), weights["lora"])
    weights = weights | {"lora": drawn}
    collect = jax.jit(lambda w: made.collect(w, made.init(jax.random.key(0)), jax.random.key(2)))
    _, streams, rows, _ = collect(weights)
    np.testing.assert_array_equal(rows.role, streams.role[rows.stream])
    mask = np.asarray(rows.loss_mask)
    assert set(np.asarray(rows.role)[mask.any(axis=1)]) == {0, 1}
    score = jax.jit(policy.score)
    said = np.asarray(rows.behaviour_logp)[mask]
    np.testing.assert_allclose(np.asarray(score(weights, rows).logp)[mask], said, atol=1e-4)
    swapped = score(weights, rows.replace(role=1 - rows.role)).logp
    assert np.abs(np.asarray(swapped)[mask] - said).max() > 0.1
    with pytest.raises(ValueError, match="lora_roles=2 with .*, which has 3 roles"):
        check_roles(policy, env, contexts.whole(), 3)


def test_replies_that_are_no_commands_are_forgiven_once_and_then_lose():
    """An untrained policy without constraint loses by what it says, and the other seat wins."""
    streams, _, metrics = collected("TicTacToe-v1", constrained=False)
    assert metrics["invalid_end_rate"][0] > 0
    lost = streams.reward.sum(axis=1) < 0
    assert (~streams.valid[lost] & streams.mask[lost]).any(axis=1).sum() > 0


def test_whoever_moves_reads_its_own_view():
    env, params = envs.make("KuhnPoker-v1")
    state = env.initial(jax.random.key(0), params)
    state = state.replace(game=state.game.replace(cards=jnp.array([[0, 2]])))
    assert env.num_acting == 1

    def agent_of(state):
        (agent,) = env.views(state, env.observe(state, params), params).agent
        return agent

    def said(state):
        text = env.describe_as(state, agent_of(state), params)
        return join(env.view.lexicon, np.asarray(text.fragments))

    def commands(state):
        written = np.asarray(env.commands_as(state, agent_of(state), params))
        return [join(env.view.lexicon, row) for row in written]

    assert said(state) == "J" and commands(state) == ["check", "bet"]
    _, state, reward, *_ = env.step_env(jax.random.key(0), state, jnp.int32(1), params)
    assert said(state) == "K bet" and commands(state) == ["fold", "call"]
    _, _, reward, *_ = env.step_env(jax.random.key(0), state, jnp.int32(1), params)
    np.testing.assert_array_equal(reward, [-2, 2])


def test_evaluation_plays_one_seat_of_each_match():
    env, params, policy, made, weights = bound()
    keys = play.task_keys(0, 6)
    told, streams, _ = jax.jit(lambda k: made.play(weights, k, jax.random.key(1), False))(keys)
    own = np.arange(12) % 2 == np.repeat(np.arange(6) % 2, 2)
    assert not np.asarray(streams.mask)[~own].any()
    outcomes = play.of_teams(told, range(made.agents))
    assert outcomes.episode_return.shape == (6,)
    np.testing.assert_array_equal(
        np.asarray(outcomes.success), np.asarray(outcomes.episode_return) > 0
    )
    # What the streams of the seats that learn say, too.
    ours = play.of_teams(jax.tree.map(lambda x: x.reshape(6, 2), of(streams)), range(2))
    for one, other in zip(outcomes, ours, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def of(streams):
    """Outcomes by streams, [N]."""
    return play.Outcomes(
        np.where(streams.mask, streams.reward, 0).sum(axis=1),
        np.asarray(streams.mask).sum(axis=1),
        np.asarray(streams.mask & streams.success).any(axis=1),
    )


def test_who_has_no_turn_has_a_result():
    """The user of a support desk is a script and never moves; it shares the desk's reward, which
    a measurement of every second match is of."""
    env, params = envs.make("Telecom-v1", user="scripted", max_steps_in_episode=8)
    small = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    policy = policies.transformer(env.view, **small, constrained=True)
    made = rollout.episodes(policy, env, params, contexts.window(history=0), num_groups=2)
    given = policy.init(jax.random.key(1)), play.task_keys(0, 256), jax.random.key(1)
    told, streams, _ = jax.jit(lambda *x: made.play(*x, False))(*given)
    by_streams = jax.tree.map(lambda x: x.reshape(256, 2), of(streams))
    assert not by_streams.length[:, 1].any() and not np.asarray(told.length)[:, 1].any()
    for ours, theirs in zip(told, by_streams, strict=True):
        np.testing.assert_allclose(ours[:, 0], theirs[:, 0], atol=1e-6)
    assert 0 < told.success.sum() < told.success.size
    np.testing.assert_array_equal(told.success[:, 0], told.success[:, 1])
    np.testing.assert_array_equal(told.episode_return[:, 0], told.episode_return[:, 1])


def test_a_cut_match_is_worth_what_the_critic_says_of_what_each_seat_reads():
    """What stands where a match of two turns is cut is the value at the third turn of the same
    match: against others the policy's own seat moves there, which is either."""
    env, params = envs.make("TicTacToe-v1")
    small = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    policy = policies.transformer(env.view, **small, critic="shared", constrained=True)
    weights = jax.tree.map(lambda x: 3 * x, policy.init(jax.random.key(1)))
    found = []
    for turns in (2, 3):
        made = rollout.episodes(
            policy,
            env,
            params,
            contexts.window(history=0),
            num_groups=GROUPS,
            group_size=MEMBERS,
            opponent="expert",
            max_turns=turns,
        )
        collect = jax.jit(made.collect)
        _, streams, _, _ = collect(weights, made.init(jax.random.key(0)), jax.random.key(2))
        found.append(jax.tree.map(np.asarray, streams))
    cut, longer = found
    match, seat = np.divmod(np.arange(2 * COUNT), 2)
    moves = (seat == match % 2) & cut.truncated.any(axis=1) & longer.mask[:, 2]
    assert moves[seat == 0].any() and moves[seat == 1].any()
    np.testing.assert_array_equal(cut.mask, longer.mask[:, :2])
    np.testing.assert_allclose(cut.bootstrap[moves, 0], longer.value[moves, 2], atol=1e-5)
    assert np.isfinite(cut.bootstrap).all() and len(np.unique(cut.bootstrap[:, 0])) > COUNT
