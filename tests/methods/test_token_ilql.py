"""ILQL over tokens: targets by hand, where its losses read, and what its weights are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from experiments import lake

from agentrl import losses, policies, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.token_ilql import (
    Networks,
    Turns,
    of_tokens,
    reply_of,
    token_ilql,
    token_losses,
)
from agentrl.streams import Rows

WORDS, SIZE = 11, 3
NETWORKS = Networks.of(WORDS, 8, 1)
OPTIONS = {"gamma": 0.9, "expectile": 0.7, "conservative": 0.1}


def rows_of(lengths, replies, key, size=9):
    """Rows of random tokens: prompts and replies of these lengths."""
    rng = np.random.default_rng(key)
    place = np.arange(size)
    begin, end = np.int32(lengths)[:, None], np.int32(lengths)[:, None] + np.int32(replies)[:, None]
    tokens = np.where(place < end, rng.integers(1, WORDS, (len(lengths), size)), 0)
    return Rows(
        tokens=jnp.asarray(tokens, jnp.int32),
        loss_mask=jnp.asarray((place >= begin) & (place < end)),
        stream=jnp.arange(len(lengths)),
        turn=jnp.zeros((len(lengths), size), jnp.int32),
        behaviour_logp=jnp.zeros((len(lengths), size)),
    )


# Four turns: one goes on, one ends by a rule, one is cut by a limit, one has one token.
DRAWN = Turns(
    rows=rows_of([3, 2, 4, 5], [3, 2, 2, 1], 0),
    following=rows_of([2, 3, 3, 4], [2, 3, 3, 3], 1),
    reward=jnp.array([0.5, 1.0, 0.25, -1.0]),
    over=jnp.array([False, True, False, False]),
    follows=jnp.array([True, False, False, True]),
)


def parameters(seed):
    return NETWORKS.init(jax.random.key(seed))


def by_hand(turns, params, slow):
    """(loss of Q, of V), in loops, from what the networks say of each prefix alone."""

    def told(weights, tokens):
        row = Rows(jnp.asarray(tokens, jnp.int32)[None], None, jnp.zeros(1), None, None)
        reply = reply_of(rows_of([len(tokens)], [0], 0), SIZE)._replace(
            begin=jnp.array([len(tokens)]), inside=jnp.ones((1, 1), bool)
        )
        q, v = NETWORKS.told(weights, row, reply)
        return np.asarray(q[0, 0]), float(v[0, 0])

    of_q, of_v, tokens_q, tokens_v = 0.0, 0.0, 0, 0
    for n in range(4):
        mask = np.asarray(turns.rows.loss_mask[n])
        places, row = np.flatnonzero(mask), np.asarray(turns.rows.tokens[n])
        ahead = np.flatnonzero(np.asarray(turns.following.loss_mask[n]))[0]
        prompt = np.asarray(turns.following.tokens[n])[:ahead]
        for place in places:
            q, v = told(params, row[:place])
            slow_q, _ = told(slow, row[:place])
            error = slow_q[:, row[place]].min() - v
            of_v += 0.5 * (0.7 if error >= 0 else 0.3) * error**2
            tokens_v += 1
            if place < places[-1]:
                target = 0.9 * told(slow, row[: place + 1])[1]
            elif turns.over[n]:
                target = float(turns.reward[n])
            elif turns.follows[n]:
                target = float(turns.reward[n]) + 0.9 * told(slow, prompt)[1]
            else:
                continue
            for twin in (0, 1):
                others = q[twin] - q[twin].max()
                away = np.log(np.exp(others).sum()) - others[row[place]]
                of_q += 0.5 * (q[twin, row[place]] - target) ** 2 + 0.1 * away
            tokens_q += 1
    assert (tokens_q, tokens_v) == (7, 8)
    return of_q / tokens_q, of_v / tokens_v


def test_the_losses_are_those_of_plain_loops():
    params, slow = parameters(0), parameters(1)
    ours = jax.jit(lambda *given: token_losses(NETWORKS, *given, DRAWN, SIZE, **OPTIONS))
    np.testing.assert_allclose(ours(params, slow), by_hand(DRAWN, params, slow), rtol=1e-4)


def test_targets_have_no_gradient_and_padding_is_not_read():
    params, slow = parameters(0), parameters(1)

    def total(params, slow, turns):
        return sum(token_losses(NETWORKS, params, slow, turns, SIZE, **OPTIONS))

    grad = jax.jit(jax.grad(total, argnums=(0, 1)))
    own, other = grad(params, slow, DRAWN)
    assert all(np.asarray(x).any() for x in jax.tree.leaves((own["q"], own["v"])))
    assert not any(np.asarray(x).any() for x in jax.tree.leaves(other))
    # What stands behind a reply, the row that follows an end, and the reply of the next turn.
    rows, following = DRAWN.rows, DRAWN.following
    behind = np.cumsum(np.asarray(rows.loss_mask)[:, ::-1], axis=1)[:, ::-1] == 0
    behind &= np.arange(9) > 1
    read = np.cumsum(np.asarray(following.loss_mask), axis=1) == 0
    read &= np.asarray(DRAWN.follows)[:, None]
    poisoned = DRAWN._replace(
        rows=rows.replace(tokens=jnp.where(behind, 7, rows.tokens)),
        following=following.replace(tokens=jnp.where(read, following.tokens, 7)),
    )
    jax.tree.map(np.testing.assert_array_equal, (own, other), grad(params, slow, poisoned))


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.policy = section(
        policies.transformer, width=16, layers=1, heads=2, kv_heads=1, hidden=16
    )
    config.context = section(rollout.contexts.window, history=0)
    config.components.token_ilql = section(
        token_ilql,
        **{"expert": 2, "random": 2, "mixed": 4, "hidden": 8, "layers": 1, "rows": 8, "batch": 16}
        | options,
    )
    config.objective.policy.weight = 0.0
    config.objective.offline = term(losses.weighted_imitation, source="token_ilql")
    return config


@functools.cache
def run():
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    return experiment, experiment.components["token_ilql"], state


def test_weights_are_of_tokens_and_nothing_is_played():
    experiment, component, state = run()
    assert not experiment.phases[-1][0].collects
    value = state.carry["token_ilql"]
    make = jax.jit(lambda value, key: component.source.make(context(value, key=key), {})[1])
    rows = make(value, jax.random.key(1))
    assert rows.loss_mask.any(axis=1).all()
    note = component.annotate(context(value), None, rows)["imitation_weight"].values
    networks = Networks.of(experiment.policy.config.vocab_size, 8, 1)
    reply = reply_of(rows, rows.tokens.shape[1])
    q, _ = networks.told(value.slow, rows, reply)
    _, v = networks.told(value.params, rows, reply)
    low = jnp.min(of_tokens(q, reply.tokens), axis=2)
    expected = np.minimum(np.exp(3.0 * np.asarray(low - v)), 100.0)[np.asarray(reply.inside)]
    np.testing.assert_allclose(np.asarray(note)[np.asarray(rows.loss_mask)], expected, rtol=1e-4)
    assert not np.asarray(note)[~np.asarray(rows.loss_mask)].any()
    # The next turn of a transition is that of its own episode.
    data = jax.device_get(value.data)
    ends = data.acted & (data.over | ~np.append(data.acted[1:], False))
    assert ends.reshape(-1, 4).sum(axis=1).max() == 1


def test_v_of_a_decided_game_goes_to_what_it_pays():
    """Every reply is followed by the same end: V of the tokens is the discounted reward."""
    turns = DRAWN._replace(over=jnp.ones(4, bool), reward=jnp.ones(4))
    params = slow = parameters(2)
    loss_of = lambda p, s: sum(  # noqa: E731
        token_losses(NETWORKS, p, s, turns, SIZE, gamma=0.5, expectile=0.5, conservative=0.0)
    )

    @jax.jit
    def step(_, both):
        params, slow = both
        grads = jax.grad(loss_of)(params, slow)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return params, jax.tree.map(lambda s, p: 0.9 * s + 0.1 * p, slow, params)

    params, slow = jax.lax.fori_loop(0, 1500, step, (params, slow))
    reply = reply_of(turns.rows, SIZE)
    _, value = NETWORKS.told(params, turns.rows, reply)
    left = np.cumsum(np.asarray(reply.inside)[:, ::-1], axis=1)[:, ::-1]
    expected = np.where(reply.inside, 0.5 ** (left - 1.0), 0)
    np.testing.assert_allclose(np.where(reply.inside, value, 0), expected, atol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 6}, "hidden=6: expected a multiple of 4"),
        ({"expert": 0, "random": 0, "mixed": 0}, "token_ilql: a data set of no episodes"),
        ({"noise": ()}, "token_ilql.mixed=4 with noise=()"),
    ],
)
def test_what_it_does_not_fit(options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        build(config_of(**options))
