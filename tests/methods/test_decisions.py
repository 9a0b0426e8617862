"""Which tokens of a reply decide what: of replies by hand, and of a policy's, in words."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import setup_of

import envs
from agentrl import policies, rollout
from agentrl.actors.records import token_spans
from agentrl.learner.passes import log_probs
from agentrl.methods.decisions import decisions
from agentrl.policies import codec as codecs
from agentrl.rollout import contexts
from agentrl.streams import Rows, Streams

BASE = {"name": "KeyDoor-v1", "rooms": 1, "width": 3, "max_steps_in_episode": 6}
ENV, PARAMS = envs.make("envs.wrappers.Subgoals", base=BASE)
SMALL = {"width": 8, "layers": 1, "heads": 1, "kv_heads": 1, "hidden": 8}
PARTS = re.compile("(<switch>.*</switch>)(<subgoal>.*</subgoal>)?(.*)")
SWITCH, SUBGOAL, ACTION = range(3)


def policy_of(env=ENV, **options):
    return policies.transformer(env.view, **SMALL | {"critic": "shared"} | options)


def setup(policy, context, env=ENV, params=PARAMS):
    acting = rollout.episodes(policy, env, params, context, num_groups=2, group_size=4)
    return setup_of(env, params)._replace(policy=policy, rollout=acting, context=context)


def rows_of(policy, texts):
    """(Streams, Rows) of one episode whose replies are these texts, one row for each turn."""
    size = max(map(len, texts)) + 3
    tokens = np.full((len(texts), size), policy.codec.pad, np.int32)
    span = np.full(tokens.shape, -1, np.int32)
    written = np.zeros(tokens.shape, bool)
    for row, text in enumerate(texts):
        # The first position is read.
        reply = jnp.array([*policy.codec.encode(text), policy.codec.end])
        data, length = codecs.to_bytes(policy.codec, reply, jnp.int32(len(reply)))
        here = np.s_[row, 1 : 1 + len(reply)]
        tokens[here], written[here] = reply, True
        span[here] = token_spans(policy, data, length, reply)
    turn = np.where(written, np.arange(len(texts))[:, None], -1)
    shape = (1, len(texts))
    streams = Streams(reward=np.zeros(shape, np.float32), mask=np.ones(shape, bool))
    rows = Rows(
        tokens=tokens, loss_mask=written, stream=np.zeros(len(texts), np.int32),
        turn=turn.astype(np.int32), behaviour_logp=np.zeros(tokens.shape, np.float32), span=span,
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, (streams, rows))


@functools.cache
def by_hand(*texts):
    """(decision [R, L], starts, kept) of replies by hand, byte by byte."""
    policy = policy_of(codec="byte")
    component = decisions(setup(policy, contexts.window(history=0)))
    annotate = jax.jit(lambda streams, rows: component.annotate(None, streams, rows))
    notes, metrics = annotate(*rows_of(policy, texts))
    np.testing.assert_array_equal(metrics["keep_rate"], [notes["kept"].values.sum(), len(texts)])
    return [np.asarray(notes[name].values) for name in ("decision", "decision_start", "kept")]


KEEPS, SETS = "<switch>keep</switch>left", "<switch>switch</switch><subgoal>door</subgoal>left"
# A subgoal in a turn that keeps; neither; a switch to nothing; none at all.
CONTRADICTS = "<switch>keep</switch><subgoal>door</subgoal>left"
REPLIES = (SETS, KEEPS, CONTRADICTS, "left", "<switch>switch</switch>left", "<subgoal>door", "")
EXPECTED = (
    ((SWITCH, 23), (SUBGOAL, 23), (ACTION, 5)),
    ((SWITCH, 21), (ACTION, 5)),
    ((SWITCH, 21), (ACTION, 28)),
    ((ACTION, 5),),
    ((SWITCH, 23), (ACTION, 5)),
    ((ACTION, 14),),
    ((ACTION, 1),),
)


def test_replies_by_hand():
    decision, start, kept = by_hand(*REPLIES)
    for row, parts in enumerate(EXPECTED):
        expected = np.repeat([kind for kind, _ in parts], [number for _, number in parts])
        told = decision[row, 1 : 1 + len(expected)]
        np.testing.assert_array_equal(told[: len(REPLIES[row])], expected[: len(REPLIES[row])])
        assert (decision[row, 2 + len(REPLIES[row]) :] == -1).all() and decision[row, 0] == -1
        starts = 1 + np.cumsum([0, *(number for _, number in parts)])[:-1]
        begins = [at for at, (kind, _) in zip(starts, parts, strict=True) if kind >= 0]
        np.testing.assert_array_equal(np.flatnonzero(start[row]), begins)
    np.testing.assert_array_equal(kept[0], [False, True, True, True, False, True, True])


@functools.cache
def collected(name="window"):
    """(policy, streams, rows, notes) of episodes of legal replies."""
    policy = policy_of(constrained=True)
    context = contexts.window(history=0) if name == "window" else contexts.whole()
    made = setup(policy, context)
    component = decisions(made)

    @jax.jit
    def collect(key):
        params = policy.init(key)
        _, streams, rows, _ = made.rollout.collect(params, made.rollout.init(key), key)
        notes, _ = component.annotate(None, streams, rows)
        logp = log_probs(policy, params, rows, None)
        return streams, rows, {k: note.values for k, note in notes.items()}, logp

    return policy, *jax.device_get(collect(jax.random.key(1)))


@pytest.mark.parametrize("name", ["window", "whole"])
def test_spans_cover_what_is_trained_and_say_what_is_written(name):
    policy, streams, rows, notes, logp = collected(name)
    decision, start = notes["decision"], notes["decision_start"]
    np.testing.assert_array_equal(decision >= 0, rows.loss_mask)
    np.testing.assert_array_equal(start & ~rows.loss_mask, False)
    seen = set()
    for row in range(len(rows.stream)):
        for turn in np.unique(rows.turn[row][rows.loss_mask[row]]):
            here = rows.loss_mask[row] & (rows.turn[row] == turn)
            parts = [
                codecs.decode(policy.codec, rows.tokens[row][here & (decision[row] == kind)])
                for kind in range(3)
            ]
            text = codecs.decode(policy.codec, rows.tokens[row][here])
            assert parts == [part or "" for part in PARTS.fullmatch(text).groups()]
            kept = parts[0] == "<switch>keep</switch>"
            assert kept == (parts[1] == "") == notes["kept"][rows.stream[row], turn]
            assert start[row][here].sum() == 2 + (not kept)
            seen.add(kept)
    assert seen == {False, True} and not notes["kept"][~streams.mask].any()
    # The subgoal that is read is in the row as it was when the reply was written.
    np.testing.assert_allclose(logp[rows.loss_mask], rows.behaviour_logp[rows.loss_mask], atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context": contexts.summary(limit=20)}, "expected one without summaries"),
        ({"base": True}, "commands with a switch and a subgoal in tags"),
        ({"arrays": True}, "needs a language policy"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    made = setup(policy_of(), contexts.window(history=0))
    if "base" in changes:
        env, params = envs.make(**BASE)
        made = setup(policy_of(env), contexts.window(history=0), env, params)
    if "arrays" in changes:
        made = setup_of(ENV, PARAMS)
    if "context" in changes:
        made = made._replace(context=changes["context"])
    with pytest.raises(ValueError, match=message):
        decisions(made)
