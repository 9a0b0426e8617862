"""Players that are no policies, by name: random play, experts, search, programs of others,
models behind a server.

`scripted` makes an `agentrl.actors.Actor` of a name such as "expert" or "mcts:100". Read
`scripted.py` first.
"""

from agentrl.players.scripted import scripted as scripted
