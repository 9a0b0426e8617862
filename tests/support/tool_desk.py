"""An environment of tools for tests: a list of prices, a calculator, and tools that go wrong."""

import time

from agentrl.tools import Episode, Rewarded, ToolEnvironment, calculator, reward, table, tool

ITEMS = {"apple": 3, "pear": 4, "plum": 7}
TASKS = [
    {"prompt": f"What do {count} of {item} cost?", "answer": str(count * price)}
    for item, price in ITEMS.items()
    for count in (2, 5)
]


@tool(calls=2)
def price(item: str, episode: Episode) -> Rewarded:
    """What one of an item costs.

    Args:
      item: its name.
    """
    episode.state["asked"] = episode.state.get("asked", 0) + 1
    return Rewarded(ITEMS[item], 0.125)


@tool(ends=True)
def submit(answer: int) -> str:
    """Gives the answer."""
    return str(answer)


@tool(timeout_s=0.2)
def slow(seconds: float = 0.05) -> str:
    """Waits."""
    time.sleep(seconds)
    return "awake"


@reward(metrics=["letters"])
def exact(final_response: str, answer: str, episode: Episode):
    """1 for the right answer, however it was given."""
    right = final_response == answer
    return {"reward": float(right), "success": right, "letters": len(final_response)}


def make(**options):
    """The environment."""
    prices = table({"prices": [{"item": i, "price": p} for i, p in ITEMS.items()]})
    return ToolEnvironment([price, calculator(), prices, submit, slow], TASKS, exact, **options)


class Hanging:
    """An environment in which one call of a tool never returns."""

    def __init__(self, modulus=2):
        self.modulus = modulus
        self.inner = make(form="lines")

    def reset(self, *, seed):
        self.hangs = seed % self.modulus == 0
        return self.inner.reset(seed=seed)

    def step(self, action):
        while self.hangs:
            time.sleep(1)
        return self.inner.step(action)
