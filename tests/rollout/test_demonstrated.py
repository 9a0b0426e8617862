"""Matches of the expert: rows that replay to the same match."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout


def demonstrated(name, seats, policy, noise=0.0, **options):
    env, params = envs.make(name, **options)
    made = getattr(policies, policy)(
        env.observation_shape, env.num_codes, env.num_actions, hidden=(8,)
    )
    matches = rollout.episodes(made, env, params, mask_illegal=True)
    demonstrate = functools.partial(matches.demonstrate, noise=noise)
    _, rows = jax.jit(demonstrate)(jax.random.split(jax.random.key(0), 4), jax.random.key(1))
    assert env.num_agents == seats
    return env, params, jax.tree.map(np.asarray, rows)


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_rows_of_a_game_in_turns_are_its_moves(noise):
    """Replayed by hand, each row holds what the mover saw, and what the expert does there."""
    env, params, rows = demonstrated("TicTacToe-v1", 2, "mlp", noise)
    turns = int(params.max_steps_in_episode)
    tokens, mask, seen = (
        x.reshape(turns, 4, *x.shape[2:]) for x in (rows.tokens, rows.loss_mask, rows.observation)
    )
    assert mask[0].all() and (mask[:-1] >= mask[1:]).all()
    strayed = 0
    for match in range(4):
        observation, state = env.reset_env(jax.random.key(0), params)
        for turn in np.flatnonzero(mask[:, match]):
            mover = int(env.mover(state, params))
            np.testing.assert_array_equal(seen[turn, match], observation[mover])
            assert tokens[turn, match] == int(env.expert(state, params))
            lasts = turn + 1 < turns and mask[turn + 1, match]
            # With noise, what was done is what leads to what is seen next.
            for action in [int(tokens[turn, match]), *range(env.num_actions)]:
                observation, after, *_ = env.step_env(
                    jax.random.key(0), state, jnp.int32(action), params
                )
                if not lasts or np.array_equal(
                    observation[env.mover(after, params)], seen[turn + 1, match]
                ):
                    break
            strayed += lasts and action != tokens[turn, match]
            state = after
        assert noise or not bool(env.is_running(state, params))
    assert (strayed > 3) == (noise > 0)


def test_both_teams_of_volleyball_are_shown():
    """A policy with memory has a row a team; what is shown is what the planner chooses."""
    env, params, rows = demonstrated("PlanarVolleyball-v1", 2, "gru", max_steps_in_episode=6)
    assert rows.tokens.shape == (8, 6) and rows.loss_mask.all()
    # Both teams see the same from their own side, and one of them has the serve: it hits.
    first = rows.tokens[:, 0].reshape(4, 2)
    assert ((first > 0).sum(axis=1) == 1).all()


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_commands_of_one_agent_are_shown(noise):
    """Rows of an environment of one agent: at each turn what the expert commands there."""
    env, params = envs.make("VolleyballSkill-v1", teams="plane", max_steps_in_episode=20)
    policy = policies.mlp(env.observation_shape, env.num_codes, 2, True, hidden=(8,))
    demonstrate = rollout.segments(policy, env, params, num_envs=2, length=2).demonstrate
    keys = jax.random.split(jax.random.key(0), 4)
    _, rows = jax.jit(functools.partial(demonstrate, noise=noise))(keys, jax.random.key(1))
    action = np.asarray(rows.action).reshape(20, 4, 2)
    assert rows.legal is None and not np.asarray(rows.tokens).any()

    def follow(key):
        def step(state, _):
            command = env.expert(state, params)
            state = env.step_env(key, state, command, params)[1]
            return state, command

        return jax.lax.scan(step, env.reset_env(key, params)[1], length=20)[1]

    followed = np.moveaxis(jax.jit(jax.vmap(follow))(keys), 0, 1)
    mask = np.asarray(rows.loss_mask).reshape(20, 4)
    np.testing.assert_allclose(action[0], followed[0], atol=1e-5)
    alike = np.isclose(action, followed, atol=1e-3).all(axis=-1)[mask].mean()
    assert alike == 1 if noise == 0 else alike < 0.7
    scored = policy.score(policy.init(jax.random.key(2)), rows)
    assert np.isfinite(scored.logp).all()
