"""GAE against plain loops, reference arrays, and its own limits."""

import pathlib

import numpy as np
import pytest
import recorded

from agentrl import advantages

GIGPO = recorded.arrays("gigpo")


def plain_gae(reward, value, mask, terminated, truncated, bootstrap, gamma, lam):
    """Float64 loops over the acted turns of each stream."""
    out = np.zeros(reward.shape)
    for i in range(len(reward)):
        after = None
        for t in reversed(np.flatnonzero(mask[i])):
            if terminated[i, t]:
                delta, trace = reward[i, t] - value[i, t], 0.0
            elif truncated[i, t] or after is None:
                delta, trace = reward[i, t] + gamma * bootstrap[i, t] - value[i, t], 0.0
            else:
                delta, trace = reward[i, t] + gamma * value[i, after] - value[i, t], out[i, after]
            out[i, t] = delta + gamma * lam * trace
            after = t
    return out


@pytest.mark.parametrize("seed", range(5))
def test_equals_plain_loops(seed):
    rng = np.random.default_rng(seed)
    shape = (6, 12)
    reward, value, bootstrap = rng.normal(size=(3, *shape)).astype(np.float32)
    mask, terminated, truncated = rng.random((3, *shape)) < np.array([0.8, 0.1, 0.1])[:, None, None]
    truncated &= ~terminated
    ours = advantages.gae(
        reward, value, mask, terminated, bootstrap, gamma=0.95, lam=0.9, truncated=truncated
    )
    plain = plain_gae(reward, value, mask, terminated, truncated, bootstrap, 0.95, 0.9)
    np.testing.assert_allclose(ours, plain, atol=1e-5)


@pytest.mark.parametrize("name", ["gae0", "gae1", "gae2"])
def test_reference_token_gae(name):
    if name + "_rew" not in GIGPO.files:
        pytest.skip(f"{name} is not in the shipped half of the vectors")
    reward, value, mask = (GIGPO[f"{name}_{k}"] for k in ("rew", "val", "mask"))
    gamma, lam = map(float, GIGPO[f"{name}_gamma_lam"])
    # The reference's recursion is not masked: values right of the last token matter to it. Give it
    # the same by a full mask, and compare where its own mask is set.
    full = np.ones(mask.shape, bool)
    ours = advantages.gae(reward, value, full, ~full, 0.0, gamma=gamma, lam=lam)
    where = mask.astype(bool)
    np.testing.assert_allclose((ours + value)[where], GIGPO[f"{name}_o_ret"][where], atol=2e-5)
    np.testing.assert_allclose(
        advantages.whiten(ours, where)[where], GIGPO[f"{name}_o_adv"][where], atol=2e-5
    )


@pytest.mark.parametrize("name", ["nc0", "nc1"])
def test_reference_turn_gae_of_one_row_a_turn(name):
    """VAGEN's no-concatenation GAE: the multi-turn PPO baseline of the group methods."""
    if name + "_score" not in GIGPO.files:
        pytest.skip(f"{name} is not in the shipped half of the vectors")
    score, value, token_mask = (GIGPO[f"{name}_{k}"] for k in ("score", "val", "mask"))
    trajectory, turn = GIGPO[f"{name}_traj"], GIGPO[f"{name}_turn"]
    gamma, lam = map(float, GIGPO[f"{name}_gamma_lam"])
    streams = {t: i for i, t in enumerate(np.unique(trajectory))}
    shape = (len(streams), turn.max() + 1)
    reward, critic, mask = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool)
    for row in range(len(score)):
        at = streams[trajectory[row]], turn[row]
        first = np.flatnonzero(token_mask[row])[0]
        reward[at], critic[at], mask[at] = score[row].sum(), value[row, first], True
    none = np.zeros(shape, bool)
    ours = np.asarray(
        advantages.gae(
            reward.astype(np.float32),
            critic.astype(np.float32),
            mask,
            none,
            0.0,
            gamma=gamma,
            lam=lam,
        )
    )
    for row in range(len(score)):
        at = streams[trajectory[row]], turn[row]
        first = np.flatnonzero(token_mask[row])[0]
        expected = GIGPO[f"{name}_o_first_ret"][row, first]
        if expected != -100:  # the reference supervises one copy of a duplicated row
            np.testing.assert_allclose(ours[at] + critic[at], expected, atol=2e-5)


def test_reference_gae_across_gaps():
    path = pathlib.Path(__file__).parents[1] / "data" / "token_loss.npz"
    data = np.load(path)
    mask, value = data["in/mask"].astype(bool), data["in/values"]
    none = np.zeros(mask.shape, bool)
    ours = advantages.gae(data["in/token_rewards"], value, mask, none, 0.0, gamma=1.0, lam=0.95)
    np.testing.assert_allclose((ours + value)[mask], data["adv/gae_returns"][mask], atol=2e-6)


def test_reference_vtrace():
    """rlax's worked arrays; the last discount, 0, is an end."""
    data = recorded.arrays("token_loss")
    names = ("r_t", "v_tm1", "v_t", "rho")
    reward, value, after, ratio = (data[f"vtrace/{name}"][None] for name in names)
    mask, last = np.ones((1, 4), bool), np.arange(4)[None] == 3
    ours = advantages.vtrace(reward, value, mask, last, after, ratio, gamma=0.9)
    np.testing.assert_allclose(ours[0], data["vtrace/errors"], atol=2e-6)
    np.testing.assert_allclose(ours[0], data["vtrace/pg_advantage"], atol=2e-6)
    np.testing.assert_allclose((ours + value)[0], data["vtrace/vs"], atol=2e-6)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_vtrace_equals_plain_loops_across_gaps(lam):
    """vs and the policy's advantage of their own definitions."""
    rng = np.random.default_rng(5)
    reward, value, ratio = rng.normal(size=(3, 6, 9)).astype(np.float32)
    ratio, beyond = np.exp(ratio), rng.normal(size=6).astype(np.float32)
    mask = rng.random((6, 9)) < 0.7
    mask[0] = False
    ends = np.zeros((6, 9), bool)
    ends[1:3, -1] = mask[1:3, -1] = True
    expected = np.zeros((6, 9))
    for i in range(6):
        vs, v, error = beyond[i], beyond[i], 0.0
        for number, t in enumerate(reversed(np.flatnonzero(mask[i]))):
            if number == 0 and ends[i, t]:
                vs = v = 0.0
            rho = min(1.0, ratio[i, t])
            expected[i, t] = rho * (reward[i, t] + 0.9 * (lam * vs + (1 - lam) * v) - value[i, t])
            error = rho * (reward[i, t] + 0.9 * v - value[i, t]) + 0.9 * lam * rho * error
            vs, v = value[i, t] + error, value[i, t]
    padded = [np.where(mask, x, np.nan) for x in (reward, value, ratio)]
    arrays = padded[0], padded[1], mask, ends, beyond, padded[2]
    np.testing.assert_allclose(advantages.vtrace(*arrays, gamma=0.9, lam=lam), expected, atol=1e-5)
    even = advantages.vtrace(*arrays[:-1], np.ones_like(ratio), gamma=0.9, lam=lam)
    np.testing.assert_array_equal(even, advantages.gae(*arrays[:-1], gamma=0.9, lam=lam))


def test_limits():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 3, 6)).astype(np.float32)
    mask = np.ones((3, 6), bool)
    ends = np.zeros((3, 6), bool)
    ends[:, -1] = True
    # lambda 1 is the Monte-Carlo return minus the value; a terminal state has no bootstrap.
    monte_carlo = advantages.gae(reward, value, mask, ends, np.full(3, 99.0), gamma=1.0, lam=1.0)
    np.testing.assert_allclose(monte_carlo + value, reward[:, ::-1].cumsum(1)[:, ::-1], atol=1e-5)
    # lambda 0 is the temporal difference.
    one_step = advantages.gae(reward, value, mask, ends, 0.0, gamma=0.9, lam=0.0)
    np.testing.assert_allclose(
        one_step[:, :-1], (reward + 0.9 * np.roll(value, -1, 1) - value)[:, :-1], atol=1e-5
    )
    # A truncated end bootstraps: one value a stream equals the same value at its last turn.
    cut = np.zeros((3, 6), bool)
    per_stream = advantages.gae(reward, value, mask, cut, np.arange(3.0), gamma=0.9, lam=0.8)
    per_turn = advantages.gae(
        reward, value, mask, cut, np.arange(3.0)[:, None].repeat(6, 1), gamma=0.9, lam=0.8
    )
    np.testing.assert_array_equal(per_stream, per_turn)


SELFPLAY = recorded.arrays("selfplay")


@pytest.mark.parametrize("name", sorted({k[:7] for k in SELFPLAY.files if k.startswith("sdgae_")}))
def test_reference_spoken_gae(name):
    """SocialDeductionLLM 0cac8fa, executed: only decisions' rewards, time stops for speech."""
    flags, reward, value = (SELFPLAY[f"{name}_{k}"] for k in ("flags", "rewards", "values"))
    mask = flags > 1
    assert np.any(reward[~mask] != 0)  # which the reference loses
    reward = np.where(mask, reward, np.nan)
    ours = advantages.spoken_gae(reward, value, mask, np.zeros(mask.shape, bool), 0.0, flags == 3)
    np.testing.assert_allclose(ours, SELFPLAY[name + "_advantages"], atol=1e-5)


def test_spoken_gae_by_hand():
    # gamma 1/2, lambda 1, values 0: an action, three words, an action that earns 8. The words are
    # no further from it than the last of them.
    reward = np.float32([[0, 0, 0, 0, 8]])
    spoken = np.array([[0, 1, 1, 1, 0]], bool)
    mask = np.ones((1, 5), bool)
    options = {"gamma": 0.5, "lam": 1.0}
    arguments = (reward, np.zeros((1, 5)), mask, np.zeros((1, 5), bool), 0.0)
    np.testing.assert_allclose(
        advantages.spoken_gae(*arguments, spoken, **options), [[4, 8, 8, 8, 8]]
    )
    # Silence is GAE.
    np.testing.assert_array_equal(
        advantages.spoken_gae(*arguments, ~mask, **options), advantages.gae(*arguments, **options)
    )


def test_lambda_grows_with_the_length_of_the_stream():
    # The policy's worked numbers of UI-TARS-2: with lambda 0.8 the first of four turns has 0.5288,
    # here from l = 5 / 1.0 of alpha 1 by tokens that add up to 5.
    reward, value = np.float32([[0, 0, 0, 1]]), np.float32([[0.2, 0.3, 0.5, 0.6]])
    mask, terminated = np.ones((1, 4), bool), np.array([[0, 0, 0, 1]], bool)
    args = reward, value, mask, terminated, 0.0
    cost = np.float32([[2, 1, 1, 1]])
    ours = advantages.length_adaptive_gae(*args, alpha=1.0, cost=cost)
    np.testing.assert_allclose(ours, [[0.5288, 0.536, 0.42, 0.4]], atol=1e-6)
    for length, lam in ((25, 0.2), (100, 0.8), (400, 0.95), (1000, 0.98), (20, 0.0), (5, 0.0)):
        long = np.full((1, 4), length / 4, np.float32)
        ours = advantages.length_adaptive_gae(*args, cost=long)
        expected = advantages.gae(*args, gamma=1.0, lam=lam)
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    # The critic's own target, with lambda 1, is the return.
    whole = advantages.gae(*args, gamma=1.0, lam=1.0) + value
    np.testing.assert_allclose(whole, np.ones((1, 4)), rtol=1e-6)


def test_what_follows_a_limit_is_the_critics_value_or_nothing():
    # One stream of two turns, cut after the second: delta = r + 0.5 V' - V.
    reward, value, mask = np.float32([[1, 2]]), np.float32([[3, 5]]), np.ones((1, 2), bool)
    cut = np.array([[False, True]])
    options = {"gamma": 0.5, "lam": 0.0, "truncated": cut}
    arrays = (reward, value, mask, ~mask, np.float32([[9, 8]]))
    ours = advantages.gae(*arrays, **options)
    np.testing.assert_allclose(ours, [[1 + 2.5 - 3, 2 + 4 - 5]])
    ended = advantages.gae(*arrays, **options, at_limit="end")
    np.testing.assert_allclose(ended, [[1 + 2.5 - 3, 2 - 5]])
