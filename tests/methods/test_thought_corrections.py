"""GTR's corrector: which thoughts get targets, what of them is trained, and what stays in the ring.

Replies in the tests are the expert's, stray commands without a thought, or an untrained policy's.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from by_hand import context
from experiments import lake
from tiny import talk_config

from agentrl import advantages, losses, rollout
from agentrl.config import env_section, section, term
from agentrl.config.build import build
from agentrl.learner.component import InitInputs, UpdateResult
from agentrl.methods.teaching import Chances, Correction, Lesson
from agentrl.methods.thought_corrections import (
    Reply,
    lesson_metrics,
    same_thoughts,
    target_rows,
    target_turns,
    thought_corrections,
    with_thought,
)
from agentrl.policies import codec as codecs
from agentrl.streams import ACTION, THOUGHT, Rows, Streams

TURNS = 4


def late(state, agent, params):
    """Hopeless from the third turn on."""
    return state.time >= 2


def config_of(**options):
    config = talk_config(log_every=1, warm_start__updates=0)
    config.env = env_section(
        "NumberLine-v1", length=5, wording="reasoned", max_steps_in_episode=TURNS
    )
    config.policy.grammar = "action"
    config.context = section(rollout.contexts.window, history=1)
    config.learner.minibatches = 1
    config.components.thought_corrections = section(
        thought_corrections, **({"episodes": 8, "size": 24, "rows": 8} | options)
    )
    config.objective.thoughts = term(
        losses.thought_cloning, source="thought_corrections", during="rl"
    )
    return config


@functools.cache
def made():
    """(setup, hooks, parameters of an untrained policy)."""
    config = config_of(hopeless=late)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup = own_pieces.SETUPS.pop()
    hooks = experiment.components["thought_corrections"].after.__self__
    return setup, hooks, experiment.policy.init(jax.random.key(1))


def own_reply(world, view, own, taught):
    """A corrector whose labels are the policy's own replies."""
    nothing = jnp.zeros(view.agent.shape, bool)
    return Correction(own, nothing, nothing)


@functools.cache
def lessons():
    """Lessons of the same episodes: what the policy wrote, the corrector's, the teacher's replies.

    Two in five turns are the teacher's, two in five a stray command, the others anything.
    """
    _, hooks, params = made()
    corrector = hooks.room.corrects
    keys = jax.random.split(jax.random.key(2), 8)

    def played(corrects):
        room = hooks.room._replace(corrects=corrects)
        return room.play(params, keys, jax.random.key(3), Chances(leads=0.4, errs=0.67))

    found = jax.jit(lambda: [played(x) for x in (own_reply, corrector, None)])()
    return jax.device_get(found)


def texts(setup, rows):
    """{(stream, turn): the text of the row's reply}."""
    found = {}
    for row, stream in enumerate(rows.stream):
        there = np.flatnonzero(rows.loss_mask[row])
        if there.size:
            place = int(stream), int(rows.turn[row, there[0]])
            found[place] = codecs.decode(setup.policy.codec, rows.tokens[row, there])
    return found


def test_accepted_corrected_and_hopeless_turns():
    """By plain strings: a right thought gets no target, a wrong one the teacher's with the policy's
    own action behind it, and none in a hopeless state."""
    setup, _, _ = made()
    own, lesson, taught = lessons()
    wrote, says = texts(setup, own.rows), texts(setup, taught.rows)
    targets = texts(setup, lesson.rows)
    trained = texts(setup, target_rows(lesson, "own"))
    assert wrote.keys() == says.keys() == targets.keys()
    kinds = set()
    for (stream, turn), text in wrote.items():
        better = says[stream, turn]
        thought, _, _ = better.partition("</think>")
        assert thought.startswith("<think>") and (" below " in thought or " above " in thought)
        mine, closed, action = text.partition("</think>")
        accepted = mine == thought
        assert bool(lesson.right[stream, turn]) == accepted
        if "<think>" in text:
            expected = thought + "</think>" + (action if closed else "")
        else:
            expected = thought + "</think>" + text
        # What does not fit is cut.
        assert expected.startswith(targets[stream, turn])
        assert len(targets[stream, turn]) >= len(thought + "</think>")
        if text.startswith("<think></think><action>"):
            assert targets[stream, turn] == expected
        corrected = not accepted and turn < 2
        assert corrected == ((stream, turn) in trained)
        if corrected:
            assert trained[stream, turn] == thought + "</think>"
        kinds.add((accepted, turn < 2, mine == "<think>"))
    assert {(True, True, False), (False, True, True), (False, True, False)} <= kinds
    assert {(False, False, True), (True, False, False)} <= kinds
    acted = np.asarray(lesson.streams.mask)
    told = lesson_metrics(jax.tree.map(jnp.asarray, lesson))
    right = sum(wrote[place] == says[place] for place in wrote)
    assert right == lesson.led.sum()
    np.testing.assert_array_equal(told["thoughts/accepted"], [right, acted.sum()])
    lost = sum(turn >= 2 and wrote[s, turn] != says[s, turn] for s, turn in wrote)
    np.testing.assert_array_equal(told["thoughts/hopeless"], [lost, acted.sum()])


def test_the_experts_action_behind_an_empty_thought_is_behaviour_cloning_of_its_thought():
    """Where the policy wrote no thought and did what the expert would, the target is the expert's
    row, and both losses are `thought_cloning` of it."""
    _, lesson, taught = lessons()
    target, expert = target_rows(lesson, "own"), taught.rows
    whole = target_rows(lesson, "teacher")
    logp = -np.abs(np.random.default_rng(0).normal(size=expert.tokens.shape)).astype(np.float32)
    same = 0
    for row in np.flatnonzero(target.loss_mask.any(axis=1)):
        there = expert.loss_mask[row]
        # The thought is the expert's in every target, at the same place behind the same prompt.
        own = target.loss_mask[row]
        np.testing.assert_array_equal(target.tokens[row][own], expert.tokens[row][own])
        np.testing.assert_array_equal(own, there & (expert.span[row] == THOUGHT))
        for loss in (losses.thought_cloning(logp[row], target.span[row], own),
                     losses.behaviour_cloning(logp[row], own)):  # fmt: skip
            cloned = losses.thought_cloning(logp[row], expert.span[row], there)
            np.testing.assert_array_equal(loss, cloned)
        if np.array_equal(target.tokens[row], expert.tokens[row]):
            same += 1
            np.testing.assert_array_equal(whole.loss_mask[row], there)
            np.testing.assert_array_equal(target.span[row], expert.span[row])
    assert same


def test_padding_and_actions_have_no_loss():
    """Flags of turns that nobody had, and log-probabilities outside of thoughts, say anything."""
    _, lesson, _ = lessons()
    mask = np.asarray(lesson.streams.mask)
    assert not mask.all()
    bad = lesson._replace(right=np.where(mask, lesson.right, False),
                          hopeless=np.where(mask, lesson.hopeless, ~lesson.hopeless))  # fmt: skip
    rows = target_rows(bad, "own")
    np.testing.assert_array_equal(rows.loss_mask, target_rows(lesson, "own").loss_mask)
    assert set(np.unique(rows.span[rows.loss_mask])) == {THOUGHT}
    for name, told in lesson_metrics(jax.tree.map(jnp.asarray, bad)).items():
        np.testing.assert_array_equal(told, lesson_metrics(lesson)[name])

    def loss(logp):
        return jnp.sum(losses.thought_cloning(logp, rows.span, rows.loss_mask))

    poisoned = jnp.where(rows.loss_mask, -0.5, jnp.nan)
    np.testing.assert_allclose(loss(poisoned), 0.5 * rows.loss_mask.sum())
    np.testing.assert_array_equal(jax.grad(loss)(poisoned), np.where(rows.loss_mask, -1.0, 0.0))


def test_a_worked_lesson():
    """Four turns: right; wrong; wrong in a hopeless state; padding. The thought is two tokens."""
    mask = np.array([[1, 1, 1, 0]], bool)
    right = np.array([[1, 0, 0, 0]], bool)
    hopeless = np.array([[1, 0, 1, 0]], bool)
    streams = Streams(reward=mask * 0.0, mask=mask)
    span = np.tile([0, THOUGHT, THOUGHT, ACTION], (4, 1))
    rows = Rows(
        tokens=np.arange(16).reshape(4, 4), loss_mask=span > 0, stream=np.zeros(4, int),
        turn=np.repeat(np.arange(4), 4).reshape(4, 4), behaviour_logp=np.zeros((4, 4)), span=span,
    )  # fmt: skip
    lesson = Lesson(streams, rows, right, mask & False, mask * 0.0, hopeless)
    np.testing.assert_array_equal(target_turns(lesson), [[0, 1, 0, 0]])
    empty = [[0] * 4]
    own, whole = target_rows(lesson, "own"), target_rows(lesson, "teacher")
    np.testing.assert_array_equal(own.loss_mask, [*empty, [0, 1, 1, 0], *empty, *empty])
    np.testing.assert_array_equal(whole.loss_mask, [*empty, [0, 1, 1, 1], *empty, *empty])
    told = lesson_metrics(lesson)
    np.testing.assert_array_equal(told["thoughts/accepted"], [1, 3])
    np.testing.assert_array_equal(told["thoughts/hopeless"], [1, 3])


def random_replies(seed, count=200, size=6):
    """Replies as (token, span) in any order of spans, with a thought of neighbouring tokens or
    none; what stands behind them is anything."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 2, (count, size))
    written = rng.integers(0, size + 1, count)
    begin, end = np.sort(rng.integers(0, size + 1, (2, count)), axis=0)
    place = np.arange(size)
    span = np.where((place >= begin[:, None]) & (place < end[:, None]), THOUGHT, ACTION)
    span = np.where(place < written[:, None], span, THOUGHT)
    return Reply(*(jnp.asarray(x, jnp.int32) for x in (tokens, span, written)))


def test_it_equals_plain_lists():
    own, taught = random_replies(0), random_replies(1)
    got = jax.device_get(with_thought(own, taught))
    setup, _, _ = made()
    codec = setup.policy.codec
    words = [codecs.decode(codec, [token]) for token in range(len(codec.token_lengths))]
    known = jnp.array([words.index("1"), words.index("2")], jnp.int32)
    as_words = [x._replace(tokens=known[x.tokens]) for x in (own, taught)]
    same = np.asarray(same_thoughts(codec, *as_words))
    assert 0 < same.sum() < len(same)
    for n in range(len(same)):
        parts = []
        for reply in (own, taught):
            written = [
                (int(t), int(s)) for t, s in zip(reply.tokens[n], reply.span[n], strict=True)
            ]
            written = written[: int(reply.count[n])]
            ends = max((k + 1 for k, (_, s) in enumerate(written) if s == THOUGHT), default=0)
            thought = [t for t, s in written if s == THOUGHT]
            parts.append((written[:ends], written[ends:], thought))
        (_, behind, mine), (front, _, right) = parts
        expected = (front + behind)[: own.tokens.shape[1]]
        count = int(got.count[n])
        assert expected == list(zip(got.tokens[n][:count], got.span[n][:count], strict=True))
        assert bool(same[n]) == (mine == right and bool(mine))


def test_the_ring_by_plain_lists():
    """Four rounds of different policies: the targets of all, of which 24 have a place; with
    rounds=1 those of the last alone are drawn."""
    _, hooks, _ = made()
    after, lesson = jax.jit(hooks.after), jax.jit(hooks.lesson)
    key = jax.random.key(7)
    value = hooks.init(InitInputs(None, key, None, None))
    assert not np.asarray(hooks.make(context(value, key=key), {})[1].loss_mask).any()
    places, head = [None] * hooks.size, 0
    for number in range(4):
        params = hooks.policy.init(jax.random.key(number))
        key, play_key = jax.random.split(key)
        value, told = after(value, UpdateResult(before=None, params=params))
        rows = jax.device_get(target_rows(lesson(params, play_key), "own"))
        new = [row for row in range(len(rows.stream)) if rows.loss_mask[row].any()]
        assert new
        for row in new[: hooks.size]:
            places[head % hooks.size] = (number, rows.tokens[row], rows.loss_mask[row])
            head += 1
        ring = jax.device_get(value[1])
        kept = [place for place in places if place is not None]
        np.testing.assert_array_equal(told["thoughts/rows"], [len(kept), 1])
        for at, place in enumerate(places):
            assert ring.since[at] == (-1 if place is None else place[0])
            if place is not None:
                np.testing.assert_array_equal(ring.rows.tokens[at], place[1])
                np.testing.assert_array_equal(ring.rows.loss_mask[at], place[2])
    assert head > hooks.size
    drawn = hooks.make(context(value, key=key), {})[1]
    assert np.asarray(drawn.loss_mask).any(axis=1).all()
    fresh = hooks._replace(rounds=1, rows=0).make(context(value, key=key), {})[1]
    last = [place is not None and place[0] == 3 for place in places]
    np.testing.assert_array_equal(np.asarray(fresh.loss_mask).any(axis=1), last)


def test_the_numbers_of_the_notes():
    """GAE with gamma 0.9 and lambda 0.95 from the right, values 0.2, 0.1, 0.4 and rewards 0, 0, 10:
    10 - 0.4 = 9.6; 0.9 0.4 - 0.1 + 0.855 9.6 = 8.468; 0.9 0.1 - 0.2 + 0.855 8.468 = 7.13014."""
    mask = jnp.ones((1, 3), bool)
    terminated = jnp.array([[False, False, True]])
    reward, value = jnp.array([[0.0, 0.0, 10.0]]), jnp.array([[0.2, 0.1, 0.4]])
    got = advantages.gae(reward, value, mask, terminated, 0.0, gamma=0.9, lam=0.95)
    np.testing.assert_allclose(got, [[7.13014, 8.468, 9.6]], atol=2e-5)
    np.testing.assert_allclose(got + value, [[7.33014, 8.568, 10.0]], atol=2e-5)
    normal = (got - jnp.mean(got)) / (jnp.std(got, ddof=1) + 1e-5)
    np.testing.assert_allclose(normal, [[-1.026587, 0.055501, 0.971085]], atol=2e-5)


def test_errors():
    for change, said in (
        ({"rows": -1}, "at least 0"),
        ({"episodes": 0}, "at least 1"),
        ({"actions": "mine"}, "'own', 'teacher'"),
    ):
        with pytest.raises(ValueError, match=said):
            build(config_of(**change))
    config = config_of()
    config.policy.grammar = "bare"
    with pytest.raises(ValueError, match="think='none'"):
        build(config)
    config = lake()
    config.components.thought_corrections = section(thought_corrections)
    with pytest.raises(ValueError, match="thought_corrections"):
        build(config)
