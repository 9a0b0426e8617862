"""GAE through the agents of a step.

selfplay.npz, `marft`: jwliao-ai/MARFT 1beacdb, executed, at the levels of actions and tokens.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages as library

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "data" / "selfplay.npz")
CASES = sorted({k.split("_")[1] for k in VECTORS.files if k.startswith("marft_")})
marft = jax.jit(library.marft, static_argnames="restart")


def streams_of(array):
    """[T, E, K, ...] as [N, T, ...], a stream an episode and agent."""
    steps, threads, agents, *rest = array.shape
    return np.moveaxis(array, 0, 2).reshape(threads * agents, steps, *rest)


def case(number):
    data = {
        k.split("_", 2)[2]: VECTORS[k] for k in VECTORS.files if k.startswith(f"marft_{number}_")
    }
    _, threads, agents = data["rewards"].shape
    terminated = streams_of(data["masks"][1:] == 0)
    arrays = {
        "terminated": terminated,
        # The agent who acts next is the first.
        "bootstrap": np.repeat(data["next_value"][:, 0], agents),
        "episode": np.repeat(np.arange(threads), agents),
        "role": np.tile(np.arange(agents), threads),
        "gamma": float(data["gamma"]),
        "lam": float(data["lam"]),
        "restart": "cut",
    }
    return data, arrays


@pytest.mark.parametrize("number", CASES)
def test_reference_actions(number):
    data, arrays = case(number)
    reward, value = streams_of(data["rewards"]), streams_of(data["values"])
    ours = marft(reward, value, np.ones(reward.shape, bool), **arrays)
    np.testing.assert_allclose(ours, streams_of(data["adv"]), atol=1e-5)


@pytest.mark.parametrize("number", CASES)
def test_reference_tokens(number):
    data, arrays = case(number)
    value = streams_of(data["tok_values"])
    mask = np.arange(value.shape[2]) < streams_of(data["tok_len"])[..., None]
    value = np.where(mask, value, np.nan)
    ours = marft(streams_of(data["rewards"]), value, mask, **arrays)
    np.testing.assert_allclose(ours, streams_of(data["tok_adv"]), atol=1e-5)


def batch(rng, streams=9, turns=5, tokens=None):
    shape = (streams, turns) if tokens is None else (streams, turns, tokens)
    ends, cuts = rng.random((2, streams, turns)) < 0.1
    acts = rng.random((streams, turns)) < 0.8
    mask = acts
    if tokens is not None:
        length = rng.integers(1, tokens + 1, (streams, turns))
        mask = acts[..., None] & (np.arange(tokens) < length[..., None])
    return {
        "reward": rng.normal(size=(streams, turns)).astype(np.float32),
        "value": rng.normal(size=shape).astype(np.float32),
        "mask": mask,
        "terminated": ends,
        "bootstrap": rng.normal(size=(streams, turns)).astype(np.float32),
        "episode": rng.integers(0, 4, streams) * 1000,
        "role": rng.integers(0, 3, streams),
        "truncated": cuts,
    }


def plain(b, gamma, lam, restart):
    """Float64 loops over each episode's decisions in their order."""
    value = b["value"] if b["value"].ndim == 3 else b["value"][..., None]
    mask = b["mask"] if b["mask"].ndim == 3 else b["mask"][..., None]
    out = np.zeros(value.shape)
    turns = mask.shape[1]
    for episode in np.unique(b["episode"]):
        members = np.flatnonzero(b["episode"] == episode)
        members = members[np.argsort(b["role"][members], kind="stable")]
        acts = mask[members].any(2)
        ended = (acts & b["terminated"][members]).any(0)
        cut = (acts & b["truncated"][members]).any(0)
        order = [
            (i, t, j) for t in range(turns) for i in members for j in np.flatnonzero(mask[i, t])
        ]
        after, gae = None, 0.0
        for i, t, j in reversed(order):
            last = not mask[i, t, j + 1 :].any()
            within = after is not None and after[1] == t
            reset = restart == "cut" and last and t > 0 and ended[t - 1]
            if within and not reset or after is not None and not within and not (ended | cut)[t]:
                following, trace = value[after], gae
            elif within or ended[t]:
                following, trace = 0.0, 0.0
            else:
                following, trace = b["bootstrap"][i, t], 0.0
            reward = b["reward"][i, t] if last else 0.0
            gae = reward + gamma * following - value[i, t, j] + gamma * lam * trace
            out[i, t, j], after = gae, (i, t, j)
    return out.reshape(b["value"].shape)


@pytest.mark.parametrize("restart", ["chain", "cut"])
@pytest.mark.parametrize("tokens", [None, 4])
@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_loops(seed, tokens, restart):
    b = batch(np.random.default_rng(seed), tokens=tokens)
    ours = marft(**b, gamma=0.95, lam=0.9, restart=restart)
    np.testing.assert_allclose(ours, plain(b, 0.95, 0.9, restart), atol=1e-5)
    acts = b["mask"].any(2) if tokens else b["mask"]
    bad = b | {"value": np.where(b["mask"], b["value"], np.nan)}
    bad |= {n: np.where(acts, b[n], np.nan) for n in ("reward", "bootstrap")}
    bad |= {n: np.where(acts, b[n], True) for n in ("terminated", "truncated")}
    np.testing.assert_array_equal(marft(**bad, gamma=0.95, lam=0.9, restart=restart), ours)


@pytest.mark.parametrize("seed", range(3))
def test_one_agent_is_gae(seed):
    b = batch(np.random.default_rng(seed)) | {"episode": np.arange(9) % 9, "role": np.zeros(9, int)}
    ours = marft(**b, gamma=0.9, lam=0.8)
    plain_arrays = {n: v for n, v in b.items() if n not in ("episode", "role")}
    np.testing.assert_allclose(ours, library.gae(**plain_arrays, gamma=0.9, lam=0.8), atol=1e-5)
    # One token a turn is a turn.
    tokens = b | {"value": b["value"][..., None], "mask": b["mask"][..., None]}
    np.testing.assert_array_equal(marft(**tokens, gamma=0.9, lam=0.8)[..., 0], ours)


def test_worked_numbers():
    # Two agents, two steps, team's reward 1 at the very end; gamma 1/2, lambda 1, values 0: every
    # decision before the last halves it.
    reward = np.float32([[0, 0], [0, 1]])
    ends = np.array([[0, 1], [0, 1]], bool)
    arguments = (np.zeros((2, 2)), np.ones((2, 2), bool), ends, 0.0)
    ours = marft(reward, *arguments, np.zeros(2, int), np.array([0, 1]), gamma=0.5, lam=1.0)
    np.testing.assert_allclose(ours, [[1 / 8, 1 / 2], [1 / 4, 1]])
    # Roles, not places, give the order: the second stream acts first.
    ours = marft(reward, *arguments, np.zeros(2, int), np.array([1, 0]), gamma=0.5, lam=1.0)
    np.testing.assert_allclose(ours, [[1 / 2, 0], [1 / 4, 1]])


def test_permuting_streams_permutes_advantages():
    rng = np.random.default_rng(0)
    b = batch(rng) | {"role": np.arange(9)}
    p = rng.permutation(9)
    ours = np.asarray(marft(**b, gamma=0.9, lam=0.8))
    permuted = marft(**{n: v[p] for n, v in b.items()}, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(permuted, ours[p], atol=1e-5)


def test_gradient_is_stopped_and_errors():
    def total(value):
        ones, none = jnp.ones((2, 3), bool), jnp.zeros(2, int)
        return library.marft(jnp.ones((2, 3)), value, ones, ~ones, 0.0, none, none).sum()

    np.testing.assert_array_equal(jax.grad(total)(jnp.ones((2, 3))), 0)
    b = batch(np.random.default_rng(0))
    with pytest.raises(ValueError, match="restart='none': expected one of 'chain', 'cut'"):
        library.marft(**b, restart="none")
