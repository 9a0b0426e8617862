"""IPR: which continuation wins, what of it is learnt, and that step rewards are what they say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods import ipr as module
from agentrl.methods.ipr import ipr, paired, preferred, prefixes
from agentrl.streams import Rows

TURNS, TASKS, SAMPLES = 6, 8, 3


def config_of(words=False, **options):
    config = talk_config(log_every=1, warm_start__updates=0) if words else lake()
    config.env.update(slippery=False, max_steps_in_episode=TURNS)
    config.objective.policy.weight = config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    options = {"episodes": TASKS, "samples": SAMPLES, "steps": 2} | options
    config.components.ipr = section(ipr, **options)
    config.objective.preference = term(losses.rpo, source="ipr", during="rl")
    return config


def test_who_wins_worked_example():
    """Samples 1 1 0 1 1 behind the expert's turn and 0 1 0 0 0 behind the policy's: 0.8 and 0.2."""
    scores = np.array([np.mean([1, 1, 0, 1, 1]), np.mean([0, 1, 0, 0, 0])])
    np.testing.assert_allclose(scores, [0.8, 0.2])
    one, nothing = np.ones(1, np.float32), np.zeros(1, np.float32)

    def wins(returns, scores, step, **options):
        got = preferred(
            tuple(x * one for x in returns), tuple(x * one for x in scores), step == one, **options
        )
        return int(got[0])

    assert wins((1, 0), scores, True) == 1 and wins((0, 1), scores[::-1], True) == -1
    # They disagree, or one of them is a tie.
    assert wins((0, 1), scores, True) == wins((1, 1), scores, True) == 0
    assert wins((1, 0), (0.5, 0.5), True) == wins((1, 0), scores, True, threshold=0.7) == 0
    # From the start the returns decide alone.
    assert wins((1, 0), (0, 0), False) == 1 and wins((1, 1.005), scores, False) == 0
    assert wins((0, 0.5), scores, False) == -1 and wins((0, 0.5), scores, False, margin=0.5) == 0
    assert preferred((nothing, nothing), (nothing, nothing), nothing == 1).dtype == jnp.int32


def test_loss_worked_example_and_padding():
    """Chosen -20 (reference -22), rejected -25 (-24): 20 - log sigmoid(0.1 * 3), or 20 / 4."""
    logp = jnp.array([[-5.0, -5, -5, -5, jnp.nan], [-10.0, -15, jnp.nan, jnp.nan, jnp.nan]])
    reference = jnp.array([[-6.0, -5, -6, -5, jnp.nan], [-12.0, -12, 0.0, jnp.nan, jnp.nan]])
    mask = jnp.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], bool)
    loss = functools.partial(losses.rpo, mask=mask, beta=0.1)
    np.testing.assert_allclose(loss(logp, reference, per_token=False), [20.554355], rtol=1e-6)
    np.testing.assert_allclose(loss(logp, reference), [5.554355], rtol=1e-6)
    slope = jax.grad(lambda x: loss(x, reference, per_token=False).sum())(logp)
    assert np.isfinite(slope).all() and (np.asarray(slope)[~mask] == 0).all()


def test_pairs_worked_example():
    """One episode of the expert (row 0) and three forks, from turns 0, 1 and 2."""
    turn = jnp.array([[0, 1, 2, -1]] * 4)
    rows = Rows(
        tokens=jnp.arange(16).reshape(4, 4),
        loss_mask=turn >= 0,
        stream=jnp.arange(4),
        turn=turn,
        behaviour_logp=jnp.zeros((4, 4)),
    )
    found = paired(rows, jnp.array([1, -1, 0]), jnp.array([0, 1, 2]), jnp.zeros(3, jnp.int32))
    np.testing.assert_array_equal(found.tokens[:, 0] // 4, [0, 1, 2, 0, 0, 3])
    np.testing.assert_array_equal(
        found.loss_mask, [[1, 1, 1, 0]] * 2 + [[0, 1, 1, 0]] * 2 + [[0] * 4] * 2
    )
    np.testing.assert_array_equal(found.stream, np.arange(6))


def test_turns_that_continuations_are_from():
    length = jnp.array([1, 2, 5, 5])
    at, there = jax.vmap(lambda key: prefixes(length, 6, 1, 3, key))(
        jax.random.split(jax.random.key(0), 200)
    )
    np.testing.assert_array_equal(there[0].sum(axis=1), [1, 2, 4, 4])
    assert (at[..., 0] == 0).all() and (at[~there] == 0).all()
    for one in np.asarray(at[:, 2, 1:]):
        assert len(set(one)) == 3
    drawn = np.bincount(np.asarray(at[:, 2, 1:]).ravel())
    np.testing.assert_allclose(drawn, [0] + [150] * 4, atol=25)


def room_of(words=False, slippery=False, **options):
    """(setup, the room, the options) of a run."""
    config = config_of(words)
    config.env.slippery = slippery
    config.components.witness = section(own_pieces.witness)
    build(config)
    setup = own_pieces.SETUPS.pop()
    given = {
        "episodes": TASKS, "outcomes": 1, "steps": 2, "samples": SAMPLES, "margin": 0.0,
        "threshold": 0.0,
    } | options  # fmt: skip
    made = module.Options(**given)
    return setup, module._room(setup, made, "start", 1), made


KINDS = pytest.mark.parametrize("words", [False, True], ids=["arrays", "words"])


@KINDS
def test_a_scorer_stands_where_the_fork_stood(words):
    """Read again by the same parameters, prefix and first turn leave the state that the fork was
    in, also where the environment draws, and its memory; by others the state, and another one."""
    setup, room, options = room_of(words, slippery=True)
    params, other = (setup.policy.init(jax.random.key(i)) for i in (1, 2))

    @jax.jit
    def play(params, reader, key):
        scene, expert, own, there = module._forked(room, options, params, key)
        read = module.taught(room, reader)
        known = module.played(room.world, read, scene.start, scene.expert_key, room.turns)
        actor = room.bound.actor(room.world, reader)
        first = jax.tree.map(lambda x: x[0], own.trajectory.turns)
        before = known.before(actor, scene.at, scene.lane)
        parted = module._first_turn(scene, reader, before, first)
        went = own.before(actor, jnp.ones_like(scene.at), jnp.arange(scene.at.shape[0]))
        return there & went.running, parted, went

    for reader in (params, other):
        follows, parted, went = jax.device_get(play(params, reader, jax.random.key(5)))
        assert follows.any() and (parted.running >= follows).all()

        rows = functools.partial(jax.tree.map, lambda x, at=follows: np.asarray(x)[at])

        jax.tree.map(np.testing.assert_array_equal, rows(parted.state), rows(went.state))
        if not words:
            continue
        one, two = rows(parted.memory[0]), rows(went.memory[0])
        np.testing.assert_array_equal(one.turn, two.turn)
        np.testing.assert_array_equal(one.cache.length, two.cache.length)
        keys = [[np.concatenate(layer, axis=-1) for layer in x.cache.k] for x in (one, two)]
        near = [
            np.allclose(x[n, :, :, :count], y[n, :, :, :count], atol=1e-5)
            for n, count in enumerate(one.cache.length)
            for x, y in zip(*keys, strict=True)
        ]
        assert all(near) if reader is params else not all(near)


@KINDS
def test_pairs_part_where_they_say(words):
    """Of a round: the winner first, equal before their turn, with ratio 1 where the policy wrote,
    and step rewards of ended episodes are their returns."""
    setup, room, options = room_of(words)
    params = setup.policy.init(jax.random.key(1))

    @jax.jit
    def play(params, key):
        scene, expert, own, there = module._forked(room, options, params, key)
        streams, rows = module._both(scene, expert, own)
        scores, count = module.step_rewards(
            scene, params, (expert, own), SAMPLES, jax.random.key(9), there
        )
        return scene.at, scene.lane, there, streams, rows, scores, count

    at, lane, there, streams, rows, scores, count = jax.device_get(play(params, jax.random.key(3)))
    returns, number = module.returns_of(streams), np.arange(len(at))
    wins = jnp.sign(returns[lane] - returns[TASKS:]).astype(jnp.int32) * there
    pairs = jax.device_get(paired(rows, wins, at, lane))
    assert (np.asarray(wins) != 0).any() and count > 0
    np.testing.assert_array_equal(pairs.loss_mask.any(axis=1)[::2], np.asarray(wins) != 0)
    logp = np.asarray(setup.policy.score(params, rows).logp)
    for m in number[there]:
        one, other = (jax.tree.map(lambda x, i=i: x[i], rows) for i in (lane[m], TASKS + m))
        before = (one.turn < at[m]) & (one.turn >= 0)
        np.testing.assert_array_equal(one.turn[before], other.turn[before])
        np.testing.assert_array_equal(one.tokens[before], other.tokens[before])
        own = other.loss_mask & (other.turn >= at[m])
        np.testing.assert_allclose(
            logp[TASKS + m][own], other.behaviour_logp[own], rtol=1e-4, atol=1e-4
        )
    ends = streams.mask.sum(axis=1) - 1
    for side, stream in ((0, lane), (1, TASKS + number)):
        score, last = np.asarray(scores[side]), there & (ends[stream] == at)
        np.testing.assert_allclose(score[last], returns[stream][last])
        assert last.any() and (np.abs(score * SAMPLES - np.round(score * SAMPLES)) < 1e-5).all()


def test_without_steps_they_are_outcome_pairs():
    """ETO: whole episodes, the larger return first, and nothing else is played."""
    setup, room, options = room_of(steps=0)
    params = setup.policy.init(jax.random.key(1))
    rows, metrics = jax.jit(lambda key: module._round(room, options, params, params, key))(
        jax.random.key(3)
    )
    _, expert, own, _ = module._forked(
        room, options, params, jax.random.split(jax.random.key(3))[0]
    )
    gain = [x.trajectory.turns.outcome.reward[..., 0].sum(axis=0) for x in (expert, own)]
    learnt = np.asarray(gain[0] != gain[1])
    whole = np.asarray(rows.loss_mask.sum(axis=1)).reshape(-1, 2)
    lengths = np.stack([expert.lengths, own.lengths], axis=1)
    np.testing.assert_array_equal(whole, np.where(learnt[:, None], lengths, 0))
    assert metrics["ipr/turns"] == own.lengths.sum() and float(metrics["ipr/turn"][1]) == 0
    reference = jnp.zeros(rows.tokens.shape)
    logp = setup.policy.score(params, rows).logp
    np.testing.assert_allclose(
        losses.rpo(logp, reference, rows.loss_mask, alpha=0.0),
        losses.dpo(logp, reference, rows.loss_mask),
        rtol=1e-6,
    )


def test_it_learns_resumes_and_is_traced_once(tmp_path):
    _, _, metrics = train_and_resume(config_of(every=2), tmp_path)
    played = [m for m in metrics if "ipr/pairs" in m]
    assert len(played) == 2 and metrics[-1]["ipr/turns"] > metrics[0]["ipr/turns"] > 0
    # In the first update there is nothing to learn from.
    assert metrics[0]["empty_steps"] == 1 and metrics[1]["empty_steps"] == 0
    np.testing.assert_allclose(metrics[1]["ipr/turns"], metrics[0]["ipr/turns"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcomes": 0, "steps": 0}, "expected 1 or more of either"),
        ({"steps": TURNS}, "fewer steps than that"),
        ({"scorer": "expert"}, "expected one of .start., .policy."),
        ({"samples": 0}, "samples"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        build(config_of(**options))
