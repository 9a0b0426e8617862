"""What holds for every estimator, filter, reweighting, reward term and loss that a config can name.

The subjects are the rows of METHODS.md, found in the packages: a new function is tested without
being listed here, on the arrays that its docstring describes.
"""

import functools
import typing

import arrays_by_name
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays_by_name import POSITIONS, ROWS, STREAMS, TURNS

from agentrl.declarations import assumptions_of, unit_of
from agentrl.learner.function import Function, options_of
from agentrl.streams import last_turns
from launchers.methods_page import listed

ESTIMATORS = [*listed("agentrl.advantages"), *listed("agentrl.rewards")]
LOSSES = listed("agentrl.losses")
# What the policy computes anew in the loss: gradients go through these, and through no other input.
OUTPUTS = ("logp", "entropy", "value", "answer_logits", "reference_kl", "logits")


def choices(function):
    """(option, value) of each switch and of each word that an option can be, but for defaults."""
    for name, option in options_of(function).items():
        if option.annotation is bool:
            yield name, not option.default
        elif typing.get_origin(option.annotation) is typing.Literal:
            words = typing.get_args(option.annotation)
            yield from ((name, word) for word in words if word != option.default)


CHOICES = [(f, *choice) for f in (*ESTIMATORS, *LOSSES) for choice in choices(f)]
WORDS = {(f, name): None for f, name, value in CHOICES if not isinstance(value, bool)}
# With these the order of the streams counts.
IN_ORDER = ("sequential", "first_turns")
BY_TURN, BY_POSITION, BY_STREAM = (STREAMS, TURNS), (ROWS, POSITIONS), (STREAMS,)


@functools.cache
def compiled(function):
    """(the function of arrays by name, compiled; how often it was traced, as a list)."""
    traced, bound = [], Function(function, arrays_by_name.options_for(function))

    @jax.jit
    def call(arrays):
        traced.append(1)
        return first_of(bound(arrays))

    return call, traced


def first_of(result):
    """The advantages, of an estimator that returns what it carries, too."""
    return result[0] if isinstance(result, tuple) else result


def where_of(result, known):
    """Where a result counts, or None of a filter's, which is one flag for each stream."""
    if result.shape == BY_STREAM:
        return None
    return known["mask"] if result.shape == BY_TURN else known["loss_mask"]


def poisoned(arrays, known, bad):
    """Where nobody acted, numbers are `bad` and flags the other way round."""
    found = dict(arrays)
    for name, value in arrays.items():
        # An advantage is another estimator's, which is zero there.
        if name in ("mask", "loss_mask", "turn", "advantage") or value.shape[:2] not in (
            BY_TURN,
            BY_POSITION,
        ):
            continue
        where = known["mask"] if value.shape[:2] == BY_TURN else known["loss_mask"]
        where = where.reshape(*where.shape, *(1,) * (value.ndim - 2))
        number = bad if value.dtype == np.float32 else 3
        other = ~value if value.dtype == bool else np.asarray(number, value.dtype)
        found[name] = np.where(where, value, other)
    return found


def permuted(arrays, order):
    """The same streams and rows in another order."""
    place, found = np.argsort(order).astype(np.int32), {}
    for name, value in arrays.items():
        found[name] = value[order] if value.shape[:1] == (STREAMS,) else value
    for name in ("stream", "parent"):
        if name in found:
            number = found[name]
            found[name] = np.where(number < 0, number, place[number]).astype(np.int32)
    return found


@pytest.mark.parametrize("function", ESTIMATORS, ids=lambda f: f.__name__)
def test_credit(function):
    """It is zero where nobody acted, reads nothing there, does not know the order of streams, is
    the same compiled and not, in one program, and no gradient goes through it."""
    call, traced = compiled(function)
    for seed in (0, 1):
        arrays, known = arrays_by_name.arrays_for(function, seed), arrays_by_name.streams(seed)
        result = np.asarray(call(arrays))
        assert result.shape in (BY_TURN, BY_POSITION, BY_STREAM)
        where = where_of(result, known)
        if where is None:
            assert result.dtype == bool
        else:
            assert np.isfinite(result).all() and not result[~where].any()
            assert result[where].any()
        for bad in (np.nan, 1e9):
            np.testing.assert_array_equal(call(poisoned(arrays, known, bad)), result)
        order = np.random.default_rng(seed).permutation(STREAMS)
        other = np.asarray(call(permuted(arrays, order)))
        np.testing.assert_allclose(other, result[order], rtol=1e-4, atol=1e-5)
    assert len(traced) == 1
    bound = Function(function, arrays_by_name.options_for(function))
    np.testing.assert_allclose(first_of(bound(arrays)), result, rtol=1e-5, atol=1e-6)
    numbers = {k: x for k, x in arrays.items() if x.dtype == np.float32}

    def total(numbers):
        given = jax.tree.map(jnp.asarray, arrays) | numbers
        # The sum alone of what is centred does not depend on anything.
        return jnp.sum(first_of(bound(given)).astype(jnp.float32) ** 2)

    if result.dtype != bool and "advantages" in function.__module__:
        slopes = jax.jit(jax.grad(total))(numbers)
        assert not any(np.asarray(slope).any() for slope in slopes.values())


@pytest.mark.parametrize("function", ESTIMATORS, ids=lambda f: f.__name__)
def test_wrong_arrays_are_refused_by_name(function):
    arrays = arrays_by_name.arrays_for(function, 0)
    bound = Function(function, arrays_by_name.options_for(function))
    for name, value in arrays.items():
        # Masks say how many there are; an advantage may be of turns or of positions, and state as
        # large as its run needs it: those have another type or number of axes.
        if name in ("mask", "loss_mask"):
            wrong = value.astype(np.float32)
        elif name in ("advantage", "baseline"):
            wrong = value[0]
        elif value.ndim > 1:
            wrong = value[:, :-1]
        elif value.ndim:
            wrong = value[None]
        else:
            continue
        with pytest.raises(ValueError, match=f"{name} (is|has) "):
            jax.eval_shape(bound, arrays | {name: wrong})


def by_turns(function):
    """Whether all that the function reads has a value for each turn."""
    arrays = arrays_by_name.arrays_for(function, 0)
    return all(value.shape[:2] == BY_TURN for value in arrays.values())


@pytest.mark.parametrize(
    "function",
    [f for f in ESTIMATORS if by_turns(f) and "whole_episodes" not in assumptions_of(f)],
    ids=lambda f: f.__name__,
)
def test_streams_of_several_episodes_are_read_by_their_ends(function):
    """Two episodes one after the other are as two streams, unless the function declares that it
    assumes whole episodes."""
    arrays = arrays_by_name.arrays_for(function, 0)
    for name in {"terminated", "truncated"} & arrays.keys():
        # The rules end all of them.
        last = np.asarray(last_turns(arrays["mask"]))
        arrays[name] = last if name == "terminated" else np.zeros_like(last)
    joined = {k: x.reshape(STREAMS // 2, 2 * TURNS, *x.shape[2:]) for k, x in arrays.items()}
    bound = Function(function, arrays_by_name.options_for(function))
    call = jax.jit(lambda arrays: bound(arrays))
    apart = np.asarray(call(arrays))
    np.testing.assert_allclose(
        np.asarray(call(joined)).reshape(apart.shape), apart, rtol=1e-5, atol=1e-6
    )


@functools.cache
def compiled_loss(function):
    """(arrays -> (values, metrics, gradients of their sum), how often it was traced)."""
    traced, bound = [], Function(function, arrays_by_name.options_for(function))

    def total(numbers, others):
        result = bound(numbers | others)
        values, metrics = result if isinstance(result, tuple) else (result, {})
        return jnp.sum(values), (values, metrics)

    @jax.jit
    def call(arrays):
        traced.append(1)
        numbers = {k: x for k, x in arrays.items() if x.dtype == jnp.float32}
        others = {k: x for k, x in arrays.items() if x.dtype != jnp.float32}
        slopes, (values, metrics) = jax.grad(total, has_aux=True)(numbers, others)
        return values, metrics, slopes

    return call, traced


def in_order(arrays, order):
    """Rows in another order; numbers of the whole batch as they are."""
    return {k: x[order] if np.shape(x)[:1] == (ROWS,) else x for k, x in arrays.items()}


@pytest.mark.parametrize("function", LOSSES, ids=lambda f: f.__name__)
def test_losses(function):
    """Nothing behind the mask is read, forwards or backwards; rows (pairs) are in any order; it is
    the same compiled and not, in one program; gradients go through what the policy computes."""
    call, traced = compiled_loss(function)
    shape = {"position": BY_POSITION, "row": (ROWS,), "pair": (ROWS // 2,)}[unit_of(function)]
    for seed in (0, 1):
        arrays = arrays_by_name.positions_for(function, seed)
        values, metrics, slopes = jax.device_get(call(arrays))
        assert values.shape == shape and all(x.shape == BY_POSITION for x in metrics.values())
        assert np.isfinite(values).all() and values.any()
        where = arrays["mask"]
        for each in (values, *metrics.values()):
            assert each.shape != BY_POSITION or not each[~where].any()
        # Numbers that the run carries are constants.
        through = {name for name, slope in slopes.items() if slope.ndim > 1 and slope.any()}
        assert through and through <= set(OUTPUTS)
        for name in through:
            assert np.isfinite(slopes[name]).all() and not slopes[name][~where].any()
        known = {"mask": where, "loss_mask": where}
        for bad in (np.nan, 1e9):
            again = jax.device_get(call(poisoned(arrays, known, bad)))
            for one, other in zip(
                jax.tree.leaves((values, metrics, {k: slopes[k] for k in through})),
                jax.tree.leaves((*again[:2], {k: again[2][k] for k in through})),
                strict=True,
            ):
                np.testing.assert_array_equal(one, other)
        pairs = np.random.default_rng(seed).permutation(ROWS // 2)
        order = (2 * pairs[:, None] + np.arange(2)).reshape(-1)
        other = call(in_order(arrays, order))[0]
        place = pairs if unit_of(function) == "pair" else order
        np.testing.assert_allclose(other, values[place], rtol=1e-4, atol=1e-5)
    assert len(traced) == 1
    plain = Function(function, arrays_by_name.options_for(function))(arrays)
    plain = plain if isinstance(plain, tuple) else (plain, {})
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves((values, metrics)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", LOSSES, ids=lambda f: f.__name__)
def test_losses_refuse_arrays_of_several_shapes(function):
    arrays = arrays_by_name.positions_for(function, 0)
    bound = Function(function, arrays_by_name.options_for(function))
    for name, value in arrays.items():
        if value.ndim > 1:
            with pytest.raises(ValueError, match="shape"):
                jax.eval_shape(bound, arrays | {name: value[:, :-1]})
    with pytest.raises(ValueError, match="mask of float32; expected bool"):
        jax.eval_shape(bound, arrays | {"mask": arrays["mask"].astype(np.float32)})


@pytest.mark.parametrize(
    ("function", "option", "value"),
    CHOICES,
    ids=[f"{f.__name__}-{name}-{value}" for f, name, value in CHOICES],
)
def test_with_every_choice_padding_is_not_read_and_order_is_nothing(function, option, value):
    """Of what is not a default. Uncompiled: a compiler may hide that a NaN is read."""
    bound = Function(function, arrays_by_name.options_for(function) | {option: value})
    if function in LOSSES:
        arrays = arrays_by_name.positions_for(function, 0)
        known = {"mask": arrays["mask"], "loss_mask": arrays["mask"]}
        names = [name for name in OUTPUTS if name in arrays]

        def values(arrays):
            total = lambda told: jnp.sum(first_of(bound(arrays | told)))  # noqa: E731
            slopes = jax.grad(total)({name: jnp.asarray(arrays[name]) for name in names})
            assert not any(np.asarray(x)[~arrays["mask"]].any() for x in slopes.values())
            return np.asarray(first_of(bound(arrays))), slopes
    else:
        arrays, known = arrays_by_name.arrays_for(function, 0), arrays_by_name.streams(0)

        def values(arrays):
            return np.asarray(first_of(bound(arrays))), {}

    result, slopes = values(arrays)
    where = known["mask"] if result.shape == BY_TURN else known["loss_mask"]
    if result.ndim == 1:  # of rows or pairs
        where = np.ones(result.shape, bool)
    assert np.isfinite(result).all() and not result[~where].any() and result[where].any()
    jax.tree.map(
        np.testing.assert_array_equal, values(poisoned(arrays, known, np.nan)), (result, slopes)
    )
    order = np.random.default_rng(0).permutation(STREAMS)
    if function in LOSSES or value in IN_ORDER:
        return
    other = values(permuted(arrays, order))[0]
    np.testing.assert_allclose(other, result[order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("function", "option"), WORDS, ids=lambda x: getattr(x, "__name__", x))
def test_words_that_an_option_cannot_be_are_refused_by_name(function, option):
    arrays_of = arrays_by_name.positions_for if function in LOSSES else arrays_by_name.arrays_for
    options = arrays_by_name.options_for(function) | {option: "no_such"}
    with pytest.raises(ValueError, match=f"{option}='no_such'.*expected one of '"):
        jax.eval_shape(Function(function, options), arrays_of(function, 0))
