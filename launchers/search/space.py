"""The space of a search: axes of choices and ranges, and the cells in it."""

import hashlib
import itertools
import math
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from launchers.cluster.cells import KEY

# The axis of --configs, if there are several.
CONFIG = "config"
# The axis whose values are repetitions of every cell.
SEED = "seed"
_RANGE = re.compile(r"(uniform|log|int)\(([^,()]+),([^,()]+)\)")
# Values of a range are rounded to so many significant digits, which name the cell.
_DIGITS = 4
# Files may have names of 255 bytes, and a run writes some that begin with its own.
_LONGEST = 160

Value = str | float | int


class Axis(NamedTuple):
    """What a key may be: one of `choices`, or a number of a range.

    key: of the config, with dots. choices: as they are written on a command line. kind: "choice",
    "uniform", "log" (uniform in the logarithm) or "int", with both ends in the range.
    """

    key: str
    kind: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def rounded(self, value: float) -> Value:
        """A number of the range as the cell has it: four significant digits, within the ends."""
        if self.kind == "int":
            return int(value)
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)


class Space(NamedTuple):
    """What is searched.

    configs: files with their presets; several are an axis. axes: keys of which cells differ.
    fixed: keys that have one value. seeds: values of config.seed, each a run of every cell; ()
    leaves the config's own.
    """

    configs: tuple[str, ...]
    axes: tuple[Axis, ...]
    fixed: Mapping[str, str]
    seeds: tuple[str, ...] = ()

    @property
    def is_finite(self) -> bool:
        """Whether all axes are choices."""
        return all(axis.kind == "choice" for axis in self.axes)

    def every_cell(self) -> Iterator[dict[str, Value]]:
        """Values by key of each cell of a finite space, the last axis fastest."""
        for values in itertools.product(*(axis.choices for axis in self.axes)):
            yield dict(zip((axis.key for axis in self.axes), values, strict=True))

    def examples(self) -> Iterator[dict[str, Value]]:
        """Cells that have, together, every choice and both ends of each range."""
        for axis in self.axes:
            ends = () if axis.choices else (axis.rounded(axis.low), axis.rounded(axis.high))
            for value in (*axis.choices, *ends):
                yield {axis.key: value}

    def arguments(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Flags of `launchers.train` that give a cell; those of {} give the default."""
        keys = {**self.fixed, **{k: v for k, v in values.items() if k != CONFIG}}
        config = values.get(CONFIG, self.configs[0])
        return (f"--config={config}", *(f"--config.{key}={value}" for key, value in keys.items()))

    def name(self, values: Mapping[str, Value]) -> str:
        """The name of a cell, and of its directory."""
        path, _, preset = str(values.get(CONFIG, self.configs[0])).partition(":")
        parts = [pathlib.Path(path).stem, *filter(None, [preset])]
        parts += [f"{key}={value}" for key, value in values.items() if key != CONFIG]
        whole = "__".join(parts)
        name = re.sub(r"[^\w.,=()+@-]", "_", whole)
        if name == whole and len(name) <= _LONGEST:
            return name
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        return f"{name[:_LONGEST]}-{digest}"


def parse(configs: Sequence[str], text: str) -> Space:
    """The space of --configs and --space.

    text: `key=value,value;key=log(1e-4,1e-2);...` with uniform(low,high), log(low,high) and
    int(low,high) as ranges. An axis of one value is fixed for all cells; `seed` is not searched but
    repeats every cell.

    Raises:
      ValueError: the text has another form, or an axis or a value is there twice.
    """
    axes, fixed, seeds = [], {}, ()
    if len(configs) > 1:
        axes.append(Axis(CONFIG, "choice", tuple(configs)))
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, values = (word.strip() for word in part.partition("="))
        if not equals or not values or not KEY.fullmatch(key):
            raise ValueError(
                f"{part!r} is not an axis; write key=value,value or key=log(1e-4,1e-2) with ; "
                "between axes, and keys of the config, such as optimizer.learning_rate"
            )
        axis = _axis(key, values)
        if key in fixed or any(key == other.key for other in axes) or (key == SEED and seeds):
            raise ValueError(f"{key} has two axes; give each key once")
        if len(axis.choices) == 1:
            fixed[key] = axis.choices[0]
        elif key == SEED:
            if axis.kind != "choice" or not all(value.isdecimal() for value in axis.choices):
                raise ValueError(
                    f"seed={','.join(axis.choices) or axis.kind}: expected numbers, such as "
                    "seed=0,5,10; seeds repeat every cell and are not searched"
                )
            seeds = axis.choices
        else:
            axes.append(axis)
    for axis in axes:
        twice = [x for x in dict.fromkeys(axis.choices) if axis.choices.count(x) > 1]
        if twice:
            raise ValueError(f"{axis.key} has the value {twice[0]!r} twice; give each once")
    return Space(tuple(configs), tuple(axes), fixed, seeds)


def _axis(key: str, values: str) -> Axis:
    # Commas within brackets belong to a value: policy.hidden=(32,32),(64,64).
    choices = tuple(x.strip() for x in re.split(r",(?![^(\[{]*[)\]}])", values))
    if not any(re.match(r"(uniform|log|int)\(", choice) for choice in choices):
        return Axis(key, "choice", choices)
    match = _RANGE.fullmatch(choices[0])
    try:
        if match is None or len(choices) > 1:
            raise ValueError
        kind, low, high = match[1], float(match[2]), float(match[3])
        whole = kind != "int" or (low.is_integer() and high.is_integer())
        if not (math.isfinite(low) and math.isfinite(high) and low < high and whole):
            raise ValueError
        if kind == "log" and low <= 0:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{key}={values}: expected one range, uniform(LOW,HIGH), log(LOW,HIGH) with LOW above "
            "0, or int(LOW,HIGH), with LOW below HIGH"
        ) from None
    return Axis(key, kind, low=low, high=high)
