"""An environment of pure tools for tests: vectors, words, results out of range, limits of calls."""

import dataclasses
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.tools import pure_tool
from agentrl.tools.pure_environment import PureToolEnvironment

Cell = Annotated[int, range(3)]
Digit = Annotated[int, range(-2, 3)]


class Row(NamedTuple):
    """cells: i32[3], hidden. asked: the two that are asked for. how: the question."""

    cells: jax.Array
    asked: tuple[Cell, Cell]
    how: Literal["sum", "order"]


@pure_tool(calls=2)
def look(cell: Cell, task: Row) -> Digit:
    """The number in a cell."""
    return task.cells[cell]


@pure_tool(form="both {i},{j}", name="pair")
def both(i: Cell, j: Cell, task: Row) -> tuple[Digit, Literal["less", "same", "more"]]:
    """The sum of two cells, if it is small, and how they compare."""
    first, second = task.cells[i], task.cells[j]
    return first + second, 1 + jnp.sign(first - second)


@pure_tool(form="{total}", ends=True)
def say(total: Annotated[int, range(-4, 5)]) -> Annotated[int, range(-4, 5)]:
    """Answers with a number."""
    return total


@pure_tool(form="They are {order}", ends=True)
def compare(order: Literal["less", "same", "more"]) -> Annotated[int, range(-1, 2)]:
    """Answers with a word."""
    return order - 1


@dataclasses.dataclass(frozen=True)
class Desk(PureToolEnvironment):
    """1 for the right answer, less 0.125 for each look; the sum, or the sign of the difference."""

    turns: int = 6
    calls: int = 3
    small: bool = True

    tools: ClassVar = (look, both, say, compare)
    prompt: ClassVar[str] = "{how} of cells {asked}: which?"

    def draw(self, key):
        keys = jax.random.split(key, 3)
        most = 2 if self.small else 3
        return Row(
            jax.random.randint(keys[0], (3,), -1, most),
            jax.random.randint(keys[1], (2,), 0, 3),
            jax.random.randint(keys[2], (), 0, 2),
        )

    def reward(self, task, calls, answer):
        first, second = task.cells[task.asked[0]], task.cells[task.asked[1]]
        wanted = jnp.where(task.how == 0, first + second, jnp.sign(first - second))
        return (answer == wanted) - 0.125 * calls["look"]

    def solve(self, task):
        first, second = task.cells[task.asked[0]], task.cells[task.asked[1]]
        wanted = jnp.where(task.how == 0, first + second, jnp.sign(first - second))
        return (both, (task.asked[0], task.asked[1])), (say, (wanted,))


class Wide(Desk):
    """Whose sums may be too large for the tool."""

    def check_ranges(self):
        """Not held to, so that a result is out of range while it plays."""
