"""Checks of options and arrays: what is refused, and what the error says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.checks import (
    LARGEST,
    check_choice,
    check_number,
    check_range,
    check_returned,
    check_sizes,
    check_streams,
)

MASK = np.ones((4, 3), bool)


def test_unknown_names_are_answered_with_the_nearest():
    check_choice("level", "token", ("token", "row"))
    expected = r"level='tokens' \(did you mean 'token'\?\): expected one of 'token', 'row'"
    with pytest.raises(ValueError, match=expected):
        check_choice("level", "tokens", ("token", "row"))
    with pytest.raises(ValueError, match="level='xyz': expected one of 'token', 'row'"):
        check_choice("level", "xyz", ("token", "row"))


def test_what_a_function_returns_has_the_expected_shape():
    check_returned("f", jnp.zeros((4, 3)), MASK, "advantages [N, T]")
    message = r"f\(\) returned an array of shape \(4,\); expected advantages .*, here \(4, 3\)"
    with pytest.raises(ValueError, match=message):
        check_returned("f", np.zeros(4), MASK, "advantages [N, T]")


def test_ranges_of_python_numbers():
    for given in (0, 1, 0.5, np.float32(0.5), None, jnp.float32(7)):
        check_range("gamma", given, 0.0, 1.0)
    jax.jit(lambda gamma: check_range("gamma", gamma, 0.0, 1.0))(2.0)
    for given in (-0.1, 1.5, np.nan, np.float32(2)):
        with pytest.raises(ValueError, match="gamma=.*: expected at least 0 and at most 1"):
            check_range("gamma", given, 0.0, 1.0)
    with pytest.raises(ValueError, match="cap=0: expected more than 0"):
        check_range("cap", 0, 0.0, above=True)
    with pytest.raises(ValueError, match="p=1: expected at least 0 and less than 1"):
        check_range("p", 1, 0.0, 1.0, below=True)
    check_range("rate", np.inf, 0.0)
    with pytest.raises(ValueError, match="rate=inf: expected at least 0, and a finite number"):
        check_range("rate", np.inf, 0.0, below=True)
    with pytest.raises(ValueError, match="seed=-1: expected at least 0 and at most 2147483647"):
        check_range("seed", -1, 0, LARGEST)


def test_numbers_that_no_option_can_be():
    for given in (0, -LARGEST, LARGEST, 0.5, np.inf, 1e300, True, "nan", None, (1, (2, 0.5))):
        check_number("x", given)
    for given in (np.nan, (1.0, np.nan), [((np.float64("nan"),),)]):
        with pytest.raises(ValueError, match="x=nan: expected a number, which nan is not"):
            check_number("x", given)
    for given in (LARGEST + 1, -LARGEST - 1, (1, 2**40)):
        with pytest.raises(ValueError, match="x=.*: expected an integer from -2147483647 to"):
            check_number("x", given)


def test_sizes_are_at_least_one():
    check_sizes("hidden", [1, 64])
    check_sizes("hidden", ())
    for given in ((0,), [64, -3]):
        with pytest.raises(ValueError, match="hidden=.*: expected sizes of at least 1"):
            check_sizes("hidden", given)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"mask": MASK.astype(int)}, r"f: mask is int64\[4, 3\]; expected bool\[4, 3\]; convert"),
        ({"mask": MASK[0]}, r"f: mask is bool\[3\]; expected bool\[N, T\], True where the agent"),
        (
            {"numbers": {"reward": np.zeros((4, 1))}},
            r"reward is float64\[4, 1\]; expected \[4, 3\]",
        ),
        (
            {"flags": {"truncated": np.zeros((4, 3))}},
            r"truncated is float64.*expected bool\[4, 3\]",
        ),
        ({"ids": {"group": np.array([7])}}, r"group is int64\[1\]; expected i32\[4\], one number"),
        ({"ids": {"role": np.zeros(4)}}, r"role is float64\[4\]; expected i32\[4\]"),
    ],
)
def test_arrays_of_other_shapes_and_types(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_streams("f", arguments.pop("mask", MASK), **arguments)
    check_streams(
        "f", MASK, numbers={"penalty": None}, flags={"truncated": None}, ids={"role": None}
    )
