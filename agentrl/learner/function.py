"""Functions with the options of a config, called with arrays by name.

The inputs of a function follow from its signature:

* positional parameters are arrays that it needs, by name, or optional ones if they have a default;
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


def _parameters(function: Callable, kind: Any) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [parameter for parameter in found if parameter.kind is kind]


def options_of(function: Callable) -> dict[str, inspect.Parameter]:
    """Keyword-only parameters that a config may set, by name."""
    keywords = _parameters(function, inspect.Parameter.KEYWORD_ONLY)
    return {x.name: x for x in keywords if not _has(x.annotation, jax.Array)}


def inputs_of(function: Callable) -> tuple[str, ...]:
    """Names of the arrays that a function needs: positional parameters without a default."""
    positional = _parameters(function, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(x.name for x in positional if x.default is inspect.Parameter.empty)


def optional_inputs(function: Callable) -> tuple[str, ...]:
    """Names of the arrays that a function takes if something fills them."""
    positional = _parameters(function, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keywords = _parameters(function, inspect.Parameter.KEYWORD_ONLY)
    return (
        *(x.name for x in positional if x.default is not inspect.Parameter.empty),
        *(x.name for x in keywords if _has(x.annotation, jax.Array)),
    )


class Function(NamedTuple):
    """A function of arrays by name, with its options (keyword-only) already given."""

    function: Callable
    options: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arrays that it needs."""
        return inputs_of(self.function)

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the arrays that it takes if something fills them."""
        return optional_inputs(self.function)

    @property
    def name(self) -> str:
        """Name of the function, without its module."""
        return self.function.__name__

    def __call__(self, arrays: Mapping[str, Any]) -> Any:
        """Calls the function with its own inputs out of the given arrays.

        Raises:
          ValueError: one is not among them.
        """
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise ValueError(
                f"{self.name}() reads {', '.join(missing)}, which nothing fills of this source; "
                f"there are {', '.join(sorted(arrays))}"
            )
        filled = (name for name in self.optional if arrays.get(name) is not None)
        given = {name: arrays[name] for name in (*self.inputs, *filled)}
        return self.function(**given, **self.options)
