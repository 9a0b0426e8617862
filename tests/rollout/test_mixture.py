"""Several environments in one rollout: each as if it were alone, put together without mixing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.policies import codec as codecs
from agentrl.rollout.mixture import rows_together, streams_together
from agentrl.streams import Rows, Streams
from envs.text import join

NAMES = ("KuhnPoker-v1", "TicTacToe-v1")


@functools.cache
def bound(opponent="self"):
    made = {name: envs.make(name) for name in NAMES}
    policy = policies.transformer(
        *(env.view for env, _ in made.values()),
        width=8,
        layers=1,
        heads=1,
        kv_heads=1,
        hidden=8,
        constrained=True,
    )
    parts = {
        name: rollout.episodes(
            policy.on(env.view),
            env,
            params,
            rollout.contexts.window(history=0),
            num_groups=4,
            group_size=2,
            opponent=opponent,
            members=2 if opponent == "pool" else None,
        )
        for name, (env, params) in made.items()
    }
    return policy, parts, rollout.several(parts), policy.init(jax.random.key(1))


@functools.cache
def collected():
    """What is put together, and what of."""
    _, parts, _, weights = bound()
    alone, given = [], {}
    for i, (name, part) in enumerate(parts.items()):
        state, key = part.init(jax.random.key(0)), jax.random.key(i)
        out = jax.jit(part.collect)(weights, state, key)
        alone.append(jax.tree.map(np.asarray, out))
        given[name] = part._replace(collect=lambda params, state, key, out=out: out)
    whole = jax.jit(rollout.several(given).collect)(weights, (None, None), jax.random.key(0))
    return jax.tree.map(np.asarray, whole), alone


def test_each_environment_is_as_if_alone():
    policy, _, together, weights = bound()
    (_, streams, rows, metrics), alone = collected()
    assert together.tasks == NAMES and together.roles == 2
    assert streams.mask.shape == (together.num_streams, together.turns)
    assert rows.tokens.shape[0] == together.num_rows
    first = first_row = 0
    for task, (name, (_, s, r, m)) in enumerate(zip(NAMES, alone, strict=True)):
        own = slice(first, first + s.mask.shape[0])
        assert (streams.task[own] == task).all()
        np.testing.assert_array_equal(streams.group[own], s.group + first)
        np.testing.assert_array_equal(streams.episode[own], s.episode + first)
        for field in ("reward", "mask", "anchor", "terminated", "success", "cost"):
            whole, part = getattr(streams, field)[own], getattr(s, field)
            np.testing.assert_array_equal(whole[:, : part.shape[1]], part)
            assert not whole[:, part.shape[1] :].any()
        mine = slice(first_row, first_row + r.tokens.shape[0])
        np.testing.assert_array_equal(rows.stream[mine], r.stream + first)
        for field in ("tokens", "loss_mask", "turn", "behaviour_logp", "span", "legal"):
            whole, part = getattr(rows, field)[mine], getattr(r, field)
            np.testing.assert_array_equal(whole[:, : part.shape[1]], part)
        first, first_row = own.stop, mine.stop
        for metric, value in m.items():
            np.testing.assert_array_equal(metrics[f"{name}/{metric}"], value)
    # Nobody shares a group or an episode with another environment.
    for field in ("group", "episode"):
        ids = getattr(streams, field)
        assert not set(ids[streams.task == 0]) & set(ids[streams.task == 1])
    scored = jax.jit(policy.score)(weights, rows)
    mask = rows.loss_mask
    np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)
    assert np.isfinite(scored.entropy).all()


def test_metrics_of_all_are_weighted_means_and_counts_add_up():
    (_, _, _, metrics), alone = collected()
    for name in ("episode_return", "invalid_action_rate", "response_length", "win_rate/0/self"):
        np.testing.assert_allclose(metrics[name], sum(m[name] for *_, m in alone), rtol=1e-6)
    for name in ("tokens", "episodes"):
        assert metrics[name][0] == sum(m[name][0] for *_, m in alone) and metrics[name][1] == 1
    # Kuhn's matches have fewer turns: it says nothing of the eighth.
    np.testing.assert_array_equal(metrics["entropy/turn_8"], alone[1][3]["entropy/turn_8"])


def test_members_of_a_pool_play_every_game():
    _, parts, together, weights = bound("pool")
    members = jax.tree.map(lambda x: jnp.stack([x, x]), weights)
    state = together.init(jax.random.key(0))
    shapes = jax.eval_shape(
        lambda *args: together.collect(*args, opponents=members), weights, state, jax.random.key(0)
    )
    assert shapes[1].mask.shape == (together.num_streams, together.turns)
    assert {f"{name}/win_rate/1/pool" for name in NAMES} <= set(shapes[3])
    assert together.slots.members == 2
    one = parts[NAMES[0]].slots.of_match()
    np.testing.assert_array_equal(together.slots.of_match(), [*one, *one])
    lonely = parts[NAMES[1]]._replace(agents=3)
    with pytest.raises(ValueError, match="expected as many seats in all of them"):
        rollout.several({**parts, NAMES[1]: lonely})


def test_one_agent_beside_two_has_role_nought_and_what_one_lacks_is_left_out():
    def part(count, turns, **fields):
        reward = jnp.full((count, turns), 1.0)
        return Streams(reward=reward, mask=reward > 0, group=jnp.arange(count) // 2, **fields)

    one = part(2, 3, value=jnp.ones((2, 3)))
    two = part(4, 2, role=jnp.array([0, 1, 0, 1]), task=jnp.zeros(4, jnp.int32))
    both = streams_together([one, two])
    np.testing.assert_array_equal(both.task, [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(both.role, [0, 0, 0, 1, 0, 1])
    np.testing.assert_array_equal(both.group, [0, 0, 2, 2, 3, 3])
    np.testing.assert_array_equal(both.mask.sum(axis=1), [3, 3, 2, 2, 2, 2])
    assert both.value is None and both.episode is None
    calls = [part(2, 2, parent=jnp.array([-1, 0])), part(2, 2, parent=jnp.array([1, -1]))]
    np.testing.assert_array_equal(streams_together(calls).parent, [-1, 0, 3, -1])


def test_padding_is_never_trained_and_belongs_to_no_turn():
    def part(count, length):
        ones = jnp.ones((count, length), jnp.int32)
        return Rows(
            tokens=ones,
            loss_mask=ones > 0,
            stream=jnp.arange(count),
            turn=0 * ones,
            behaviour_logp=-1.0 * ones,
            span=ones,
            legal=jnp.zeros((count, length, 3), bool),
        )

    streams = [Streams(reward=jnp.zeros((n, 1)), mask=jnp.ones((n, 1), bool)) for n in (3, 2)]
    rows = rows_together([part(3, 2), part(2, 4)], streams)
    np.testing.assert_array_equal(rows.stream, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(rows.loss_mask.sum(axis=1), [2, 2, 2, 4, 4])
    assert (rows.turn[:3, 2:] == -1).all() and (rows.span[:3, 2:] == -1).all()
    assert rows.legal[:3, 2:].all() and not rows.legal[:3, :2].any()


def test_one_vocabulary_for_many_lexicons():
    views = [envs.make(name)[0].view for name in (*NAMES, "FrozenLake-v1")]
    texts = codecs.vocabulary(*views)
    assert len(set(texts)) == len(texts) and "" not in texts
    assert set(texts) >= {text for view in views for text in view.lexicon if text}
    together = [codecs.word(view, texts) for view in views]
    for view, codec in zip(views, together, strict=True):
        np.testing.assert_array_equal(codec.token_bytes, together[0].token_bytes)
        for number, text in list(enumerate(view.lexicon))[1:]:
            assert codecs.decode(codec, codec.fragments[number, :1]) == text
            assert text == join(view.lexicon, [number])
    # The first view's words come first, as they do without the others.
    alone = codecs.word(views[0], codecs.vocabulary(views[0]))
    np.testing.assert_array_equal(codecs.word(views[0]).fragments, alone.fragments)
    with pytest.raises(ValueError, match="codec 'word' has no token for .*see config.lexicon"):
        codecs.word(views[1], codecs.vocabulary(views[0]))
