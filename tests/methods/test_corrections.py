"""Corrected episodes: which turns are trained, and what a masked turn still does."""

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
from experiments import train_and_resume
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.corrections import corrections, trained_turns
from agentrl.methods.teaching import Lesson
from agentrl.streams import Streams


def config_of(**options):
    config = talk_config(log_every=1, warm_start__updates=0)
    # A second look at a place is no end of the episode.
    config.env.update(slippery=False, max_steps_in_episode=8)
    config.objective.policy.weight = 0.0
    config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    config.components.corrections = section(corrections, **({"episodes": 16} | options))
    config.objective.imitation = term(losses.behaviour_cloning, source="corrections", during="rl")
    return config


def test_the_turns_that_are_trained():
    """Turns: right, wrong, right (a correction), right; and one whose error is the last turn."""
    mask = jnp.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    right = jnp.array([[1, 0, 1, 1], [1, 0, 1, 1]], bool)  # padding says anything
    success = jnp.array([[0, 0, 0, 1], [0, 0, 1, 0]], bool)
    lesson = Lesson(
        Streams(reward=mask * 0.0, mask=mask, success=success), None, right, mask, mask * 0.0
    )
    for turns, solved, least, expected in (
        ("right", True, 0, [[1, 0, 1, 1], [0, 0, 0, 0]]),
        ("right", False, 0, [[1, 0, 1, 1], [1, 0, 0, 0]]),
        ("right", False, 1, [[1, 0, 1, 1], [0, 0, 0, 0]]),
        ("right", True, 2, [[0] * 4] * 2),
        ("corrections", False, 0, [[0, 0, 1, 0], [0, 0, 0, 0]]),
        ("all", False, 0, mask),
    ):
        got = trained_turns(lesson, turns, solved, least)
        np.testing.assert_array_equal(got, np.array(expected, bool), err_msg=f"{turns} {solved}")


def test_a_masked_turn_is_read_and_not_trained():
    """Of the policy's own first episodes: the loss has no gradient to the logits of wrong turns,
    and later turns depend on them."""
    config = config_of(errors=0.3, solved=False)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup = own_pieces.SETUPS.pop()
    component = experiment.components["corrections"]
    state = jax.jit(experiment.init)(0)
    from agentrl.learner.component import Context

    context = Context(setup, (), state.params, jax.random.key(7))
    streams, rows = jax.jit(lambda key: component.source.make(context._replace(key=key), {}))(
        context.key
    )
    replies = np.asarray(rows.span) == 1
    acted = np.asarray(streams.mask)[:, :, None] & True
    assert acted.any()
    masked = replies & ~np.asarray(rows.loss_mask)
    r, at = np.argwhere(masked)[0]
    later = np.flatnonzero(np.asarray(rows.loss_mask[r]) & (np.arange(masked.shape[1]) > at))
    assert len(later)
    score = jax.jit(lambda rows: setup.policy.score(state.params, rows).logp)
    other = rows.replace(tokens=rows.tokens.at[r, at].add(1))
    before, after = np.asarray(score(rows))[r], np.asarray(score(other))[r]
    assert np.abs(before[later] - after[later]).max() > 1e-6

    def loss(logp):
        return jnp.sum(losses.behaviour_cloning(logp, rows.loss_mask))

    slope = np.asarray(jax.grad(loss)(score(rows)))
    assert (slope[masked] == 0).all() and (slope[np.asarray(rows.loss_mask)] == -1).all()


def test_it_learns_resumes_and_is_traced_once(tmp_path):
    _, _, metrics = train_and_resume(config_of(pupil="policy", errors=0.1), tmp_path)
    assert all(np.isfinite(told["loss/imitation"]) for told in metrics)
