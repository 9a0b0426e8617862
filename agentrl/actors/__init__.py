"""Actors: everything that can have a seat in an environment, as pure functions.

`Actor` (in `types`) is the interface of this package. Policies over arrays and over text make one
each, and so do `agentrl.players`; `agentrl.rollout.unroll` runs them.
"""

from agentrl.actors.array import array_actor as array_actor
from agentrl.actors.types import Actor as Actor
from agentrl.actors.types import Decision as Decision
from agentrl.actors.types import View as View
