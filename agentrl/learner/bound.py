"""Functions with the options of a config, called with arrays by name.

The inputs of a function follow from its signature:

* positional parameters are arrays that it needs, by name;
* keyword-only parameters annotated with `jax.Array` are optional arrays, given if something fills
them;
* all other keyword-only parameters are options, which a config sets.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax


def _has(annotation: Any, kind: type) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_has(part, kind) for part in typing.get_args(annotation))
    return annotation is kind


def _keywords(function: Callable, *, arrays: bool) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and _has(parameter.annotation, jax.Array) == arrays
    }


def options_of(function: Callable) -> dict[str, inspect.Parameter]:
    """Keyword-only parameters that a config may set, by name."""
    return _keywords(function, arrays=False)


def optional_inputs(function: Callable) -> tuple[str, ...]:
    """Names of a function's optional arrays."""
    return tuple(_keywords(function, arrays=True))


def inputs_of(function: Callable) -> tuple[str, ...]:
    """Names of the arrays that a function needs: its positional parameters.

    A parameter with a default of None is optional, whatever its kind.
    """
    return tuple(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        and parameter.default is inspect.Parameter.empty
    )


def parameters_of(function: Callable) -> tuple[str, ...]:
    """Names of all positional parameters, needed or not."""
    return tuple(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )


def mask_of(function: Callable) -> bool:
    """Whether a function has a parameter `mask`, needed or not."""
    return "mask" in inspect.signature(function).parameters


class Bound(NamedTuple):
    """A function of arrays by name, with its options (keyword-only) already given."""

    function: Callable
    options: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arrays that it needs."""
        return inputs_of(self.function)

    @property
    def name(self) -> str:
        """Name of the function, without its module."""
        return self.function.__name__

    def __call__(self, arrays: Mapping[str, Any]) -> Any:
        """Calls the function with its own inputs out of the given arrays."""
        function = self.function
        given = {name: arrays[name] for name in self.inputs}
        for name in (*optional_inputs(function), *(["mask"] if mask_of(function) else [])):
            if name not in given and arrays.get(name) is not None:
                given[name] = arrays[name]
        return function(**given, **self.options)
