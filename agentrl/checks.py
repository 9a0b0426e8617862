"""Checks at the top of public functions: what was given, what was expected, before any compiling.

Shapes, types and Python numbers are checked; the values of arrays cannot be, as they are traced.
"""

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jax.typing import ArrayLike

# Numbers that differ by less, relative to their size, count as equal: sums of the same float32
# numbers in another order differ by a few units in the last place.
ROUNDING = 8 * np.finfo(np.float32).eps
# Programs count in int32: seeds, sizes and numbers of updates are at most this.
LARGEST = 2**31 - 1


def check_choice(name: str, given: Any, choices: Collection[str]) -> None:
    """Refuses an option that is not one of its choices, and names the nearest one.

    Raises:
      ValueError: `given` is not among `choices`.
    """
    if given in choices:
        return
    close = difflib.get_close_matches(str(given), list(choices), n=1, cutoff=0.6)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    expected = ", ".join(map(repr, choices))
    raise ValueError(f"{name}={given!r}{hint}: expected one of {expected}")


def check_range(
    name: str,
    given: Any,
    low: float,
    high: float = float("inf"),
    *,
    above: bool = False,
    below: bool = False,
) -> None:
    """Refuses a Python number outside [low, high]; traced numbers and None pass.

    above: `low` itself is refused. below: `high` itself is refused, infinity if there is none.

    Raises:
      ValueError: the number is outside, or not a number.
    """
    if not isinstance(given, numbers.Real):
        return
    enough = given > low if above else given >= low
    fits = given < high if below else given <= high
    if enough and fits:
        return
    expected = f"more than {low:.10g}" if above else f"at least {low:.10g}"
    if high != float("inf"):
        expected += f" and less than {high:.10g}" if below else f" and at most {high:.10g}"
    elif below:
        expected += ", and a finite number"
    raise ValueError(f"{name}={given}: expected {expected}")


def check_sizes(name: str, sizes: Iterable[int]) -> None:
    """Refuses sizes of arrays, such as widths of layers, of which one is below 1.

    Raises:
      ValueError: says all of them.
    """
    sizes = tuple(sizes)
    if any(size < 1 for size in sizes):
        raise ValueError(f"{name}={sizes}: expected sizes of at least 1")


def check_number(name: str, given: Any) -> None:
    """Refuses, also within tuples, what no option can be: nan, and integers beyond int32.

    Raises:
      ValueError: says what was given.
    """
    if isinstance(given, tuple | list):
        for value in given:
            check_number(name, value)
    elif isinstance(given, float) and math.isnan(given):
        raise ValueError(f"{name}=nan: expected a number, which nan is not")
    elif isinstance(given, int) and abs(given) > LARGEST:
        raise ValueError(
            f"{name}={given}: expected an integer from -{LARGEST} to {LARGEST}, as programs count "
            "in 32 bits"
        )


def check_streams(
    function: str,
    mask: "ArrayLike",
    *,
    numbers: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    ids: Mapping[str, Any] | None = None,
    vectors: Mapping[str, Any] | None = None,
) -> None:
    """Refuses arrays that are not of the shapes of `Streams`; entries of None are skipped.

    Args:
      function: the name in the error.
      mask: bool[N, T].
      numbers: arrays [N, T] of any type.
      flags: arrays bool[N, T].
      ids: integer arrays [N].
      vectors: arrays [N, T, K] of any type, several values for each turn.

    Raises:
      ValueError: names the array, its type and shape, and what was expected.
    """
    shape = np.shape(mask)
    if len(shape) != 2:
        _refuse(function, "mask", mask, "bool[N, T], True where the agent acted")
    whole = f"[{shape[0]}, {shape[1]}]"
    for name, array in {"mask": mask, **(flags or {})}.items():
        if array is not None and (_dtype(array) != np.bool_ or np.shape(array) != shape):
            _refuse(function, name, array, f"bool{whole}; convert it with .astype(bool)")
    for name, array in (numbers or {}).items():
        if array is not None and np.shape(array) != shape:
            _refuse(function, name, array, f"{whole}, the shape of mask")
    for name, array in (ids or {}).items():
        whole_numbers = array is None or np.issubdtype(_dtype(array), np.integer)
        if array is not None and (not whole_numbers or np.shape(array) != shape[:1]):
            _refuse(function, name, array, f"i32[{shape[0]}], one number per stream of mask")
    for name, array in (vectors or {}).items():
        if array is not None and (np.ndim(array) != 3 or np.shape(array)[:2] != shape):
            _refuse(function, name, array, f"[{shape[0]}, {shape[1]}, K], the shape of mask first")


def check_runs(
    function: str, mask: "ArrayLike", runs: "ArrayLike", partners: Iterable[int] = ()
) -> None:
    """Refuses `Streams.runs` of other shapes, and numbers of partners that it does not have.

    Raises:
      ValueError: names the array and its shape, or the partners, and what was expected.
    """
    shape, streams = np.shape(runs), np.shape(mask)[0]
    if len(shape) != 4 or shape[:2] != (streams, 3) or shape[3] < 2:
        _refuse(function, "runs", runs, f"[{streams}, 3, partners, 1 + replacements]")
    if any(not 0 <= number < shape[2] for number in partners):
        raise ValueError(
            f"{function} partners={tuple(partners)}: expected numbers below {shape[2]}, one of "
            "each partner of the rollout"
        )


def check_rows(
    function: str,
    loss_mask: "ArrayLike",
    stream: "ArrayLike",
    turn: "ArrayLike",
    *,
    numbers: Mapping[str, Any] | None = None,
) -> None:
    """Refuses arrays that are not of the shapes of `Rows`; entries of None are skipped.

    Args:
      function: the name in the error.
      loss_mask: bool[R, L].
      stream: integers [R]. turn: integers [R, L].
      numbers: arrays [R, L] of any type.

    Raises:
      ValueError: names the array, its type and shape, and what was expected.
    """
    shape = np.shape(loss_mask)
    if len(shape) != 2 or _dtype(loss_mask) != np.bool_:
        _refuse(function, "loss_mask", loss_mask, "bool[R, L], True where the policy wrote")
    whole = f"[{shape[0]}, {shape[1]}]"
    for name, array, wanted in (("stream", stream, shape[:1]), ("turn", turn, shape)):
        if not np.issubdtype(_dtype(array), np.integer) or np.shape(array) != wanted:
            _refuse(function, name, array, f"i32{list(wanted)}, by the rows of loss_mask")
    for name, array in (numbers or {}).items():
        if array is not None and np.shape(array) != shape:
            _refuse(function, name, array, f"{whole}, the shape of loss_mask")


def check_returned(function: str, given: "ArrayLike", like: "ArrayLike", meaning: str) -> None:
    """Refuses what a function returned unless it has the shape of the array `like`.

    Raises:
      ValueError: names the function, both shapes and what was expected.
    """
    if np.shape(given) != np.shape(like):
        raise ValueError(
            f"{function}() returned an array of shape {np.shape(given)}; expected {meaning}, here "
            f"{np.shape(like)}"
        )


def _dtype(array: "ArrayLike") -> np.dtype:
    return array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype


def _refuse(function: str, name: str, array: "ArrayLike", expected: str) -> None:
    given = f"{_dtype(array)}{list(np.shape(array))}"
    raise ValueError(f"{function}: {name} is {given}; expected {expected}")
