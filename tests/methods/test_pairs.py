"""Preference pairs and labelled rows: what is compared, and that it becomes likelier."""

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import losses, policies, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.config.learning import objective_of
from agentrl.learner.minibatch import check_minibatches
from agentrl.learner.update import example_of
from agentrl.methods.by_turn import stream_rows
from agentrl.methods.labelled import labelled, mismatched, partners
from agentrl.methods.pairs import chosen_and_rejected, pairs
from agentrl.streams import Rows

# A conversation about which only its rows are looked at.
QUIET = {"warm_start__updates": 0, "policy__constrained": True, "objective__kl__weight": 0.0}


def config_of(config=None, **options):
    """DPO alone: the rollout is collected for its pairs, and no other term is of it."""
    config = lake() if config is None else config
    config.components.pairs = section(pairs, **options)
    config.objective.policy.weight = 0.0
    config.objective.dpo = term(losses.dpo, source="pairs")
    return config


def test_best_and_worst_of_each_group():
    returns = jnp.array([0.0, 1.0, 1.0, 0.5, 0.5, 9.0, 2.0])
    group = jnp.array([0, 0, 0, 1, 1, 1, 2])
    present = jnp.array([True] * 5 + [False, True])
    chosen, draw = set(), jax.jit(chosen_and_rejected, static_argnums=3)
    for seed in range(20):
        best, worst, margin = draw(returns, group, present, 4, jax.random.key(seed))
        assert worst[0] == 0 and best[2] == worst[2] == 6
        assert set(best[1:2].tolist()) | set(worst[1:2].tolist()) <= {3, 4}
        np.testing.assert_array_equal(margin, [1, 0, 0, 0])
        chosen.add(int(best[0]))
    # Equals are drawn at random.
    assert chosen == {1, 2}


def test_equal_returns_are_told_apart_by_the_second_score():
    """StepORLM's worked pair, and PAPRIKA's rejected episode, which is any lower one."""
    returns = jnp.array([1.0, 0.0, 0.0, 0.0, 0.0])
    group, present = jnp.array([0, 0, 1, 1, 1]), jnp.ones(5, bool)
    share = jnp.array([0.0, 1.0, 0.75, 0.5, 0.6])
    draw = jax.jit(chosen_and_rejected, static_argnums=3, static_argnames="rejected")
    seen = set()
    for seed in range(20):
        key = jax.random.key(seed)
        best, worse, margin = draw(returns, group, present, 2, key, second=share)
        assert (best.tolist(), worse.tolist()) == ([0, 2], [1, 3])
        np.testing.assert_allclose(margin, [1.0, 0.25])
        best, worse, _ = draw(returns, group, present, 2, key, second=share, rejected="lower")
        assert best.tolist() == [0, 2]
        seen.add(int(worse[1]))
    assert seen == {3, 4}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """`train_and_resume` of DPO, with KTO beside it, and programs: (state) -> batches, and
    (params, rows) -> log-probabilities."""
    config = config_of()
    config.optimizer.learning_rate = 0.003
    config.components.labelled = section(labelled)
    config.objective.kto = term(losses.kto, source="labelled", beta=1.0)
    found = train_and_resume(config, tmp_path_factory.mktemp("pairs"))
    experiment, *_ = found
    score = jax.jit(lambda params, rows: experiment.policy.score(params, rows).logp)
    return *found, jax.jit(experiment.batches), score


def test_rows_of_pairs_are_whole_streams_of_one_group(trained):
    _, states, _, batches, score = trained
    batches = jax.device_get(batches(states[0]))
    streams, rows = batches["pairs"].streams, batches["pairs"].rows
    assert batches["pairs"].unit == 2 and rows.tokens.shape == (8, 6)
    np.testing.assert_array_equal(rows.stream, np.arange(8))
    group = np.asarray(streams.group)[rows.stream]
    np.testing.assert_array_equal(group, np.repeat(np.arange(4), 2))
    returns = np.asarray(streams.reward).sum(axis=1)[rows.stream].reshape(4, 2)
    differ = returns[:, 0] > returns[:, 1]
    np.testing.assert_array_equal(np.asarray(rows.loss_mask).any(axis=1), np.repeat(differ, 2))
    # Position t is turn t of the stream, with what was seen and done there.
    streams = batches["rollout"].streams
    whole = jax.device_get(jax.jit(stream_rows)(batches["rollout"].rows, streams))
    np.testing.assert_array_equal(whole.loss_mask, streams.mask)
    logp = score(states[0].params, whole)
    np.testing.assert_allclose(
        np.where(streams.mask, logp, 0), np.where(streams.mask, whole.behaviour_logp, 0), atol=1e-5
    )


def test_the_reference_is_of_the_rows_where_they_have_the_streams_shape():
    """Groups of two: 8 rows [6] of pairs beside 8 streams of 6 turns, in another order."""
    config = config_of()
    config.rollout.group_size = 2
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    batch = jax.jit(experiment.batches)(state)["pairs"]._replace(unit=2)
    assert batch.rows.loss_mask.shape == batch.streams.mask.shape == (8, 6)
    term = objective_of(config)["dpo"]
    example = example_of(batch, {"dpo": term}, "none", 1)
    logp = jax.jit(experiment.policy.score)(state.carry["reference"], batch.rows).logp
    mask = np.asarray(batch.rows.loss_mask)
    assert mask.any()
    # Both structures hold the same episodes.
    np.testing.assert_array_equal(mask.any(axis=1) & ~np.asarray(batch.streams.mask).any(axis=1), 0)
    np.testing.assert_allclose(
        np.asarray(example.arrays["reference_logp"])[mask], np.asarray(logp)[mask], atol=1e-5
    )


def test_preferred_episodes_become_likelier_and_resume(trained):
    _, states, metrics, batches, score = trained
    np.testing.assert_allclose(metrics[0]["loss/dpo"], np.log(2), rtol=1e-5)
    rows = batches(states[0])["pairs"].rows
    before, after = (score(s.params, rows) for s in states[:2])
    both = np.asarray(rows.loss_mask).any(axis=1).reshape(-1, 2).all(axis=1)
    assert both.any()
    loss = losses.dpo(after, before, rows.loss_mask)[both]
    assert loss.mean() < np.log(2)


def test_conversations_give_pairs_of_whole_rows():
    experiment = build(config_of(talk_config(**QUIET)))
    batches = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))
    rows, streams = batches["pairs"].rows, batches["pairs"].streams
    assert rows.tokens.shape[0] == 16
    np.testing.assert_array_equal(
        np.asarray(streams.group)[rows.stream], np.repeat(np.arange(8), 2)
    )


def test_partners_are_other_rows_that_are_there():
    present = jnp.array([True, False, True, True, False, True])
    for seed in range(5):
        found = np.asarray(jax.jit(partners)(present, jax.random.key(seed)))[np.asarray(present)]
        assert sorted(found) == [0, 2, 3, 5] and (found != [0, 2, 3, 5]).all()


def test_a_mismatched_row_of_text_has_its_own_prompt_and_the_others_reply():
    # Prompts of two and one tokens; replies of two, with an observation between; padding is 0.
    tokens = jnp.array([[1, 2, 11, 12, 3, 13, 0], [4, 21, 5, 22, 23, 0, 0]])
    loss_mask = jnp.array([[0, 0, 1, 1, 0, 1, 0], [0, 1, 0, 1, 1, 0, 0]], bool)
    turn = jnp.where(loss_mask, jnp.array([[0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 1, 0, 0]]), -1)
    logp = jnp.where(loss_mask, -1.0, 0.0)
    rows = Rows(tokens, loss_mask, jnp.arange(2), turn, logp, span=turn)
    made = mismatched(rows, jnp.array([1, 0]))
    np.testing.assert_array_equal(made.tokens, [[1, 2, 21, 5, 22, 23, 0], [4, 11, 12, 3, 13, 0, 0]])
    learnt = [[0, 0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0, 0]]
    np.testing.assert_array_equal(made.loss_mask, learnt)
    np.testing.assert_array_equal(made.turn, [[-1, -1, 0, -1, 1, 1, -1], [-1, 0, 0, -1, 1, -1, -1]])
    assert not made.behaviour_logp.any()
    same = mismatched(rows, jnp.arange(2))
    np.testing.assert_array_equal(same.tokens, tokens)
    np.testing.assert_array_equal(same.loss_mask, loss_mask)


def test_labelled_episodes_have_mismatched_rows_and_become_likelier(trained):
    _, states, metrics, batches, score = trained
    batch = jax.device_get(batches(states[0])["labelled"])
    rows, solved = batch.rows, np.asarray(batch.streams.success).any(axis=1)
    assert batch.unit == 2 and solved.any() and not solved.all()
    np.testing.assert_array_equal(rows.stream, np.repeat(np.arange(16), 2))
    np.testing.assert_array_equal(
        batch.notes["desirable"].values, np.repeat(solved[:, None], 6, axis=1)
    )
    # The same observations; the actions of another row, where both acted.
    np.testing.assert_array_equal(rows.observation[0::2], rows.observation[1::2])
    assert not (rows.loss_mask[1::2] & ~rows.loss_mask[0::2]).any()
    assert (rows.tokens[0::2] != rows.tokens[1::2]).any()
    rows = jax.tree.map(lambda x: x[0::2], rows)

    def log_ratio(params):
        logp = score(params, rows)
        return losses.preference.row_log_ratio(logp, rows.behaviour_logp, rows.loss_mask)

    # One step on this batch: desirable episodes gain, against the others.
    after = np.asarray(log_ratio(states[1].params))
    assert after[solved].mean() > after[~solved].mean()
    # The policy is the reference at first.
    assert abs(metrics[0]["labelled/kto_baseline"]) < 1e-6
    assert metrics[-1]["labelled/kto_baseline"] >= 0


def test_rollouts_that_have_no_pairs_are_refused():
    config = config_of(talk_config(warm_start__updates=0))
    config.context = section(rollout.contexts.window, history=1)
    with pytest.raises(ValueError, match="use a context with one row per stream"):
        build(config)
    config = config_of()
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.components.pairs.margin = -1.0
    with pytest.raises(ValueError, match="pairs.margin=-1"):
        build(config)


def test_minibatches_divide_the_pairs():
    """8 minibatches divide the rollout's rows, and the 8 rows of pairs, but not the 4 pairs."""
    config = config_of()
    config.learner.minibatches = 8
    message = r"minibatches=8 does not divide the 8 rows of source 'pairs' \(of which 2 neighbours"
    with pytest.raises(ValueError, match=message):
        build(config)
    config.learner.minibatches = 4
    build(config)
    # The same as an update finds it, where environments are in Python.
    check_minibatches("mine", 12, 4, 3)
    with pytest.raises(ValueError, match="minibatches=8 does not divide the 12 rows of source 'mi"):
        check_minibatches("mine", 12, 8, 1)
    with pytest.raises(ValueError, match="minibatches=1 does not divide the 7 rows of source"):
        check_minibatches("mine", 7, 1, 2)


def test_rows_of_whole_streams_are_in_the_order_of_the_streams():
    config = config_of()
    config.policy = section(policies.gru, hidden=(8,), memory_size=4, critic="none")
    config.rollout.group_size = 2
    config.components.labelled = section(labelled)
    config.objective.kto = term(losses.kto, source="labelled")
    config.objective.imitation.during = "rl"
    config.expert.update(episodes=4, held_out=False)
    experiment = build(config)
    batches = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))
    assert set(batches) == {"rollout", "pairs", "labelled", "expert"}
    del batches["labelled"]  # two rows for each stream
    for batch in batches.values():
        count, turns = batch.rows.loss_mask.shape
        assert batch.streams.mask.shape == (count, turns)
        np.testing.assert_array_equal(batch.rows.stream, np.arange(count))
        turn = np.asarray(batch.rows.turn)
        assert ((turn == np.arange(turns)) | (turn == -1)).all()


def test_what_is_per_turn_and_what_per_position_where_the_shapes_are_the_same():
    """Of a source whose rows are in another order than its streams."""
    config = config_of()
    config.rollout.group_size = 2
    config.components.pairs = section(own_pieces.shuffled_pairs)
    config.annotations.row_number = section(own_pieces.row_numbers)
    config.annotations.surprise = section(own_pieces.surprise)
    config.objective.rows = term(own_pieces.between, source="pairs")
    experiment = build(config)
    batch = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))["pairs"]
    count, turns = batch.rows.loss_mask.shape
    assert batch.streams.mask.shape == (count, turns)
    np.testing.assert_array_equal(batch.rows.stream, np.arange(count)[::-1])
    terms = experiment.phases[-1][0].learner.terms
    arrays = example_of(batch, {"rows": terms["rows"]}, "none", 1).arrays
    np.testing.assert_array_equal(arrays["row_number"][:, 0], np.arange(count))
    mask = np.asarray(batch.rows.loss_mask)
    expected = np.asarray(batch.notes["surprise"].values)[::-1]
    np.testing.assert_array_equal(np.asarray(arrays["surprise"])[mask], expected[mask])
