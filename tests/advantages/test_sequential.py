"""GAE through the agents of a step.

selfplay.npz, `marft`: jwliao-ai/MARFT 1beacdb, executed, at the levels of actions and tokens.
"""

import jax
import numpy as np
import pytest
import recorded

from agentrl import advantages as library

VECTORS = recorded.arrays("selfplay")
CASES = sorted({k.split("_")[1] for k in VECTORS.files if k.startswith("marft_")})
marft = jax.jit(library.marft, static_argnames="restart")
marft_by_turn = jax.jit(library.marft_by_turn)
gae = jax.jit(library.gae)


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
    np.testing.assert_allclose(ours, gae(**plain_arrays, gamma=0.9, lam=0.8), atol=1e-5)
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


def rollout_of(rng, episodes=5, agents=3, turns=7, acts=0.6):
    """Streams as rollouts fill them, and the team's decisions: all carry the team's reward.

    Returns (arrays, [(episode, turn, agent, reward until the next decision)] in order, ended).
    """
    mask = rng.random((episodes, agents, turns)) < acts
    mask[:, 0, 0] = True
    earned = rng.choice([0.0, 1.0, -0.5], (episodes, turns))
    ended = rng.random(episodes) < 0.5
    reward = np.full(mask.shape, np.nan, np.float32)
    terminated = np.ones_like(mask)  # poison
    for e, k in np.ndindex(episodes, agents):
        own = np.flatnonzero(mask[e, k])
        for here, following in zip(own, [*own[1:], turns], strict=False):
            reward[e, k, here] = earned[e, here:following].sum()
            terminated[e, k, here] = ended[e] and here == own[-1]
    value, bootstrap = rng.normal(size=(2, episodes, agents, turns)).astype(np.float32)
    arrays = {
        "reward": reward,
        "value": np.where(mask, value, np.nan),
        "mask": mask,
        "terminated": terminated,
        "bootstrap": np.broadcast_to(bootstrap[..., :1], mask.shape),
    }
    arrays = {name: x.reshape(episodes * agents, turns) for name, x in arrays.items()}
    arrays["episode"] = np.repeat(np.arange(episodes) * 10, agents)
    arrays["role"] = np.tile(np.arange(agents), episodes)
    order = [(e, t, k) for e, t, k in np.ndindex(episodes, turns, agents) if mask[e, k, t]]
    decisions = []
    for here, following in zip(order, [*order[1:], (-1, 0, 0)], strict=True):
        e, t, _ = here
        until = following[1] if following[0] == e else turns
        decisions.append((*here, earned[e, t:until].sum()))
    return arrays, decisions, ended


@pytest.mark.parametrize("seed", range(5))
def test_streams_of_a_team_count_each_reward_once(seed):
    agents, turns, gamma, lam = 3, 7, 0.9, 0.8
    rng = np.random.default_rng(seed)
    arrays, decisions, ended = rollout_of(
        rng, agents=agents, turns=turns, acts=[0.3, 1.0][seed % 2]
    )
    expected = np.zeros(arrays["mask"].shape)
    after, gae = None, 0.0
    for e, t, k, reward in reversed(decisions):
        i = e * agents + k
        if after is None or after[0] != e:
            # The next agent in the circle of those that ever acted.
            circle = [j % agents for j in range(k + 1, k + 1 + agents)]
            who = next(j for j in circle if arrays["mask"][e * agents + j].any())
            following = 0.0 if ended[e] else arrays["bootstrap"][e * agents + who, 0]
            gae = 0.0
        else:
            following = arrays["value"][after[1], after[2]]
        gae = reward + gamma * following - arrays["value"][i, t] + gamma * lam * gae
        expected[i, t], after = gae, (e, i, t)
    ours = marft_by_turn(**arrays, gamma=gamma, lam=lam)
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    # A penalty is the turn's own, and is not shared.
    penalty = np.where(arrays["mask"], 0.0, np.nan).astype(np.float32)
    where = tuple(np.argwhere(arrays["mask"])[3])
    penalty[where] = 0.5
    changed = marft_by_turn(**arrays, gamma=gamma, lam=0.0, penalty=penalty)
    plain = marft_by_turn(**arrays, gamma=gamma, lam=0.0)
    assert np.argwhere(np.abs(np.asarray(changed) - plain) > 1e-6).tolist() == [list(where)]


def test_worked_numbers_of_streams():
    """Two agents act at once and the team earns 1: counted once, where the streams say it twice."""
    ones, none = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    every, ids = np.ones((2, 1), bool), (np.zeros(2, int), np.array([0, 1]))
    ours = marft_by_turn(ones, none, every, every, none, *ids, gamma=1.0, lam=1.0)
    np.testing.assert_array_equal(ours, [[1], [1]])
    plain = marft(ones, none, every, every, none, *ids, gamma=1.0, lam=1.0)
    np.testing.assert_array_equal(plain, [[2], [1]])
    # Cut: the first agent would act next, and its bootstrap is 3.
    bootstrap = np.float32([[3], [-7]])
    ours = marft_by_turn(none, none, every, ~every, bootstrap, *ids, gamma=0.5, lam=1.0)
    np.testing.assert_array_equal(ours, [[0.75], [1.5]])


def test_one_agent_by_turn_is_gae():
    arrays, _, _ = rollout_of(np.random.default_rng(9), episodes=6, agents=1, acts=0.7)
    # Without jit, which may hide that a NaN behind the mask is read.
    ours = library.marft_by_turn(**arrays, gamma=0.9, lam=0.8)
    plain = {n: x for n, x in arrays.items() if n not in ("episode", "role")}
    np.testing.assert_allclose(ours, gae(**plain, gamma=0.9, lam=0.8), atol=1e-5)


def test_errors():
    b = batch(np.random.default_rng(0))
    with pytest.raises(ValueError, match="restart='none': expected one of 'chain', 'cut'"):
        library.marft(**b, restart="none")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_arrays(shape):
    number, flag = np.zeros(shape, np.float32), np.zeros(shape, bool)
    ids = np.zeros(shape[0], int)
    for function in (library.marft, library.marft_by_turn):
        assert function(number, number, flag, flag, number, ids, ids).shape == shape


def by_position(seed=0):
    """(arguments of `marft_by_position`, the same in a dense layout): turns of 1 to 3 tokens."""
    rng = np.random.default_rng(seed)
    streams, turns, width = 6, 4, 5
    mask = np.ones((streams, turns), bool)
    lengths = rng.integers(1, 4, (streams, turns))
    # A row per turn, in any order; the reply begins at position 1 or 2.
    order = rng.permutation(streams * turns)
    stream, number = order // turns, order % turns
    start = rng.integers(1, 3, len(order))
    place = np.arange(width)
    written = (place >= start[:, None]) & (place < (start + lengths[stream, number])[:, None])
    value = rng.normal(size=written.shape).astype(np.float32)
    reward = np.zeros((streams, turns), np.float32)
    reward[:, -1] = np.repeat(rng.normal(size=streams // 2), 2)
    ends = np.zeros_like(mask)
    ends[:, -1] = True
    dense = np.zeros((streams, turns, 3), np.float32)
    there = np.zeros(dense.shape, bool)
    for row, (i, t) in enumerate(zip(stream, number, strict=True)):
        own = value[row, written[row]]
        dense[i, t, : len(own)], there[i, t, : len(own)] = own, True
    episode, role = np.repeat(np.arange(streams // 2), 2), np.tile(np.arange(2), streams // 2)
    shared = {"terminated": ends, "bootstrap": np.zeros_like(reward)}
    ids = {"episode": episode, "role": role}
    turn = np.where(written, number[:, None], -1)
    rows = {"loss_mask": written, "stream": stream, "turn": turn, "token_value": value}
    return reward, mask, shared | ids, rows, (dense, there, order)


def test_tokens_of_a_rollout_are_credited_as_in_the_dense_layout():
    reward, mask, arrays, rows, (dense, there, order) = by_position()
    ours = np.asarray(jax.jit(library.marft_by_position)(reward, mask=mask, **arrays, **rows))
    assert not ours[~rows["loss_mask"]].any()
    # The team's reward is its last agent's.
    once = np.where(arrays["role"][:, None] == 1, reward, 0)
    expected = np.asarray(marft(once, dense, there, **arrays, gamma=0.99, lam=0.95))
    for row, place in enumerate(order):
        own = ours[row, rows["loss_mask"][row]]
        np.testing.assert_allclose(own, expected.reshape(24, 3)[place, : len(own)], atol=1e-5)


def test_one_token_per_turn_is_the_estimator_of_turns():
    reward, mask, arrays, rows, _ = by_position(1)
    first = rows["loss_mask"] & (rows["loss_mask"].cumsum(axis=1) == 1)
    rows = rows | {"loss_mask": first, "turn": np.where(first, rows["turn"], -1)}
    ours = np.asarray(jax.jit(library.marft_by_position)(reward, mask=mask, **arrays, **rows))
    at = rows["stream"], rows["turn"].max(axis=1)
    value = np.zeros(mask.shape, np.float32)
    value[at] = rows["token_value"][first]
    expected = np.asarray(marft_by_turn(reward, value, mask, **arrays))
    np.testing.assert_allclose(ours[first], expected[at], atol=1e-5)
