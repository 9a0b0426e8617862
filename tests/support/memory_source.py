"""A source of rows that a test holds in memory."""

from agentrl.learner.component import Component, Source

HELD = None


def memory(setup):
    """Source of `HELD`, (Streams, Rows)."""
    held = HELD
    return Component(source=Source(lambda context, sources: held), in_warm_start=True)
