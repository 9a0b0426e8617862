"""ArCHer in words: where Q and V are read, the loss by hand, what it converges to, new replies in
the place of old ones, and a run that resumes."""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from by_hand import context
from component_cases import Batch, permuted, poisoned
from experiments import distance, lake, train_and_resume

from agentrl import advantages, losses, policies, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.archer import Critics, archer, critic_loss, fitted
from agentrl.methods.text_critics import Anew, TextCritics, reply_places
from agentrl.policies import decoder
from agentrl.policies.generation import Generated
from agentrl.run import loop, mesh
from agentrl.streams import ACTION, OBSERVATION, SUMMARY, Rows, Streams

SMALL = {"hidden": 8, "steps": 2, "batch": 8, "size": 24, "warm_up": 0, "rows": 8}


def config_of(kind="whole", source="rollout", **options):
    config = lake(size=2, max_steps_in_episode=3)
    config.policy = section(
        policies.transformer, width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    history = {"history": 1} if kind == "window" else {}
    config.context = section(getattr(rollout.contexts, kind), **history)
    config.components.archer = section(archer, **SMALL | options)
    config.advantage = section(advantages.twin_critics)
    config.objective.policy = term(losses.reinforce, source=source)
    config.learner.normalize_advantage = "none"
    return config


class Run:
    """A run in words after an update, whose replay has episodes."""

    def __init__(self, kind, **policy):
        config = config_of(kind)
        config.policy.update(policy)
        self.experiment = build(config)
        self.component = self.experiment.components["archer"]
        self.state = jax.jit(self.experiment.init)(0)
        batch = jax.jit(self.experiment.batches)(self.state)["rollout"]
        self.streams, self.rows = batch.streams, batch.rows
        self.after = jax.jit(self.component.after)
        self.value, _ = self.after(self.state.carry["archer"], outcome_of(self, batch))

    def made(self, key=0):
        """(streams, rows) of the source."""
        make = jax.jit(lambda *given: self.component.source.make(context(*given), {}))
        return make(self.value, self.state.params, jax.random.key(key))


def outcome_of(run, batch):
    """An update of a run, with this batch."""
    return UpdateResult(None, run.state.params, streams=batch.streams, rows=batch.rows)


@functools.cache
def run_of(kind):
    return Run(kind)


# Two streams in whole rows: o o o u u o o u | o o u, and padding.
WHOLE = {
    "tokens": [[3, 4, 5, 1, 2, 6, 7, 8, 0], [3, 5, 9, 0, 0, 0, 0, 0, 0]],
    "turn": [[0, 0, 0, 0, 0, 1, 1, 1, -1], [0, 0, 0, -1, -1, -1, -1, -1, -1]],
    "said": [[0, 0, 0, 1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0, 0, 0, 0]],
}


def rows_of(spec, stream):
    tokens, turn = jnp.array(spec["tokens"]), jnp.array(spec["turn"])
    said = jnp.array(spec["said"], bool)
    span = jnp.where(said, ACTION, jnp.where(turn >= 0, OBSERVATION, -1))
    return Rows(tokens, said, jnp.array(stream), turn, jnp.zeros(tokens.shape), span=span)


def test_places_of_replies_in_rows_of_episodes_and_of_turns():
    places = reply_places(rows_of(WHOLE, [0, 1]), (2, 3))
    assert {k: v.tolist() for k, v in places.items()} == {
        "row": [[0, 0, 0], [0, 0, 0]],
        "begin": [[3, 7, 0], [2, 0, 0]],
        "end": [[5, 8, 0], [3, 0, 0]],
    }
    # A row per turn, those of a stream apart from each other; a summary is no reply.
    turns = {
        "tokens": [[3, 1, 0, 0], [4, 2, 9, 9], [6, 7, 8, 0], [5, 1, 2, 0]],
        "turn": [[0, 0, -1, -1], [1, 1, 1, 1], [0, 0, 0, -1], [0, 0, 0, -1]],
        "said": [[0, 1, 0, 0], [0, 1, 1, 1], [0, 0, 1, 0], [0, 1, 1, 0]],
    }
    rows = rows_of(turns, [1, 0, 0, 1])
    rows = rows.replace(span=rows.span.at[3].set(SUMMARY))
    places = reply_places(rows, (2, 2))
    assert {k: v.tolist() for k, v in places.items()} == {
        "row": [[1, 0], [0, 0]],
        "begin": [[2, 1], [1, 0]],
        "end": [[3, 4], [2, 0]],
    }


def test_v_reads_the_prompt_and_q_the_reply_behind_it():
    """Each value is that of the text up to there alone, whatever stands behind it."""
    critics, mask = TextCritics.of(12, 8, layers=2), jnp.array([[1, 1, 0], [1, 0, 0]], bool)
    params = critics.init(jax.random.key(0))
    reward = jnp.array([[0.5, 1.0, jnp.nan], [2.0, jnp.nan, jnp.nan]])
    streams = Streams(
        reward=reward, mask=mask, terminated=jnp.array([[0, 1, 1], [0, 0, 1]], bool),
        truncated=jnp.array([[0, 0, 0], [1, 0, 0]], bool),
    )  # fmt: skip
    rows = rows_of(WHOLE, [0, 1])
    turns = critics.turns(streams, rows)
    # The cut episode's only turn has no target.
    assert turns["acted"].tolist() == [[True, True, False], [False, False, False]]
    assert turns["over"].tolist() == [[False, True, False], [False, False, False]]
    assert turns["reward"].tolist() == [[0.5, 1.0, 0.0], [2.0, 0.0, 0.0]]
    q, v = critics.values(params, turns)
    assert q.shape == v.shape == (2, 3, 2)

    def alone(head, stream, length):
        short = rows.tokens[stream : stream + 1, :length]
        state = decoder.hidden(params["trunk"], critics.config, short)[:, -1]
        return critics.head.apply(params[head], state)[0]

    for stream, turn, begin, end in ((0, 0, 3, 5), (0, 1, 7, 8), (1, 0, 2, 3)):
        np.testing.assert_allclose(v[stream, turn], alone("v", stream, begin), atol=1e-5)
        np.testing.assert_allclose(q[stream, turn], alone("q", stream, end), atol=1e-5)
    np.testing.assert_array_equal(critics.next_values(params, turns)[0, 0], v[0, 1])
    # What is behind the last reply is not read, nor what is not a turn's.
    other = rows.replace(tokens=jnp.where(rows.turn < 0, 11, rows.tokens))
    told = critics.values(params, critics.turns(streams, other))
    for one, two in zip(told, (q, v), strict=True):
        np.testing.assert_array_equal(jnp.where(mask[..., None], one - two, 0), 0)


class ByHand(NamedTuple):
    """Critics whose values are given: params are (Q, V, Q of new replies)."""

    following: jax.Array
    answered: jax.Array

    def values(self, params, turns):
        return params[0], params[1]

    def next_values(self, params, turns):
        return self.following

    def anew_q(self, params, turns, said):
        return params[2], self.answered


def test_the_loss_by_hand():
    """Targets .475 .57 1 and .38 .665 1 of Q .8 .2 .9 and .7 .3 1: squares .252525 and .235625 over
    three turns, .162717; V .4 and .3 of a new reply with Q' .5 and .1 in the second turn: .05."""
    q = jnp.array([[[0.8, 0.7], [0.2, 0.3], [0.9, 1.0], [jnp.inf, 0.0]]])
    v = jnp.array([[[9.0, 9.0], [0.4, 0.3], [9.0, 9.0], [jnp.inf, 0.0]]])
    slow = jnp.array([[[0.0, 0.0], [0.5, 0.1], [0.0, 0.0], [0.0, 0.0]]])
    following = jnp.array([[[0.5, 0.4], [0.6, 0.7], [jnp.nan, jnp.nan], [jnp.nan, jnp.nan]]])
    critics = ByHand(following, jnp.array([[False, True, False, False]]))
    turns = {
        "reward": jnp.array([[0.0, 0.0, 1.0, 0.0]]),
        "over": jnp.array([[False, False, True, False]]),
        "acted": jnp.array([[True, True, True, False]]),
    }
    params = (q, v, slow)
    loss = critic_loss(critics, params, params, turns, None, 0.95)
    np.testing.assert_allclose(loss, 0.48815 / 3 + 0.05, rtol=1e-5)
    # Empty places count nothing.
    empty = {name: jnp.zeros_like(x) for name, x in turns.items()}
    nobody = critics._replace(answered=jnp.zeros((1, 4), bool))
    assert critic_loss(nobody, params, params, empty, None, 0.95) == 0


class Bandit(TextCritics):
    """Critics of a policy that says token 1 a quarter of the time, and else token 2."""

    def anew(self, acting, turns, key):
        count = turns["tokens"].shape[0]
        said = jnp.where(jax.random.uniform(key, (count, 1)) < 0.25, 1, 2)
        nothing, one = jnp.zeros((count, 1)), jnp.ones(count, jnp.int32)
        reply = Generated(said, nothing, nothing, one, one > 0, None, None, None)
        return Anew(0 * one, turns["acted"][:, 0], turns["tokens"][:, 0], 2 * one, reply)


def test_of_one_turn_the_advantage_is_the_reward_less_the_policys_mean():
    """Replies 1 and 2 pay 1 and 0, and the replay has as many of both: Q is the reward, V the
    quarter that the policy of now gets, and A 0.75 and -0.25."""
    critics = Bandit.of(12, 8, layers=1)
    spec = {"tokens": [[3, 4, 1], [3, 4, 2]], "turn": [[0] * 3] * 2, "said": [[0, 0, 1]] * 2}
    rows, yes = rows_of(spec, [0, 1]), jnp.ones((2, 1), bool)
    streams = Streams(reward=jnp.array([[1.0], [0.0]]), mask=yes, terminated=yes, truncated=~yes)
    turns = critics.turns(streams, rows)
    params, zero = critics.init(jax.random.key(0)), jnp.zeros((), jnp.int32)
    adam = optax.adam(optax.linear_schedule(1e-2, 0.0, 400))
    value = Critics(params, params, adam.init(params), turns, zero, zero, jax.random.key(1))
    fit = jax.jit(
        lambda value: fitted(critics, (), adam, value, gamma=0.95, rate=0.2, batch=32, steps=400)
    )
    value, found = fit(value)
    assert found[-1] < found[0]
    q, v = critics.values(value.params, turns)
    advantage = advantages.twin_critics(streams.mask, q, v)
    np.testing.assert_allclose(advantage[:, 0], [0.75, -0.25], atol=0.07)
    np.testing.assert_allclose(q[..., 0][:, 0], [1, 0], atol=0.05)


@pytest.mark.parametrize("kind", ["whole", "window"])
def test_new_replies_stand_behind_what_was_read_and_are_the_policys(kind):
    run = run_of(kind)
    streams, rows = run.made()
    logp = jax.jit(run.experiment.policy.score)(run.state.params, rows).logp
    mask, sampled = np.asarray(rows.loss_mask), np.asarray(rows.behaviour_logp)
    np.testing.assert_allclose(np.where(mask, logp, 0), np.where(mask, sampled, 0), atol=1e-5)
    replay = jax.device_get(run.value.replay)
    prompts = {}
    for n, t in zip(*np.nonzero(replay["acted"]), strict=True):
        text = replay["tokens"][n, replay["row"][n, t], : replay["end"][n, t]].tolist()
        begin = replay["begin"][n, t]
        prompts.setdefault((t, *text[:begin]), set()).add(tuple(text[begin:]))
    tokens, seen = np.asarray(rows.tokens), 0
    for n in np.flatnonzero(mask.any(axis=1)):
        (turn,) = np.flatnonzero(streams.mask[n])
        at = np.flatnonzero(mask[n])
        assert (np.diff(at) == 1).all() and (rows.turn[n, at] == turn).all()
        old = prompts[(turn, *tokens[n, : at[0]].tolist())]
        seen += tuple(tokens[n, at].tolist()) not in old
        assert not tokens[n, at[-1] + 1 :].any()
        assert (rows.span[n, at] == ACTION).all() and rows.span[n, at[-1] + 1 :].max() == -1
    # They are drawn anew, and not those that were said.
    assert seen > 0
    assert np.asarray(streams.mask).sum() == mask.any(axis=1).sum() > 3


def test_their_q_is_that_of_rows_that_end_in_them():
    """Q of a new reply and V in front of it are those that an annotation of its row has."""
    run = run_of("whole")
    streams, rows = run.made()
    given = context(run.value, run.state.params)
    notes = jax.jit(lambda s, r: run.component.annotate(given, s, r))(streams, rows)
    mask = np.asarray(streams.mask)
    q, v = (np.asarray(notes[name].values)[mask] for name in ("twin_q", "twin_v"))
    assert q.shape == (mask.sum(), 2) and np.ptp(q) > 0 and np.ptp(v) > 0
    advantage = advantages.twin_critics(
        streams.mask, notes["twin_q"].values, notes["twin_v"].values
    )
    np.testing.assert_allclose(np.asarray(advantage)[mask], q.min(1) - v.min(1), rtol=1e-6)


def test_padding_is_never_read_and_the_order_of_rows_is_nothing_to_it():
    """As for every component (tests/test_component_conformance.py), here in words."""
    run = run_of("whole")
    streams, rows = jax.device_get((run.streams, run.rows))
    # Each third episode ends after its first turn.
    gone = np.zeros(streams.mask.shape, bool)
    gone[::3, 1:] = True
    cut = (rows.turn >= 0) & gone[rows.stream[:, None], np.maximum(rows.turn, 0)]
    mask = streams.mask & ~gone
    streams = streams.replace(mask=mask, terminated=streams.terminated | (np.arange(3) == 0))
    rows = rows.replace(
        loss_mask=rows.loss_mask & ~cut, turn=np.where(cut, -1, rows.turn),
        span=np.where(cut, -1, rows.span),
    )  # fmt: skip
    batch, mask = Batch(streams, rows), mask[..., None]
    told = jax.jit(lambda s, r: run.component.annotate(context(run.value), s, r))
    good = {k: np.where(mask, x.values, 0) for k, x in told(streams, rows).items()}
    value, _ = run.after(run.value, outcome_of(run, batch))
    for bad in (np.nan, 1e9):
        other = poisoned(batch, bad)
        notes = told(other.streams, other.rows)
        for name, one in good.items():
            np.testing.assert_array_equal(np.where(mask, notes[name].values, 0), one)
        again, _ = run.after(run.value, outcome_of(run, other))
        assert distance(value.params, again.params) == 0
    order = np.random.default_rng(0).permutation(len(mask))
    other = permuted(batch, order, np.roll(order, 1))
    notes = told(other.streams, other.rows)
    for name, one in good.items():
        found = np.where(mask[order], notes[name].values, 0)
        np.testing.assert_allclose(found, one[order], atol=1e-6)


def test_cut_distributions_are_recorded():
    run = Run("whole", top_k=3)
    _, rows = run.made()
    logp = jax.jit(run.experiment.policy.score)(run.state.params, rows).logp
    mask = np.asarray(rows.loss_mask)
    np.testing.assert_allclose(logp[mask], np.asarray(rows.behaviour_logp)[mask], atol=1e-5)
    assert (np.asarray(rows.legal)[mask].sum(axis=1) == 3).all()
    assert np.asarray(rows.legal)[~mask].all()


def test_the_policy_learns_from_new_replies_alone_and_a_run_resumes(tmp_path):
    config = config_of(source="archer", warm_up=2)
    experiment, states, metrics = train_and_resume(config, tmp_path)
    assert experiment.phases[-1][0].collects
    assert distance(states[0].params, states[2].params) == 0
    assert distance(states[2].params, states[3].params) > 0
    assert all(m["critic_error"] > 0 and "episode_return" in m for m in metrics)


def test_refusals():
    config = config_of()
    config.policy.constrained = True
    with pytest.raises(ValueError, match="cannot be constrained"):
        build(config)
    with pytest.raises(ValueError, match=r"archer.hidden=6: in words, expected a multiple of 4"):
        build(config_of(hidden=6))


def test_one_device_equals_eight():
    """Critics, replay and the policy, episodes and episodes that are made anew."""

    def trained(devices):
        config = config_of("window", source="archer")
        config.rollout.num_groups, config.mesh.data = 8, devices
        experiment = build(config)
        devices = mesh.make_mesh(config, experiment)
        with mesh.use(devices):
            programs = loop.compile_programs(experiment, config, devices)
            state, totals = programs.init(programs.seeds), []
            for _ in range(3):
                state, told = programs.train["rl"](state)
                totals.append(jax.device_get(told))
            return jax.device_get((state.params, state.carry["archer"].params)), totals

    chex.assert_trees_all_close(trained(1), trained(8), rtol=2e-4, atol=2e-5)
