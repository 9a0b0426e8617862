"""Jobs-v1: shifts by hand, how often each method is seen, and durations in streams."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout

KEY = jax.random.key(0)


def shift(env, params, actions):
    """(reward, time, terminated) of each turn of a shift."""
    state, told = env.initial(KEY, params), []
    for i, action in enumerate(actions):
        key = jax.random.fold_in(KEY, i)
        _, state, reward, over, info = env.step_env(key, state, np.int32(action), params)
        told.append((float(reward), float(info["seconds"]), bool(over)))
    return told


def test_a_shift_cuts_the_job_at_its_end_or_finishes_it():
    sure = {"durations": (1.0, 8.0), "chances": ((1.0, 1.0),), "shift": 10.0}
    env, params = envs.make("Jobs-v1", **sure)
    assert shift(env, params, [1, 0, 1, 0]) == [
        (1.0, 8.0, False),
        (1.0, 1.0, False),
        (0.0, 1.0, True),  # one unit of time was left
        (0.0, 0.0, True),
    ]
    _, params = envs.make("Jobs-v1", **sure, overtime=True)
    assert shift(env, params, [1, 0, 1, 0])[2:] == [(1.0, 8.0, True), (0.0, 0.0, True)]
    # A job that ends with the shift ends in time.
    _, params = envs.make("Jobs-v1", **sure | {"shift": 9.0})
    assert shift(env, params, [0, 1])[1] == (1.0, 8.0, True)


def test_a_job_without_success_is_paid_by_its_milestones():
    """Milestone i of 4 of a job of chance 0.25 is reached with 0.25**(i/4): .707, .5, .354, .25;
    what the end of the shift cuts has what was due by then."""
    four = {"durations": (4.0, 8.0), "chances": ((0.25, 1.0),), "milestones": 4, "shift": 10.0}
    env, params = envs.make("Jobs-v1", **four, milestone_reward=0.1)
    _, plain = envs.make("Jobs-v1", **four)
    keys = jax.random.split(KEY, 2000)
    state = env.initial(KEY, params)
    step = jax.jit(jax.vmap(env.transition, in_axes=(0, None, None, None)))
    paid = np.asarray(step(keys, state, np.int32(0), params)[1])
    luck = np.array([jax.random.uniform(jax.random.split(key)[0]) for key in keys[:200]])
    for one, told in zip(luck, paid, strict=False):
        reached = sum(bool(one < np.float32(0.25) ** np.float32(i / 4)) for i in range(1, 5))
        assert told == pytest.approx(1.0 if reached == 4 else 0.1 * reached)
    wanted = 0.25 + 0.1 * sum(0.25 ** (i / 4) - 0.25 for i in range(1, 4))
    np.testing.assert_allclose(paid.mean(), wanted, atol=4 * paid.std() / np.sqrt(2000))
    np.testing.assert_array_equal(step(keys, state, np.int32(0), plain)[1], paid == 1)
    # At 5 of 10, 5 of 8 units of a sure job: its milestones at 2 and 4 are due, the next is not.
    late = state.replace(used=np.float32(5.0))
    np.testing.assert_allclose(step(keys, late, np.int32(1), params)[1], 0.2)
    np.testing.assert_array_equal(
        step(keys, late, np.int32(1), params.replace(overtime=True))[1], 1
    )


def gradient(seen, chances, weights, baseline):
    """Policy gradient of one logit (quick less slow) at equal probabilities, by the seen turns."""
    reward = np.array([chances[m] for m in range(2)])
    mean = (seen * reward).sum() / seen.sum() if baseline else 0.0
    each = seen * (reward - mean) * weights
    return (each[0] - each[1]) / 2


def test_what_a_deadline_does_to_the_gradient():
    """Workers in plain Python that begin anew, and the turns that ended by the deadline: the quick
    method arrives more often than it is chosen; the weight takes back more than that unless the
    policy is quick already; turns that began early enough are as many as are chosen."""
    durations, deadline, workers = (1, 4), 4, 20_000
    rng = np.random.default_rng(0)

    def arrivals(quick, longest):
        seen = np.zeros(2)
        for _ in range(workers):
            clock = 0
            while clock <= deadline:
                method = int(rng.random() >= quick)
                begun, clock = clock, clock + durations[method]
                seen[method] += clock <= deadline and begun <= deadline - longest
        return seen / workers / np.array([quick, 1 - quick])

    for quick in (0.5, 0.99):
        # Turns begun at 0 to 3 by workers that were quick so far; slow ones can only be first.
        counts = sum(quick**t for t in range(4)), 1.0
        np.testing.assert_allclose(arrivals(quick, 0), counts, rtol=0.1)
        np.testing.assert_allclose(arrivals(quick, 4), 1.0, rtol=0.1)
    seen, equal, by_time = np.array([1.875, 1.0]), np.ones(2), np.array(durations)
    # Without a baseline, slow is better (0.9, 0.5), and the gradient says quick; weighted, slow.
    assert gradient(seen, (0.5, 0.9), equal, False) > 0 > gradient(seen, (0.5, 0.9), by_time, False)
    # But quick is better (0.8, 0.6), and the weighted one says slow: it takes back 4, not 1.875.
    assert gradient(seen, (0.8, 0.6), equal, False) > 0 > gradient(seen, (0.8, 0.6), by_time, False)
    assert gradient(np.array([3.94, 1.0]), (0.8, 0.6), by_time, False) > 0
    # Less the mean of what arrived both are right.
    for chances in ((0.5, 0.9), (0.8, 0.6)):
        better = np.sign(chances[0] - chances[1])
        for weights in (equal, by_time):
            assert np.sign(gradient(seen, chances, weights, True)) == better


def test_the_expert_has_the_best_chance_of_each_kind():
    env, params = envs.make("Jobs-v1", chances=((0.5, 0.9), (0.8, 0.6), (0.1, 0.2)))
    state = env.initial(KEY, params)
    assert [int(env.expert(state.replace(kind=np.int32(k)), params)) for k in range(3)] == [1, 0, 1]


def begun(durations, end):
    """Mean number of jobs begun at each time of a shift, of methods that are drawn evenly."""
    at = np.zeros(end)
    at[0] = 1.0
    for time in range(1, end):
        at[time] = sum(at[time - d] for d in durations if d <= time) / len(durations)
    return at


@pytest.mark.parametrize("overtime", [False, True])
def test_how_often_a_method_is_seen(overtime):
    """With overtime as often as it is chosen, by Wald's identity; else long jobs are cut more
    often, but by far less than the ratio of the durations."""
    durations, end = (1, 8), 32
    env, params = envs.make(
        "Jobs-v1", durations=durations, shift=float(end), overtime=overtime, max_steps_in_episode=64
    )

    def play(key):
        def turn(state, key):
            act_key, step_key = jax.random.split(key)
            action = jax.random.bernoulli(act_key).astype(np.int32)
            over = env.is_terminated(state, params)
            full = state.used + jnp.asarray(durations)[action] <= params.shift
            _, state, *_ = env.step_env(step_key, state, action, params)
            return state, (action, ~over & (params.overtime | full))

        start, keys = env.initial(key, params), jax.random.split(key, 64)
        return jax.lax.scan(turn, start, keys)[1]

    drawn = jax.jit(lambda keys: jax.vmap(play)(keys))(jax.random.split(KEY, 4096))
    action, done = map(np.asarray, drawn)
    seen = np.array([(done & (action == m)).sum(axis=1) for m in range(2)])
    at = begun(durations, end)
    counts = [at[: end if overtime else end - d + 1].sum() / 2 for d in durations]
    error = 4 * seen.std(axis=1) / np.sqrt(4096)
    np.testing.assert_array_less(np.abs(seen.mean(axis=1) - counts), error)
    ratio = counts[0] / counts[1]
    assert ratio == 1 if overtime else 1.2 < ratio < 1.4


def collected(env, params):
    """(rollout, policy)."""
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    return rollout.episodes(policy, env, params, num_groups=2, group_size=2), policy


def test_streams_hold_the_time_of_each_turn():
    env, params = envs.make("Jobs-v1", shift=10.0)
    collection, policy = collected(env, params)
    assert "duration" in collection.provides
    state, weights = collection.init(KEY), policy.init(KEY)
    streams, rows = jax.jit(collection.collect)(weights, state, KEY)[1:3]
    mask, duration = np.asarray(streams.mask), np.asarray(streams.duration)
    np.testing.assert_allclose(np.where(mask, duration, 0.0).sum(axis=1), 10.0)
    weighted = advantages.duration_aware(np.ones(mask.shape), mask, duration, cap=None)
    assert np.mean(np.asarray(weighted)[mask]) == pytest.approx(1.0)
    assert "duration" not in collected(*envs.make("FrozenLake-v1"))[0].provides


def test_a_clock_leaves_the_durations():
    env, params = envs.make("envs.wrappers.Clock", base={"name": "Jobs-v1"})
    assert env.timed and "duration" in collected(env, params)[0].provides
    state = env.initial(KEY, params)
    info = env.step_env(KEY, state, np.int32(1), params)[-1]
    assert float(info["seconds"]) == 8.0
