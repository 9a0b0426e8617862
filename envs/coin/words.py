"""Coin in words: the room, its exits, the coin, and the last move."""

import jax.numpy as jnp
import numpy as np

from envs.coin import rules
from envs.coin.env import NOWHERE, Coin, room_name
from envs.text import Lexicon, View, template

RULES = (
    "You are in a house of rooms. Somewhere lies a coin. Go from room to room by the exits that "
    "you are told of, and take the coin when you are in its room."
)
# Directions in action order, and in the order in which TextWorld lists exits.
WAYS = ("north", "south", "east", "west")
LISTED = np.array([2, 0, 1, 3])


def _seen(env: Coin, state, params):
    """(index of the room's name, open exits bool[4], coin here, way back or NOWHERE)."""
    name = jnp.int32(0)
    if env.show_name:
        here = jnp.arange(env.rooms, dtype=jnp.int8) == state.room
        name = jnp.sum(jnp.where(here, state.names, 0), dtype=jnp.int32)
    last = state.last_move.astype(jnp.int32)
    # Direction d leads back by d ^ 1.
    back = jnp.where(last == NOWHERE, NOWHERE, last ^ 1)
    exits = rules.neighbours(state.exits, state.room) >= 0
    return name, exits, state.coin == state.room, back


def compact(env: Coin) -> View:
    """`kitchen: north east, coin, from south`; without names, `room: north east`."""
    lexicon = Lexicon()
    names = [f"{room_name(i)}:" for i in range(env.num_names)] if env.show_name else ["room:"]
    names, ways = lexicon.table(names), lexicon.table(f" {way}" for way in WAYS)
    origins = np.append(lexicon.table(f", from {way}" for way in WAYS), np.int32(0))
    coin, lone_coin = lexicon(", coin"), lexicon(" coin")

    def describe(state, params):
        name, exits, here, back = _seen(env, state, params)
        coin_here = jnp.where(here, jnp.where(jnp.any(exits), coin, lone_coin), 0)
        # Names have consecutive indices: no gather.
        said = [(names[0] + name)[None], jnp.where(exits, ways, 0), coin_here[None]]
        if env.show_last_move:
            said.append(jnp.asarray(origins)[back][None])
        return jnp.concatenate(said)

    lengths = [len(room_name(i)) + 1 for i in range(env.num_names)]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=6 + env.show_last_move,
        max_bytes=max(lengths) + len(" north south east west, coin, from south"),
        max_command_bytes=5,
        rules=f"{RULES} Commands: {', '.join(env.action_names)}.",
    )


def faithful(env: Coin) -> View:
    """A room as TextWorld shows it: title, location, exits, things on the floor.

    Its grammar varies the sentences of rooms and exits within a game; here they are all the same. A
    room without a name of TextWorld's is called by its number. Taking the coin gets TextWorld's
    answer. The sentence on the last move (with `show_last_move`) is ours. TextWorld's messages on
    impossible commands are left out: nothing changes, so the room is described again.
    """
    lexicon = Lexicon()
    names = [room_name(i) for i in range(env.num_names)] if env.show_name else ["room"]
    names = lexicon.table(_heading(name) for name in names)
    ways = lexicon.table(f"There is an exit to the {way}." for way in WAYS)
    origins = np.append(lexicon.table(f"\n\nYou came from the {w}." for w in WAYS), np.int32(0))
    space, coin = lexicon(" "), lexicon("\n\nThere is a coin on the floor.")
    taken = lexicon("You pick up the coin from the ground.")

    def describe(state, params):
        name, exits, here, back = _seen(env, state, params)
        exits = exits[LISTED]
        follows = exits & (jnp.cumsum(exits) > 1)
        sentences = jnp.stack([jnp.where(follows, space, 0), jnp.where(exits, ways[LISTED], 0)], 1)
        coin_here = jnp.where(here, coin, 0)
        said = [(names[0] + name)[None], sentences.reshape(-1), coin_here[None]]
        if env.show_last_move:
            said.append(jnp.asarray(origins)[back][None])
        room = jnp.concatenate(said)
        over = env.is_terminated(state, params)
        return jnp.append(jnp.where(over, 0, room), jnp.where(over, taken, 0))

    lengths = [len(_heading(room_name(i))) for i in range(env.num_names)]
    exits = sum(len(f"There is an exit to the {way}.") for way in WAYS) + 3
    coin_line = len("\n\nThere is a coin on the floor.") + len("\n\nYou came from the south.")
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(
            *(template(lexicon, f"go {way}") for way in WAYS),
            template(lexicon, "take coin"),
        ),
        slots=lambda state, params: {},
        max_fragments=9 + env.show_last_move,
        max_bytes=max(lengths) + exits + coin_line,
        max_command_bytes=9,
        rules=f"{RULES} Commands: go north, go south, go east, go west, take coin.",
    )


def _heading(name: str) -> str:
    """Title, first sentence and the empty lines before the exits."""
    numbered = name != "room" and name.startswith("room ")
    article = "" if numbered else "an " if name[0] in "aeiou" else "a "
    return f"-= {name.title()} =-\nYou are in {article}{name}.\n\n\n\n"


WORDINGS = {"compact": compact, "faithful": faithful}
