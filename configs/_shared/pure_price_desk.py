"""The desk of `price_desk.py` with pure tools: in the compiled rollout, or on the host."""

import dataclasses
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax

from agentrl.tools import pure_tool
from agentrl.tools.on_host import OnHost
from agentrl.tools.pure_environment import PureToolEnvironment

Item = Literal["apple", "fig", "pear", "plum"]
Digit = Annotated[int, range(10)]
Amount = Annotated[int, range(82)]


class Question(NamedTuple):
    """prices: i32[4], which the agent does not see, of 2 to 9. item, count: those asked for."""

    prices: jax.Array
    item: Item
    count: Digit


@pure_tool
def price(item: Item, task: Question) -> Digit:
    """What one of an item costs today."""
    return task.prices[item]


@pure_tool(form="calc {a}*{b}")
def times(a: Digit, b: Digit) -> Amount:
    """The product of two digits."""
    return a * b


@pure_tool(form="{amount}", ends=True)
def answer(amount: Amount) -> Amount:
    """Ends the episode with a number, which is judged."""
    return amount


@dataclasses.dataclass(frozen=True)
class PriceDesk(PureToolEnvironment):
    """`7 fig?`, `price fig`, `4`, `calc 7*4`, `28`, `28`: 1 for the right number."""

    turns: int = 4

    tools: ClassVar = (price, times, answer)
    prompt: ClassVar[str] = "{count} {item}?"

    def draw(self, key: jax.Array) -> Question:
        """Prices and counts of 2 to 9."""
        keys = jax.random.split(key, 3)
        prices = jax.random.randint(keys[0], (4,), 2, 10)
        return Question(
            prices, jax.random.randint(keys[1], (), 0, 4), jax.random.randint(keys[2], (), 2, 10)
        )

    def reward(self, task: Question, calls, answer: jax.Array) -> jax.Array:
        return answer == task.prices[task.item] * task.count

    def solve(self, task: Question):
        """The price, the product, the answer."""
        cost = task.prices[task.item]
        return (
            (price, (task.item,)),
            (times, (task.count, cost)),
            (answer, (task.count * cost,)),
        )


def make(**options) -> OnHost:
    """The same on the host."""
    return OnHost(PriceDesk(**options))
