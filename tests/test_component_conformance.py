"""What holds for every component that a config can name, see `agentrl.learner.component`.

The subjects are found in the packages, and each is called in a small run of a config that names it
(tests/support/component_cases.py): a new component is tested without being listed here.
"""

import inspect
import typing
from collections.abc import Callable

import component_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from component_cases import case_of, permuted, poisoned, where_read

from agentrl.config.bind import bind
from agentrl.evaluation.metric_names import describe
from agentrl.learner.component import Context, UpdateResult
from agentrl.learner.function import options_of
from agentrl.learner.train_step import annotated, before, carried
from agentrl.policies.scoring import join, split
from agentrl.run import checkpoint
from agentrl.streams import PerTurn, Shared

FACTORIES = component_cases.factories()
BATCHES = 3
each_component = pytest.mark.parametrize("factory", FACTORIES, ids=lambda f: f.__name__)


class Played:
    """A case's program, and what it told in its first updates."""

    def __init__(self, case):
        self.case, self.traces = case, []
        update = component_cases.update_of(case)

        @jax.jit
        def counted(state, batch):
            self.traces.append(1)
            return update(state, batch)

        self.update = counted
        self.batches = [component_cases.batch_of(case, seed) for seed in range(BATCHES)]
        self.states, self.told = [case.state], []
        for batch in self.batches:
            told, state = counted(self.states[-1], batch)
            self.states.append(state)
            self.told.append(told)


_PLAYED = {}


def played(factory):
    """(Played of the factory's case, the name of its component there)."""
    case, name = case_of(factory)
    if id(case) not in _PLAYED:
        _PLAYED[id(case)] = Played(case)
    return _PLAYED[id(case)], name


def assert_same(one, other, **tolerance):
    """Asserts that two trees are equal; a failure names the entry."""

    def compare(path, a, b):
        if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        message = jax.tree_util.keystr(path)
        if tolerance and np.issubdtype(np.asarray(a).dtype, np.inexact):
            np.testing.assert_allclose(a, b, err_msg=message, **tolerance)
        else:
            np.testing.assert_array_equal(a, b, err_msg=message)

    jax.tree_util.tree_map_with_path(compare, one, other)


@each_component
def test_it_reads_nothing_outside_of_the_mask(factory):
    """NaN, large numbers and turned flags in padding change no value on the mask and no metric, of
    this update and, by what is carried, of the next one."""
    run, name = played(factory)
    for bad in (np.nan, 1e9):
        told, after = run.update(run.states[1], poisoned(run.batches[1], bad))
        assert_same(where_read(told[name]), where_read(run.told[1][name]))
        told, _ = run.update(after, run.batches[2])
        assert_same(where_read(told[name]), where_read(run.told[2][name]))
    assert len(run.traces) == 1


@each_component
def test_what_it_says_is_finite(factory):
    """Also where nobody acted: losses multiply by it."""
    run, name = played(factory)
    for told in run.told:
        for path, x in jax.tree_util.tree_leaves_with_path((told[name].notes, told[name].metrics)):
            assert np.isfinite(x).all(), jax.tree_util.keystr(path)
        for metric in (told[name].measured | told[name].report).values():
            assert metric.shape == (2,) and metric.dtype == jnp.float32
            assert np.isfinite(metric).all()


@each_component
def test_its_docstring_describes_its_metrics(factory):
    """Those of its own or of another function, see `launchers.metrics_page`."""
    run, name = played(factory)
    told = run.told[0][name]
    names = {*told.measured, *told.report, *(n for own in told.metrics for n in own)}
    assert not [n for n in names if not describe(n).family]


@each_component
def test_the_order_of_streams_and_rows_is_nothing_to_an_annotation(factory):
    run, name = played(factory)
    components = run.case.phase.components
    source = components[name].source
    apart = source is None or source.unit == 1
    if components[name].annotate is None or not apart or any(c.amend for c in components.values()):
        pytest.skip(
            "no annotation, or one of neighbouring rows, or of what another one has amended"
        )
    batch, told = run.batches[1], jax.device_get(run.told[1][name])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(batch.streams.mask))
    of_rows = rng.permutation(len(batch.rows.stream))
    other = jax.device_get(run.update(run.states[1], permuted(batch, order, of_rows))[0][name])
    for key, note in told.notes["rollout"].items():
        if not isinstance(note, Shared):
            place = order if isinstance(note, PerTurn) else of_rows
            note = note.replace(values=note.values[place])
        assert_same(other.notes["rollout"][key], note, rtol=1e-3, atol=1e-4)
    assert_same(other.metrics, told.metrics, rtol=1e-3, atol=1e-4)


@each_component
def test_equal_keys_give_equal_draws_and_no_gradient_goes_through_an_annotation(factory):
    run, name = played(factory)
    again, _ = run.update(run.states[0], run.batches[0])
    assert_same(again[name], run.told[0][name])
    component, case = run.case.phase.components[name], run.case
    if component.annotate is None:
        return
    alone = case.phase._replace(components={name: component}, annotations={})
    batch, state = jax.tree.map(jnp.asarray, run.batches[1]), run.states[1]

    def total(trained):
        params = join(trained, split(state.params, case.setup.policy.frozen)[1])
        sources = {"rollout": (batch.streams, batch.rows)}
        start = before(alone, state.replace(params=params))
        notes, _ = annotated(case.setup, alone, start, sources)
        numbers = [x for x in jax.tree.leaves(notes) if jnp.issubdtype(x.dtype, jnp.floating)]
        return sum((jnp.sum(x) for x in numbers), jnp.zeros(()))

    slopes = jax.jit(jax.grad(total))(split(state.params, case.setup.policy.frozen)[0])
    assert not any(np.asarray(slope).any() for slope in jax.tree.leaves(slopes))


@each_component
def test_what_it_carries_keeps_its_structure(factory):
    """So that updates are a loop of one program, and a checkpoint is restored into it."""
    run, name = played(factory)

    def shapes(state):
        def shape(x):
            return x.shape, x.dtype, getattr(x, "weak_type", False)

        return jax.tree.map(shape, state.carry[name])

    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(run.states[0].carry[name]))
    assert [shapes(state) for state in run.states[1:]] == BATCHES * [shapes(run.states[0])]
    if run.case.phase.components[name].in_warm_start:
        # There nothing may be collected.
        component, state = run.case.phase.components[name], run.states[0]
        outcome = UpdateResult(before=state, params=state.params, finite=jnp.ones((), bool))
        carry, _ = carried({name: component}, {name: state.carry[name]}, outcome)
        assert shapes(state.replace(carry=carry)) == shapes(state)


@each_component
def test_a_rejected_update_leaves_it_as_it_declares(factory):
    run, name = played(factory)
    component = run.case.phase.components[name]
    before = run.states[1].carry[name]
    rejected = run.batches[1]._replace(finite=np.zeros((), bool))
    told, _ = run.update(run.states[1], rejected)
    if component.after is None or not component.counts_rejected:
        assert_same(told[name].value, before)
        return
    with pytest.raises(AssertionError):
        assert_same(told[name].value, before)


@each_component
def test_what_acts_with_other_parameters_is_known_before_the_update(factory):
    """With environments in Python the next batch is collected while the learner works: what gives
    parameters reads `outcome.before` alone."""
    run, name = played(factory)
    component, state = run.case.phase.components[name], run.states[1]
    alone = run.case.phase._replace(components={name: component})
    if component.before is None or before(alone, state).inputs.params is state.params:
        pytest.skip("the parameters that act are the newest")
    if "in_graph=True" in inspect.getsource(factory):
        pytest.skip("it refuses environments in Python")
    ahead, _ = carried({name: component}, state.carry, UpdateResult(before=state))
    assert_same(ahead[name], run.states[2].carry[name])


@each_component
def test_it_computes_the_same_uncompiled(factory):
    """Where its annotation or what it amends has neither a network nor a loop: those take minutes
    one operation at a time."""
    run, name = played(factory)
    component, case = run.case.phase.components[name], run.case
    batch, state = run.batches[1], run.states[1]
    batch = jax.tree.map(jnp.asarray, batch)
    context = Context(case.setup, state.carry[name], state.params, jax.random.key(0))
    for hook in (component.annotate, component.amend):
        if hook is None:
            continue

        def call(context, batch, hook=hook):
            return hook(context._replace(setup=case.setup), batch.streams, batch.rows)

        given = context._replace(setup=None), batch
        graph = str(jax.make_jaxpr(call)(*given))
        assert graph == str(jax.make_jaxpr(call)(*given))
        if not any(name in graph for name in ("dot_general", "scan[", "while[")):
            assert_same(call(*given), jax.jit(call)(*given), rtol=1e-5, atol=1e-6)


# Numbers that are rewards, or compared with them: any will do.
ANY_NUMBER = ("bonus", "highest_mean", "margin", "pays", "success", "unmatched")


def wrong_values(name, parameter):
    """Values that an option cannot have, by its type: counts, rates and the like are not
    negative."""
    parts = typing.get_args(parameter.annotation)
    kinds = {parameter.annotation, typing.get_origin(parameter.annotation), *parts}
    if kinds & {int, float, bool, tuple}:
        yield "much"
    if tuple in kinds:
        yield (None,)
    elif any(typing.get_origin(part) is Callable for part in parts):
        yield 3
    elif kinds & {typing.Literal, str}:
        yield "no_such"
    elif kinds & {int, float} and name not in ANY_NUMBER:
        yield -1


# The name of another component is checked when the run is built (tests/trajectories/).
OPTIONS = [(f, name) for f in FACTORIES for name in options_of(f) if name != "source"]


@pytest.mark.parametrize(
    ("factory", "option"), OPTIONS, ids=[f"{f.__name__}-{name}" for f, name in OPTIONS]
)
def test_wrong_options_are_refused_by_name(factory, option):
    case, name = case_of(factory)
    config = case.experiment.config
    given = dict(config.components.get(name) or config.get(name, {}))
    given.pop("name", None)
    wrong = [*wrong_values(option, options_of(factory)[option])]
    assert wrong, f"{option} of {factory.__name__} can be anything"
    for value in wrong:
        with pytest.raises(ValueError, match=rf"\b{option}\b"):
            factory(case.setup, **bind(name, factory, given | {option: value}))
            pytest.fail(f"{option}={value!r} is accepted")


@each_component
def test_what_it_carries_can_be_saved_and_restored(factory, tmp_path):
    """As it is after some updates: keys and half filled buffers, too."""
    run, name = played(factory)
    value = {name: run.states[-1].carry[name]}
    if not jax.tree.leaves(value):
        pytest.skip("it carries nothing")
    checkpoint.save(tmp_path, 1, value, keep=1)
    _, restored = checkpoint.restore(tmp_path, jax.eval_shape(lambda: value))
    assert_same(restored, value)
