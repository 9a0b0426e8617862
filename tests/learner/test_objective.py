"""The objective: terms of positions, rows and pairs, their weights and sources, and empty steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import own_pieces
import pytest
from steps import stepper

from agentrl import losses
from agentrl.declarations import averaged
from agentrl.learner.credit import Credit
from agentrl.learner.function import Function
from agentrl.learner.minibatch import shuffled_rows
from agentrl.learner.objective import Term
from agentrl.learner.update import Batch
from agentrl.streams import PerPosition, PerTurn, Rows, Streams

ROWS, LENGTH, WORDS = 12, 5, 7


class Toy:
    """A policy of one number per word, whose log-probabilities depend on the words before."""

    frozen, outputs = (), {}

    @staticmethod
    def score(params, rows, needed=None):
        each = params["word"][rows.tokens]
        before = jnp.cumsum(each, axis=1) - each
        return -jax.nn.softplus(each + 0.1 * before), jnp.square(each), before

    @staticmethod
    def shared_positions(length):
        return 0

    @staticmethod
    def step_counts(trained):
        return {}


PARAMS = {"word": jnp.linspace(-1.0, 1.0, WORDS)}


def batch(seed=0, unit=1, keep=None, silent=()):
    """Rows of one turn each; the rows `silent` have nothing to learn from."""
    rng = np.random.default_rng(seed)
    mask = rng.random((ROWS, LENGTH)) < 0.6
    mask[:, 0] = True
    mask[list(silent)] = False
    rows = Rows(
        tokens=rng.integers(0, WORDS, (ROWS, LENGTH)),
        loss_mask=mask,
        stream=np.arange(ROWS),
        turn=np.zeros((ROWS, LENGTH), np.int32),
        behaviour_logp=np.full((ROWS, LENGTH), -0.7, np.float32),
    )
    streams = Streams(reward=np.zeros((ROWS, 1), np.float32), mask=mask.any(axis=1, keepdims=True))
    advantage = rng.normal(size=(ROWS, 1)).astype(np.float32) * streams.mask
    keep = np.ones(ROWS, bool) if keep is None else np.asarray(keep)
    credit = Credit(PerTurn(advantage), keep, None, {})
    notes = {
        "reference_logp": PerPosition(rng.normal(size=(ROWS, LENGTH)).astype(np.float32)),
        "question": PerPosition(rng.random((ROWS, LENGTH)) < 0.3),
    }
    return jax.tree.map(jnp.asarray, Batch(streams, rows, credit, notes)), unit


@averaged(over="question")
def at_questions(logp, mask):
    """A term over positions that an annotation gives, trained ones or not."""
    return jnp.where(mask, jnp.square(logp), 0.0)


TERMS = {
    "position": Term(Function(losses.reinforce, {})),
    "question": Term(Function(at_questions, {})),
    "row": Term(Function(own_pieces.row_likelihood, {})),
    "pair": Term(Function(own_pieces.preference, {"beta": 0.3})),
}


@functools.cache
def updater(names, transform, weights=(1.0, 1.0, 1.0, 1.0), **options):
    """An update by these terms; their arrays are of `batch`."""
    terms = {
        name: TERMS[name]._replace(weight=weight)
        for name, weight in zip(names, weights, strict=False)
    }
    update = stepper(Toy, transform, terms, **options)

    @functools.partial(jax.jit, static_argnums=3)
    def updated(params, opt_state, batch, unit, progress):
        batches = {"rollout": batch._replace(unit=unit)}
        key = jax.random.key(3)
        return update(params, opt_state, batches, key, progress)

    return updated


SGD = optax.sgd(1.0)


def gradient(names, given, **options):
    """What a step of rate 1 takes off the parameters, and the metrics."""
    data, unit = given
    after, _, metrics, finite = updater(tuple(names), SGD, **options)(
        PARAMS, SGD.init(PARAMS), data, unit, 0.0
    )
    assert finite
    return np.asarray(PARAMS["word"] - after["word"]), metrics


def plain(name, data):
    """The loss of a term by hand, and how many values it is the mean of."""
    rows, notes = data.rows, {name: note.values for name, note in data.notes.items()}
    mask = rows.loss_mask

    def loss(params):
        logp = Toy.score(params, rows)[0]
        if name == "position":
            each = -data.credit.advantage.values[:, :1] * logp
            return jnp.sum(jnp.where(mask, each, 0)) / mask.sum()
        if name == "question":
            over = notes["question"]
            return jnp.sum(jnp.where(over, jnp.square(logp), 0)) / over.sum()
        some = mask.any(axis=1)
        if name == "row":
            each = own_pieces.row_likelihood(logp, mask)
        else:
            each = own_pieces.preference(logp, notes["reference_logp"], mask, beta=0.3)
            some = some.reshape(-1, 2).all(axis=1)
        return jnp.sum(jnp.where(some, each, 0)) / some.sum()

    return loss


SILENT = (3, 8, 9)


@pytest.mark.parametrize("name", TERMS)
def test_a_term_is_a_mean_over_its_own_units(name):
    """Rows without a reply do not count; a pair counts if both of its rows have one."""
    given = data, _ = batch(unit=2, silent=SILENT)
    ours, metrics = gradient([name], given)
    value, slope = jax.value_and_grad(plain(name, data))(PARAMS)
    np.testing.assert_allclose(ours, slope["word"], atol=1e-6)
    total, count = metrics[f"loss/{name}"]
    np.testing.assert_allclose(total / count, value, rtol=1e-5)


@pytest.mark.parametrize("microbatch", [2, 4, 6])
@pytest.mark.parametrize("name", TERMS)
def test_in_microbatches_as_in_one(name, microbatch):
    given = batch(unit=2, silent=SILENT)
    whole, metrics = gradient([name], given)
    parts, same = gradient([name], given, microbatch=microbatch)
    np.testing.assert_allclose(parts, whole, atol=1e-6)
    np.testing.assert_allclose(same[f"loss/{name}"], metrics[f"loss/{name}"], rtol=1e-5)


def test_a_microbatch_that_would_cut_units_or_rows_short_is_not_used():
    given = batch(unit=2, silent=SILENT)
    for microbatch in (3, 5, 7):
        for names in (["pair"], ["position"]):
            whole, _ = gradient(names, given)
            parts, _ = gradient(names, given, microbatch=microbatch)
            np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_terms_add_up_by_their_weights():
    given = batch(unit=2)
    weights = {"position": 1.0, "question": 0.5, "row": 0.25, "pair": 2.0}
    together, _ = gradient(weights, given, weights=tuple(weights.values()))
    expected = sum(weight * gradient([name], given)[0] for name, weight in weights.items())
    np.testing.assert_allclose(together, expected, atol=1e-6)


def test_minibatches_keep_units_whole():
    number = jnp.arange(ROWS)
    learnt = (number != 4) & (number != 5) & (number != 10) & (number != 11)
    seen = set()
    for seed in range(4):
        for microbatch in (None, 2):
            key = jax.random.key(seed)
            order = shuffled_rows(learnt[:, None], key, 3, unit=2, microbatch=microbatch)
            dealt_numbers = np.asarray(order)
            assert dealt_numbers.shape == (3, 4)
            np.testing.assert_array_equal(np.sort(dealt_numbers.reshape(-1)), number)
            pairs = dealt_numbers.reshape(-1, 2)
            np.testing.assert_array_equal(pairs[:, 1], pairs[:, 0] + 1)
            assert (pairs[:, 0] % 2 == 0).all()
            seen.add(tuple(pairs[:, 0]))
            if microbatch is not None:
                # Two pairs are empty: no minibatch has both.
                empty = ~np.asarray(learnt)[dealt_numbers].reshape(3, 2, 2).any(axis=2)
                assert empty.sum(axis=1).max() == 1
    assert len(seen) > 4


@pytest.mark.parametrize(
    ("weight", "final", "progress", "expected"),
    [(0.4, None, 0.7, 0.4), (0.4, 0.1, 0.0, 0.4), (0.4, 0.1, 0.5, 0.2), (0.1, 0.4, 1.0, 0.4)],
)
def test_weights_go_by_equal_factors(weight, final, progress, expected):
    term = Term(Function(losses.reinforce, {}), weight=weight, final_weight=final)
    np.testing.assert_allclose(term.weight_at(progress), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda x: (x, {"size": x}, x),
            r"\(\*, \{'size': \*\}, \*\)\); return the array of values",
        ),
        (
            lambda x: (x, x),
            r"wrong\(\) returned PyTreeDef\(\(\*, \*\)\); .* or \(values, \{metric: one",
        ),
        (lambda x: {"loss": x}, r"returned PyTreeDef\(\{'loss': \*\}\); return the array of"),
        (lambda x: None, r"returned PyTreeDef\(None\); return the array of values alone"),
        (
            lambda x: jnp.mean(x),
            r"shape \(\); expected one value per position \[R, L\], here \(12, 5",
        ),
        (
            lambda x: (x, {"size": jnp.mean(x, axis=1)}),
            r"shape \(12,\); expected metric 'size' per position \[R, L\], here \(12, 5\)",
        ),
    ],
)
def test_a_loss_returns_values_alone_or_with_metrics(returned, message):
    def wrong(logp, mask):
        return returned(jnp.where(mask, logp, 0.0))

    update = stepper(Toy, SGD, {"mine": Term(Function(wrong, {}))})
    given = {"rollout": batch()[0]}
    with pytest.raises(ValueError, match=message):
        update(PARAMS, SGD.init(PARAMS), given, jax.random.key(0))


def test_sources_add_up_and_report_under_their_names():
    terms = {
        "policy": Term(Function(losses.reinforce, {})),
        "imitation": Term(Function(losses.behaviour_cloning, {}), weight=0.5, source="expert"),
        "distance": Term(Function(own_pieces.squared, {"at": 0.0}), weight=0.1, source="expert"),
    }
    of = {"rollout": batch(0)[0], "expert": batch(1)[0]._replace(credit=None)}

    def change(names, sources):
        update = stepper(Toy, SGD, {name: terms[name] for name in names})
        batches = {source: of[source] for source in sources}
        after, _, metrics, _ = update(PARAMS, SGD.init(PARAMS), batches, jax.random.key(0))
        return np.asarray(PARAMS["word"] - after["word"]), metrics

    ours, metrics = change(terms, of)
    alone = [change(["policy"], ["rollout"])[0], change(["imitation", "distance"], ["expert"])[0]]
    np.testing.assert_allclose(ours, sum(alone), atol=1e-6)
    assert {"loss/policy", "loss/imitation", "entropy", "approx_kl", "adv/std"} <= metrics.keys()
    # Diagnostics of other rows than the policy's own are not mixed with those of the rollout.
    assert "expert/distance" in metrics and "distance" not in metrics
    assert "expert/entropy" not in metrics
    logp = Toy.score(PARAMS, of["expert"].rows)[0]
    mask = of["expert"].rows.loss_mask
    np.testing.assert_allclose(
        metrics["loss/imitation"], [-jnp.sum(jnp.where(mask, logp, 0)), mask.sum()], rtol=1e-5
    )


ADAM = optax.adamw(0.1, weight_decay=0.1)


def stepped(keep, minibatches=1, names=("position",), silent=()):
    """(params, opt_state) before and after an update with momentum, and its metrics."""
    moved = updater(("position",), ADAM)
    params, opt_state, *_ = moved(PARAMS, ADAM.init(PARAMS), *batch(5), 0.0)
    given = batch(6, unit=2, keep=keep, silent=silent)
    after = updater(tuple(names), ADAM, minibatches=minibatches)(params, opt_state, *given, 0.0)
    assert after[3]
    return (params, opt_state), after[:2], after[2]


@pytest.mark.parametrize("names", [("position",), ("row",), ("pair",), ("position", "row")])
@pytest.mark.parametrize("minibatches", [1, 3])
def test_an_update_without_anything_to_learn_from_changes_nothing(names, minibatches):
    """Neither momentum nor weight decay move the parameters, and Adam counts no step."""
    before, after, metrics = stepped([False] * ROWS, minibatches, names)
    jax.tree.map(np.testing.assert_array_equal, before, after)
    np.testing.assert_array_equal(metrics["empty_steps"], [minibatches, minibatches])
    np.testing.assert_array_equal(metrics["update_norm"], [0, 1])


def test_advantages_of_zero_change_nothing():
    """As where each group has equal returns: its rows are learnt from, without a gradient."""
    data, unit = batch(6, unit=2)
    zero = PerTurn(jnp.zeros((ROWS, 1)))
    data = data._replace(credit=data.credit._replace(advantage=zero))
    moved = updater(("position",), ADAM)
    before = moved(PARAMS, ADAM.init(PARAMS), *batch(5), 0.0)[:2]
    *after, metrics, finite = moved(*before, data, unit, 0.0)
    assert finite and metrics["loss/position"][1] > 0 and metrics["empty_steps"][0] == 1
    jax.tree.map(np.testing.assert_array_equal, before, tuple(after))


def test_steps_with_something_to_learn_from_are_made():
    keep = np.arange(ROWS) == 3
    before, after, metrics = stepped(keep, minibatches=3)
    np.testing.assert_array_equal(metrics["empty_steps"], [2, 3])
    assert (before[0]["word"] != after[0]["word"]).any()
    assert int(after[1][0].count) == int(before[1][0].count) + 1


def test_a_pair_of_which_one_row_is_kept_is_nothing_to_learn_from():
    before, after, metrics = stepped(np.arange(ROWS) % 2 == 0, names=("pair",))
    assert metrics["loss/pair"][1] == 0 and metrics["empty_steps"][0] == 1
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_a_rejected_update_gives_back_what_it_was_given():
    data, unit = batch(6)
    broken = data._replace(
        credit=data.credit._replace(
            advantage=PerTurn(data.credit.advantage.values.at[2].set(jnp.nan))
        )
    )
    opt_state = ADAM.init(PARAMS)
    params, after, metrics, finite = updater(("position",), ADAM)(
        PARAMS, opt_state, broken, unit, 0.0
    )
    assert not finite
    jax.tree.map(np.testing.assert_array_equal, (params, after), (PARAMS, opt_state))
    assert not any(np.asarray(x).any() for x in metrics.values())
