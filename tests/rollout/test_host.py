"""Host rollouts: the same streams and rows, whoever answers when, and whatever goes wrong."""

import functools
import pathlib

import jax
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.policies import codec as codecs
from agentrl.policies import decoder
from agentrl.policies.codec import decode
from agentrl.rollout import contexts
from agentrl.streams import OBSERVATION, turn_starts
from envs.hosted import HostError

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "hosted_toys.py")
GROUPS, MEMBERS, TURNS = 4, 2, 4
SIZES = {"num_groups": GROUPS, "group_size": MEMBERS, "max_turns": TURNS}
HOST = {"observation_tokens": 8, "workers": 3}


def bound(name, *, policy=(), sizes=(), host=(), context=contexts.window, read=(), **options):
    env, params = envs.make(f"{TOYS}:{name}", **options)
    small = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    made = policies.transformer(env.view, **({"codec": "byte", **small} | dict(policy)))
    reading = context(**({"max_new_tokens": 4} | dict(read)))
    where = rollout.processes(**(HOST | dict(host)))
    return env, made, rollout.episodes(made, env, params, reading, where, **(SIZES | dict(sizes)))


@functools.cache
def weights(critic="none"):
    _, policy, made = bound("Sum", policy={"critic": critic})
    return policy.init(jax.random.key(1))


def collected(name, *, key=2, **options):
    critic = dict(options.get("policy", ())).get("critic", "none")
    _, policy, made = bound(name, **options)
    try:
        _, streams, rows, metrics = made.collect(weights(critic), None, jax.random.key(key))
    finally:
        made.close()
    streams, rows, metrics = jax.tree.map(np.asarray, (streams, rows, metrics))
    metrics = {k: v for k, v in metrics.items() if not k.startswith("time/")}
    return policy, streams, rows, metrics


@functools.cache
def summed():
    return collected("Sum")


def said(policy, rows, stream, turn, span):
    """Text of a piece of a turn, as it stands in the rows."""
    here = (rows.turn == turn) & (rows.span == span) & (rows.stream == stream)[:, None]
    own = here.any(axis=1) & (rows.loss_mask & (rows.turn == turn)).any(axis=1)
    assert own.sum() == 1
    return decode(policy.codec, rows.tokens[own][here[own]])


def assert_same(a, b, streams=slice(None)):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x[streams], y[streams])


def test_streams_are_what_the_environment_says_of_what_was_replied():
    """Played again in this process, with the replies that stand in the rows."""
    policy, streams, rows, _ = summed()
    assert streams.mask.shape == (GROUPS * MEMBERS, TURNS)
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(GROUPS), MEMBERS))
    lengths = set()
    for i in range(GROUPS * MEMBERS):
        turns = int(streams.mask[i].sum())
        lengths.add(turns)
        # The environment draws the number of turns and then what it says, of its seed alone; the
        # seed is not in the streams, but what is said first tells it well enough.
        seen = [said(policy, rows, i, t, OBSERVATION) for t in range(turns)]
        assert [text.split()[0] for text in seen] == [str(k) for k in range(turns, 0, -1)]
        for t in range(turns):
            reply = decode(policy.codec, rows.tokens[own_tokens(rows, i, t)])
            reply = reply.encode("utf-8", "replace").decode().strip()
            assert streams.reward[i, t] == len(reply.encode()) / 4
            # The environment wants more than one character, and a reply has to end.
            ended = rows.tokens[own_tokens(rows, i, t)][-1] == policy.codec.end
            assert streams.well_formed[i, t] == ended
            assert streams.valid[i, t] == (ended and len(reply) > 1)
        assert streams.terminated[i].sum() == 1 and streams.terminated[i, turns - 1]
        assert not streams.truncated[i].any()
        # Group members share the environment's seed.
        assert seen[0] == said(policy, rows, i - i % MEMBERS, 0, OBSERVATION)
    assert len(lengths) > 1


def test_metrics_of_the_environment_are_means_of_what_it_told():
    policy, streams, rows, metrics = summed()
    told = short_replies(policy, streams, rows)
    assert 0 < len(told) < streams.mask.sum()
    assert metrics["env/length"].tolist() == [sum(told), len(told)]


def short_replies(policy, streams, rows):
    """Lengths that `Sum` reports."""
    places = np.argwhere(streams.mask)
    said = [decode(policy.codec, rows.tokens[own_tokens(rows, i, t)]).strip() for i, t in places]
    return [len(reply) for reply in said if len(reply) < 4]


def test_a_reply_of_one_token_has_no_room_for_its_end():
    policy, streams, rows, metrics = collected("Sum", read={"max_new_tokens": 1})
    ends = rows.tokens[rows.loss_mask] == policy.codec.end
    assert metrics["response_cut_rate"][0] == 0
    # One without text keeps no format; the environment wants more than one character.
    assert streams.well_formed[streams.mask].sum() == (~ends).sum() > 0
    assert not streams.valid[streams.mask].any()


def own_tokens(rows, stream, turn):
    return rows.loss_mask & (rows.turn == turn) & (rows.stream == stream)[:, None]


def test_the_learner_scores_what_was_sampled():
    for options in (
        {},
        {"policy": {"top_k": 5, "temperature": 0.7}},
        {"context": contexts.whole},
        {"context": contexts.window, "read": {"history": 1}},
        {"context": contexts.sliding, "read": {"history": 1}},
    ):
        policy, streams, rows, metrics = collected("Sum", **options)
        scored = jax.jit(policy.score)(weights(), rows)
        mask = rows.loss_mask
        assert mask.sum() == metrics["tokens"][0] > 20
        np.testing.assert_allclose(scored.logp[mask], rows.behaviour_logp[mask], atol=1e-5)
        # All turns of all streams, in the rows of their streams.
        per_turn = np.zeros(streams.mask.shape, int)
        np.add.at(per_turn, (np.broadcast_to(rows.stream[:, None], mask.shape)[mask],
                             rows.turn[mask]), 1)  # fmt: skip
        np.testing.assert_array_equal(per_turn, streams.cost)


def test_the_same_key_gives_the_same_whoever_answers_when():
    first = collected("Race", slow=0.0)[1:]
    again = collected("Race", slow=0.01)[1:]
    assert_same(first, again)
    other = collected("Race", slow=0.0, key=3)[1:]
    assert (first[1].tokens != other[1].tokens).any()


def test_every_seat_is_a_stream():
    _, streams, rows, metrics = collected("Race", sizes={"max_turns": 8})
    count = GROUPS * MEMBERS
    assert streams.mask.shape == (2 * count, 8)
    np.testing.assert_array_equal(streams.role, np.tile([0, 1], count))
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(GROUPS), 2 * MEMBERS))
    by_match = streams.mask.reshape(count, 2, -1)
    assert by_match.sum(axis=1).max() == 1
    np.testing.assert_array_equal(by_match[:, 0, ::2].sum(1), by_match[:, 0].sum(1))
    total = streams.reward.reshape(count, 2, -1).sum(axis=(1, 2))
    np.testing.assert_array_equal(total, 0)
    ended = streams.terminated
    np.testing.assert_array_equal(ended.sum(axis=1), 1)
    assert not ended[~streams.mask].any() and not streams.reward[~streams.mask].any()
    trained = rows.loss_mask.any(axis=1)
    assert trained.sum() == streams.mask.sum()
    assert metrics["win_rate/0/self"][1] == count


def test_a_limit_of_turns_truncates():
    _, streams, _, metrics = collected("Race", sizes={"max_turns": 2})
    np.testing.assert_array_equal(streams.truncated.sum(axis=1), 1)
    assert not streams.terminated.any() and metrics["draw_rate"][0] == 0


def test_an_episode_whose_context_is_full_is_truncated():
    options = {"context": contexts.whole, "read": {"context_tokens": 16}, "turns": 9}
    _, streams, _, metrics = collected("Sum", **options)
    cut = streams.truncated.any(axis=1)
    assert cut.any() and not streams.terminated[cut].any()
    # 4 + 4 tokens a turn: two turns fit, a third would not.
    np.testing.assert_array_equal(streams.mask[cut].sum(axis=1), 2)
    np.testing.assert_array_equal(metrics["full_row_rate"], [cut.sum(), len(cut)])


TROUBLE = {"turns": 3, "modulus": 2}


@functools.cache
def untroubled():
    return collected("Trouble", how="nothing", **TROUBLE)


@pytest.mark.parametrize("how", ["raise", "die", "hang", "garble", "nan"])
def test_a_failure_costs_its_episode_and_nothing_else(how):
    _, whole, whole_rows, whole_metrics = untroubled()
    host = {"retries": 0, "timeout_s": 1.0 if how == "hang" else 60.0}
    policy, streams, rows, metrics = collected("Trouble", how=how, host=host, **TROUBLE)
    lost = ~streams.mask.any(axis=1)
    assert 0 < lost.sum() < len(lost) and metrics["failed_episodes"][0] == lost.sum()
    assert whole_metrics["failed_episodes"][0] == 0 and whole.mask.any(axis=1).all()
    assert_same(streams, whole, ~lost)
    of_lost = lost[rows.stream]
    assert_same(rows, whole_rows, ~of_lost)
    assert not rows.loss_mask[of_lost].any() and not streams.reward[lost].any()
    # Means are of the episodes that were played.
    assert metrics["episode_return"][1] == (~lost).sum()
    np.testing.assert_allclose(metrics["episode_return"][0], streams.reward.sum(), rtol=1e-6)
    told, all_told = short_replies(policy, streams, rows), whole_metrics["env/length"]
    assert metrics["env/length"].tolist() == [sum(told), len(told)] != all_told.tolist()


def test_an_episode_that_fails_once_is_played_again(tmp_path):
    options = {"how": "die", "once": str(tmp_path / "once"), **TROUBLE}
    _, streams, rows, metrics = collected("Trouble", host={"retries": 1}, **options)
    assert (tmp_path / "once").exists()
    assert metrics.pop("retried_episodes")[0] == 1
    whole = untroubled()[1:]
    whole[2].pop("retried_episodes", None)
    assert_same((streams, rows, metrics), whole)


def test_a_segment_keeps_the_episodes_that_ended_before_a_reset_failed(tmp_path):
    out, (_, policy, _) = [], bound("Sum")
    for how, modulus in (("nothing", 100_000), ("rest", 2)):
        options = {"how": how, "once": str(tmp_path / "once"), "turns": 3, "modulus": modulus}
        env, params = envs.make(f"{TOYS}:Trouble", **options)
        where = rollout.processes(observation_tokens=8, workers=1)
        reading = contexts.window(max_new_tokens=4)
        made = rollout.segments(policy, env, params, reading, where, num_envs=1, length=8)
        state = made.init(jax.random.key(0))
        try:
            _, streams, rows, metrics = made.collect(weights(), state, jax.random.key(2))
        finally:
            made.close()
        kept = np.asarray(rows.turn) <= np.asarray(streams.terminated[0]).argmax()
        out.append((np.asarray(rows.tokens)[kept], metrics))
    (first, _), (again, metrics) = out
    assert (tmp_path / "once").exists() and metrics["failed_episodes"][0] == 1
    np.testing.assert_array_equal(again, first)


def test_nothing_but_failures_stops_the_run():
    with pytest.raises(HostError, match="all 8 episodes were lost; the last: seed .*KeyError"):
        collected("Trouble", how="raise", modulus=1)


def test_the_critic_reads_what_the_learner_reads():
    policy, streams, rows, _ = collected(
        "Sum",
        policy={"critic": "shared"},
        sizes={"max_turns": 2},
        context=contexts.whole,
        turns=6,
    )
    scored = jax.jit(policy.score)(weights("shared"), rows)
    starts = np.asarray(turn_starts(rows))
    stream = np.broadcast_to(rows.stream[:, None], starts.shape)[starts]
    np.testing.assert_allclose(
        scored.value[starts], streams.value[stream, rows.turn[starts]], atol=1e-5
    )
    # What followed the last turn of a truncated episode is read behind all the rest.
    cut = streams.truncated.any(axis=1)
    assert 0 < cut.sum() < len(cut) and not streams.bootstrap[~cut].any()
    i = int(np.flatnonzero(cut)[0])
    row = rows.tokens[i][rows.span[i] >= 0]
    left = int(said(policy, rows, i, 0, OBSERVATION).split()[0]) - 2
    after = [codecs.render_text(policy.codec, f"{left} {digit}", 8) for digit in range(10)]
    longer = np.stack([np.concatenate([row, text.tokens[: text.length]]) for text in after])
    hidden = decoder.hidden(weights("shared"), policy.config, longer)[:, -1]
    values = decoder.values(weights("shared"), policy.config, hidden)[:, 0]
    assert np.abs(values - streams.bootstrap[i, 0]).min() < 1e-5


def test_evaluation_plays_the_tasks_that_it_is_given():
    env, policy, made = bound("Sum")
    keys = jax.random.split(jax.random.key(0), 5)
    try:
        _, streams, _ = made.play(weights(), keys, jax.random.key(0), True)
        _, again, _ = made.play(weights(), keys, jax.random.key(9), True)
    finally:
        made.close()
    # Greedy, and the environment's chance is of its seed.
    assert_same(streams, again)
    assert streams.mask.shape[0] == 5 and np.asarray(streams.mask).any(axis=1).all()


def test_the_action_is_what_the_grammar_says():
    """The whole reply is no action where the grammar wants tags: the environment hears nothing."""
    _, streams, _, metrics = collected("Sum", policy={"grammar": "answer", "max_actions": 1})
    assert not streams.reward.any() and not streams.well_formed.any()
    assert metrics["invalid_format_rate"][0] == metrics["invalid_format_rate"][1] > 0


def test_long_observations_keep_their_end():
    codec = policies.transformer(envs.make(f"{TOYS}:Sum")[0].view, codec="byte").codec
    text = codecs.render_text(codec, "0123456789", 8)
    assert decode(codec, text.tokens[: text.length]) == "3456789" and text.cut
    short = codecs.render_text(codec, "é\ud800", 8)
    assert decode(codec, short.tokens[: short.length]) == "é?" and not short.cut
    # No text can hold a control token.
    assert (short.tokens[: short.length - 1] >= 3).all()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"policy": {"codec": "word"}}, "whose text may be anything: use 'byte'"),
        ({"policy": {"constrained": True}}, "legal commands are not known"),
        ({"policy": {"grammar": "answer"}}, "set policy.max_actions=1"),
        ({"host": {"workers": 0}}, "workers=0: expected at least 1"),
        ({"host": {"timeout_s": 0.0}}, "timeout_s=0.0: expected more than 0"),
        ({"host": {"observation_tokens": 1}}, "observation_tokens=1: expected at least 2"),
        ({"read": {"context_tokens": 9}}, "one turn takes 12"),
        ({"sizes": {"num_groups": 0}}, "num_groups=0"),
    ],
)
def test_what_does_not_fit_is_an_error(changes, message):
    with pytest.raises(ValueError, match=message):
        bound("Sum", **changes)
