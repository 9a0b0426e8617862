"""Players of all makes at one table: policies over arrays and words, memory, and equal outcomes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies
from agentrl.actors import array_actor, contexts
from agentrl.actors.text_source import text_agent
from agentrl.players import scripted
from agentrl.players.scripted import random_actor
from agentrl.rollout.results import play_results
from agentrl.selfplay.lines import walk
from envs.vector import World

COUNT = 16


def speaker(env, params, *, constrained, greedy=False):
    policy = policies.transformer(
        env.view, width=16, layers=1, heads=2, kv_heads=1, hidden=32, constrained=constrained
    )
    weights = policy.init(jax.random.key(1))
    agent = text_agent(policy, World(env, params), contexts.window())
    return agent.actor(weights, greedy=greedy)


def met(players, env, params, own=0, seed=0):
    """Player 0 in seat `own` of all matches."""
    seating = jnp.where(jnp.arange(2) == own, 0, 1)
    seating = jnp.broadcast_to(seating, (COUNT, 2)).astype(jnp.int32)
    keys = jax.random.split(jax.random.key(7), COUNT)
    play = jax.jit(
        lambda seating: play_results(
            players, World(env, params), seating, keys, jax.random.key(seed)
        )
    )
    return jax.tree.map(np.asarray, play(seating))


def test_words_meet_arrays_and_search_at_one_table():
    """Two transformers of different wordings, an MLP and tree search, one program."""
    env, params = envs.make("TicTacToe-v1")
    faithful = dataclasses.replace(env, wording="faithful")
    mlp = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    players = [
        speaker(env, params, constrained=True),
        speaker(faithful, params, constrained=True),
        array_actor(mlp, mlp.init(jax.random.key(0)), mask_illegal=True),
        scripted("mcts:20", env, params),
    ]
    seating = jnp.array([[i, j] for i in range(4) for j in range(4)], jnp.int32)
    keys = jax.random.split(jax.random.key(7), COUNT)
    played = jax.jit(
        lambda s: play_results(players, World(env, params), s, keys, jax.random.key(0))
    )(seating)
    assert not np.asarray(played.illegal).any() and (np.asarray(played.offender) == -1).all()
    np.testing.assert_array_equal(np.sum(played.episode_return, axis=1), 0)
    np.testing.assert_array_equal(played.success, np.asarray(played.episode_return) > 0)
    moves = np.asarray(played.moves)
    assert ((moves[:, 0] - moves[:, 1] <= 1) & (moves.sum(axis=1) >= 5)).all()


def test_a_reply_that_is_no_command_is_an_illegal_action():
    env, params = envs.make("TicTacToe-v1")
    played = met([speaker(env, params, constrained=False), random_actor(env)], env, params)
    assert played.illegal[:, 0].sum() > COUNT and not played.illegal[:, 1].any()
    lost = played.offender == 0
    assert lost.sum() > COUNT // 2
    np.testing.assert_array_equal(played.episode_return[lost], [[-1, 1]] * lost.sum())


def test_a_greedy_language_policy_is_walked_through_all_lines():
    """What it plays in matches are lines of that tree: with none lost there would be no defeat."""
    env, params = envs.make("TicTacToe-v1")
    player = speaker(env, params, constrained=True, greedy=True)
    lines = walk(player, env, params, 1)
    assert lines.ends["own_illegal"] == lines.ends["cut"] == 0 and lines.total > 50
    assert lines.beaten > 0


def test_memory_follows_the_game_from_any_seat():
    """A recurrent policy looks at the turns of others; who meets it stays as it was."""
    env, params = envs.make("KuhnPoker-v1")
    gru = policies.gru(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    weights = gru.init(jax.random.key(3))
    player = array_actor(gru, weights, greedy=True, mask_illegal=True)
    assert player.follows and not player.draws
    played = met([player, scripted("expert", env, params)], env, params, own=1)
    np.testing.assert_array_equal(played.episode_return.sum(axis=1), 0)
    assert (played.moves.sum(axis=1) >= 2).all() and not played.illegal.any()


def test_tables_of_one_player_are_matches_against_oneself():
    env, params = envs.make("TicTacToe-v1")
    expert = scripted("expert", env, params)
    played = met([expert, expert], env, params)
    assert not played.success.any() and len(np.unique(played.course, axis=0)) == 1


def test_what_is_no_player_of_a_game_is_said():
    env, params = envs.make("TicTacToe-v1")
    policy = policies.transformer(
        env.view, grammar="answer", width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    with pytest.raises(ValueError, match="a reply is one agent's one move; set it to 1"):
        text_agent(policy, World(env, params), contexts.window())
    with pytest.raises(ValueError, match="player 'expert': .*no expert"):
        scripted("expert", *envs.make("CartPole-v1"))
