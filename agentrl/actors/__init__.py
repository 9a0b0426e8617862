"""Actors: everything that can have a seat in an environment, as pure functions.

`Actor` (in `types`) is what crosses the border of this package. Policies over arrays, the
environment's expert, random play and search each make one; `agentrl.rollout.unroll` lets them act.
"""

from agentrl.actors.array import array_actor as array_actor
from agentrl.actors.scripted import scripted as scripted
from agentrl.actors.types import Actor as Actor
from agentrl.actors.types import Decision as Decision
from agentrl.actors.types import View as View
