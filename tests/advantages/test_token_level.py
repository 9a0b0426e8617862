"""GAE over tokens: recorded values of VAGEN's code, loops, reductions to GAE over turns."""

import pathlib

import jax
import numpy as np
import pytest

from agentrl import advantages

DATA = pathlib.Path(__file__).parents[1] / "data"
VECTORS = np.load(DATA / "gigpo.npz")
WORKED = np.load(DATA / "turn_credit.npz")
token_gae, bilevel_gae = jax.jit(advantages.token_gae), jax.jit(advantages.bilevel_gae)


def recorded(reward, value, mask, turn, **changes):
    """One row per stream: arrays by name. Rewards [R, L] are summed by turn."""
    turns = int(turn.max()) + 1
    of = [(turn == t) & mask for t in range(turns)]
    arrays = {
        "reward": np.stack([np.where(m, reward, 0).sum(1) for m in of], axis=1),
        "token_value": np.where(mask, value, np.nan),
        "mask": np.stack([m.any(1) for m in of], axis=1),
        "loss_mask": mask,
        "stream": np.arange(len(mask)),
        "turn": turn,
        "bootstrap": 0.0,
    }
    arrays["terminated"] = np.zeros(arrays["mask"].shape, bool)
    return arrays | changes


def whitened(x, mask):
    chosen = x[mask]
    return np.where(mask, (x - chosen.mean()) / np.sqrt(chosen.var(ddof=1) + 1e-8), 0)


@pytest.mark.parametrize("case", ["ml0"])
def test_recorded_values_of_vagen(case):
    gamma, turn_gamma, lam = (float(x) for x in VECTORS[f"{case}_gamma_hgamma_lam"])
    mask = VECTORS[f"{case}_loss_mask"].astype(bool)
    arrays = recorded(
        VECTORS[f"{case}_rew"], VECTORS[f"{case}_val"], mask, VECTORS[f"{case}_turn_id"]
    )
    flat = np.asarray(token_gae(**arrays, gamma=gamma, lam=lam))
    np.testing.assert_allclose(
        np.where(mask, flat + VECTORS[f"{case}_val"], 0),
        np.where(mask, VECTORS[f"{case}_o_masked_gae_ret"], 0),
        atol=2e-5,
    )
    levels = np.asarray(bilevel_gae(**arrays, gamma=gamma, turn_gamma=turn_gamma, lam=lam))
    for ours, name in ((flat, "masked_gae"), (levels, "bilevel")):
        expected = np.where(mask, VECTORS[f"{case}_o_{name}_adv"], 0)
        np.testing.assert_allclose(whitened(ours, mask), expected, atol=5e-5)


def test_worked_example_of_two_levels():
    mask = WORKED["bilevel_in_mask"].astype(bool)
    turn = np.array([[0, 0, 0, -1, 1, 1, -1]])
    arrays = recorded(WORKED["bilevel_in_r"], WORKED["bilevel_in_V"], mask, turn)
    ours = bilevel_gae(**arrays, gamma=1.0, turn_gamma=0.95, lam=0.9)
    np.testing.assert_allclose(ours, WORKED["bilevel_adv_unwhitened"], atol=2e-5)
    ours = whitened(np.asarray(ours), mask)
    np.testing.assert_allclose(ours[0], WORKED["bilevel_adv_whitened"], atol=2e-5)


def streams(seed):
    """Streams of up to four turns of one token each, some cut; and the turns in rows of their own,
    in any order."""
    rng = np.random.default_rng(seed)
    mask = np.arange(4) < rng.integers(1, 5, (6, 1))
    reward, value, bootstrap = (rng.normal(size=(6, 4)).astype(np.float32) for _ in range(3))
    last = mask & ~np.pad(mask[:, 1:], ((0, 0), (0, 1)))
    terminated = last & (rng.random((6, 1)) < 0.5)
    whole = dict(reward=reward, mask=mask, terminated=terminated, bootstrap=bootstrap)
    return whole, value, rng.permutation(24)


@pytest.mark.parametrize("seed", range(3))
def test_one_token_per_turn_is_gae(seed):
    whole, value, order = streams(seed)
    expected = advantages.gae(**whole, value=value, gamma=0.9, lam=0.8)
    turn = np.where(whole["mask"], np.arange(4), -1)
    rows = dict(
        token_value=np.where(whole["mask"], value, np.nan),
        loss_mask=whole["mask"],
        stream=np.arange(6),
        turn=turn,
    )
    apart = {name: rows[name].reshape(-1, 1)[order] for name in rows if name != "stream"}
    apart["stream"] = np.repeat(np.arange(6), 4)[order]
    shuffled = np.asarray(expected).reshape(-1, 1)[order]
    for function, options in (
        (token_gae, {"gamma": 0.9, "lam": 0.8}),
        (bilevel_gae, {"gamma": 0.5, "turn_gamma": 0.9, "lam": 0.8}),
    ):
        np.testing.assert_allclose(function(**whole, **rows, **options), expected, atol=2e-5)
        np.testing.assert_allclose(function(**whole, **apart, **options), shuffled, atol=2e-5)


def test_without_decay_every_token_has_the_return_less_its_value():
    rng = np.random.default_rng(5)
    mask, turn = np.ones((3, 6), bool), np.tile([0, 0, 1, 1, 1, 2], (3, 1))
    value, reward = (rng.normal(size=(3, 6)).astype(np.float32) for _ in range(2))
    arrays = recorded(reward, value, mask, turn)
    to_go = np.cumsum(arrays["reward"][:, ::-1], 1)[:, ::-1][:, [0, 0, 1, 1, 1, 2]]
    for function in (token_gae, bilevel_gae):
        options = {"gamma": 1.0, "lam": 1.0} | (
            {"turn_gamma": 1.0} if function is bilevel_gae else {}
        )
        np.testing.assert_allclose(function(**arrays, **options), to_go - value, atol=2e-5)


def written_in_rows(seed):
    """Streams of 1 to 4 turns of 1 to 5 tokens, every turn in a row of its own, shuffled: (arrays,
    the tokens (value, reward or 0, turn, number) of each stream in order, row of each turn)."""
    rng = np.random.default_rng(seed)
    rows, of_stream = [], []
    reward = rng.normal(size=(5, 4)).astype(np.float32)
    mask = np.arange(4) < rng.integers(1, 5, (5, 1))
    for stream in range(5):
        of_stream.append([])
        for turn in range(mask[stream].sum()):
            count = int(rng.integers(1, 6))
            value = rng.normal(size=count).astype(np.float32)
            rows.append((stream, turn, value))
            gained = [0.0] * (count - 1) + [reward[stream, turn]]
            of_stream[-1] += [(v, gained[i], turn, i) for i, v in enumerate(value)]
    order = rng.permutation(len(rows))
    token_value = np.full((len(rows), 7), np.nan, np.float32)
    loss_mask, turns = np.zeros((len(rows), 7), bool), np.full((len(rows), 7), -1)
    place = {}
    for row, number in enumerate(order):
        stream, turn, value = rows[number]
        token_value[row, 2 : 2 + len(value)] = value
        loss_mask[row, 2 : 2 + len(value)], turns[row, 2 : 2 + len(value)] = True, turn
        place[stream, turn] = row
    last = mask & ~np.pad(mask[:, 1:], ((0, 0), (0, 1)))
    arrays = dict(
        reward=reward,
        token_value=token_value,
        mask=mask,
        terminated=last,
        bootstrap=0.0,
        loss_mask=loss_mask,
        stream=np.array([rows[number][0] for number in order]),
        turn=turns,
    )
    return arrays, of_stream, place


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_lambda_grows_with_the_tokens_of_the_stream(gamma, alpha):
    """A loop over the tokens in plain Python."""
    arrays, of_stream, place = written_in_rows(3)
    expected = np.zeros(arrays["loss_mask"].shape)
    for stream, tokens in enumerate(of_stream):
        lam = max(0.0, 1.0 - 1.0 / (alpha * len(tokens)))
        advantage, following = 0.0, 0.0
        for value, gained, turn, i in reversed(tokens):
            advantage = gained + gamma * following - value + gamma * lam * advantage
            expected[place[stream, turn], 2 + i] = advantage
            following = value
    ours = advantages.length_adaptive_token_gae(**arrays, gamma=gamma, alpha=alpha)
    np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_last_rewards_weight_at_the_first_token_does_not_vanish(alpha):
    for length in (100, 1000, 10_000):
        mask, turn = np.ones((1, length), bool), np.arange(length)[None] * 4 // length
        reward = np.eye(1, length, length - 1, dtype=np.float32)
        arrays = recorded(reward, np.zeros((1, length)), mask, turn)
        ours = advantages.length_adaptive_token_gae(**arrays, alpha=alpha)
        np.testing.assert_allclose(
            ours[0, 0], (1 - 1 / (alpha * length)) ** (length - 1), rtol=1e-3
        )
    np.testing.assert_allclose(ours[0, 0], np.exp(-1 / alpha), rtol=0.03)


def test_lambda_by_tokens_is_that_by_turns_where_a_turn_is_one_token():
    whole, value, _ = streams(0)
    rows = dict(
        token_value=np.where(whole["mask"], value, np.nan),
        loss_mask=whole["mask"],
        stream=np.arange(6),
        turn=np.where(whole["mask"], np.arange(4), -1),
    )
    ours = advantages.length_adaptive_token_gae(**whole, **rows, alpha=0.6)
    expected = advantages.length_adaptive_gae(**whole, value=value, alpha=0.6)
    np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_what_followed_a_cut_may_be_one_value_for_each_stream():
    """Two streams of one turn and one token, cut after it: 1 + 0.5 V' - 2."""
    one = np.ones((2, 1), np.float32)
    mask, turn, none = np.ones((2, 1), bool), np.zeros((2, 1), int), np.zeros((2, 1), bool)
    rest = {"loss_mask": mask, "stream": np.arange(2), "turn": turn, "gamma": 0.5, "lam": 1.0}
    for bootstrap in (np.float32([4, 6]), np.float32([[4], [6]])):
        ours = advantages.token_gae(one, 2 * one, mask, none, bootstrap, **rest)
        np.testing.assert_allclose(ours, [[1], [2]])
    with pytest.raises(ValueError, match="token_gae: bootstrap has shape .3,.; expected"):
        advantages.token_gae(one, 2 * one, mask, none, np.ones(3, np.float32), **rest)


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (advantages.token_gae, {"gamma": 1.0}),
        (advantages.bilevel_gae, {"turn_gamma": 0.9}),
        (advantages.length_adaptive_token_gae, {"alpha": 1.0}),
    ],
)
def test_a_limit_may_be_the_end_of_the_task(estimator, options):
    """Then nothing follows it, as after the rules' end; other turns are as they were."""
    arrays, _, _ = written_in_rows(3)
    last = arrays["terminated"]
    cut = last & (np.arange(5) < 2)[:, None]
    arrays |= {"terminated": last & ~cut, "bootstrap": 7.0, "truncated": cut}
    lost = estimator(**arrays, **options, at_limit="end")
    ends = arrays | {"terminated": last, "truncated": np.zeros_like(cut)}
    np.testing.assert_array_equal(lost, estimator(**ends, **options))
    goes_on = np.asarray(estimator(**arrays, **options))
    of_cut = np.isin(arrays["stream"], (0, 1))[:, None] & arrays["loss_mask"]
    np.testing.assert_array_equal(np.where(of_cut, 0, lost), np.where(of_cut, 0, goes_on))
    assert (goes_on[of_cut] > np.asarray(lost)[of_cut]).any()
    with pytest.raises(ValueError, match="at_limit='never'"):
        estimator(**arrays, **options, at_limit="never")


def test_penalties_of_tokens_worked_example():
    """Two turns of two tokens in one row, gamma 1, lambda 0.5, the reward 1 at the end.

    Penalties .1 .2 .0 .4 and values .2 .3 .5 .6 make the errors -.1 + .3 - .2 = 0, -.2 + .5 - .3 =
    0, 0 + .6 - .5 = .1 and 1 - .4 - .6 = 0; advantages from the end: 0, .1, .05, .025.
    """
    arrays = {
        "reward": np.array([[0.0, 1.0]]),
        "token_value": np.array([[0.2, 0.3, 9.0, 0.5, 0.6]]),
        "mask": np.ones((1, 2), bool),
        "terminated": np.array([[False, True]]),
        "bootstrap": 0.0,
        "loss_mask": np.array([[True, True, False, True, True]]),
        "stream": np.zeros(1, int),
        "turn": np.array([[0, 0, 1, 1, 1]]),
    }
    penalty = np.array([[0.1, 0.2, 7.0, 0.0, 0.4]])
    found = token_gae(**arrays, gamma=1.0, lam=0.5, token_penalty=penalty)
    np.testing.assert_allclose(found, [[0.025, 0.05, 0, 0.1, 0]], atol=1e-6)
    # A penalty at turns' last tokens is a smaller reward.
    at_ends = penalty * [[0, 1, 0, 0, 1]]
    less = arrays | {"reward": np.array([[-0.2, 0.6]])}
    np.testing.assert_allclose(
        token_gae(**arrays, gamma=0.9, lam=0.8, token_penalty=at_ends),
        token_gae(**less, gamma=0.9, lam=0.8),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match="token_penalty has shape"):
        token_gae(**arrays, token_penalty=penalty[:, :3])
