"""Pure tools: functions of integers, whose arguments and results have ranges; no jax here.

A tool of this kind can run in the compiled rollout (`agentrl.tools.pure_environment`), because all
its commands and results are known beforehand.
"""

import dataclasses
import inspect
import itertools
import math
import string
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# Commands of an environment, and values of a range: each is a fragment or a hash of its text view.
MOST = 1 << 14
# A parameter of this name gets the task, and is no argument of the tool.
TASK = "task"
_EXPECTED = "expected Annotated[int, range(10)] or Literal['apple', 'pear']"


class Kind(NamedTuple):
    """A range of integers. words: how each is written, in order; first: the least value."""

    words: tuple[str, ...]
    first: int = 0


def kind_of(where: str, annotation: Any) -> Kind:
    """The range that an annotation states; a word of a Literal stands for its place, from 0.

    Raises:
      ValueError: it states none, or one that is too large, begins with `where`.
    """
    if annotation is None:
        raise ValueError(f"{where}: no annotation: {_EXPECTED}")
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        words = typing.get_args(annotation)
        if not all(isinstance(word, str) and word and word == word.strip() for word in words):
            raise ValueError(f"{where}: {shown}: expected words without white space around them")
        return Kind(words)
    values = [x for x in getattr(annotation, "__metadata__", ()) if isinstance(x, range)]
    if len(values) != 1 or typing.get_args(annotation)[0] is not int:
        raise ValueError(f"{where}: {shown}: {_EXPECTED}")
    if values[0].step != 1 or not 1 <= len(values[0]) <= MOST:
        raise ValueError(f"{where}: {values[0]}: expected steps of 1, and 1 to {MOST:,} values")
    return Kind(tuple(map(str, values[0])), values[0].start)


def kinds_of(where: str, annotation: Any) -> tuple[Kind, ...]:
    """The range of a number, or those of a vector, `tuple[Digit, Digit]`; see `kind_of`."""
    if typing.get_origin(annotation) is tuple:
        return tuple(kind_of(where, each) for each in typing.get_args(annotation))
    return (kind_of(where, annotation),)


@dataclasses.dataclass(frozen=True)
class PureTool:
    """A pure function that an agent calls by a command; `pure_tool` makes one.

    form: the command, with arguments in braces. arguments: their names and ranges, in the order of
    the form. result: the range of each value that it gives; vector: it gives several. ends, calls:
    see `pure_tool`.
    """

    function: Callable[..., Any]
    name: str
    description: str
    form: str
    arguments: tuple[tuple[str, Kind], ...]
    result: tuple[Kind, ...]
    vector: bool
    takes_task: bool
    ends: bool = False
    calls: int | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function itself."""
        return self.function(*arguments, **named)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each argument."""
        return tuple(len(kind.words) for _, kind in self.arguments)

    @property
    def size(self) -> int:
        """Number of commands; the last argument runs fastest."""
        return math.prod(self.sizes)

    def commands(self) -> list[str]:
        """All commands, in order."""
        names = [name for name, _ in self.arguments]
        rows = itertools.product(*(kind.words for _, kind in self.arguments))
        return [self.form.format(**dict(zip(names, row, strict=True))) for row in rows]

    def values(self, number: Any) -> dict[str, Any]:
        """Arguments by name of the command with this number; of an array, arrays."""
        values = {}
        for name, kind in reversed(self.arguments):
            values[name] = number % len(kind.words) + kind.first
            number = number // len(kind.words)
        return values

    def number(self, arguments: Sequence[Any]) -> Any:
        """Number of the command with these arguments, in the order of the form."""
        number = 0
        for value, (_, kind) in zip(arguments, self.arguments, strict=True):
            number = number * len(kind.words) + value - kind.first
        return number

    def run(self, arguments: dict[str, Any], task: Any) -> Any:
        """What the function gives for arguments by name."""
        return self.function(**arguments, **({TASK: task} if self.takes_task else {}))


def pure_tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str = "",
    form: str = "",
    ends: bool = False,
    calls: int | None = None,
) -> Any:
    """Makes a tool of a pure function of integers, or is a decorator with these options.

        Digit = Annotated[int, range(10)]

        @pure_tool(form="calc {a}*{b}")
        def times(a: Digit, b: Digit) -> Annotated[int, range(82)]:
            \"\"\"The product of two digits.\"\"\"
            return a * b

    Arguments are `Annotated[int, range(...)]`, or a Literal of words, which the function gets as
    its place among them. So is the result; a vector is `tuple[Digit, Digit]`. A parameter `task`
    gets the task of the episode, with what its fields hide from the agent. The function is traced
    by jax: arithmetic, indices and `jax.numpy`, no `if` on arguments.

    Args:
      name: default: the function's.
      form: the command; default: the name, then the arguments, apart by spaces.
      ends: the episode ends with a call, whose result is the answer.
      calls: of each episode; those beyond are illegal. None: any number.

    Raises:
      ValueError: an annotation that states no range, a range that is too large, a form without one
        of the arguments, or a function without a docstring.
    """
    if function is None:
        return lambda function: pure_tool(function, name=name, form=form, ends=ends, calls=calls)
    called = name or function.__name__
    where = f"tool {called}"
    about = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    if not about:
        raise ValueError(f"{where}: no description; write a docstring")
    if calls is not None and (ends or calls < 1):
        raise ValueError(f"{where}: calls={calls}: expected 1 or more, of a tool that does not end")
    hints = typing.get_type_hints(function, include_extras=True)
    names = [each for each in inspect.signature(function).parameters if each != TASK]
    kinds = {each: kind_of(f"{where}: parameter {each}", hints.get(each)) for each in names}
    form = form or " ".join([called, *(f"{{{each}}}" for each in names)])
    order = [each for _, each, *_ in string.Formatter().parse(form) if each is not None]
    if sorted(order) != sorted(names):
        raise ValueError(f"{where}: form {form!r}: expected {', '.join(names) or 'no'} in braces")
    made = PureTool(
        function=function,
        name=called,
        description=about,
        form=form,
        arguments=tuple((each, kinds[each]) for each in order),
        result=kinds_of(f"{where}: result", hints.get("return")),
        vector=typing.get_origin(hints.get("return")) is tuple,
        takes_task=TASK in inspect.signature(function).parameters,
        ends=ends,
        calls=calls,
    )
    if made.size > MOST:
        raise ValueError(f"{where}: {made.size:,} commands: expected at most {MOST:,}")
    return made
