"""Products to be said at once or asked of a calculator: some are known by heart, most are not."""

import dataclasses
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.tools import pure_tool
from agentrl.tools.pure_environment import PureToolEnvironment, PureToolState
from envs.environment import EnvParams

Number = Annotated[int, range(100)]
Digit = Annotated[int, range(10)]
Amount = Annotated[int, range(892)]


class Question(NamedTuple):
    """a, b: the factors. asks: whether the expert asks the calculator."""

    a: Number
    b: Digit
    asks: jax.Array


@pure_tool(form="calc {a}*{b}")
def times(a: Number, b: Digit) -> Amount:
    """The product of a number and a digit."""
    return a * b


@pure_tool(form="{amount}", ends=True)
def answer(amount: Amount) -> Amount:
    """Ends the episode with a number, which is judged."""
    return amount


@dataclasses.dataclass(frozen=True)
class Products(PureToolEnvironment):
    """`47*8?`, `calc 47*8`, `376`, `376`: 1 for the right number.

    hard: share of products of two digits by one; the others are of 2 to 4 by 2 to 4. With turns=1
    there is no time for the calculator. The expert knows all products, and asks every second time.
    """

    turns: int = 3
    hard: float = 0.5

    tools: ClassVar = (times, answer)
    prompt: ClassVar[str] = "{a}*{b}?"

    def draw(self, key: jax.Array) -> Question:
        hard_key, a_key, b_key, ask_key = jax.random.split(key, 4)
        hard = jax.random.bernoulli(hard_key, self.hard)
        a = jnp.where(
            hard, jax.random.randint(a_key, (), 10, 100), jax.random.randint(a_key, (), 2, 5)
        )
        b = jnp.where(
            hard, jax.random.randint(b_key, (), 2, 10), jax.random.randint(b_key, (), 2, 5)
        )
        return Question(a, b, jax.random.bernoulli(ask_key).astype(jnp.int32))

    def reward(self, task: Question, calls, answer: jax.Array) -> jax.Array:
        return answer == task.a * task.b

    def solve(self, task: Question):
        return (times, (task.a, task.b)), (answer, (task.a * task.b,))

    def expert(self, state: PureToolState, params: EnvParams) -> jax.Array:
        """The calculator, where it asks; the product."""
        said = self.starts[1] + answer.number((state.task.a * state.task.b,))
        asks = (state.task.asks > 0) & (self.turns > 1)
        return jnp.where(asks, super().expert(state, params), said).astype(jnp.int32)
