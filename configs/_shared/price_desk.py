"""A desk with two tools: what does a number of things cost, at prices that only a tool knows?"""

import random
from typing import Any

from agentrl.tools import Episode, ToolEnvironment, calculator, reward, tool

ITEMS = ("apple", "fig", "pear", "plum")


@tool
def price(item: str, episode: Episode) -> int:
    """What one of an item costs today.

    Args:
      item: its name.
    """
    return episode.task["prices"][item]


@reward
def exact(final_response: str, answer: str) -> float:
    """1 for the right number."""
    return float(final_response == answer)


def question(drawn: random.Random) -> dict[str, Any]:
    """A task: prices of 2 to 9, and a question about 2 to 9 of one item."""
    prices = {item: drawn.randint(2, 9) for item in ITEMS}
    item, count = drawn.choice(ITEMS), drawn.randint(2, 9)
    asked = {"item": item, "count": count, "answer": str(count * prices[item])}
    return {"prompt": f"{count} {item}?", "prices": prices, **asked}


def make() -> ToolEnvironment:
    """The environment. The agent reads the question alone, and learns what tools there are."""
    tools = [price, calculator(name="calc")]
    return ToolEnvironment(
        tools, question, exact, form="lines", prompt=lambda episode: episode.task["prompt"]
    )


def solve(episode: Episode, text: str) -> str:
    """The way to an answer: the price, the product, the answer."""
    if not episode.turns:
        return f"price {episode.task['item']}"
    return f"calc {episode.task['count']}*{text}" if len(episode.turns) == 1 else text
