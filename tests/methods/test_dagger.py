"""DAgger: labels at the policy's own states, the ring of rounds, what it reduces to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from by_hand import context
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.dagger import chosen, dagger
from agentrl.methods.ring import drawn, empty, put, usable
from agentrl.methods.teaching import Chances, Lesson, classroom, expert_teacher
from agentrl.streams import Rows, Streams


def learns_from_labels(config, **options):
    config.objective.policy.weight = 0.0
    config.objective.kl.weight = 0.0
    config.components.dagger = section(dagger, **({"episodes": 4, "size": 64} | options))
    config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
    return config


def arrays(**options):
    return learns_from_labels(lake(), **options)


def words(context_of=None, **options):
    config = talk_config(log_every=1, warm_start__updates=0)
    config.env.slippery = False
    config.context = section(context_of or rollout.contexts.whole)
    config.learner.minibatches = 1
    return learns_from_labels(config, **({"size": 16, "rows": 8} | options))


@functools.cache
def room_of(kind):
    """(the setup, a classroom of labels, parameters) of arrays or of words in whole episodes."""
    config = {"arrays": arrays, "words": words}[kind]()
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup = own_pieces.SETUPS.pop()
    room = classroom(setup, "dagger", expert_teacher(), labels=True)
    return setup, room, experiment.policy.init(jax.random.key(1))


def rows_of(name, count=6, length=2):
    zeros = jnp.zeros((count, length), jnp.int32)
    mask = jnp.ones((count, length), bool)
    return Rows(name + jnp.arange(count)[:, None] + zeros, mask, zeros[:, 0], zeros, zeros * 1.0)


def ring(size=4):
    return empty(rows_of(0), size)


def test_a_ring_of_rounds():
    """Four places: rows 0 1 2 of a round, of which 1 has nothing to learn from; then 10 11 12."""
    first = rows_of(0, 3)
    first = first.replace(loss_mask=first.loss_mask.at[1].set(False))
    one = put(ring(), first)
    np.testing.assert_array_equal(one.rows.tokens[:, 0], [0, 2, 0, 0])
    np.testing.assert_array_equal(one.since, [0, 0, -1, -1])
    two = put(one, rows_of(10, 3))
    np.testing.assert_array_equal(two.rows.tokens[:, 0], [12, 2, 10, 11])
    np.testing.assert_array_equal(two.since, [1, 0, 1, 1])
    np.testing.assert_array_equal(usable(two, 0), [True] * 4)
    np.testing.assert_array_equal(usable(two, 1), [True, False, True, True])
    # Of more rows than places the first are kept.
    three = put(two, rows_of(20, 6))
    np.testing.assert_array_equal(np.sort(three.rows.tokens[:, 0]), [20, 21, 22, 23])
    # Only what can be used is drawn, and what is drawn counts.
    rows = drawn(one, usable(one, 0), 32, jax.random.key(0))
    assert rows.loss_mask.all() and set(np.unique(rows.tokens)) == {0, 2}
    np.testing.assert_array_equal(drawn(one, usable(one, 0), 0, None).loss_mask[:, 0], [1, 1, 0, 0])
    assert not drawn(ring(), usable(ring(), 0), 8, jax.random.key(0)).loss_mask.any()


def test_which_labels_are_kept_and_paid_for():
    mask = jnp.array([[1, 1, 1], [1, 1, 0]], bool)
    right = jnp.array([[1, 0, 1], [0, 1, 0]], bool)
    success = jnp.array([[0, 0, 1], [0, 0, 1]], bool)  # the last is padding
    streams = Streams(reward=mask * 0.0, mask=mask, success=success)
    lesson = Lesson(streams, None, right, mask & False, mask * 0.0)
    for keep, left, kept, asked in (
        ("all", None, mask, mask),
        ("all", 4, [[1, 1, 1], [1, 0, 0]], [[1, 1, 1], [1, 0, 0]]),
        ("failures", None, [[0, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 0]]),
        ("disagreements", None, [[0, 1, 0], [1, 0, 0]], mask),
        ("all", 0, mask & False, mask & False),
    ):
        got = chosen(lesson, keep, None if left is None else jnp.int32(left))
        np.testing.assert_array_equal(got[0], np.array(kept, bool), err_msg=f"{keep} {left}")
        np.testing.assert_array_equal(got[1], np.array(asked, bool), err_msg=f"{keep} {left}")


@pytest.mark.parametrize("kind", ["arrays", "words"])
def test_where_the_teacher_leads_it_is_behaviour_cloning(kind):
    """The same episodes as the expert's, the same labels bitwise; in words a row per turn, whose
    tokens are those of the episode up to its reply."""
    setup, room, params = room_of(kind)
    keys, key = jax.random.split(jax.random.key(3), 4), jax.random.key(4)
    lesson = jax.jit(room.play)(params, keys, key, Chances(leads=1.0))
    streams, rows = jax.jit(setup.rollout.demonstrate)(keys, key)
    for name in ("mask", "reward", "terminated", "truncated", "success"):
        np.testing.assert_array_equal(getattr(lesson.streams, name), getattr(streams, name))
    assert lesson.right[streams.mask].all() and lesson.led[streams.mask].all()
    if kind == "arrays":
        jax.tree.map(np.testing.assert_array_equal, lesson.rows, rows)
        return
    of_turn = np.asarray(lesson.rows.loss_mask)
    assert of_turn.any(axis=1).sum() == streams.mask.sum()
    for r in np.flatnonzero(of_turn.any(axis=1)):
        stop = 1 + np.flatnonzero(of_turn[r])[-1]
        episode = int(lesson.rows.stream[r])
        np.testing.assert_array_equal(lesson.rows.tokens[r, :stop], rows.tokens[episode, :stop])
        turn = int(lesson.rows.turn[r, stop - 1])
        whole = np.asarray(rows.loss_mask[episode]) & (np.asarray(rows.turn[episode]) == turn)
        np.testing.assert_array_equal(np.flatnonzero(of_turn[r]), np.flatnonzero(whole))


@pytest.mark.parametrize("kind", ["arrays", "words"])
def test_labels_are_the_teachers_in_the_policys_states(kind):
    """The policy's episodes are those of the rollout's own kind: the label is what the expert does
    in the state, and where it differs from what was done the episode goes on with what was done."""
    setup, room, params = room_of(kind)
    keys, key = jax.random.split(jax.random.key(5), 16), jax.random.key(6)
    play = jax.jit(room.play)
    lesson = play(params, keys, key, Chances())
    mask = np.asarray(lesson.streams.mask)
    assert not lesson.led.any()
    right = np.asarray(lesson.right)
    assert 0 < right[mask].mean() < 1
    done = classroom(setup, "dagger", expert_teacher(), labels=False)
    if kind == "arrays":
        acted = jax.jit(done.play)(params, keys, key, Chances())
        np.testing.assert_array_equal(acted.streams.mask, mask)
        same = np.asarray(acted.rows.tokens == lesson.rows.tokens)[:, 0]
        there = np.asarray(lesson.rows.loss_mask)[:, 0]
        turn, stream = np.asarray(lesson.rows.turn)[:, 0], np.asarray(lesson.rows.stream)
        np.testing.assert_array_equal(same[there], right[stream, turn][there])
    # A mixture: after a wrong turn the teacher leads as often as after another one.
    mixed = play(params, keys, key, Chances(leads=0.5))
    follows = np.asarray(mixed.streams.mask)[:, 1:]
    after_wrong = np.asarray(mixed.streams.mask & ~mixed.right)[:, :-1] & follows
    assert 0 < np.asarray(mixed.led)[:, 1:][after_wrong].mean() < 1
    # A wrong turn is made up for by the teacher in the next one, and by it alone.
    fixed = play(params, keys, key, Chances(corrects=1.0))
    wrong = np.asarray(fixed.streams.mask & ~fixed.right)[:, :-1]
    follows = np.asarray(fixed.streams.mask)[:, 1:]
    np.testing.assert_array_equal(np.asarray(fixed.led)[:, 1:], wrong & follows)


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_it_learns_resumes_and_is_traced_once(kind, tmp_path):
    config = {"arrays": arrays, "words": words}[kind](rows=16, labels=40, every=2)
    _, states, metrics = train_and_resume(config, tmp_path)
    assert metrics[0]["empty_steps"] == 1 and metrics[1]["empty_steps"] == 0
    counts = [told["dagger/labels"] for told in metrics]
    # Rounds are played after updates 0 and 2.
    assert 0 < counts[0] == counts[1] < counts[2] == counts[3] <= 40
    assert "dagger/success_rate" not in metrics[1]
    assert metrics[0]["dagger/success_rate"] == 1
    carried = states[-1].carry["dagger"]
    component = build(config).components["dagger"]
    _, rows = component.source.make(context(carried, key=jax.random.key(0)), {})
    assert rows.loss_mask.any(axis=1).all()
