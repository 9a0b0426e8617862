"""The chain of rooms in words."""

import jax.numpy as jnp

from envs.key_door import rules
from envs.key_door.env import KeyDoor
from envs.key_door.rules import COLOURS
from envs.text import Lexicon, View, template

RULES = (
    "You are in a row of rooms. Each is a line of cells; the door at its last cell opens to the "
    "key of its colour, a wrong key jams it for good. You read the room, your cell, the key in "
    "your hand, the door's colour, and where keys lie. You hold one key at a time: taking another "
    "leaves it behind. Get through all doors."
)


def compact(env: KeyDoor) -> View:
    """`room 2 cell 0 hold red, blue door; green 1 blue 3`."""
    lexicon = Lexicon()
    colours = COLOURS[: env.keys]
    rooms = lexicon.table(f"room {i + 1}" for i in range(env.rooms))
    at = lexicon.table(f" cell {i}" for i in range(env.width))
    hold = lexicon.table(f" hold {colour}" for colour in colours)
    doors = lexicon.table(f", {colour} door;" for colour in colours)
    keys = lexicon.table(f" {colour}" for colour in colours)
    cells = lexicon.table(f" {i}" for i in range(env.width))
    out = lexicon("out")

    def describe(state, params):
        chain = state.chain
        door, lying = rules.here(chain)
        head = [
            jnp.asarray(rooms)[chain.room],
            jnp.asarray(at)[chain.cell],
            jnp.where(chain.held < 0, 0, jnp.asarray(hold)[chain.held]),
            jnp.asarray(doors)[door],
        ]
        named = jnp.stack([jnp.asarray(keys), jnp.asarray(cells)[lying]], axis=-1)
        named = jnp.where(lying[:, None] < 0, 0, named)
        said = jnp.concatenate([jnp.stack(head), named.reshape(-1)])
        # Behind the last door the text contains nothing else.
        over = jnp.where(jnp.arange(said.shape[0]) == 0, out, 0)
        return jnp.where(chain.room < env.rooms, said, over)

    colour = max(map(len, colours))
    head = f"room {env.rooms} cell {env.width - 1} hold ,  door;"
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=4 + 2 * env.keys,
        max_bytes=len(head) + 2 * colour + env.keys * (colour + len(f"  {env.width - 1}")),
        max_command_bytes=5,
        rules=f"{RULES} Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
