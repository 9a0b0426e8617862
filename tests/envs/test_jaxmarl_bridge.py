"""JaxMARL's environments against JaxMARL itself, step by step; ends, legality, errors, training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs

jaxmarl = pytest.importorskip("jaxmarl")

import tiny  # noqa: E402

from agentrl import advantages, policies, rollout  # noqa: E402
from agentrl.config import base_config, env_section, section  # noqa: E402
from agentrl.config.build import build  # noqa: E402
from envs.jaxmarl_bridge import _between  # noqa: E402

EPISODES = 6
CASES = {
    "MPE_simple_spread_v3": {"num_agents": 4},
    "MPE_simple_tag_v3": {},  # observations of two lengths
    "MPE_simple_speaker_listener_v4": {"max_steps": 7},  # and different actions
    "MPE_simple_facmac_v1": {"max_steps": 5},  # continuous
    "switch_riddle": {},
    "coin_game": {"num_inner_steps": 3, "num_outer_steps": 2},
    "hanabi": {"num_colors": 2},
    "overcooked": {"max_steps": 45, "layout": "coord_ring"},  # shows that the end is near
    "HeuristicEnemySMAX": {"scenario": "3m"},  # agents that die
}


def made(name):
    return envs.make(f"jaxmarl:{name}", **CASES[name])


@functools.cache
def played(name):
    """Both sides with the same keys and random legal actions, [EPISODES, T, ...] of each."""
    env, params = made(name)
    theirs, steps = env.env, int(params.max_steps_in_episode)

    def play(key):
        start, key = jax.random.split(key)
        seen, state = env.reset_env(start, params)
        first, their_state = theirs.reset(start)

        def step(carry, key):
            state, their_state = carry
            key, act = jax.random.split(key)
            acting, legal = env.acting(state, params), env.legal_actions(state, params)
            if env.continuous:
                action = jax.random.uniform(act, (env.num_agents, env.num_actions), minval=-1.0)
                sent = [
                    _between(theirs.action_space(a), x)
                    for a, x in zip(theirs.agents, action, strict=True)
                ]
            else:
                # The riddle would seldom last to its limit.
                odds = jnp.where(jnp.arange(env.num_actions) == 2, -2.0, 0.0)
                action = jax.random.categorical(act, jnp.where(legal, odds, -jnp.inf))
                sent = list(action)
            over = ~env.is_running(state, params)
            out = theirs.step_env(key, their_state, dict(zip(theirs.agents, sent, strict=True)))
            seen, state, reward, terminated, info = env.step_env(key, state, action, params)
            truncated = env.is_truncated(state, params) & ~terminated
            ours = (seen, reward, terminated, truncated, over, acting, legal, info["valid"])
            return (state, out[1]), (ours, (out[0], out[2], out[3]["__all__"]))

        ours, other = jax.lax.scan(step, (state, their_state), jax.random.split(key, steps))[1]
        return (seen, first), ours, other

    return jax.tree.map(
        np.asarray, jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), EPISODES))
    )


@pytest.mark.parametrize("name", CASES)
def test_rollouts_are_jaxmarls_step_by_step(name):
    env, _ = made(name)
    (first, their_first), ours, (observations, rewards, done) = played(name)
    seen, reward, terminated, truncated, over, *_ = ours
    for seat, agent in enumerate(env.env.agents):
        for one, other in ((first[:, seat], their_first), (seen[:, :, seat][~over], None)):
            other = observations[agent][~over] if other is None else other[agent]
            if one.ndim == 2:
                one, rest = np.split(one, [other.shape[-1]], axis=-1)
                assert not rest.any()
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(reward[..., seat][~over], rewards[agent][~over], rtol=1e-5)
    # JaxMARL's end is one of ours, in the same step, and never both.
    np.testing.assert_array_equal((terminated | truncated)[~over], done[~over])
    assert not (terminated & truncated).any()
    assert over.sum(axis=1).min() < over.shape[1] and (terminated | truncated)[:, -1].all()
    assert (reward[over] == 0).all()


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("MPE_simple_spread_v3", {"truncated"}),
        ("switch_riddle", {"terminated", "truncated"}),
        ("coin_game", {"truncated"}),
        ("hanabi", {"terminated"}),
    ],
)
def test_ends_by_the_rules_are_told_from_the_limit(name, kinds):
    _, (_, _, terminated, truncated, over, *_), _ = played(name)
    names = {"terminated": terminated[~over].any(), "truncated": truncated[~over].any()}
    assert {kind for kind, there in names.items() if there} == kinds


def test_a_limit_of_ours_cuts_jaxmarls():
    env, params = envs.make("jaxmarl:switch_riddle", max_steps_in_episode=2, cooperative=True)
    assert env.cooperative and not envs.make("jaxmarl:switch_riddle")[0].cooperative
    _, state = env.reset(jax.random.key(0), params)
    step, cut = fetched(env.step_env), fetched(env.is_truncated)
    for last in (False, True):
        _, state, _, terminated, _ = step(jax.random.key(1), state, np.zeros(3, np.int32), params)
        assert bool(cut(state, params)) == last and not terminated


def test_who_has_one_legal_action_does_not_act():
    _, (*_, over, acting, legal, valid), _ = played("hanabi")
    assert (acting[~over].sum(axis=-1) == 1).all() and valid.all()
    assert (legal[~over].sum(axis=-1) > 1)[acting[~over]].all()
    _, (*_, over, acting, legal, _), _ = played("HeuristicEnemySMAX")
    dead = legal.sum(axis=-1) == 1
    assert dead[~over].any() and not acting[dead].any() and acting[~over].any(axis=-1).all()


def test_an_action_that_another_agent_has_is_illegal_and_costs_what_is_stated():
    env, params = envs.make("jaxmarl:MPE_simple_speaker_listener_v4", illegal_reward=-0.5)
    assert env.role_actions == ((0, 3), None) and env.roles_of_seats == (0, 1)
    _, state = env.reset(jax.random.key(0), params)
    np.testing.assert_array_equal(fetched(env.legal_actions)(state, params).sum(axis=1), [3, 5])
    step = functools.partial(fetched(env.step_env), jax.random.key(1), state)
    seen, _, reward, _, info = step(np.array([4, 4]), params)
    other, _, least, _, _ = step(np.array([0, 4]), params)
    np.testing.assert_array_equal(info["valid"], [False, True])
    np.testing.assert_allclose(reward - least, [-0.5, 0.0], atol=1e-6)
    np.testing.assert_array_equal(seen, other)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("MPE_simple_v3", {}, "has one agent"),
        ("MPE_simple_spread_v9", {}, "does not exist; JaxMARL has MPE_simple_v3"),
        ("storm_2p", {}, "expected one array per agent as observation"),
        ("switch_riddle", {"lamps": 2}, "unexpected keyword argument 'lamps'"),
        ("overcooked", {"layout": "kitchen"}, "layout='kitchen': expected one of cramped_room"),
        ("coin_game", {"max_steps_in_episode": 101}, "expected at most 100"),
    ],
)
def test_what_does_not_fit_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        envs.make(f"jaxmarl:{name}", **options)


def test_it_trains_in_a_config():
    """Options are in the section; an update changes the policy, with a stream per agent."""
    config = base_config()
    config.updates = config.log_every = 1
    config.env = env_section("jaxmarl:MPE_simple_spread_v3", num_agents=4, max_steps=4)
    assert config.env.num_agents == 4 and config.env.max_steps_in_episode == 5
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=3, group_size=1)
    config.advantage = section(advantages.mars, within="task_role")
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    streams = jax.device_get(jax.jit(experiment.batches)(state)["rollout"].streams)
    assert streams.mask.shape == (12, 5) and bool(streams.mask.all())
    assert bool(streams.truncated[:, -1].all()) and not bool(streams.terminated.any())
    after, _ = jax.jit(tiny.train_of(experiment))(state)
    before, after = jax.device_get((state.params, after.params))
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, after)
    assert any(jax.tree.leaves(moved))
