"""Pairs of sibling turns: which they are, what of them is learnt, and training on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import advantages, losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.by_turn import to_turns
from agentrl.methods.siblings import (
    next_values,
    own_turns,
    positives,
    sibling_pairs,
    siblings,
)
from agentrl.methods.tree_values import node_values, tree_values
from agentrl.methods.trees import trees
from agentrl.streams import Streams

GROUPS, SIZE, TURNS = 3, 8, 5


def config_of(context=None, **options):
    """Agent Q on a lake, in words or, without a context, over arrays."""
    talk = context is not None
    config = talk_config(warm_start__updates=0, policy__constrained=True) if talk else lake()
    config.env.max_steps_in_episode = TURNS
    config.rollout = section(trees, num_groups=GROUPS, group_size=SIZE, together=2, rule="breadth")
    if talk:
        config.context = section(context)
    config.advantage = section(advantages.grpo)
    config.objective.policy.weight = 0.0
    config.components.siblings = section(siblings, **options)
    config.objective.dpo = term(losses.behaviour_dpo, source="siblings")
    config.learner.minibatches = 1
    return config


def test_pairs_worked_example():
    """Streams 0 to 2 differ in turn 0, 1 and 3 in turn 1 only; 3's first turn is stream 1's."""
    prefix = np.array([[0, 0], [1, 1], [2, -1], [1, 3]])
    mask = prefix >= 0
    score = np.array([[0.5, 0.5], [0.75, 1.0], [0.0, np.nan], [0.75, 0.5]], np.float32)
    better, worse, turn, gap = map(np.asarray, sibling_pairs(prefix, mask, score, 4))
    found = {
        (b, w, t): g
        for b, w, t, g in zip(*(x[0] for x in (better, worse, turn, gap)), strict=True)
        if g > 0
    }
    assert found == {(1, 0, 0): 0.25, (0, 2, 0): 0.5, (1, 2, 0): 0.75, (1, 3, 1): 0.5}


def test_critic_values_worked_example():
    streams = Streams(
        reward=np.array([[0, 1.0], [0.5, np.nan], [0.5, 0.0]], np.float32),
        mask=np.array([[True, True], [True, False], [True, False]]),
        value=np.array([[9, 0.25], [9, np.nan], [9, 9]], np.float32),
        bootstrap=np.array([[9, 9], [2, np.nan], [2, 2]], np.float32),
        truncated=np.array([[False, False], [True, False], [False, False]]),
    )
    found = next_values(streams, 0.5)
    np.testing.assert_allclose(found, [[0.125, 1.0], [1.5, 0], [0.5, 0]])


@pytest.mark.parametrize(
    "context",
    [rollout.contexts.whole, pytest.param(rollout.contexts.window, marks=pytest.mark.long)],
)
def test_pairs_in_words_are_turns_of_one_node(context):
    experiment = build(config_of(context, pairs=6))
    state = jax.jit(experiment.init)(0)
    check_pairs(jax.device_get(jax.jit(experiment.batches)(state)), 6)


def check_pairs(batches, pairs, alpha=1.0, threshold=0.1):
    """The better and the worse of two turns that left one node, and nothing else."""
    streams, (paired, rows) = batches["rollout"].streams, batches["siblings"][:2]
    assert batches["siblings"].unit == 2 and rows.tokens.shape[0] == GROUPS * pairs * 2
    trained = rows.loss_mask
    learnt = trained.any(axis=1)
    assert learnt.any() and (learnt[::2] == learnt[1::2]).all()
    values = tree_values(streams.reward, streams.mask, streams.group, streams.prefix)
    for row in np.flatnonzero(learnt)[::2]:
        (turn,) = set(rows.turn[row][trained[row]])
        assert set(rows.turn[row + 1][trained[row + 1]]) == {turn}
        before, there = slice(0, turn), slice(0, turn + 1)
        for name in ("reward", "valid"):
            one, other = getattr(paired, name)[row : row + 2, before]
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(paired.anchor[row, there], paired.anchor[row + 1, there])
    # As written in the rollout, the better turn first.
    rows_of = batches["rollout"].rows
    logp = np.asarray(to_turns(rows_of.behaviour_logp, rows_of, streams.mask.shape))
    score = values.turn
    if alpha < 1:
        score = alpha * score + (1 - alpha) * next_values(streams, 1.0)
    better, worse, turn, gap = map(
        np.asarray, sibling_pairs(streams.prefix, streams.mask, score, SIZE)
    )
    there = gap > threshold
    expected = np.stack([logp[better, turn][there], logp[worse, turn][there]], axis=1)
    wrote = np.where(trained, rows.behaviour_logp, 0).sum(axis=1)
    for pair in wrote.reshape(-1, 2)[learnt[::2]]:
        assert np.isclose(expected, pair, atol=1e-6).all(axis=1).any()
    per_tree = np.minimum(there.sum(axis=1), pairs)
    np.testing.assert_array_equal(learnt[::2].reshape(GROUPS, pairs).sum(axis=1), per_tree)


def test_preferred_turns_become_likelier_and_resume(tmp_path):
    """Of a tree over arrays with a critic: one trace, resume, and a first loss of log 2."""
    config = config_of(pairs=28, alpha=0.5, threshold=0.0)
    config.policy.critic, config.objective.value.weight = "separate", 0.5
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)
    config.annotations.values = section(node_values)
    config.components.own_turns = section(own_turns)
    experiment, states, metrics = train_and_resume(config, tmp_path)
    np.testing.assert_allclose(metrics[0]["loss/dpo"], np.log(2), rtol=1e-5)
    batches = jax.device_get(jax.jit(experiment.batches)(states[0]))
    check_pairs(batches, 28, alpha=0.5, threshold=0.0)
    # A turn is learnt from in the stream that sampled it.
    streams, rows = batches["rollout"].streams, batches["rollout"].rows
    copied = np.arange(TURNS) < streams.call_turn[:, None]
    assert (copied & streams.mask).any()
    assert rows.loss_mask.sum() == (streams.mask & ~copied).sum()
    notes = batches["rollout"].notes
    roots = notes["node_value"].values[:, 0].reshape(GROUPS, SIZE)
    returns = streams.reward.sum(axis=1).reshape(GROUPS, SIZE)
    np.testing.assert_allclose(
        roots, returns.mean(axis=1, keepdims=True).repeat(SIZE, 1), rtol=1e-6
    )
    # One step on these pairs: better turns gain, against the worse.
    rows = batches["siblings"].rows
    score = jax.jit(lambda params: experiment.policy.score(params, rows).logp)
    loss = losses.behaviour_dpo(score(states[1].params), rows.behaviour_logp, rows.loss_mask)
    learnt = rows.loss_mask.any(axis=1)[::2]
    assert np.asarray(loss)[learnt].mean() < np.log(2)


def test_loss_worked_example_and_padding():
    """beta = 0.5, log-ratios 0.4 and -0.6: -log sigmoid(0.5)."""
    logp = jnp.array([[-1.0, jnp.nan], [-2.0, 0.0]])
    behaviour = jnp.array([[-1.4, jnp.nan], [-1.4, 0.0]])
    mask = jnp.array([[True, False], [True, False]])
    np.testing.assert_allclose(
        losses.behaviour_dpo(logp, behaviour, mask, beta=0.5), [0.474077], rtol=1e-5
    )


def test_refuel_worked_example():
    """Log-ratios 0.5, -1, returns 0.8, 0.3: (1.5 - 0.5)^2; released, eta = 10: (1.5 - 5)^2."""
    logp = jnp.array([[-1.0, -0.5, jnp.nan], [-3.0, 0.0, 0.0]])
    behaviour = jnp.array([[-1.2, -0.8, jnp.nan], [-2.0, 0.0, 0.0]])
    goes = jnp.array([[0.8, 0.8, jnp.nan], [0.3, 9.0, 9.0]])
    mask = jnp.array([[True, True, False], [True, False, False]])
    np.testing.assert_allclose(losses.refuel(logp, behaviour, goes, mask), [1.0], rtol=1e-5)
    released = 10**2 * losses.refuel(logp, behaviour, goes, mask, eta=10.0)
    np.testing.assert_allclose(released, [12.25], rtol=1e-5)


def test_refuel_compares_two_futures_of_a_turn():
    """Trees of two episodes that part at any turn; those that part give one pair each.

    The trees of a collection share the draw of a turn, so that collections differ in it."""
    config = config_of(pairs=1, ties=True)
    config.rollout.update(num_groups=24, group_size=2, together=1, rule="uniform")
    config.objective.dpo = term(losses.refuel, source="siblings")
    experiment = build(config)
    init, collect = jax.jit(experiment.init), jax.jit(experiment.batches)
    drawn = [jax.device_get(collect(init(seed))) for seed in range(8)]
    first = [batches["rollout"].streams.call_turn[1::2] for batches in drawn]
    assert len(set(np.concatenate(first))) > 3 and np.max(first) > 1
    batches = drawn[int(np.argmax([np.mean(turns > 0) for turns in first]))]
    streams, batch = batches["rollout"].streams, batches["siblings"]
    learnt = batch.rows.loss_mask.any(axis=1)[::2]
    prefix = streams.prefix.reshape(24, 2, TURNS)
    np.testing.assert_array_equal(learnt, (prefix[:, 0] != prefix[:, 1]).any(axis=1))
    goes = batch.notes["turn_return"].values
    turn = np.maximum(batch.rows.turn[:, 0], 0)
    total = np.cumsum(batch.streams.reward[:, ::-1], axis=1)[:, ::-1]
    rows = np.arange(48)
    np.testing.assert_allclose(goes[rows, turn], total[rows, turn])


def test_what_gives_no_pairs_is_refused():
    config = config_of()
    config.rollout = section(rollout.episodes, num_groups=GROUPS, group_size=SIZE)
    with pytest.raises(ValueError, match="'siblings' needs trees of turns"):
        build(config)
    with pytest.raises(ValueError, match="pairs=29: expected at least 1 and at most 28"):
        build(config_of(pairs=29))
    with pytest.raises(ValueError, match="alpha=0.5: the rest is of a critic"):
        build(config_of(alpha=0.5))
    config = config_of()
    del config.components["siblings"], config.objective["dpo"]
    config.objective.policy.weight = 1.0
    config.components.own_turns = section(own_turns)
    config.rollout = section(rollout.episodes, num_groups=GROUPS, group_size=SIZE)
    with pytest.raises(ValueError, match="'own_turns' needs episodes that branch"):
        build(config)


def test_positives_are_the_turns_whose_leaves_mostly_succeed():
    """A solver's and a verifier's turns on one transcript: values by hand, as MALT backs them up.

    Two answers: the first is approved (right), rejected and answered twice more (wrong, right); the
    second is approved (wrong) and rejected, then right."""
    prefix = np.array([[0, 0, -1], [0, 1, 1], [0, 1, 2], [3, 3, -1], [3, 4, 4]])
    mask = prefix >= 0
    reward = np.where(mask, [[0, 1, 9], [0, 0, 0], [0, 0, 1], [0, 0, 9], [0, 0, 1]], np.nan)
    streams = Streams(
        reward=jnp.asarray(reward, jnp.float32),
        mask=jnp.asarray(mask),
        group=jnp.zeros(5, jnp.int32),
        prefix=jnp.asarray(prefix, jnp.int32),
    )
    config = config_of()
    config.components = {"positives": section(positives)}
    del config.objective["dpo"]
    config.objective.imitation = term(losses.weighted_imitation)
    component = build(config).components["positives"]
    weight = component.annotate(None, streams, None)["imitation_weight"].values
    # The answers: 2/3 and 1/2. Below them: 1; rejected 1/2, then 0 and 1; 0; rejected 1, then 1.
    expected = [[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]]
    np.testing.assert_array_equal(weight, expected)
