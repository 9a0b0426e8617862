"""The information gain of turns in SearchQA: the belief in the answer, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import talk_config

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.config.build import build
from agentrl.methods.igpo import answer_rows, information_gain
from agentrl.streams import Rows


def config_of(**options):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0)
    config.env = env_section("SearchQA-v1", objectives=1, entities=20, relations=4, max_hops=1)
    config.rollout = section(rollout.episodes, num_groups=4, group_size=2)
    config.policy.constrained = True
    config.components.information_gain = section(information_gain, **options)
    config.advantage = section(advantages.igpo)
    config.objective.kl.weight = 0.0
    return config


def test_answers_stand_in_the_place_of_replies():
    tokens = jnp.array([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 0, 0]])
    mask = jnp.array([[False, True, True, False, True, True], [False, True, True] + [False] * 3])
    turn = jnp.array([[0, 0, 0, 2, 2, 2], [1, 1, 1, -1, -1, -1]])
    rows = Rows(tokens, mask, jnp.array([1, 0]), turn, jnp.zeros((2, 6)))
    answer, length = jnp.array([[20, 21, 0], [30, 31, 32]]), jnp.array([2, 3])
    asked, known = answer_rows(rows, answer, length, (2, 3))
    np.testing.assert_array_equal(known, [[False, True, False], [True, False, False]])
    np.testing.assert_array_equal(asked.tokens[1], [7, 20, 21, 0, 0, 0])
    np.testing.assert_array_equal(asked.loss_mask[1], [False, True, True] + [False] * 3)
    np.testing.assert_array_equal(asked.tokens[3], [1, 30, 31, 32, 0, 0])
    # Turn 2 of stream 1 has no room for three tokens behind the first four.
    assert not asked.loss_mask[5].any()


@pytest.mark.parametrize("context", ["whole", "window"])
def test_beliefs_are_those_of_rows_written_by_hand(context):
    config = config_of()
    if context == "window":
        config.context = section(rollout.contexts.window, history=1)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["rollout"]
    streams, rows, notes = batch.streams, batch.rows, batch.notes
    env, policy = experiment.env, experiment.policy
    score, rows = jax.jit(policy.score), jax.tree.map(np.asarray, rows)
    mask = np.asarray(streams.mask)
    assert mask[:, 1:].any()
    answer = jax.jit(jax.vmap(lambda s: env.reference_answer(s, experiment.env_params)))
    names = [env.action_names[i] for i in answer(streams.first_state)]
    beliefs = np.zeros(mask.shape)
    shown, codec = np.asarray(rows.tokens), policy.codec
    texts = [
        bytes(data[:count])
        for data, count in zip(codec.token_bytes, codec.token_lengths, strict=True)
    ]
    for n, t in zip(*np.nonzero(mask), strict=True):
        own = np.asarray(rows.loss_mask & (rows.turn == t) & (rows.stream == n)[:, None])
        ((row, place),) = np.argwhere(own)[:1]
        name = names[n].split()[1].encode()
        tokens = np.zeros((1, shown.shape[1]), np.int32)
        tokens[0, :place] = shown[row, :place]
        tokens[0, place : place + 2] = texts.index(b"answer "), texts.index(name)
        alone = {k: getattr(rows, k)[row : row + 1] for k in ("loss_mask", "turn", "role")}
        one = rows.replace(tokens=tokens, stream=rows.stream[row : row + 1], legal=None, **alone)
        beliefs[n, t] = score(state.params, one).logp[0, place + 1]
    np.testing.assert_allclose(notes["answer_belief"].values, beliefs, atol=1e-4)
    gain = np.asarray(notes["information_gain"].values)
    for n in range(mask.shape[0]):
        acted = np.flatnonzero(mask[n])
        np.testing.assert_allclose(gain[n].sum(), beliefs[n, acted[-1]] - beliefs[n, 0], atol=1e-4)
