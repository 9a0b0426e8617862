"""Rollouts: groups share their task, padding is masked, segments go on where they stopped."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import losses, policies, rollout
from agentrl.policies.heads import mask_logits
from agentrl.streams import fields_of


def make_policy(name, env, critic):
    options = {"critic": critic, "hidden": (16,)}
    return getattr(policies, name)(env.observation_shape, env.num_codes, env.num_actions, **options)


@pytest.fixture(scope="module", params=["mlp", "gru"])
def collected(request):
    env, params = envs.make("FrozenLake-v1", slippery=True, max_steps_in_episode=8)
    policy = make_policy(request.param, env, "shared")
    made = rollout.episodes(policy, env, params, num_groups=4, group_size=8)
    weights = policy.init(jax.random.key(0))
    out = jax.jit(made.collect)(weights, None, jax.random.key(1))
    return policy, weights, made, out


def test_groups_share_the_task_and_nothing_else(collected):
    _, _, made, (_, streams, rows, _) = collected
    assert made.num_streams == 32 and made.turns == 8
    anchor = np.asarray(streams.anchor).reshape(4, 8, 8, 2)
    assert np.all(anchor[:, :, 0] == anchor[:, :1, 0])  # one start in a group
    assert len(np.unique(anchor[:, 0, 0], axis=0)) > 1  # different tasks
    later = anchor[:, :, 3]
    assert len(np.unique(later.reshape(-1, 2), axis=0)) > 4  # members went different ways
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(4), 8))


def test_episodes_end_once(collected):
    _, _, _, (_, streams, _, episodes) = collected
    s = jax.tree.map(np.asarray, streams)
    ended = s.terminated | s.truncated
    assert np.all(ended.sum(1) == 1)
    assert not np.any(s.terminated & s.truncated)
    last = s.mask.sum(1) - 1
    assert np.all(ended[np.arange(32), last])
    # Acted turns are a prefix; nothing behind it.
    assert np.all(s.mask[:, :-1] >= s.mask[:, 1:])
    assert np.all(s.reward[~s.mask] == 0)
    mean = {k: float(v[0] / v[1]) for k, v in episodes.items()}
    assert mean["episode_return"] == pytest.approx(s.reward.sum() / 32)
    assert mean["episode_length"] == pytest.approx(s.mask.sum() / 32)
    assert mean["success_rate"] == pytest.approx((s.reward.sum(1) > 0).mean())
    assert mean["truncation_rate"] == pytest.approx(s.truncated.any(1).mean())


def test_the_learner_sees_what_the_sampler_saw(collected):
    """Log-probabilities and values of the forward pass over rows equal those of acting."""
    policy, weights, _, (_, streams, rows, _) = collected
    start = rows.loss_mask if rows.start is None else rows.start
    unroll = jax.jit(policy.unroll)
    logits, value = unroll(weights, rows.memory, rows.observation, start)
    logp = losses.categorical_log_prob(mask_logits(logits, rows.legal), rows.tokens)
    np.testing.assert_allclose(logp, rows.behaviour_logp, atol=1e-5)
    by_row = streams.value[rows.stream[:, None], rows.turn]
    np.testing.assert_allclose(value, by_row, atol=1e-5)


def test_bootstrap_is_the_value_of_the_last_state_of_truncated_episodes():
    env, params = envs.make("Coin-v1", max_steps_in_episode=5)
    policy = make_policy("mlp", env, "separate")
    whole = rollout.episodes(policy, env, params, num_groups=2, group_size=4)
    short = rollout.episodes(policy, env, params, num_groups=2, group_size=4, max_turns=4)
    weights = policy.init(jax.random.key(0))
    _, s, _, _ = jax.jit(whole.collect)(weights, None, jax.random.key(1))
    assert bool(jnp.all(s.truncated[:, -1] | s.terminated.any(1)))
    _, cut, _, _ = jax.jit(short.collect)(weights, None, jax.random.key(1))
    assert bool(jnp.all(cut.truncated[:, 3] | cut.terminated.any(1)))
    assert cut.mask.shape == (8, 4)
    # The bootstrap is V of a state that is observed nowhere in the streams: finite and not zero.
    assert bool(jnp.all(jnp.isfinite(cut.bootstrap))) and bool(jnp.any(cut.bootstrap != 0))


@pytest.mark.parametrize("name", ["mlp", "gru"])
def test_segments_continue(name):
    """Two segments in a row are one long segment, except for the keys; memory and returns go on."""
    env, params = envs.make("CartPole-v1")
    policy = make_policy(name, env, "shared")
    made = rollout.segments(policy, env, params, num_envs=3, length=40)
    weights = policy.init(jax.random.key(0))
    state = jax.jit(made.init)(jax.random.key(1))
    collect, unroll = jax.jit(made.collect), jax.jit(policy.unroll)
    lengths, returns = np.zeros(3), np.zeros(3)
    for i in range(3):
        state, streams, rows, _ = collect(weights, state, jax.random.key(i + 2))
        done = np.asarray(streams.terminated | streams.truncated)
        for t in range(40):
            lengths, returns = lengths + 1, returns + np.asarray(streams.reward[:, t])
            lengths, returns = (np.where(done[:, t], 0, x) for x in (lengths, returns))
        np.testing.assert_array_equal(state.notes.steps, lengths)
        np.testing.assert_allclose(state.notes.episode_return[:, 0], returns)
        start = rows.loss_mask if rows.start is None else rows.start
        logits, _ = unroll(weights, rows.memory, rows.observation, start)
        logp = losses.categorical_log_prob(logits, rows.tokens)
        np.testing.assert_allclose(logp, rows.behaviour_logp, atol=1e-5)


def test_segments_bootstrap_at_truncation_with_the_last_observation():
    """Coin with a limit of 3: every third turn is truncated unless the coin is found."""
    env, params = envs.make("Coin-v1", max_steps_in_episode=3)
    policy = make_policy("mlp", env, "separate")
    made = rollout.segments(policy, env, params, num_envs=16, length=7)
    weights = policy.init(jax.random.key(0))
    state = jax.jit(made.init)(jax.random.key(1))
    _, s, _, _ = jax.jit(made.collect)(weights, state, jax.random.key(2))
    truncated = np.asarray(s.truncated)
    assert truncated.any() and not (truncated & np.asarray(s.terminated)).any()
    bootstrap = np.asarray(s.bootstrap)
    assert np.all(bootstrap[:, :-1][~truncated[:, :-1]] == 0)
    assert np.all(bootstrap[:, :-1][truncated[:, :-1]] != 0)
    # It is not the value of the observation after the reset.
    following = np.asarray(s.value)[:, 1:]
    where = truncated[:, :-1]
    assert np.abs(bootstrap[:, :-1][where] - following[where]).max() > 1e-6


def test_fresh_tasks_restart_from_the_pool():
    env, params = envs.make("FrozenLake-v1", max_steps_in_episode=2)
    policy = make_policy("mlp", env, "none")
    weights = policy.init(jax.random.key(0))
    for fresh in (0, 3, 64):
        made = rollout.segments(policy, env, params, num_envs=8, length=20, fresh_tasks=fresh)
        state, streams, _, _ = jax.jit(made.collect)(
            weights, jax.jit(made.init)(jax.random.key(1)), jax.random.key(2)
        )
        maps = np.asarray(state.env.holes[0]).reshape(8, 1)
        distinct = len(np.unique(maps, axis=0))
        assert distinct <= (fresh or 8)
        assert fresh == 3 or distinct > 3


def test_masked_policies_play_legal_actions_only():
    env, params = envs.make("Coin-v1")
    policy = make_policy("mlp", env, "none")
    weights = policy.init(jax.random.key(0))
    rates = {}
    for mask in (False, True):
        made = rollout.episodes(policy, env, params, mask_illegal=mask)
        _, s, rows, episodes = jax.jit(made.collect)(weights, None, jax.random.key(0))
        rates[mask] = float(episodes["invalid_action_rate"][0])
        assert bool(jnp.all(jnp.isfinite(rows.behaviour_logp)))
    assert rates[True] == 0 < rates[False]


def test_collections_are_traced_once_and_repeat():
    env, params = envs.make("FrozenLake-v1")
    policy = make_policy("mlp", env, "none")
    made = rollout.episodes(policy, env, params, num_groups=2, group_size=2)
    chex.clear_trace_counter()
    collect = jax.jit(chex.assert_max_traces(made.collect, n=1))
    weights = policy.init(jax.random.key(0))
    chex.assert_trees_all_equal(*(collect(weights, None, jax.random.key(5)) for _ in range(2)))


@pytest.mark.parametrize("speaks", [False, True], ids=["arrays", "words"])
@pytest.mark.parametrize("kind", ["episodes", "segments"])
@pytest.mark.parametrize("name", ["FrozenLake-v1", "Foraging-v1", "PlannedHousehold-v1"])
def test_what_streams_hold_is_declared(name, kind, speaks):
    """`provides` names every field that is filled, so that functions may read it."""
    env, params = envs.make(name, max_steps_in_episode=3)
    context = None
    if speaks:
        sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
        policy = policies.transformer(env.view, **sizes, critic="shared")
        context = rollout.contexts.window(history=0)
    else:
        policy = make_policy("mlp", env, "shared")
    sizes = {
        "episodes": {"num_groups": 2, "group_size": 2},
        "segments": {"num_envs": 4, "length": 3},
    }
    made = getattr(rollout, kind)(policy, env, params, context, **sizes[kind])

    def collected(key):
        return made.collect(policy.init(key), made.init(key), key)[1]

    held = set(fields_of(jax.eval_shape(collected, jax.random.key(0))))
    # No function takes a state, by name.
    assert held - {"first_state"} == made.provides
    assert ("tokens_as_cost" in made.properties) == speaks
