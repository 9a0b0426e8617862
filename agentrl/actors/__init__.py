"""Actors: everything that can have a seat in an environment, as pure functions.

`Actor` (in `types`) is the interface of this package. Policies over arrays and over text, the
environment's expert, random play and search each make one; `agentrl.rollout.unroll` runs them.
"""

from agentrl.actors.array import array_actor as array_actor
from agentrl.actors.scripted import scripted as scripted
from agentrl.actors.types import Actor as Actor
from agentrl.actors.types import Decision as Decision
from agentrl.actors.types import View as View
