"""Members of a pool: whom each match meets, that they move, and that only the policy learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from agentrl import policies, rollout
from agentrl.rollout.seating import make_slots

GROUPS, MEMBERS = 8, 2
PASSIVE, AGGRESSIVE = ("check", "fold"), ("bet", "call")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(2, 3))
def test_slots_share_out_seats_and_keep_groups_whole(blocks, members, group_size, seats):
    groups = blocks * members * seats
    slots = make_slots("pool", members, groups, group_size, seats)
    match = np.arange(groups * group_size)
    slot = slots.of_match()
    assert slot.shape == match.shape
    group, seat = match // group_size, match % seats
    for g in range(groups):
        assert len(set(slot[group == g])) == 1
    counts = np.zeros((members, seats))
    np.add.at(counts, (slot, seat), 1)
    assert (counts == counts[0, 0]).all()
    cut = slots.split({"slot": slot, "match": match[:, None]})
    np.testing.assert_array_equal(cut["slot"], np.arange(members)[:, None] + 0 * cut["slot"])
    np.testing.assert_array_equal(slots.merge(cut)["match"][:, 0], match)


@functools.cache
def bound(words, opponent="pool"):
    env, params = envs.make("KuhnPoker-v1", max_steps_in_episode=3)
    sizes = {"num_groups": GROUPS, "group_size": 4, "opponent": opponent}
    if opponent == "pool":
        sizes["members"] = MEMBERS
    if words:
        policy = policies.transformer(
            env.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8, constrained=True
        )
        return policy, rollout.episodes(policy, env, params, rollout.contexts.window(), **sizes)
    policy = policies.mlp(
        env.observation_shape, env.num_codes, env.num_actions, hidden=(4,), critic="none"
    )
    return policy, rollout.episodes(policy, env, params, **sizes, mask_illegal=True)


def always(policy, words):
    """Parameters that say one of these words whenever it is legal, whatever they read."""
    params = policy.init(jax.random.key(0))
    env, _ = envs.make("KuhnPoker-v1")
    if isinstance(policy, policies.LanguagePolicy):
        # What is read goes through no layer, and its norm hides which token was the last.
        table = jnp.zeros_like(params["embed_tokens"]["weight"]).at[:, 0].set(1.0)
        for word in words:
            token = policy.codec.fragments[env.view.lexicon.index(word), 0]
            table = table.at[token, 0].set(2.0)
        return {
            **params,
            "embed_tokens": {"weight": table},
            "layers": jax.tree.map(jnp.zeros_like, params["layers"]),
            "norm": {"weight": 20 * jnp.ones_like(params["norm"]["weight"])},
        }
    params = jax.tree.map(jnp.zeros_like, params)
    # The array policy's actions are to pass and to bet.
    bias = [100.0 * (words == PASSIVE), 100.0 * (words == AGGRESSIVE)]
    params["Dense_0"]["bias"] = jnp.array(bias)
    return params


@functools.cache
def collect(words, opponent="pool"):
    return jax.jit(bound(words, opponent)[1].collect)


def collected(words, mine, theirs, seed=0, opponent="pool"):
    policy, made = bound(words, opponent)
    members = None
    if theirs is not None:
        members = jax.tree.map(lambda *x: jnp.stack(x), *theirs)
    state = made.init(jax.random.key(0))
    _, *out = collect(words, opponent)(mine, state, jax.random.key(seed), opponents=members)
    return jax.tree.map(np.asarray, out)


@pytest.mark.parametrize("words", [False, pytest.param(True, marks=pytest.mark.long)])
def test_each_slot_meets_its_member_in_both_seats(words):
    """Who always bets and calls wins the ante from who always checks and folds, and plays for two
    with its like."""
    policy, made = bound(words)
    bold, meek = always(policy, AGGRESSIVE), always(policy, PASSIVE)
    streams, rows, metrics = collected(words, bold, [meek, bold])
    match = np.arange(GROUPS * 4)
    own = match * 2 + match % 2
    slot = made.slots.of_match()
    total = streams.reward.sum(axis=1)
    np.testing.assert_array_equal(total[own[slot == 0]], 1)
    assert set(total[own[slot == 1]]) == {-2, 2}
    # Streams of members hold no turn, and no row of theirs is trained.
    others = np.setdiff1d(np.arange(len(total)), own)
    assert streams.mask[own].any(axis=1).all() and not streams.mask[others].any()
    assert not total[others].any()
    trained = rows.loss_mask.any(axis=1)
    assert trained.sum() == streams.mask.sum()
    assert set(rows.stream[trained]) <= set(own)
    scored = policy.score(bold, rows)
    np.testing.assert_allclose(
        scored.logp[rows.loss_mask], rows.behaviour_logp[rows.loss_mask], atol=1e-5
    )
    for seat in range(2):
        assert metrics[f"win_rate/{seat}/pool"][1] == GROUPS * 4 / 2
    assert metrics["invalid_end_rate"][0] == metrics["draw_rate"][0] == 0


@pytest.mark.long
def test_members_are_what_is_trained_on_weights_that_are_there_once():
    """Adapters on the policy's own weights play as the whole parameters do."""
    env, params = envs.make("KuhnPoker-v1", max_steps_in_episode=3)
    policy = policies.transformer(
        env.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8, lora_rank=1, constrained=True
    )

    def play(policy, weights, members):
        sizes = {"num_groups": 4, "group_size": 1, "opponent": "pool", "members": 2}
        made = rollout.episodes(policy, env, params, rollout.contexts.window(), **sizes)
        return jax.jit(made.collect)(
            weights, made.init(None), jax.random.key(1), opponents=members
        )[1:]

    weights = policy.init(jax.random.key(0))
    keys = iter(jax.random.split(jax.random.key(3), 99))
    members = jax.tree.map(
        lambda x: 9 * jax.random.normal(next(keys), (2, *x.shape)), {"lora": weights["lora"]}
    )
    ours = play(policy, weights, members)
    wholes = jax.tree.map(
        lambda x: jnp.stack([x, x]), {n: x for n, x in weights.items() if n != "lora"}
    )
    theirs = play(policy._replace(frozen=()), weights, wholes | members)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("words", [False, True])
def test_a_member_matters_to_its_own_slot_alone(words):
    policy, made = bound(words)
    a, b, c = (policy.init(jax.random.key(i)) for i in range(3))
    b, c = (jax.tree.map(lambda x: 300 * x, p) for p in (b, c))
    first, second = collected(words, a, [a, b])[0], collected(words, a, [a, c])[0]
    same = np.repeat(made.slots.of_match() == 0, 2)
    np.testing.assert_array_equal(first.reward[same], second.reward[same])
    np.testing.assert_array_equal(first.anchor[same], second.anchor[same])
    assert (first.reward[~same] != second.reward[~same]).any()


@pytest.mark.parametrize("words", [False, True])
def test_uniform_play_earns_what_it_should(words):
    """The first seat's value of uniform play is 1/8 (as computed exactly by OpenSpiel), against
    members and random play, for arrays and for words."""
    policy, _ = bound(words)
    uniform = always(policy, ())
    for opponent in ("pool", "random"):
        members = [uniform] * MEMBERS if opponent == "pool" else None
        totals = []
        for seed in range(30):
            streams, *_ = collected(words, uniform, members, seed, opponent)
            plays = streams.mask.any(axis=1)
            gain = streams.reward.sum(axis=1) * np.where(streams.role == 0, 1, -1)
            totals.append(gain[plays])
        totals = np.concatenate(totals)
        error = 4 * totals.std() / np.sqrt(len(totals))
        assert abs(totals.mean() - 1 / 8) < error < 0.2, opponent


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "pool", "members": 3}, "expected a multiple of members \\* 2 seats"),
        ({"opponent": "random", "members": 2}, "which is no pool"),
        (
            {"opponent": "them"},
            "no player 'them'; expected one of random, .* 'self' or 'pool'",
        ),
    ],
)
def test_what_does_not_fit_is_said(options, message):
    env, params = envs.make("KuhnPoker-v1")
    policy, _ = bound(True)
    with pytest.raises(ValueError, match=message):
        rollout.episodes(policy, env, params, rollout.contexts.window(), num_groups=8, **options)


def test_a_reply_is_one_move():
    env, params = envs.make("KuhnPoker-v1")
    policy = policies.transformer(
        env.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8, grammar="answer", max_actions=2
    )
    with pytest.raises(ValueError, match="max_actions=2 .* reply is one agent's one move"):
        rollout.episodes(policy, env, params, rollout.contexts.window())


def test_one_agent_has_no_opponents():
    env, params = envs.make("FrozenLake-v1")
    policy = policies.transformer(env.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8)
    with pytest.raises(ValueError, match="which has one agent: leave them out"):
        rollout.episodes(policy, env, params, rollout.contexts.whole(), opponent="random")
